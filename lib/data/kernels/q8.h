/*
 * Blocks of 128 values in 8 bits each (--wire q8), with what they differ from the values that they
 * stand for. DTYPE_Q8 is a block; sums and averages of blocks are a joint operation (joint.h).
 *
 * A value is code * scale, where the code is -126 to 126 and the scale is the greatest magnitude of
 * the block over 126, rounded up to f32. The three other codes stand for NaN, Inf and -Inf: a
 * block has always the same size, and they spoil no other value. -0 becomes 0. Values below half
 * the scale become 0, denormals among them. What exceeds 126 times the largest f32 becomes that,
 * with an infinite error.
 *
 * The error of a block is measured: no value differs from the one that was coded by more. Values
 * that are not finite are exact, and do not count. In a result the error is the bound of the whole
 * operation: the sum of the errors of the contributions, over the divisor, and that of the result.
 *
 * Computed in f64, in the order of the contributions: the bits do not depend on the vector length
 * or the division into ranges. Pure functions; any thread. Any bytes are a block: a hostile one
 * gives wrong values, and no error but those of a sum.
 */
#ifndef COLLCTL_DATA_KERNELS_Q8_H
#define COLLCTL_DATA_KERNELS_Q8_H

#include <stddef.h>
#include <stdint.h>

#include "lib/data/dtype.h"

#define Q8_VALUES 128 /* of a block */

struct q8_block {
	float scale, error;
	int8_t code[Q8_VALUES];
};

/* The number of blocks of @n values. */
static inline uint64_t q8_blocks(uint64_t n)
{
	return n / Q8_VALUES + (n % Q8_VALUES != 0);
}

/* Code the @n values @x, at most Q8_VALUES; values that a block lacks are 0. @error: that of the
 * values, which is added to that of coding them. */
void q8_encode(struct q8_block *, const double *x, size_t n, double error);
/* The values of a block, into @x[Q8_VALUES]. */
void q8_decode(const struct q8_block *, double *x);
/* dst[i] = the sum of block i of the @n contributions, which begin at inputs[k] + offset bytes,
 * over
 * @divisor. @dst is disjoint from them, or coincides with one. */
void q8_join(struct q8_block *dst, uint8_t *const *inputs, uint64_t offset, int n, size_t count,
             double divisor);

/* Code the @n elements @src of a float type, each multiplied by the finite @weight, into
 * q8_blocks(n) blocks. A weight of 0 gives 0, also for NaN. */
void q8_take(struct q8_block *dst, enum dtype, const void *src, double weight, uint64_t n);
/* The @n elements of the blocks @src, rounded once to a float type. Returns by how much an element
 * may be off, that of rounding with it. */
double q8_give(enum dtype, void *dst, const struct q8_block *src, uint64_t n);

/* The least f32 that is not below @x; NaN and negative numbers: infinity. */
float q8_round_up(double x);

#endif
