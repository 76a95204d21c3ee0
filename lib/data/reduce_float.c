/* Reductions of floats. */
#include "lib/data/float8.h"
#include "lib/data/kernels.h"
#include "lib/data/reduce_f16c.h"

/* ---- sum and product, and the same into a wider accumulator ---- */

/* For a type @t that is computed in f32 and has its bits in a U. */
#define NARROW_KERNELS(op, SIGN, t, U)                                       \
	BINARY(op##_##t, U, U, f32_to_##t(t##_to_f32(x) SIGN t##_to_f32(y))) \
	BINARY(op##_f32_##t, float, U, f32_canonical(x SIGN t##_to_f32(y)))  \
	BINARY(op##_f64_##t, double, U, f64_canonical(x SIGN(double) t##_to_f32(y)))

#define FLOAT_KERNELS(op, SIGN)                                   \
	NARROW_KERNELS(op, SIGN, f8e4m3, uint8_t)                 \
	NARROW_KERNELS(op, SIGN, f8e5m2, uint8_t)                 \
	NARROW_KERNELS(op, SIGN, f16, uint16_t)                   \
	NARROW_KERNELS(op, SIGN, bf16, uint16_t)                  \
	BINARY(op##_f32, float, float, f32_canonical(x SIGN y))   \
	BINARY(op##_f64, double, double, f64_canonical(x SIGN y)) \
	BINARY(op##_f64_f32, double, float, f64_canonical(x SIGN(double) y))

FLOAT_KERNELS(sum, +)
FLOAT_KERNELS(prod, *)

/* ---- minimum and maximum, on the bits ---- */

/* Read a float's bits as a signed integer and flip the magnitude bits if it is negative: these
 * integers have the order of the floats, with -0 just below +0. TOP is infinity or the largest
 * value; magnitudes above it are NaN. */
#define BIT_ORDER(t, U, S, NAN_BITS, TOP)                                                          \
	HALF_INLINE S t##_key(U u)                                                                 \
	{                                                                                          \
		S s = (S)u;                                                                        \
		return (S)(s ^ (S)((U)(s >> (8 * sizeof(S) - 1)) >> 1));                           \
	}                                                                                          \
	HALF_INLINE U t##_unless_nan(U x, U y, U value)                                            \
	{                                                                                          \
		const S magnitude = (S)((U)-1 >> 1);                                               \
		const S top = (S)TOP;                                                              \
		return ((S)x & magnitude) > top || ((S)y & magnitude) > top ? (U)NAN_BITS : value; \
	}                                                                                          \
	HALF_INLINE U t##_min(U x, U y)                                                            \
	{                                                                                          \
		return t##_unless_nan(x, y, t##_key(x) < t##_key(y) ? x : y);                      \
	}                                                                                          \
	HALF_INLINE U t##_max(U x, U y)                                                            \
	{                                                                                          \
		return t##_unless_nan(x, y, t##_key(x) > t##_key(y) ? x : y);                      \
	}

BIT_ORDER(f8e4m3, uint8_t, int8_t, F8E4M3_NAN, F8E4M3_MAX)
BIT_ORDER(f8e5m2, uint8_t, int8_t, F8E5M2_NAN, F8E5M2_INF)
BIT_ORDER(f16, uint16_t, int16_t, F16_NAN, F16_INF)
BIT_ORDER(bf16, uint16_t, int16_t, BF16_NAN, BF16_INF)
BIT_ORDER(f32, uint32_t, int32_t, F32_NAN, F32_INF)
BIT_ORDER(f64, uint64_t, int64_t, F64_NAN, F64_INF)

#define EXTREME_KERNELS(op)                                                               \
	BINARY(op##_f8e4m3, uint8_t, uint8_t, f8e4m3_##op(x, y))                          \
	BINARY(op##_f8e5m2, uint8_t, uint8_t, f8e5m2_##op(x, y))                          \
	BINARY(op##_f16, uint16_t, uint16_t, f16_##op(x, y))                              \
	BINARY(op##_bf16, uint16_t, uint16_t, bf16_##op(x, y))                            \
	BINARY(op##_f32, float, float, f32_from_bits(f32_##op(f32_bits(x), f32_bits(y)))) \
	BINARY(op##_f64, double, double, f64_from_bits(f64_##op(f64_bits(x), f64_bits(y))))

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
