/*
 * Finds the k-th largest magnitude of many floats exactly, in passes over them: a pass counts the
 * magnitudes in a range by buckets of equal width, and the next one has the bucket in which the
 * k-th lies as its range. A sample tells where the k-th probably is, so that one pass is enough for
 * most f32; a sample that misleads costs passes, and never another result.
 *
 * Magnitudes are the bits of f32 or f64 without the sign, whose order is that of the numbers; NaN
 * is larger than all numbers. Units: elements. Nothing depends on the division of a pass into
 * calls. Pure functions; any thread.
 */
#ifndef COLLCTL_DATA_KERNELS_KTH_H
#define COLLCTL_DATA_KERNELS_KTH_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/data/dtype.h"

#define KTH_BITS    18 /* enough buckets for the f32 among which 2^18 samples place the k-th */
#define KTH_BUCKETS ((size_t)1 << KTH_BITS)
#define KTH_SAMPLE  ((size_t)1 << 18) /* elements, of which a good sample consists */

struct kth {
	enum dtype dtype;       /* DTYPE_F32 or DTYPE_F64 */
	unsigned bits, shift;   /* the range has 2^bits buckets of 2^shift magnitudes */
	uint64_t low, k, total; /* the range's first magnitude; what is sought, of how many */
	uint64_t above;         /* magnitudes above the range in this pass */
	uint64_t *count;        /* [KTH_BUCKETS], owned by the caller */
	bool fresh;             /* the pass has not begun */
	bool found;
	uint64_t value; /* once found: the magnitude's bits */
};

/* Seek the @k-th, 1 to @total, of @total elements. The range has all magnitudes. */
void kth_init(struct kth *, enum dtype dtype, uint64_t k, uint64_t total, uint64_t *count);
/* Before the first pass: the @n elements @d, at least 1, are a sample of all, taken alike from all
 * parts. If they are all elements, the k-th is found. */
void kth_sample(struct kth *, const void *d, size_t n);
/* A pass, unless it is found: add all elements, then kth_next. */
void kth_add(struct kth *, const void *d, size_t n);
void kth_next(struct kth *);

#endif
