/*
 * The operations of lib/data/kernels/reduce.h on single elements. The kernels of the CPU and those
 * of the GPU (cuda/) are loops over these functions, so both give the same bits. That needs a
 * compiler that neither fuses products and sums nor flushes subnormals: -ffp-contract=off here,
 * -fmad=false -ftz=false -prec-div=true in nvcc.
 *
 * Names: element_OP_TYPE for values of one type; element_OP_ACC_TYPE adds or multiplies an element
 * to an accumulator of a wider type; element_TO_of_FROM converts and makes NaN canonical. Narrow
 * floats are passed as their bits.
 */
#ifndef COLLCTL_DATA_KERNELS_ELEMENT_H
#define COLLCTL_DATA_KERNELS_ELEMENT_H

#include "lib/data/kernels/float8.h"
#include "lib/data/kernels/reduce.h"

/* With the alignment that reduce.h requires. */
typedef __int128 int128 __attribute__((aligned(8)));
typedef unsigned __int128 uint128 __attribute__((aligned(8)));

/* ---- floats: conversions between a type and its accumulators ---- */

/* For a type @t that is computed in f32 and has its bits in a U. */
#define ELEMENT_NARROW_CONVERSIONS(t, U)                     \
	ELEMENT_FN float element_f32_of_##t(U x)             \
	{                                                    \
		return f32_canonical(t##_to_f32(x));         \
	}                                                    \
	ELEMENT_FN double element_f64_of_##t(U x)            \
	{                                                    \
		return f64_canonical((double)t##_to_f32(x)); \
	}                                                    \
	ELEMENT_FN U element_##t##_of_f32(float x)           \
	{                                                    \
		return f32_to_##t(x);                        \
	}                                                    \
	ELEMENT_FN U element_##t##_of_f64(double x)          \
	{                                                    \
		return f64_to_##t(x);                        \
	}

ELEMENT_NARROW_CONVERSIONS(f8e4m3, uint8_t)
ELEMENT_NARROW_CONVERSIONS(f8e5m2, uint8_t)
ELEMENT_NARROW_CONVERSIONS(f16, uint16_t)
ELEMENT_NARROW_CONVERSIONS(bf16, uint16_t)

ELEMENT_FN double element_f64_of_f32(float x)
{
	return f64_canonical((double)x);
}

ELEMENT_FN float element_f32_of_f64(double x)
{
	return f32_canonical((float)x);
}

/* ---- floats: sum and product, and the same into a wider accumulator ---- */

#define ELEMENT_NARROW(op, SIGN, t, U)                               \
	ELEMENT_FN U element_##op##_##t(U x, U y)                    \
	{                                                            \
		return f32_to_##t(t##_to_f32(x) SIGN t##_to_f32(y)); \
	}                                                            \
	ELEMENT_FN float element_##op##_f32_##t(float x, U y)        \
	{                                                            \
		return f32_canonical(x SIGN t##_to_f32(y));          \
	}                                                            \
	ELEMENT_FN double element_##op##_f64_##t(double x, U y)      \
	{                                                            \
		return f64_canonical(x SIGN(double) t##_to_f32(y));  \
	}

#define ELEMENT_FLOAT(op, SIGN)                                     \
	ELEMENT_NARROW(op, SIGN, f8e4m3, uint8_t)                   \
	ELEMENT_NARROW(op, SIGN, f8e5m2, uint8_t)                   \
	ELEMENT_NARROW(op, SIGN, f16, uint16_t)                     \
	ELEMENT_NARROW(op, SIGN, bf16, uint16_t)                    \
	ELEMENT_FN float element_##op##_f32(float x, float y)       \
	{                                                           \
		return f32_canonical(x SIGN y);                     \
	}                                                           \
	ELEMENT_FN double element_##op##_f64(double x, double y)    \
	{                                                           \
		return f64_canonical(x SIGN y);                     \
	}                                                           \
	ELEMENT_FN double element_##op##_f64_f32(double x, float y) \
	{                                                           \
		return f64_canonical(x SIGN(double) y);             \
	}

ELEMENT_FLOAT(sum, +)
ELEMENT_FLOAT(prod, *)

/* ---- floats: minimum and maximum, on the bits ---- */

/* Read a float's bits as a signed integer and flip the magnitude bits if it is negative: these
 * integers have the order of the floats, with -0 just below +0. TOP is infinity or the largest
 * value; magnitudes above it are NaN. */
#define ELEMENT_BIT_ORDER(t, U, S, NAN_BITS, TOP)                                                  \
	ELEMENT_FN S t##_key(U u)                                                                  \
	{                                                                                          \
		S s = (S)u;                                                                        \
		return (S)(s ^ (S)((U)(s >> (8 * sizeof(S) - 1)) >> 1));                           \
	}                                                                                          \
	ELEMENT_FN U t##_unless_nan(U x, U y, U value)                                             \
	{                                                                                          \
		const S magnitude = (S)((U)-1 >> 1);                                               \
		const S top = (S)TOP;                                                              \
		return ((S)x & magnitude) > top || ((S)y & magnitude) > top ? (U)NAN_BITS : value; \
	}                                                                                          \
	ELEMENT_FN U t##_min(U x, U y)                                                             \
	{                                                                                          \
		return t##_unless_nan(x, y, t##_key(x) < t##_key(y) ? x : y);                      \
	}                                                                                          \
	ELEMENT_FN U t##_max(U x, U y)                                                             \
	{                                                                                          \
		return t##_unless_nan(x, y, t##_key(x) > t##_key(y) ? x : y);                      \
	}

ELEMENT_BIT_ORDER(f8e4m3, uint8_t, int8_t, F8E4M3_NAN, F8E4M3_MAX)
ELEMENT_BIT_ORDER(f8e5m2, uint8_t, int8_t, F8E5M2_NAN, F8E5M2_INF)
ELEMENT_BIT_ORDER(f16, uint16_t, int16_t, F16_NAN, F16_INF)
ELEMENT_BIT_ORDER(bf16, uint16_t, int16_t, BF16_NAN, BF16_INF)
ELEMENT_BIT_ORDER(f32, uint32_t, int32_t, F32_NAN, F32_INF)
ELEMENT_BIT_ORDER(f64, uint64_t, int64_t, F64_NAN, F64_INF)

#define ELEMENT_NARROW_EXTREME(op, t, U)          \
	ELEMENT_FN U element_##op##_##t(U x, U y) \
	{                                         \
		return t##_##op(x, y);            \
	}

#define ELEMENT_EXTREME(op)                                               \
	ELEMENT_NARROW_EXTREME(op, f8e4m3, uint8_t)                       \
	ELEMENT_NARROW_EXTREME(op, f8e5m2, uint8_t)                       \
	ELEMENT_NARROW_EXTREME(op, f16, uint16_t)                         \
	ELEMENT_NARROW_EXTREME(op, bf16, uint16_t)                        \
	ELEMENT_FN float element_##op##_f32(float x, float y)             \
	{                                                                 \
		return f32_from_bits(f32_##op(f32_bits(x), f32_bits(y))); \
	}                                                                 \
	ELEMENT_FN double element_##op##_f64(double x, double y)          \
	{                                                                 \
		return f64_from_bits(f64_##op(f64_bits(x), f64_bits(y))); \
	}

ELEMENT_EXTREME(min)
ELEMENT_EXTREME(max)

/* ---- complex numbers: the product x + xi i times y + yi i, as in numpy; sums are of parts ---- */

#define ELEMENT_COMPLEX(t)                                                                 \
	ELEMENT_FN t##_value element_prod_real_##t(t##_value x, t##_value xi, t##_value y, \
	                                           t##_value yi)                           \
	{                                                                                  \
		return t##_canonical(x * y - xi * yi);                                     \
	}                                                                                  \
	ELEMENT_FN t##_value element_prod_imag_##t(t##_value x, t##_value xi, t##_value y, \
	                                           t##_value yi)                           \
	{                                                                                  \
		return t##_canonical(x * yi + xi * y);                                     \
	}

typedef float f32_value;
typedef double f64_value;
ELEMENT_COMPLEX(f32)
ELEMENT_COMPLEX(f64)

/* ---- integers and bool ---- */

#define ELEMENT_INTEGER_OP(op, t, T, VALUE)       \
	ELEMENT_FN T element_##op##_##t(T x, T y) \
	{                                         \
		return VALUE;                     \
	}

/* Sums and products wrap: 1u promotes narrow types to unsigned, because int could overflow. All
 * operations except min and max give the same bits for signed and unsigned types, so they are named
 * by the width. Every operation on bool is the land, lor or lxor of 8 bits. */
#define ELEMENT_INTEGER(w)                                                           \
	ELEMENT_INTEGER_OP(sum, w, uint##w##_t, (uint##w##_t)(1u * x + y))           \
	ELEMENT_INTEGER_OP(prod, w, uint##w##_t, (uint##w##_t)(1u * x * y))          \
	ELEMENT_INTEGER_OP(band, w, uint##w##_t, (uint##w##_t)(x & y))               \
	ELEMENT_INTEGER_OP(bor, w, uint##w##_t, (uint##w##_t)(x | y))                \
	ELEMENT_INTEGER_OP(bxor, w, uint##w##_t, (uint##w##_t)(x ^ y))               \
	ELEMENT_INTEGER_OP(land, w, uint##w##_t, (uint##w##_t)((x != 0) & (y != 0))) \
	ELEMENT_INTEGER_OP(lor, w, uint##w##_t, (uint##w##_t)((x | y) != 0))         \
	ELEMENT_INTEGER_OP(lxor, w, uint##w##_t, (uint##w##_t)((x != 0) ^ (y != 0))) \
	ELEMENT_INTEGER_OP(min, i##w, int##w##_t, x < y ? x : y)                     \
	ELEMENT_INTEGER_OP(max, i##w, int##w##_t, x > y ? x : y)                     \
	ELEMENT_INTEGER_OP(min, u##w, uint##w##_t, x < y ? x : y)                    \
	ELEMENT_INTEGER_OP(max, u##w, uint##w##_t, x > y ? x : y)

ELEMENT_INTEGER(8)
ELEMENT_INTEGER(16)
ELEMENT_INTEGER(32)
ELEMENT_INTEGER(64)
ELEMENT_INTEGER_OP(sum, 128, uint128, x + y)

/* ---- identities ---- */

/* The greatest value of @dtype, infinity if it has one. */
ELEMENT_FN uint64_t element_greatest(enum dtype dtype)
{
	switch (dtype) {
	case DTYPE_F8E4M3:
		return F8E4M3_MAX;
	case DTYPE_F8E5M2:
		return F8E5M2_INF;
	case DTYPE_F16:
		return F16_INF;
	case DTYPE_BF16:
		return BF16_INF;
	case DTYPE_F32:
		return F32_INF;
	case DTYPE_F64:
		return F64_INF;
	case DTYPE_I8:
		return INT8_MAX;
	case DTYPE_I16:
		return INT16_MAX;
	case DTYPE_I32:
		return INT32_MAX;
	case DTYPE_I64:
		return INT64_MAX;
	case DTYPE_BOOL:
		return 1;
	default:
		return UINT64_MAX;
	}
}

/* The least value of @dtype: the sign and, in a float, the magnitude of the greatest. */
ELEMENT_FN uint64_t element_least(enum dtype dtype)
{
	switch (dtype) {
	case DTYPE_F8E4M3:
		return 0x80u | F8E4M3_MAX;
	case DTYPE_F8E5M2:
		return 0x80u | F8E5M2_INF;
	case DTYPE_F16:
		return 0x8000u | F16_INF;
	case DTYPE_BF16:
		return 0x8000u | BF16_INF;
	case DTYPE_F32:
		return 0x80000000u | F32_INF;
	case DTYPE_F64:
		return UINT64_C(1) << 63 | F64_INF;
	case DTYPE_I8:
		return 0x80u;
	case DTYPE_I16:
		return 0x8000u;
	case DTYPE_I32:
		return 0x80000000u;
	case DTYPE_I64:
		return UINT64_C(1) << 63;
	default:
		return 0;
	}
}

ELEMENT_FN uint64_t element_one(enum dtype dtype)
{
	switch (dtype) {
	case DTYPE_F8E4M3:
		return 0x38;
	case DTYPE_F8E5M2:
		return 0x3c;
	case DTYPE_F16:
		return 0x3c00;
	case DTYPE_BF16:
		return 0x3f80;
	case DTYPE_F32:
	case DTYPE_C64:
		return 0x3f800000;
	case DTYPE_F64:
	case DTYPE_C128:
		return UINT64_C(0x3ff0000000000000);
	default:
		return 1;
	}
}

/* The low 64 bits of the identity of @op, or those of them that @dtype has; higher bits are 0. */
ELEMENT_FN uint64_t element_identity(enum reduce_op op, enum dtype dtype)
{
	switch (op) {
	case REDUCE_PROD:
		return element_one(dtype);
	case REDUCE_MIN:
		return element_greatest(dtype);
	case REDUCE_MAX:
		return element_least(dtype);
	case REDUCE_BAND:
		return dtype == DTYPE_BOOL ? 1 : UINT64_MAX;
	case REDUCE_LAND:
		return 1;
	default:
		return 0;
	}
}

#endif
