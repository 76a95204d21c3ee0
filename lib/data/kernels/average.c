/* The final division of an average. */
#include "lib/data/kernels/reduce.h"

#include <math.h>

#include "lib/data/kernels/kernels.h"

/* ---- floats: divided in f64, then rounded ---- */

#define NARROW_AVERAGES(t, U)                                                   \
	UNARY_BY(avg_##t, U, U, double, f64_to_##t((double)t##_to_f32(x) / by)) \
	UNARY_BY(avg_##t##_f32, U, float, double, f64_to_##t((double)x / by))   \
	UNARY_BY(avg_##t##_f64, U, double, double, f64_to_##t(x / by))

NARROW_AVERAGES(f8e4m3, uint8_t)
NARROW_AVERAGES(f8e5m2, uint8_t)
NARROW_AVERAGES(f16, uint16_t)
NARROW_AVERAGES(bf16, uint16_t)
UNARY_BY(avg_f32_f64, float, double, double, f32_canonical((float)(x / by)))
UNARY_BY(avg_f64, double, double, double, f64_canonical(x / by))
UNARY_BY(avg_f32_wide, float, float, double, f32_canonical((float)((double)x / by)))
UNARY_BY(avg_f32_narrow, float, float, float, f32_canonical(x / by))

/* If the divisor is exact in f32, dividing in f32 gives the same bits as dividing in f64 and
 * rounding to f32, because 53 bits are more than twice 24. So this only gains speed. */
static void avg_f32(void *dst, const void *src, double divisor, size_t n)
{
	bool exact = (double)(float)divisor == divisor;
	(exact ? avg_f32_narrow : avg_f32_wide)(dst, src, divisor, n);
}

/* Complex numbers: each part. */
static void avg_c64(void *dst, const void *src, double divisor, size_t n)
{
	avg_f32(dst, src, divisor, 2 * n);
}

static void avg_c64_c128(void *dst, const void *src, double divisor, size_t n)
{
	avg_f32_f64(dst, src, divisor, 2 * n);
}

static void avg_c128(void *dst, const void *src, double divisor, size_t n)
{
	avg_f64(dst, src, divisor, 2 * n);
}

/* ---- integers of at most 32 bits, and weighted sums: through f64 ---- */

/* Round to the nearest integer of type D, ties to even; @END is the first number above D's range.
 * For sums below 2^52 the result equals that of the exact quotient: a tie is exact in f64, and
 * every other quotient differs from a tie by at least half a unit in the last place. */
#define ROUND_TO(t, D, LEAST, MOST, END)                                                   \
	ELEMENT_FN D f64_to_##t(double x)                                                  \
	{                                                                                  \
		double r = rint(x);                                                        \
		return r >= END ? (D)MOST : r >= (double)LEAST ? (D)r : r < 0 ? LEAST : 0; \
	}

#define INTEGER_AVERAGE(t, D, LEAST, MOST, END) \
	ROUND_TO(t, D, LEAST, MOST, END)        \
	UNARY_BY(avg_##t##_f64, D, double, double, f64_to_##t(x / by))
#define SMALL_AVERAGES(t, D, LEAST, MOST, END)  \
	INTEGER_AVERAGE(t, D, LEAST, MOST, END) \
	UNARY_BY(avg_##t, D, D, double, f64_to_##t((double)x / by))

SMALL_AVERAGES(i8, int8_t, INT8_MIN, INT8_MAX, 0x1p7)
SMALL_AVERAGES(i16, int16_t, INT16_MIN, INT16_MAX, 0x1p15)
SMALL_AVERAGES(i32, int32_t, INT32_MIN, INT32_MAX, 0x1p31)
SMALL_AVERAGES(u8, uint8_t, 0, UINT8_MAX, 0x1p8)
SMALL_AVERAGES(u16, uint16_t, 0, UINT16_MAX, 0x1p16)
SMALL_AVERAGES(u32, uint32_t, 0, UINT32_MAX, 0x1p32)
INTEGER_AVERAGE(i64, int64_t, INT64_MIN, INT64_MAX, 0x1p63)
INTEGER_AVERAGE(u64, uint64_t, 0, UINT64_MAX, 0x1p64)

UNARY_BY(avg_bool, uint8_t, uint8_t, double, (uint8_t)(rint((double)(x != 0) / by) >= 1))
UNARY_BY(avg_bool_f64, uint8_t, double, double, (uint8_t)(rint(x / by) >= 1))

/* ---- 64-bit integers: integer arithmetic ---- */

SCALAR_UNARY_BY(avg_i64, int64_t, int64_t, uint64_t, (int64_t)divide_signed(x, by))
SCALAR_UNARY_BY(avg_i64_i128, int64_t, int128, uint64_t, (int64_t)divide_signed(x, by))
SCALAR_UNARY_BY(avg_u64, uint64_t, uint64_t, uint64_t, (uint64_t)divide_to_even(x, by))
SCALAR_UNARY_BY(avg_u64_i128, uint64_t, int128, uint64_t, (uint64_t)divide_signed(x, by))

#define AVG_NARROW(T, t) \
	[T] = {[T] = avg_##t, [DTYPE_F32] = avg_##t##_f32, [DTYPE_F64] = avg_##t##_f64}
#define AVG_INTEGER(T, t) [T] = {[T] = avg_##t, [DTYPE_F64] = avg_##t##_f64}
#define AVG_LONG(T, t) \
	[T] = {[T] = avg_##t, [DTYPE_F64] = avg_##t##_f64, [DTYPE_I128] = avg_##t##_i128}

final_fn *final_kernel(enum dtype to, enum dtype from)
{
	static final_fn *const table[DTYPES][DTYPES] = {
	        AVG_NARROW(DTYPE_F8E4M3, f8e4m3),
	        AVG_NARROW(DTYPE_F8E5M2, f8e5m2),
	        AVG_NARROW(DTYPE_F16, f16),
	        AVG_NARROW(DTYPE_BF16, bf16),
	        [DTYPE_F32] = {[DTYPE_F32] = avg_f32, [DTYPE_F64] = avg_f32_f64},
	        [DTYPE_F64] = {[DTYPE_F64] = avg_f64},
	        [DTYPE_C64] = {[DTYPE_C64] = avg_c64, [DTYPE_C128] = avg_c64_c128},
	        [DTYPE_C128] = {[DTYPE_C128] = avg_c128},
	        AVG_INTEGER(DTYPE_I8, i8),
	        AVG_INTEGER(DTYPE_I16, i16),
	        AVG_INTEGER(DTYPE_I32, i32),
	        AVG_LONG(DTYPE_I64, i64),
	        AVG_INTEGER(DTYPE_U8, u8),
	        AVG_INTEGER(DTYPE_U16, u16),
	        AVG_INTEGER(DTYPE_U32, u32),
	        AVG_LONG(DTYPE_U64, u64),
	        AVG_INTEGER(DTYPE_BOOL, bool),
	};
	return table[to][from];
}
