/*
 * Do boxes have every element of a tensor once? Pure functions; any thread. Numbers are elements
 * along an axis.
 */
#ifndef COLLCTL_DATA_TORCH_COVER_H
#define COLLCTL_DATA_TORCH_COVER_H

#include "lib/data/formats/array.h"

struct cover_box {
	const uint64_t *first, *size; /* [ndim]; no size is 0 */
};

enum cover {
	COVER_ONCE,
	COVER_HOLE,  /* no box has the elements of the place */
	COVER_TWICE, /* the boxes a and b both have them */
	COVER_MANY,  /* the boxes are cut in too many ways to compare them */
};

/* What was found first, in C order. */
struct cover_found {
	enum cover cover;
	uint64_t first[ARRAY_MAX_DIMS], size[ARRAY_MAX_DIMS]; /* the place */
	size_t a, b;                                          /* COVER_TWICE */
};

/* Compare the @n boxes, which lie in the tensor, with a tensor of this shape. ERR_RESOURCE. */
int cover_check(const uint64_t *shape, int ndim, const struct cover_box *boxes, size_t n,
                struct cover_found *found, struct err *err);

/* Do the boxes meet, or are they neighbours along an axis? */
bool cover_touches(const uint64_t *first, const uint64_t *size, const struct cover_box *b,
                   int ndim);

/* "[0:3, 2:4]", as Python writes a slice. Returns @buf. */
char *cover_text(const uint64_t *first, const uint64_t *size, int ndim, char buf[ARRAY_SHAPE_TEXT]);

#endif
