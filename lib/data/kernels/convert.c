/* Conversions between element types. */
#include "lib/data/kernels/reduce.h"

#include <string.h>

#include "lib/data/kernels/kernels.h"

/* For a type @t that is computed in f32 and has its bits in a U. */
#define NARROW_CONVERSIONS(t, U)                             \
	UNARY(f32_of_##t, float, U, element_f32_of_##t(x))   \
	UNARY(f64_of_##t, double, U, element_f64_of_##t(x))  \
	UNARY(t##_of_f32, U, float, element_##t##_of_f32(x)) \
	UNARY(t##_of_f64, U, double, element_##t##_of_f64(x))

NARROW_CONVERSIONS(f8e4m3, uint8_t)
NARROW_CONVERSIONS(f8e5m2, uint8_t)
NARROW_CONVERSIONS(f16, uint16_t)
NARROW_CONVERSIONS(bf16, uint16_t)
UNARY(f64_of_f32, double, float, element_f64_of_f32(x))
UNARY(f32_of_f64, float, double, element_f32_of_f64(x))

UNARY(f64_of_i8, double, int8_t, (double)x)
UNARY(f64_of_i16, double, int16_t, (double)x)
UNARY(f64_of_i32, double, int32_t, (double)x)
UNARY(f64_of_i64, double, int64_t, (double)x)
UNARY(f64_of_u8, double, uint8_t, (double)x)
UNARY(f64_of_u16, double, uint16_t, (double)x)
UNARY(f64_of_u32, double, uint32_t, (double)x)
UNARY(f64_of_u64, double, uint64_t, (double)x)
UNARY(f64_of_bool, double, uint8_t, (double)(x != 0))
SCALAR_UNARY(i128_of_i64, int128, int64_t, (int128)x)
SCALAR_UNARY(i128_of_u64, int128, uint64_t, (int128)x)

/* Complex numbers: each part. */
static void c128_of_c64(void *dst, const void *src, size_t n)
{
	f64_of_f32(dst, src, 2 * n);
}

static void c64_of_c128(void *dst, const void *src, size_t n)
{
	f32_of_f64(dst, src, 2 * n);
}

#define IDENTITY(bytes)                                                \
	static void copy_##bytes(void *dst, const void *src, size_t n) \
	{                                                              \
		if (dst != src)                                        \
			memcpy(dst, src, n *(bytes));                  \
	}

IDENTITY(1)
IDENTITY(2)
IDENTITY(4)
IDENTITY(8)
IDENTITY(16)
IDENTITY(136)

static convert_fn *identity(enum dtype dtype)
{
	switch (dtype_size(dtype)) {
	case 1:
		return copy_1;
	case 2:
		return copy_2;
	case 4:
		return copy_4;
	case 8:
		return copy_8;
	case 16:
		return copy_16;
	case 136:
		return copy_136;
	}
	return NULL;
}

#define OF_NARROW(to)                                                     \
	[DTYPE_F8E4M3] = to##_of_f8e4m3, [DTYPE_F8E5M2] = to##_of_f8e5m2, \
	[DTYPE_F16] = to##_of_f16, [DTYPE_BF16] = to##_of_bf16

convert_fn *convert_kernel(enum dtype to, enum dtype from)
{
	static convert_fn *const table[DTYPES][DTYPES] = {
	        [DTYPE_F8E4M3] = {[DTYPE_F32] = f8e4m3_of_f32, [DTYPE_F64] = f8e4m3_of_f64},
	        [DTYPE_F8E5M2] = {[DTYPE_F32] = f8e5m2_of_f32, [DTYPE_F64] = f8e5m2_of_f64},
	        [DTYPE_F16] = {[DTYPE_F32] = f16_of_f32, [DTYPE_F64] = f16_of_f64},
	        [DTYPE_BF16] = {[DTYPE_F32] = bf16_of_f32, [DTYPE_F64] = bf16_of_f64},
	        [DTYPE_F32] = {OF_NARROW(f32), [DTYPE_F64] = f32_of_f64},
	        [DTYPE_F64] = {OF_NARROW(f64), [DTYPE_F32] = f64_of_f32, [DTYPE_I8] = f64_of_i8,
	                       [DTYPE_I16] = f64_of_i16, [DTYPE_I32] = f64_of_i32,
	                       [DTYPE_I64] = f64_of_i64, [DTYPE_U8] = f64_of_u8,
	                       [DTYPE_U16] = f64_of_u16, [DTYPE_U32] = f64_of_u32,
	                       [DTYPE_U64] = f64_of_u64, [DTYPE_BOOL] = f64_of_bool},
	        [DTYPE_C64] = {[DTYPE_C128] = c64_of_c128},
	        [DTYPE_C128] = {[DTYPE_C64] = c128_of_c64},
	        [DTYPE_I128] = {[DTYPE_I64] = i128_of_i64, [DTYPE_U64] = i128_of_u64},
	};
	return to == from ? identity(to) : table[to][from];
}
