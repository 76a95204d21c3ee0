/* Reads a dataset once, from beginning to end and in bounded memory, and computes digests and, on
 * request, statistics. One thread. */
#ifndef COLLCTL_COLL_FILES_INSPECT_H
#define COLLCTL_COLL_FILES_INSPECT_H

#include <stdatomic.h>

#include "lib/base/vec.h"
#include "lib/coll/request/inputs.h"
#include "lib/data/dataset/dataset.h"
#include "lib/data/digest.h"
#include "lib/data/kernels/stats.h"

/* A part of a tensor that none of the files has. */
struct inspect_hole {
	char *name;
	int ndim;
	uint64_t first[ARRAY_MAX_DIMS], size[ARRAY_MAX_DIMS];
};

/* Zeroed before inspect_open. */
struct inspection {
	struct dataset data;
	bool open;
	/* The tensors are pieces of a checkpoint (dataset_source.parts) that lacks others: the
	 * first hole of each tensor. n 0: the tensors are whole. */
	VEC(struct inspect_hole) holes;
	uint8_t (*digests)[DIGEST_BYTES]; /* [ntensors]; NULL until inspect_read has ended */
	uint8_t digest[DIGEST_BYTES];     /* of the dataset */
	struct stats *stats;              /* of each tensor; NULL: not requested */
	_Atomic uint64_t moved;           /* bytes read so far; any thread may read it */
};

/* Open @path and select its tensors. Errors: as inputs_open and inputs_select. The caller releases
 * it in either case. */
int inspect_open(struct inspection *, const char *path, const struct input_source *, struct err *);
/* The same. Of a folder whose pieces are not all there, the tensors are the pieces. */
int inspect_open_pieces(struct inspection *, const char *path, const struct input_source *,
                        struct err *);
/* Read the whole dataset. Calls @step after each piece, and stops if it returns -1. @stats: compute
 * statistics. ERR_INPUT, also if a file has changed meanwhile. */
int inspect_read(struct inspection *, bool stats, int (*step)(void *ctx, struct err *err),
                 void *ctx, struct err *);
void inspect_release(struct inspection *);

#endif
