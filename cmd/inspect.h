/* Reading a dataset from end to end, once, for what there is to know of it: digests and, if wanted,
 * statistics. In bounded memory. */
#ifndef COLLCTL_CMD_INSPECT_H
#define COLLCTL_CMD_INSPECT_H

#include <stdatomic.h>

#include "cmd/options.h"
#include "lib/data/dataset.h"
#include "lib/data/digest.h"
#include "lib/data/stats.h"

/* Zeroed before inspect_open. */
struct inspection {
	struct dataset data;
	bool open;
	uint8_t (*digests)[DIGEST_BYTES]; /* of each tensor; NULL until read */
	uint8_t digest[DIGEST_BYTES];     /* of the dataset */
	struct stats *stats;              /* of each tensor; NULL: not wanted */
	_Atomic uint64_t moved;           /* bytes read so far: may be asked on another thread */
};

/* Open @path and choose its tensors, as the options say. @await: as of struct dataset_source. */
int inspect_open(struct inspection *, const char *path, const struct options *,
                 int (*await)(void *ctx, int fd, struct err *err), void *ctx, struct err *);
/* Read it all. @step (may be NULL) is called after each piece. ERR_INPUT where the files changed
 * meanwhile. */
int inspect_read(struct inspection *, bool stats, void (*step)(void *ctx), void *ctx, struct err *);
void inspect_release(struct inspection *);

#endif
