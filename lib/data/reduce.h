/*
 * Reduction kernels. Vectorised (target_clones for AVX2 and AVX-512 on x86-64 with gcc, not under
 * sanitizers); -ffp-contract=off, no fast-math: the bits don't depend on the vector length, the
 * alignment or where a range was cut. NaN results are canonical (the quiet NaN with a zero payload
 * and a clear sign), min and max propagate NaN as numpy.minimum does and order -0 below +0.
 * Integer sums and products wrap as C unsigned does. f16 and bf16 are computed in f32 and rounded
 * to nearest even.
 *
 * Units: elements. Pointers are aligned to their element type's size.
 */
#ifndef COLLCTL_DATA_REDUCE_H
#define COLLCTL_DATA_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/data/dtype.h"

enum reduce_op {
	REDUCE_SUM,
	REDUCE_PROD,
	REDUCE_MIN,
	REDUCE_MAX,
	REDUCE_AVG, /* sums; reduce_final divides */
	REDUCE_BAND,
	REDUCE_BOR,
	REDUCE_BXOR,
	REDUCE_OPS
};

const char *reduce_op_name(enum reduce_op);
int reduce_op_by_name(const char *name, enum reduce_op *out); /* 0, or -1: unknown */

/* Is @op defined on @dtype? (bitwise operations: integers only; avg: floats only) */
bool reduce_op_defined(enum reduce_op op, enum dtype dtype);

/* Do the bits of a result depend on the order of the operands? (sum, prod and avg of floats) */
bool reduce_order_matters(enum reduce_op op, enum dtype dtype);

/* The type in which @dtype is accumulated: f32 for the 16-bit floats, f64 for every float when
 * @ordered (--order rank), else @dtype itself. min, max and bitwise: always @dtype itself. */
enum dtype reduce_acc_dtype(enum reduce_op op, enum dtype dtype, bool ordered);

/* dst[i] = a[i] op b[i] with dst, a of @acc and b of @dtype (acc == dtype or its accumulator).
 * @dst coincides with @a, coincides with @b (only where acc == dtype), or is disjoint from both. */
typedef void reduce_fn(void *dst, const void *a, const void *b, size_t n);
/* NULL where @op is not defined on @dtype. @swapped: the kernel for b[i] op a[i]; the values are
 * the same for every operation here (all are commutative, NaN being canonical), so it may be the
 * same function, but the caller never assumes it. */
reduce_fn *reduce_kernel(enum reduce_op op, enum dtype acc, enum dtype dtype, bool swapped);

/* dst[i] = the identity of @op (0 of a sum, the largest value of a minimum: infinity, of floats).
 */
void reduce_identity(enum reduce_op op, enum dtype dtype, void *dst, size_t n);

/* dst[i] = the conversion of src[i], rounded to nearest even once. Types: as reduce_acc_dtype gives
 * them, in both directions, and identity, which copies the bits (the others make NaN canonical).
 * dst == src is allowed for identity only. NULL for other types. */
typedef void convert_fn(void *dst, const void *src, size_t n);
convert_fn *convert_kernel(enum dtype to, enum dtype from);

/* The last function of avg: dst[i] = src[i] / divisor, divided in f64 and rounded once to @to.
 * Types: @from is @to or its accumulator. dst == src allowed where to == from. */
typedef void final_fn(void *dst, const void *src, double divisor, size_t n);
/* NULL for other types. */
final_fn *final_kernel(enum dtype to, enum dtype from);

#endif
