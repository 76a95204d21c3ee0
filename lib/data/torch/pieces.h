/*
 * A tensor of which parts lie in different places, as ranks have saved it: each a box of its
 * elements. The boxes must have every element once. One thread.
 */
#ifndef COLLCTL_DATA_TORCH_PIECES_H
#define COLLCTL_DATA_TORCH_PIECES_H

#include "lib/data/dataset/dataset_internal.h"

struct tensor_box {
	uint64_t first[ARRAY_MAX_DIMS], size[ARRAY_MAX_DIMS]; /* elements, along each axis */
	int file;                                             /* of the dataset */
	uint64_t offset; /* bytes: its elements begin there, in C order */
};

/* The files that a dataset's joined tensors are copied to, where their boxes are no rows. */
struct joining {
	struct dataset *dataset;
	bool heads_only; /* copy nothing */
	int spool;       /* of the dataset; -1: none yet */
	uint64_t spool_size;
};

#define TORCH_METADATA "{\"format\":\"pt\"}" /* as torch's writers of .safetensors say */
#define PIECES_MAX     65536                 /* of a tensor */
/* Append @whole (its name, dtype and shape) with the elements of the @n boxes, which are sorted.
 * ERR_INPUT names the tensor and the place in it: a box leaves it, has elements of another one, or
 * elements are missing. */
int pieces_join(struct joining *, const struct tensor *whole, struct tensor_box *boxes, int n,
                struct err *err);
/* The spool, whose end is at spool_size, for what a box points to. */
int joining_open_spool(struct joining *, struct err *err);
/* All tensors are joined: outputs say that torch's are in them, and nothing of pieces. */
int joining_end(struct joining *, struct err *err);

#endif
