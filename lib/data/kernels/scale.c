/* Weights: the product of an element and a scalar, rounded once. */
#include "lib/data/kernels/reduce.h"

#include <math.h>

#include "lib/data/kernels/kernels.h"

/*
 * x * w for an x of at most 26 bits, rounded to odd: the last bit is set if bits were lost, so that
 * rounding the result to f32 is as exact as a single rounding. With w split in two, both products
 * are exact, and so is the error computed from them. If not, the result in f32 is 0 or infinity
 * anyway.
 */
ELEMENT_FN double product_odd(double x, double w)
{
	double high = f64_from_bits(f64_bits(w) & ~((UINT64_C(1) << 27) - 1)), low = w - high;
	double p = x * w, error = x * high - p + x * low;
	/* For infinities the error is NaN, which is neither. */
	uint64_t more = error > 0, less = error < 0;
	uint64_t inward = p > 0 ? less : more;
	return f64_from_bits((f64_bits(p) - inward) | more | less);
}

/* A weight of 0 ignores the element, also NaN: it gives -0.0, because adding that changes no sum,
 * not even -0.0.
 */
#define SCALE(name, D, S, VALUE)                                              \
	UNARY_BY(name##_by, D, S, double, VALUE)                              \
	static void name(void *dst, const void *src, double weight, size_t n) \
	{                                                                     \
		D *d = dst;                                                   \
		if (weight != 0)                                              \
			name##_by(dst, src, weight, n);                       \
		for (size_t i = 0; weight == 0 && i < n; i++)                 \
			d[i] = (D)-0.0;                                       \
	}

#define NARROW_SCALES(t, U)                                                                       \
	SCALE(f32_by_##t, float, U, f32_canonical((float)product_odd((double)t##_to_f32(x), by))) \
	SCALE(f64_by_##t, double, U, f64_canonical((double)t##_to_f32(x) * by))

NARROW_SCALES(f8e4m3, uint8_t)
NARROW_SCALES(f8e5m2, uint8_t)
NARROW_SCALES(f16, uint16_t)
NARROW_SCALES(bf16, uint16_t)
SCALE(f64_by_f32, double, float, f64_canonical((double)x *by))
SCALE(f64_by_f64, double, double, f64_canonical(x *by))
SCALE(f64_by_i8, double, int8_t, (double)x *by)
SCALE(f64_by_i16, double, int16_t, (double)x *by)
SCALE(f64_by_i32, double, int32_t, (double)x *by)
SCALE(f64_by_u8, double, uint8_t, (double)x *by)
SCALE(f64_by_u16, double, uint16_t, (double)x *by)
SCALE(f64_by_u32, double, uint32_t, (double)x *by)
SCALE(f64_by_bool, double, uint8_t, x ? by : 0)

static void c128_by_c64(void *dst, const void *src, double weight, size_t n)
{
	f64_by_f32(dst, src, weight, 2 * n);
}

static void c128_by_c128(void *dst, const void *src, double weight, size_t n)
{
	f64_by_f64(dst, src, weight, 2 * n);
}

/* A double cannot hold 64 bits, so their product with the weight's 53 bits is computed exactly and
 * rounded once. Scaling by the power of two rounds nothing more: a product below 2^53 was exact,
 * and a larger one gives no subnormal. */
static double whole_product(uint64_t magnitude, uint64_t mantissa, int exponent)
{
	return ldexp((double)((unsigned __int128)magnitude * mantissa), exponent);
}

#define SCALE_WHOLE(name, S)                                                                 \
	static void name(void *dst, const void *src, double weight, size_t n)                \
	{                                                                                    \
		double *d = dst;                                                             \
		const S *s = src;                                                            \
		int exponent;                                                                \
		uint64_t mantissa = (uint64_t)ldexp(frexp(fabs(weight), &exponent), 53);     \
		for (size_t i = 0; i < n; i++) {                                             \
			uint64_t magnitude = s[i] < 0 ? 0 - (uint64_t)s[i] : (uint64_t)s[i]; \
			double p = whole_product(magnitude, mantissa, exponent - 53);        \
			d[i] = p != 0 && (s[i] < 0) != (weight < 0) ? -p : p;                \
		}                                                                            \
	}

#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wtype-limits" /* a u64 is never negative */
SCALE_WHOLE(f64_by_i64, int64_t)
SCALE_WHOLE(f64_by_u64, uint64_t)
#pragma GCC diagnostic pop

#define BY_NARROW(to)                                                     \
	[DTYPE_F8E4M3] = to##_by_f8e4m3, [DTYPE_F8E5M2] = to##_by_f8e5m2, \
	[DTYPE_F16] = to##_by_f16, [DTYPE_BF16] = to##_by_bf16

scale_fn *scale_kernel(enum dtype to, enum dtype from)
{
	static scale_fn *const table[DTYPES][DTYPES] = {
	        [DTYPE_F32] = {BY_NARROW(f32)},
	        [DTYPE_F64] =
	                {BY_NARROW(f64), [DTYPE_F32] = f64_by_f32, [DTYPE_F64] = f64_by_f64,
	                 [DTYPE_I8] = f64_by_i8, [DTYPE_I16] = f64_by_i16, [DTYPE_I32] = f64_by_i32,
	                 [DTYPE_I64] = f64_by_i64, [DTYPE_U8] = f64_by_u8, [DTYPE_U16] = f64_by_u16,
	                 [DTYPE_U32] = f64_by_u32, [DTYPE_U64] = f64_by_u64,
	                 [DTYPE_BOOL] = f64_by_bool},
	        [DTYPE_C128] = {[DTYPE_C64] = c128_by_c64, [DTYPE_C128] = c128_by_c128},
	};
	return table[to][from];
}
