/* Reading a dataset from end to end, once, for what there is to know of it: digests and, if wanted,
 * statistics. In bounded memory. */
#ifndef COLLCTL_CMD_INSPECT_H
#define COLLCTL_CMD_INSPECT_H

#include <stdatomic.h>

#include "cmd/inputs.h"
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

/* Open @path and choose its tensors, as the options say. */
int inspect_open(struct inspection *, const char *path, const struct input_source *, struct err *);
/* Read it all. @step is called after each piece; -1 ends it. ERR_INPUT where the files changed
 * meanwhile. */
int inspect_read(struct inspection *, bool stats, int (*step)(void *ctx, struct err *err),
                 void *ctx, struct err *);
void inspect_release(struct inspection *);

#endif
