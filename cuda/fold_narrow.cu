/*
 * Folds of 8- and 16-bit floats. Devices from sm_89 on convert 8-bit floats by an instruction,
 * which is not used: to an 8-bit float it saturates (cvt.satfinite), where
 * lib/data/kernels/float8.h gives NaN or infinity.
 */
#include "cuda/fold.cuh"

namespace
{

#define NARROW(t, U)                         \
	FOLD_OP(sum_##t, U)                  \
	FOLD_OP(prod_##t, U)                 \
	FOLD_OP(min_##t, U)                  \
	FOLD_OP(max_##t, U)                  \
	FOLD_WIDE_OP(sum, f32, float, t, U)  \
	FOLD_WIDE_OP(prod, f32, float, t, U) \
	FOLD_WIDE_OP(sum, f64, double, t, U) \
	FOLD_WIDE_OP(prod, f64, double, t, U)

NARROW(f8e4m3, uint8_t)
NARROW(f8e5m2, uint8_t)
NARROW(f16, uint16_t)
NARROW(bf16, uint16_t)

} // namespace

#define NARROW_ROWS(T, t)                                                               \
	FOLD(SUM, T, T, sum_##t), FOLD(AVG, T, T, sum_##t), FOLD(PROD, T, T, prod_##t), \
	        FOLD(MIN, T, T, min_##t), FOLD(MAX, T, T, max_##t),                     \
	        FOLD(SUM, F32, T, sum_f32_##t), FOLD(AVG, F32, T, sum_f32_##t),         \
	        FOLD(PROD, F32, T, prod_f32_##t), FOLD(SUM, F64, T, sum_f64_##t),       \
	        FOLD(AVG, F64, T, sum_f64_##t), FOLD(PROD, F64, T, prod_f64_##t)

FOLD_TABLE(narrow, NARROW_ROWS(F8E4M3, f8e4m3), NARROW_ROWS(F8E5M2, f8e5m2), NARROW_ROWS(F16, f16),
           NARROW_ROWS(BF16, bf16))
