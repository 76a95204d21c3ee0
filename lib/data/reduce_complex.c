/* Reductions of complex numbers. The sum is that of the parts; the product is (ac-bd) + (ad+bc)i,
 * each operation rounded, as numpy has it. */
#include "lib/data/half.h"
#include "lib/data/kernels.h"

#define PARTS (2 * n)

/* The kernel of the float that has one part's type, over all parts. */
#define SUM(name, ACC, PART)                                                  \
	static void name(void *dst, const void *a, const void *b, size_t n)   \
	{                                                                     \
		reduce_kernel_float(REDUCE_SUM, ACC, PART)(dst, a, b, PARTS); \
	}

SUM(sum_c64, DTYPE_F32, DTYPE_F32)
SUM(sum_c128, DTYPE_F64, DTYPE_F64)
SUM(sum_c128_c64, DTYPE_F64, DTYPE_F32)

HALF_INLINE struct c64 c64_product(struct c64 x, struct c64 y)
{
	return (struct c64){f32_canonical(x.re * y.re - x.im * y.im),
	                    f32_canonical(x.re * y.im + x.im * y.re)};
}

HALF_INLINE struct c128 c128_product(struct c128 x, struct c128 y)
{
	return (struct c128){f64_canonical(x.re * y.re - x.im * y.im),
	                     f64_canonical(x.re * y.im + x.im * y.re)};
}

HALF_INLINE struct c128 c64_widened(struct c64 x)
{
	return (struct c128){(double)x.re, (double)x.im};
}

BINARY(prod_c64, struct c64, struct c64, c64_product(x, y))
BINARY(prod_c128, struct c128, struct c128, c128_product(x, y))
BINARY(prod_c128_c64, struct c128, struct c64, c128_product(x, c64_widened(y)))

reduce_fn *reduce_kernel_complex(enum reduce_op op, enum dtype acc, enum dtype dtype)
{
	bool sum = op == REDUCE_SUM || op == REDUCE_AVG;
	if (!sum && op != REDUCE_PROD)
		return NULL;
	if (acc == DTYPE_C64 && dtype == DTYPE_C64)
		return sum ? sum_c64 : prod_c64;
	if (acc == DTYPE_C128 && dtype == DTYPE_C128)
		return sum ? sum_c128 : prod_c128;
	if (acc == DTYPE_C128 && dtype == DTYPE_C64)
		return sum ? sum_c128_c64 : prod_c128_c64;
	return NULL;
}
