/* Reductions of integers and bool, and the 128-bit sum. */
#include "lib/data/kernels.h"

/* Sums and products wrap: 1u promotes narrow types to unsigned, because int could overflow. All
 * operations except min and max give the same bits for signed and unsigned types. */
#define INTEGER_KERNELS(w)                                                             \
	BINARY(sum_##w, uint##w##_t, uint##w##_t, (uint##w##_t)(1u * x + y))           \
	BINARY(prod_##w, uint##w##_t, uint##w##_t, (uint##w##_t)(1u * x * y))          \
	BINARY(band_##w, uint##w##_t, uint##w##_t, (uint##w##_t)(x & y))               \
	BINARY(bor_##w, uint##w##_t, uint##w##_t, (uint##w##_t)(x | y))                \
	BINARY(bxor_##w, uint##w##_t, uint##w##_t, (uint##w##_t)(x ^ y))               \
	BINARY(land_##w, uint##w##_t, uint##w##_t, (uint##w##_t)((x != 0) & (y != 0))) \
	BINARY(lor_##w, uint##w##_t, uint##w##_t, (uint##w##_t)((x | y) != 0))         \
	BINARY(lxor_##w, uint##w##_t, uint##w##_t, (uint##w##_t)((x != 0) ^ (y != 0))) \
	BINARY(min_i##w, int##w##_t, int##w##_t, x < y ? x : y)                        \
	BINARY(max_i##w, int##w##_t, int##w##_t, x > y ? x : y)                        \
	BINARY(min_u##w, uint##w##_t, uint##w##_t, x < y ? x : y)                      \
	BINARY(max_u##w, uint##w##_t, uint##w##_t, x > y ? x : y)

INTEGER_KERNELS(8)
INTEGER_KERNELS(16)
INTEGER_KERNELS(32)
INTEGER_KERNELS(64)

SCALAR_BINARY(sum_128, uint128, uint128, x + y)

#define BY_WIDTH(op)                                                                              \
	[DTYPE_I8] = op##_8, [DTYPE_I16] = op##_16, [DTYPE_I32] = op##_32, [DTYPE_I64] = op##_64, \
	[DTYPE_U8] = op##_8, [DTYPE_U16] = op##_16, [DTYPE_U32] = op##_32, [DTYPE_U64] = op##_64
#define BY_SIGN(op)                                                           \
	[DTYPE_I8] = op##_i8, [DTYPE_I16] = op##_i16, [DTYPE_I32] = op##_i32, \
	[DTYPE_I64] = op##_i64, [DTYPE_U8] = op##_u8, [DTYPE_U16] = op##_u16, \
	[DTYPE_U32] = op##_u32, [DTYPE_U64] = op##_u64

/* Every operation on bool is and, or, or exclusive or. */
reduce_fn *reduce_kernel_integer(enum reduce_op op, enum dtype dtype)
{
	static reduce_fn *const table[REDUCE_OPS][DTYPES] = {
	        [REDUCE_SUM] = {BY_WIDTH(sum), [DTYPE_BOOL] = lor_8, [DTYPE_I128] = sum_128},
	        [REDUCE_PROD] = {BY_WIDTH(prod), [DTYPE_BOOL] = land_8},
	        [REDUCE_MIN] = {BY_SIGN(min), [DTYPE_BOOL] = land_8},
	        [REDUCE_MAX] = {BY_SIGN(max), [DTYPE_BOOL] = lor_8},
	        [REDUCE_AVG] = {[DTYPE_I128] = sum_128},
	        [REDUCE_BAND] = {BY_WIDTH(band), [DTYPE_BOOL] = land_8},
	        [REDUCE_BOR] = {BY_WIDTH(bor), [DTYPE_BOOL] = lor_8},
	        [REDUCE_BXOR] = {BY_WIDTH(bxor), [DTYPE_BOOL] = lxor_8},
	        [REDUCE_LAND] = {BY_WIDTH(land), [DTYPE_BOOL] = land_8},
	        [REDUCE_LOR] = {BY_WIDTH(lor), [DTYPE_BOOL] = lor_8},
	        [REDUCE_LXOR] = {BY_WIDTH(lxor), [DTYPE_BOOL] = lxor_8},
	};
	return table[op][dtype];
}
