/*
 * The kernels are made from three things: an operation on two values of one C type (a macro), the
 * template of a loop, and a row of the table below. One operation is one rounding, so the bits of
 * an element depend on its operands alone.
 */
#include "lib/data/reduce.h"

#include <string.h>

#include "lib/data/half.h"
#include "lib/data/reduce_f16c.h"
#include "lib/data/simd.h"

/* ---- names and rules ---- */

static const char *const op_names[REDUCE_OPS] = {
        [REDUCE_SUM] = "sum", [REDUCE_PROD] = "prod", [REDUCE_MIN] = "min",
        [REDUCE_MAX] = "max", [REDUCE_AVG] = "avg",   [REDUCE_BAND] = "band",
        [REDUCE_BOR] = "bor", [REDUCE_BXOR] = "bxor", [REDUCE_LAND] = "land",
        [REDUCE_LOR] = "lor", [REDUCE_LXOR] = "lxor",
};

const char *reduce_op_name(enum reduce_op op)
{
	return op_names[op];
}

int reduce_op_by_name(const char *name, enum reduce_op *out)
{
	for (int op = 0; op < REDUCE_OPS; op++) {
		if (!strcmp(name, op_names[op])) {
			*out = (enum reduce_op)op;
			return 0;
		}
	}
	return -1;
}

bool reduce_op_defined(enum reduce_op op, enum dtype dtype)
{
	return reduce_kernel(op, dtype, dtype, false) != NULL;
}

bool reduce_order_matters(enum reduce_op op, enum dtype dtype)
{
	return dtype_is_float(dtype) && (op == REDUCE_SUM || op == REDUCE_PROD || op == REDUCE_AVG);
}

enum dtype reduce_acc_dtype(enum reduce_op op, enum dtype dtype, bool ordered)
{
	if (!reduce_order_matters(op, dtype))
		return dtype;
	if (ordered)
		return DTYPE_F64;
	return dtype == DTYPE_F16 || dtype == DTYPE_BF16 ? DTYPE_F32 : dtype;
}

/* ---- the template ---- */

/* dst[i] = VALUE, an expression in x (of a, which has dst's type D) and y (of b, type B). */
#define BINARY(name, D, B, VALUE)                                                  \
	KERNEL static void name(void *dst, const void *a, const void *b, size_t n) \
	{                                                                          \
		D *d = dst;                                                        \
		const D *l = a;                                                    \
		const B *r = b;                                                    \
		ELEMENTWISE                                                        \
		for (size_t i = 0; i < n; i++) {                                   \
			D x = l[i];                                                \
			B y = r[i];                                                \
			d[i] = VALUE;                                              \
		}                                                                  \
	}

/* ---- integers ---- */

/* Sums and products wrap: 1u lifts the narrow types to unsigned, where int would overflow. They and
 * the bitwise operations have the same bits for signed and unsigned. */
#define INTEGER_KERNELS(w)                                                    \
	BINARY(sum_##w, uint##w##_t, uint##w##_t, (uint##w##_t)(1u * x + y))  \
	BINARY(prod_##w, uint##w##_t, uint##w##_t, (uint##w##_t)(1u * x * y)) \
	BINARY(band_##w, uint##w##_t, uint##w##_t, (uint##w##_t)(x & y))      \
	BINARY(bor_##w, uint##w##_t, uint##w##_t, (uint##w##_t)(x | y))       \
	BINARY(bxor_##w, uint##w##_t, uint##w##_t, (uint##w##_t)(x ^ y))      \
	BINARY(min_i##w, int##w##_t, int##w##_t, x < y ? x : y)               \
	BINARY(max_i##w, int##w##_t, int##w##_t, x > y ? x : y)               \
	BINARY(min_u##w, uint##w##_t, uint##w##_t, x < y ? x : y)             \
	BINARY(max_u##w, uint##w##_t, uint##w##_t, x > y ? x : y)

INTEGER_KERNELS(8)
INTEGER_KERNELS(16)
INTEGER_KERNELS(32)
INTEGER_KERNELS(64)

/* ---- floats: sum and product, and the same into a wider accumulator ---- */

#define FLOAT_KERNELS(op, SIGN)                                                                \
	BINARY(op##_f32, float, float, f32_canonical(x SIGN y))                                \
	BINARY(op##_f64, double, double, f64_canonical(x SIGN y))                              \
	BINARY(op##_f16, uint16_t, uint16_t, f32_to_f16(f16_to_f32(x) SIGN f16_to_f32(y)))     \
	BINARY(op##_bf16, uint16_t, uint16_t, f32_to_bf16(bf16_to_f32(x) SIGN bf16_to_f32(y))) \
	BINARY(op##_f32_f16, float, uint16_t, f32_canonical(x SIGN f16_to_f32(y)))             \
	BINARY(op##_f32_bf16, float, uint16_t, f32_canonical(x SIGN bf16_to_f32(y)))           \
	BINARY(op##_f64_f16, double, uint16_t, f64_canonical(x SIGN(double) f16_to_f32(y)))    \
	BINARY(op##_f64_bf16, double, uint16_t, f64_canonical(x SIGN(double) bf16_to_f32(y)))  \
	BINARY(op##_f64_f32, double, float, f64_canonical(x SIGN(double) y))

FLOAT_KERNELS(sum, +)
FLOAT_KERNELS(prod, *)

/* ---- floats: minimum and maximum, on the bits ---- */

/* Read as a signed integer whose magnitude bits are flipped if it is negative, a float's bits have
 * its order, with -0 just below +0. */
#define BIT_ORDER(t, U, S, NAN_BITS, INF_BITS)                                                     \
	HALF_INLINE S t##_key(U u)                                                                 \
	{                                                                                          \
		S s = (S)u;                                                                        \
		return (S)(s ^ (S)((U)(s >> (8 * sizeof(S) - 1)) >> 1));                           \
	}                                                                                          \
	HALF_INLINE U t##_unless_nan(U x, U y, U value)                                            \
	{                                                                                          \
		const S magnitude = (S)((U)-1 >> 1);                                               \
		const S inf = (S)INF_BITS;                                                         \
		return ((S)x & magnitude) > inf || ((S)y & magnitude) > inf ? (U)NAN_BITS : value; \
	}                                                                                          \
	HALF_INLINE U t##_min(U x, U y)                                                            \
	{                                                                                          \
		return t##_unless_nan(x, y, t##_key(x) < t##_key(y) ? x : y);                      \
	}                                                                                          \
	HALF_INLINE U t##_max(U x, U y)                                                            \
	{                                                                                          \
		return t##_unless_nan(x, y, t##_key(x) > t##_key(y) ? x : y);                      \
	}

BIT_ORDER(f16, uint16_t, int16_t, F16_NAN, F16_INF)
BIT_ORDER(bf16, uint16_t, int16_t, BF16_NAN, BF16_INF)
BIT_ORDER(f32, uint32_t, int32_t, F32_NAN, F32_INF)
BIT_ORDER(f64, uint64_t, int64_t, F64_NAN, F64_INF)

#define EXTREME_KERNELS(op)                                                               \
	BINARY(op##_f16, uint16_t, uint16_t, f16_##op(x, y))                              \
	BINARY(op##_bf16, uint16_t, uint16_t, bf16_##op(x, y))                            \
	BINARY(op##_f32, float, float, f32_from_bits(f32_##op(f32_bits(x), f32_bits(y)))) \
	BINARY(op##_f64, double, double, f64_from_bits(f64_##op(f64_bits(x), f64_bits(y))))

EXTREME_KERNELS(min)
EXTREME_KERNELS(max)

/* ---- the tables ---- */

#define BY_WIDTH(op)                                                                              \
	[DTYPE_I8] = op##_8, [DTYPE_I16] = op##_16, [DTYPE_I32] = op##_32, [DTYPE_I64] = op##_64, \
	[DTYPE_U8] = op##_8, [DTYPE_U16] = op##_16, [DTYPE_U32] = op##_32, [DTYPE_U64] = op##_64
#define BY_SIGN(op)                                                           \
	[DTYPE_I8] = op##_i8, [DTYPE_I16] = op##_i16, [DTYPE_I32] = op##_i32, \
	[DTYPE_I64] = op##_i64, [DTYPE_U8] = op##_u8, [DTYPE_U16] = op##_u16, \
	[DTYPE_U32] = op##_u32, [DTYPE_U64] = op##_u64
#define BY_FLOAT(op)                                                              \
	[DTYPE_F16] = op##_f16, [DTYPE_BF16] = op##_bf16, [DTYPE_F32] = op##_f32, \
	[DTYPE_F64] = op##_f64

static reduce_fn *const kernels[REDUCE_OPS][DTYPES] = {
        [REDUCE_SUM] = {BY_WIDTH(sum), BY_FLOAT(sum)},
        [REDUCE_PROD] = {BY_WIDTH(prod), BY_FLOAT(prod)},
        [REDUCE_MIN] = {BY_SIGN(min), BY_FLOAT(min)},
        [REDUCE_MAX] = {BY_SIGN(max), BY_FLOAT(max)},
        [REDUCE_AVG] = {BY_FLOAT(sum)},
        [REDUCE_BAND] = {BY_WIDTH(band)},
        [REDUCE_BOR] = {BY_WIDTH(bor)},
        [REDUCE_BXOR] = {BY_WIDTH(bxor)},
};

/* The kernels into a wider accumulator: by its type, by the operand's. */
static reduce_fn *const widening_sum[DTYPES][DTYPES] = {
        [DTYPE_F32] = {[DTYPE_F16] = sum_f32_f16, [DTYPE_BF16] = sum_f32_bf16},
        [DTYPE_F64] =
                {[DTYPE_F16] = sum_f64_f16, [DTYPE_BF16] = sum_f64_bf16, [DTYPE_F32] = sum_f64_f32},
};
static reduce_fn *const widening_prod[DTYPES][DTYPES] = {
        [DTYPE_F32] = {[DTYPE_F16] = prod_f32_f16, [DTYPE_BF16] = prod_f32_bf16},
        [DTYPE_F64] = {[DTYPE_F16] = prod_f64_f16,
                       [DTYPE_BF16] = prod_f64_bf16,
                       [DTYPE_F32] = prod_f64_f32},
};

reduce_fn *reduce_kernel(enum reduce_op op, enum dtype acc, enum dtype dtype, bool swapped)
{
	(void)swapped; /* every operation is commutative to the bit, NaN being canonical */
	if (acc == dtype) {
		reduce_fn *faster = dtype == DTYPE_F16 ? reduce_kernel_f16c(op) : NULL;
		return faster ? faster : kernels[op][dtype];
	}
	if (op == REDUCE_SUM || op == REDUCE_AVG)
		return widening_sum[acc][dtype];
	return op == REDUCE_PROD ? widening_prod[acc][dtype] : NULL;
}

/* ---- the identities ---- */

static const uint64_t float_one[DTYPES] = {
        [DTYPE_F16] = 0x3c00,
        [DTYPE_BF16] = 0x3f80,
        [DTYPE_F32] = 0x3f800000,
        [DTYPE_F64] = UINT64_C(0x3ff0000000000000),
};
static const uint64_t float_inf[DTYPES] = {
        [DTYPE_F16] = F16_INF,
        [DTYPE_BF16] = BF16_INF,
        [DTYPE_F32] = F32_INF,
        [DTYPE_F64] = F64_INF,
};

/* The greatest value (@max false: the least) of @dtype. */
static uint64_t extreme(enum dtype dtype, bool max)
{
	const uint64_t sign = UINT64_C(1) << (8 * dtype_size(dtype) - 1);

	if (dtype_is_float(dtype))
		return float_inf[dtype] | (max ? 0 : sign);
	if (dtype >= DTYPE_I8 && dtype <= DTYPE_I64)
		return max ? sign - 1 : sign;
	return max ? UINT64_MAX : 0;
}

static uint64_t identity_bits(enum reduce_op op, enum dtype dtype)
{
	switch (op) {
	case REDUCE_PROD:
		return dtype_is_float(dtype) ? float_one[dtype] : 1;
	case REDUCE_MIN:
		return extreme(dtype, true);
	case REDUCE_MAX:
		return extreme(dtype, false);
	case REDUCE_BAND:
		return UINT64_MAX;
	default:
		return 0;
	}
}

void reduce_identity(enum reduce_op op, enum dtype dtype, void *dst, size_t n)
{
	const uint64_t bits = identity_bits(op, dtype);
	const size_t size = dtype_size(dtype);

	for (size_t i = 0; i < n; i++)
		memcpy((char *)dst + i * size, &bits, size);
}
