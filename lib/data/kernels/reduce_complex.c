/* Reductions of complex numbers. The sum is that of the parts; the product is (ac-bd) + (ad+bc)i,
 * with each operation rounded, as in numpy. */
#include "lib/data/kernels/kernels.h"

#define PARTS (2 * n)

/* Runs the kernel of the parts' type over all parts. */
#define SUM(name, ACC, PART)                                                  \
	static void name(void *dst, const void *a, const void *b, size_t n)   \
	{                                                                     \
		reduce_kernel_float(REDUCE_SUM, ACC, PART)(dst, a, b, PARTS); \
	}

SUM(sum_c64, DTYPE_F32, DTYPE_F32)
SUM(sum_c128, DTYPE_F64, DTYPE_F64)
SUM(sum_c128_c64, DTYPE_F64, DTYPE_F32)

#define PRODUCT(name, D, B, part)                                                          \
	KERNEL_UNFUSED static void name(void *dst, const void *a, const void *b, size_t n) \
	{                                                                                  \
		D *d = dst;                                                                \
		const D *l = a;                                                            \
		const B *r = b;                                                            \
		ELEMENTWISE                                                                \
		for (size_t i = 0; i < n; i++) {                                           \
			D x = l[2 * i], xi = l[2 * i + 1];                                 \
			D y = (D)r[2 * i], yi = (D)r[2 * i + 1];                           \
			d[2 * i] = element_prod_real_##part(x, xi, y, yi);                 \
			d[2 * i + 1] = element_prod_imag_##part(x, xi, y, yi);             \
		}                                                                          \
	}

PRODUCT(prod_c64, float, float, f32)
PRODUCT(prod_c128, double, double, f64)
PRODUCT(prod_c128_c64, double, float, f64)

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
