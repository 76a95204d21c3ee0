/* Reductions of floats. */
#include "lib/data/kernels/kernels.h"
#include "lib/data/kernels/reduce_f16c.h"

/* ---- sum and product, and the same into a wider accumulator ---- */

/* For a type @t that is computed in f32 and has its bits in a U. */
#define NARROW_KERNELS(op, t, U)                                     \
	BINARY(op##_##t, U, U, element_##op##_##t(x, y))             \
	BINARY(op##_f32_##t, float, U, element_##op##_f32_##t(x, y)) \
	BINARY(op##_f64_##t, double, U, element_##op##_f64_##t(x, y))

#define FLOAT_KERNELS(op)                                          \
	NARROW_KERNELS(op, f8e4m3, uint8_t)                        \
	NARROW_KERNELS(op, f8e5m2, uint8_t)                        \
	NARROW_KERNELS(op, f16, uint16_t)                          \
	NARROW_KERNELS(op, bf16, uint16_t)                         \
	BINARY(op##_f32, float, float, element_##op##_f32(x, y))   \
	BINARY(op##_f64, double, double, element_##op##_f64(x, y)) \
	BINARY(op##_f64_f32, double, float, element_##op##_f64_f32(x, y))

FLOAT_KERNELS(sum)
FLOAT_KERNELS(prod)

/* ---- minimum and maximum ---- */

#define EXTREME_KERNELS(op)                                                \
	BINARY(op##_f8e4m3, uint8_t, uint8_t, element_##op##_f8e4m3(x, y)) \
	BINARY(op##_f8e5m2, uint8_t, uint8_t, element_##op##_f8e5m2(x, y)) \
	BINARY(op##_f16, uint16_t, uint16_t, element_##op##_f16(x, y))     \
	BINARY(op##_bf16, uint16_t, uint16_t, element_##op##_bf16(x, y))   \
	BINARY(op##_f32, float, float, element_##op##_f32(x, y))           \
	BINARY(op##_f64, double, double, element_##op##_f64(x, y))

EXTREME_KERNELS(min)
EXTREME_KERNELS(max)

/* ---- the tables ---- */

#define BY_FLOAT(op)                                                                      \
	{                                                                                 \
		[DTYPE_F8E4M3] = op##_f8e4m3, [DTYPE_F8E5M2] = op##_f8e5m2,               \
		[DTYPE_F16] = op##_f16, [DTYPE_BF16] = op##_bf16, [DTYPE_F32] = op##_f32, \
		[DTYPE_F64] = op##_f64                                                    \
	}
#define BY_NARROW(op)                                                                       \
	[DTYPE_F8E4M3] = op##_f8e4m3, [DTYPE_F8E5M2] = op##_f8e5m2, [DTYPE_F16] = op##_f16, \
	[DTYPE_BF16] = op##_bf16
/* Indexed by the accumulator's type, then the operand's. */
#define WIDENING(op)                                                             \
	{                                                                        \
		[DTYPE_F32] = {BY_NARROW(op##_f32)},                             \
		[DTYPE_F64] = {BY_NARROW(op##_f64), [DTYPE_F32] = op##_f64_f32}, \
	}

static reduce_fn *const kernels[REDUCE_OPS][DTYPES] = {
        [REDUCE_SUM] = BY_FLOAT(sum), [REDUCE_PROD] = BY_FLOAT(prod), [REDUCE_MIN] = BY_FLOAT(min),
        [REDUCE_MAX] = BY_FLOAT(max), [REDUCE_AVG] = BY_FLOAT(sum),
};
static reduce_fn *const widening_sum[DTYPES][DTYPES] = WIDENING(sum);
static reduce_fn *const widening_prod[DTYPES][DTYPES] = WIDENING(prod);

reduce_fn *reduce_kernel_float(enum reduce_op op, enum dtype acc, enum dtype dtype)
{
	if (acc == dtype) {
		reduce_fn *faster = dtype == DTYPE_F16 ? reduce_kernel_f16c(op) : NULL;
		return faster ? faster : kernels[op][dtype];
	}
	if (op == REDUCE_SUM || op == REDUCE_AVG)
		return widening_sum[acc][dtype];
	return op == REDUCE_PROD ? widening_prod[acc][dtype] : NULL;
}
