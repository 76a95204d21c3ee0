/*
 * A tensor of which parts lie in different places, as ranks have saved it: each a box of its
 * elements. The boxes must have every element once. One thread.
 */
#ifndef COLLCTL_DATA_TORCH_PIECES_H
#define COLLCTL_DATA_TORCH_PIECES_H

#include "lib/data/torch/torch_spool.h"

struct tensor_box {
	uint64_t first[ARRAY_MAX_DIMS], size[ARRAY_MAX_DIMS]; /* elements, along each axis */
	int file;                                             /* of the dataset */
	uint64_t offset; /* bytes: its elements begin there, in C order */
};

#define PIECES_MAX 16384 /* of a tensor */
/* Append @whole (its name, dtype and shape) with the elements of the @n boxes, which are sorted.
 * ERR_INPUT names the tensor and the place in it: a box leaves it, has elements of another one, or
 * elements are missing. With dataset_source.parts each box is appended as a part of @whole, and
 * elements may be missing. */
int pieces_join(struct torch_spool *, const struct tensor *whole, struct tensor_box *boxes, int n,
                struct err *err);

#endif
