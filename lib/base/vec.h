/*
 * A growing array: VEC(struct foo) v = {0}; struct foo *p = vec_push(&v) (NULL: no memory). The
 * owner frees v.v. A push may move the elements.
 */
#ifndef COLLCTL_BASE_VEC_H
#define COLLCTL_BASE_VEC_H

#include <stdint.h>
#include <stdlib.h>

#define VEC(type)              \
	struct {               \
		type *v;       \
		size_t n, cap; \
	}

/* Make room for one more element of @size bytes. 0, or -1: no memory. */
static inline int vec_grow(void **v, size_t *cap, size_t n, size_t size)
{
	size_t want = *cap ? *cap * 2 : 16;
	void *p;

	if (n < *cap)
		return 0;
	if (want > SIZE_MAX / 2 / size || !(p = realloc(*v, want * size)))
		return -1;
	*v = p;
	*cap = want;
	return 0;
}

#define vec_push(a) \
	(vec_grow((void **)&(a)->v, &(a)->cap, (a)->n, sizeof(*(a)->v)) ? NULL : &(a)->v[(a)->n++])

#endif
