#include "lib/data/kernels/planes.h"

#include <string.h>

#include "lib/data/kernels/simd.h"

/* At any address, and an alias of all types. */
typedef uint8_t any8;
typedef uint16_t any16 __attribute__((aligned(1), may_alias));
typedef uint32_t any32 __attribute__((aligned(1), may_alias));
typedef uint64_t any64 __attribute__((aligned(1), may_alias));

typedef void compare_fn(uint8_t *differ, const void *a, const void *b, size_t n);
typedef void split_fn(uint8_t *plane, const void *a, const void *b, unsigned shift, size_t n);
typedef void join_fn(void *a, const uint8_t *plane, unsigned shift, size_t n);

/* One plane at a time: each is written in order, and the elements stay in the cache. */
#define WIDTH(U)                                                                                   \
	KERNEL static void compare_##U(uint8_t *differ, const void *a, const void *b, size_t n)    \
	{                                                                                          \
		const U *x = a, *y = b;                                                            \
		ELEMENTWISE for (size_t i = 0; i < n; i++)                                         \
		{                                                                                  \
			differ[i] = x[i] != y[i];                                                  \
		}                                                                                  \
	}                                                                                          \
	KERNEL static void split_##U(uint8_t *plane, const void *a, const void *b, unsigned shift, \
	                             size_t n)                                                     \
	{                                                                                          \
		const U *x = a;                                                                    \
		(void)b;                                                                           \
		ELEMENTWISE for (size_t i = 0; i < n; i++)                                         \
		{                                                                                  \
			plane[i] = (uint8_t)(x[i] >> shift);                                       \
		}                                                                                  \
	}                                                                                          \
	KERNEL static void split_xor_##U(uint8_t *plane, const void *a, const void *b,             \
	                                 unsigned shift, size_t n)                                 \
	{                                                                                          \
		const U *x = a, *y = b;                                                            \
		ELEMENTWISE for (size_t i = 0; i < n; i++)                                         \
		{                                                                                  \
			plane[i] = (uint8_t)((x[i] ^ y[i]) >> shift);                              \
		}                                                                                  \
	}                                                                                          \
	KERNEL static void join_##U(void *a, const uint8_t *plane, unsigned shift, size_t n)       \
	{                                                                                          \
		U *x = a;                                                                          \
		ELEMENTWISE for (size_t i = 0; i < n; i++)                                         \
		{                                                                                  \
			x[i] = (U)(x[i] ^ (U)((U)plane[i] << shift));                              \
		}                                                                                  \
	}

WIDTH(any8)
WIDTH(any16)
WIDTH(any32)
WIDTH(any64)

/* By the logarithm of the width. */
#define TABLE(fn)                                             \
	{                                                     \
		fn##_any8, fn##_any16, fn##_any32, fn##_any64 \
	}
#define OF(table, width) (table)[__builtin_ctz(width)]
static compare_fn *const compare[] = TABLE(compare);
static split_fn *const split[] = TABLE(split), *const split_xor[] = TABLE(split_xor);
static join_fn *const join[] = TABLE(join);

void planes_compare(unsigned width, uint8_t *differ, const void *a, const void *b, size_t n)
{
	OF(compare, width)(differ, a, b, n);
}

void planes_split(unsigned width, uint8_t *planes, const void *a, const void *b, size_t n)
{
	split_fn *fn = b ? OF(split_xor, width) : OF(split, width);
	for (unsigned k = 0; k < width; k++)
		fn(planes + k * n, a, b, 8 * k, n);
}

void planes_join(unsigned width, void *a, const uint8_t *planes, const void *b, size_t n)
{
	if (b)
		memcpy(a, b, n * width);
	else
		memset(a, 0, n * width);
	for (unsigned k = 0; k < width; k++)
		OF(join, width)(a, planes + k * n, 8 * k, n);
}
