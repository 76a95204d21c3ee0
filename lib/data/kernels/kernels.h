/*
 * Internal to lib/data: templates of kernels. A kernel is made of an operation on values of one C
 * type (an inline function of element.h, or a macro), a loop template, and an entry in a table. An
 * operation rounds once, so the bits of a result depend only on its operands. SCALAR_...: for types
 * without vector instructions.
 */
#ifndef COLLCTL_DATA_KERNELS_KERNELS_H
#define COLLCTL_DATA_KERNELS_KERNELS_H

#include "lib/data/kernels/element.h"
#include "lib/data/kernels/simd.h"

/* dst[i] = VALUE, an expression in x (of a, which has dst's type D) and y (of b, type B). */
#define BINARY_LOOP(HOW, EACH, name, D, B, VALUE)                               \
	HOW static void name(void *dst, const void *a, const void *b, size_t n) \
	{                                                                       \
		D *d = dst;                                                     \
		const D *l = a;                                                 \
		const B *r = b;                                                 \
		EACH for (size_t i = 0; i < n; i++)                             \
		{                                                               \
			D x = l[i];                                             \
			B y = r[i];                                             \
			d[i] = VALUE;                                           \
		}                                                               \
	}
#define BINARY(name, D, B, VALUE)        BINARY_LOOP(KERNEL, ELEMENTWISE, name, D, B, VALUE)
#define SCALAR_BINARY(name, D, B, VALUE) BINARY_LOOP(, , name, D, B, VALUE)

/* dst[i] = VALUE, an expression in x of src. */
#define UNARY_LOOP(HOW, EACH, name, D, S, VALUE)                   \
	HOW static void name(void *dst, const void *src, size_t n) \
	{                                                          \
		D *d = dst;                                        \
		const S *s = src;                                  \
		EACH for (size_t i = 0; i < n; i++)                \
		{                                                  \
			S x = s[i];                                \
			d[i] = VALUE;                              \
		}                                                  \
	}
#define UNARY(name, D, S, VALUE)        UNARY_LOOP(KERNEL, ELEMENTWISE, name, D, S, VALUE)
#define SCALAR_UNARY(name, D, S, VALUE) UNARY_LOOP(, , name, D, S, VALUE)

/* The same with a scalar: VALUE is an expression in x and by. */
#define UNARY_BY_LOOP(HOW, EACH, name, D, S, BY, VALUE)                           \
	HOW static void name(void *dst, const void *src, double number, size_t n) \
	{                                                                         \
		D *d = dst;                                                       \
		const S *s = src;                                                 \
		const BY by = (BY)number;                                         \
		EACH for (size_t i = 0; i < n; i++)                               \
		{                                                                 \
			S x = s[i];                                               \
			d[i] = VALUE;                                             \
		}                                                                 \
	}
#define UNARY_BY(name, D, S, BY, VALUE)        UNARY_BY_LOOP(KERNEL, ELEMENTWISE, name, D, S, BY, VALUE)
#define SCALAR_UNARY_BY(name, D, S, BY, VALUE) UNARY_BY_LOOP(, , name, D, S, BY, VALUE)

/* Quotients, rounded to the nearest integer, ties to even. */
ELEMENT_FN unsigned __int128 divide_to_even(unsigned __int128 x, uint64_t by)
{
	unsigned __int128 q = x / by;
	uint64_t rest = (uint64_t)(x - q * by), missing = by - rest;
	return q + (rest > missing || (rest == missing && (q & 1)));
}

ELEMENT_FN __int128 divide_signed(__int128 x, uint64_t by)
{
	unsigned __int128 magnitude = (unsigned __int128)x;
	return x < 0 ? (__int128)(0 - divide_to_even(0 - magnitude, by))
	             : (__int128)divide_to_even(magnitude, by);
}

/* reduce_kernel for one family of types; NULL for others. */
reduce_fn *reduce_kernel_integer(enum reduce_op op, enum dtype dtype); /* and bool, i128 */
reduce_fn *reduce_kernel_float(enum reduce_op op, enum dtype acc, enum dtype dtype);
reduce_fn *reduce_kernel_complex(enum reduce_op op, enum dtype acc, enum dtype dtype);

#endif
