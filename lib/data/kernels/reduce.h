/*
 * Reduction kernels. Vectorised (target_clones for AVX2 and AVX-512 on x86-64 with gcc, not under
 * sanitizers); -ffp-contract=off, no fast-math: the bits do not depend on the vector length, the
 * alignment or the division into ranges. NaN results are canonical (the quiet NaN with a zero
 * payload and a clear sign), min and max propagate NaN as numpy.minimum does and order -0 below +0.
 * Integer sums and products wrap as C unsigned does. 8- and 16-bit floats are computed in f32 and
 * rounded to nearest even. These rules apply to each part of a complex number; the product is
 * (ac-bd) + (ad+bc)i, as in numpy.
 *
 * Units: elements. Pointers are aligned to the size of their element type, at most to 8 bytes.
 */
#ifndef COLLCTL_DATA_KERNELS_REDUCE_H
#define COLLCTL_DATA_KERNELS_REDUCE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/data/dtype.h"

enum reduce_op {
	REDUCE_SUM,
	REDUCE_PROD,
	REDUCE_MIN,
	REDUCE_MAX,
	REDUCE_AVG, /* sums; final_kernel divides */
	REDUCE_BAND,
	REDUCE_BOR,
	REDUCE_BXOR,
	REDUCE_LAND, /* logical; the result is 0 or 1 */
	REDUCE_LOR,
	REDUCE_LXOR,
	REDUCE_MEDIAN, /* joint operations (joint.h): no folds of pairs, so they have no kernels
	                  here */
	REDUCE_TRIMMED,
	REDUCE_TIES,  /* of differences to an origin (delta.h): the mean of those whose sign is that
	                 of the sum, 0 if there are none */
	REDUCE_DARE,  /* of differences: the mean of what is left of them; runs as REDUCE_TRIMMED */
	REDUCE_SLERP, /* spherical interpolation of two (slerp.h); runs as REDUCE_AVG with weights
	               */
	REDUCE_OPS
};

/* The numbers that follow the name of an operation; else 0. */
struct reduce_param {
	double part;   /* trimmed:F, ties:D, dare:D,SEED, slerp:T */
	uint64_t seed; /* dare */
};
/* Has the operation a part? */
bool reduce_has_part(enum reduce_op op);

const char *reduce_op_name(enum reduce_op);
int reduce_op_by_name(const char *name, enum reduce_op *out); /* 0, or -1: unknown */

/* "sum", "trimmed:0.1", "dare:0.5,7". Returns @text. */
#define REDUCE_OP_TEXT 64
const char *reduce_op_text(enum reduce_op, const struct reduce_param *, char text[REDUCE_OP_TEXT]);

/* Is it a joint operation, and no fold of pairs? */
bool reduce_is_joint(enum reduce_op op);

/* Is @op defined on @dtype? Bitwise and logical operations: integers and bool; avg: floats and
 * complex; min and max: not complex; joint operations: integers and floats; ties: f32 and f64, the
 * types of differences; dare and slerp: none, because they run as others. For bool, sum is "or"
 * and prod is "and", as in numpy. */
bool reduce_op_defined(enum reduce_op op, enum dtype dtype);

/* Do the bits of a result depend on the order of the operands? (sum, prod and avg of floats and
 * complex) */
bool reduce_order_matters(enum reduce_op op, enum dtype dtype);

/* The type in which @dtype is accumulated: f32 for the 8- and 16-bit floats, f64 for every float
 * (c128 for complex) when @ordered (--order rank), else @dtype itself. min, max and bitwise: always
 * @dtype itself. */
enum dtype reduce_acc_dtype(enum reduce_op op, enum dtype dtype, bool ordered);

/* The type of the sum in an average of @dtype that rounds only its result: with weights (--weight),
 * and of integers (--integers round). Sums of integers are exact in it, except those of 64-bit
 * integers with weights. f32 for 8- and 16-bit floats, else f64 or c128; i128 for i64 and u64
 * without weights. */
enum dtype reduce_avg_dtype(enum dtype dtype, bool weighted, bool ordered);

/* dst[i] = a[i] op b[i]; dst and a have type @acc, b has type @dtype (acc is dtype or its
 * accumulator). @dst is @a, or @b if acc == dtype, or disjoint from both. */
typedef void reduce_fn(void *dst, const void *a, const void *b, size_t n);
/* NULL if @op is not defined on @dtype. @swapped: the kernel for b[i] op a[i]. It may be the same
 * function, because all operations are commutative and NaN is canonical, but callers must not
 * assume that. */
reduce_fn *reduce_kernel(enum reduce_op op, enum dtype acc, enum dtype dtype, bool swapped);

/* dst[i] = the identity of @op (sum: 0; min: the largest value, infinity if the type has one). */
void reduce_identity(enum reduce_op op, enum dtype dtype, void *dst, size_t n);

/* dst[i] = the conversion of src[i], rounded once to nearest even. Types: to and from
 * reduce_acc_dtype, to reduce_avg_dtype, and identity, which copies the bits (the others make NaN
 * canonical). dst == src is allowed only for identity. NULL for other types. */
typedef void convert_fn(void *dst, const void *src, size_t n);
convert_fn *convert_kernel(enum dtype to, enum dtype from);

/* dst[i] = weight * src[i], rounded once to @to; @weight is finite. Types: @to is reduce_avg_dtype
 * of @from with weights (ordered or not). A weight of 0 gives -0.0 for every src[i], also NaN,
 * because adding -0.0 changes no sum, not even -0.0. */
typedef void scale_fn(void *dst, const void *src, double weight, size_t n);
/* NULL for other types. */
scale_fn *scale_kernel(enum dtype to, enum dtype from);

/* The final function of avg: dst[i] = src[i] / divisor, divided in f64 (complex: each part) and
 * rounded once to @to. Integers are rounded exactly to the nearest, ties to even (from f64: for
 * sums below 2^52; 64-bit integers from other types: for an integer divisor below 2^64). Types:
 * @from is @to, its accumulator, or its reduce_avg_dtype. dst == src is allowed if to == from. */
typedef void final_fn(void *dst, const void *src, double divisor, size_t n);
/* NULL for other types. */
final_fn *final_kernel(enum dtype to, enum dtype from);

#endif
