/* Conversions between element types, and the division that ends an average. */
#include "lib/data/reduce.h"

#include <string.h>

#include "lib/data/half.h"
#include "lib/data/simd.h"

/* dst[i] = VALUE, an expression in x of src. */
#define UNARY(name, D, S, VALUE)                                      \
	KERNEL static void name(void *dst, const void *src, size_t n) \
	{                                                             \
		D *d = dst;                                           \
		const S *s = src;                                     \
		ELEMENTWISE                                           \
		for (size_t i = 0; i < n; i++) {                      \
			S x = s[i];                                   \
			d[i] = VALUE;                                 \
		}                                                     \
	}

UNARY(f32_of_f16, float, uint16_t, f32_canonical(f16_to_f32(x)))
UNARY(f32_of_bf16, float, uint16_t, f32_canonical(bf16_to_f32(x)))
UNARY(f64_of_f16, double, uint16_t, f64_canonical((double)f16_to_f32(x)))
UNARY(f64_of_bf16, double, uint16_t, f64_canonical((double)bf16_to_f32(x)))
UNARY(f64_of_f32, double, float, f64_canonical((double)x))
UNARY(f32_of_f64, float, double, f32_canonical((float)x))
UNARY(f16_of_f32, uint16_t, float, f32_to_f16(x))
UNARY(bf16_of_f32, uint16_t, float, f32_to_bf16(x))
UNARY(f16_of_f64, uint16_t, double, f64_to_f16(x))
UNARY(bf16_of_f64, uint16_t, double, f64_to_bf16(x))

#define IDENTITY(w)                                                \
	static void copy_##w(void *dst, const void *src, size_t n) \
	{                                                          \
		if (dst != src)                                    \
			memcpy(dst, src, n * sizeof(uint##w##_t)); \
	}

IDENTITY(8)
IDENTITY(16)
IDENTITY(32)
IDENTITY(64)

static convert_fn *identity(enum dtype dtype)
{
	switch (dtype_size(dtype)) {
	case 1:
		return copy_8;
	case 2:
		return copy_16;
	case 4:
		return copy_32;
	case 8:
		return copy_64;
	}
	return NULL;
}

convert_fn *convert_kernel(enum dtype to, enum dtype from)
{
	static convert_fn *const table[DTYPES][DTYPES] = {
	        [DTYPE_F16] = {[DTYPE_F32] = f16_of_f32, [DTYPE_F64] = f16_of_f64},
	        [DTYPE_BF16] = {[DTYPE_F32] = bf16_of_f32, [DTYPE_F64] = bf16_of_f64},
	        [DTYPE_F32] = {[DTYPE_F16] = f32_of_f16,
	                       [DTYPE_BF16] = f32_of_bf16,
	                       [DTYPE_F64] = f32_of_f64},
	        [DTYPE_F64] = {[DTYPE_F16] = f64_of_f16,
	                       [DTYPE_BF16] = f64_of_bf16,
	                       [DTYPE_F32] = f64_of_f32},
	};
	return to == from ? identity(to) : table[to][from];
}

/* ---- the division ---- */

/* dst[i] = x / divisor, in DIV (a type of float), then NARROW. */
#define DIVIDE(name, D, S, DIV, WIDEN, NARROW)                                        \
	KERNEL static void name(void *dst, const void *src, double divisor, size_t n) \
	{                                                                             \
		D *d = dst;                                                           \
		const S *s = src;                                                     \
		const DIV by = (DIV)divisor;                                          \
		ELEMENTWISE                                                           \
		for (size_t i = 0; i < n; i++)                                        \
			d[i] = NARROW((DIV)WIDEN(s[i]) / by);                         \
	}

#define AS_IS(x)                       ((x))
#define F64_TO_F32(x)                  f32_canonical((float)(x))
#define BY_F64(t, D, S, WIDEN, NARROW) DIVIDE(avg_##t, D, S, double, WIDEN, NARROW)

BY_F64(f16, uint16_t, uint16_t, f16_to_f32, f64_to_f16)
BY_F64(bf16, uint16_t, uint16_t, bf16_to_f32, f64_to_bf16)
BY_F64(f16_f32, uint16_t, float, AS_IS, f64_to_f16)
BY_F64(bf16_f32, uint16_t, float, AS_IS, f64_to_bf16)
BY_F64(f16_f64, uint16_t, double, AS_IS, f64_to_f16)
BY_F64(bf16_f64, uint16_t, double, AS_IS, f64_to_bf16)
BY_F64(f32_f64, float, double, AS_IS, F64_TO_F32)
BY_F64(f64, double, double, AS_IS, f64_canonical)
BY_F64(f32_wide, float, float, AS_IS, F64_TO_F32)
DIVIDE(avg_f32_narrow, float, float, float, AS_IS, f32_canonical)

/* Where f32 has the divisor exactly, the quotient of two f32 rounded through f64 is the one of f32:
 * 53 bits are more than twice 24. So this is a matter of speed, not of bits. */
static void avg_f32(void *dst, const void *src, double divisor, size_t n)
{
	bool exact = (double)(float)divisor == divisor;
	(exact ? avg_f32_narrow : avg_f32_wide)(dst, src, divisor, n);
}

final_fn *final_kernel(enum dtype to, enum dtype from)
{
	static final_fn *const table[DTYPES][DTYPES] = {
	        [DTYPE_F16] = {[DTYPE_F16] = avg_f16,
	                       [DTYPE_F32] = avg_f16_f32,
	                       [DTYPE_F64] = avg_f16_f64},
	        [DTYPE_BF16] = {[DTYPE_BF16] = avg_bf16,
	                        [DTYPE_F32] = avg_bf16_f32,
	                        [DTYPE_F64] = avg_bf16_f64},
	        [DTYPE_F32] = {[DTYPE_F32] = avg_f32, [DTYPE_F64] = avg_f32_f64},
	        [DTYPE_F64] = {[DTYPE_F64] = avg_f64},
	};
	return table[to][from];
}
