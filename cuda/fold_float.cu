/* Folds of f32, f64 and complex numbers. The sum of complex numbers is that of their parts. */
#include "cuda/fold.cuh"

namespace
{

FOLD_OP(sum_f32, float)
FOLD_OP(prod_f32, float)
FOLD_OP(min_f32, float)
FOLD_OP(max_f32, float)
FOLD_OP(sum_f64, double)
FOLD_OP(prod_f64, double)
FOLD_OP(min_f64, double)
FOLD_OP(max_f64, double)
FOLD_WIDE_OP(sum, f64, double, f32, float)
FOLD_WIDE_OP(prod, f64, double, f32, float)

struct c64 {
	float real, imag;
};

struct c128 {
	double real, imag;
};

ELEMENT_FN c64 element_prod_c64(c64 x, c64 y)
{
	return {element_prod_real_f32(x.real, x.imag, y.real, y.imag),
	        element_prod_imag_f32(x.real, x.imag, y.real, y.imag)};
}

ELEMENT_FN c128 element_prod_c128(c128 x, c128 y)
{
	return {element_prod_real_f64(x.real, x.imag, y.real, y.imag),
	        element_prod_imag_f64(x.real, x.imag, y.real, y.imag)};
}

ELEMENT_FN c128 element_prod_c128_c64(c128 x, c64 y)
{
	return element_prod_c128(x, {(double)y.real, (double)y.imag});
}

ELEMENT_FN c128 element_c128_of_c64(c64 x)
{
	return {element_f64_of_f32(x.real), element_f64_of_f32(x.imag)};
}

ELEMENT_FN c64 element_c64_of_c128(c128 x)
{
	return {element_f32_of_f64(x.real), element_f32_of_f64(x.imag)};
}

FOLD_OP(prod_c64, c64)
FOLD_OP(prod_c128, c128)
FOLD_WIDE_OP(prod, c128, c128, c64, c64)

} // namespace

#define FLOAT(T, t)                                                                     \
	FOLD(SUM, T, T, sum_##t), FOLD(AVG, T, T, sum_##t), FOLD(PROD, T, T, prod_##t), \
	        FOLD(MIN, T, T, min_##t), FOLD(MAX, T, T, max_##t)
#define COMPLEX(ACC, T, sum, prod) \
	FOLD_PARTS(SUM, ACC, T, 2, sum), FOLD_PARTS(AVG, ACC, T, 2, sum), FOLD(PROD, ACC, T, prod)

FOLD_TABLE(float, FLOAT(F32, f32), FLOAT(F64, f64), FOLD(SUM, F64, F32, sum_f64_f32),
           FOLD(AVG, F64, F32, sum_f64_f32), FOLD(PROD, F64, F32, prod_f64_f32),
           COMPLEX(C64, C64, sum_f32, prod_c64), COMPLEX(C128, C128, sum_f64, prod_c128),
           COMPLEX(C128, C64, sum_f64_f32, prod_c128_c64))
