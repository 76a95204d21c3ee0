/* Reductions of integers and bool, and the 128-bit sum. */
#include "lib/data/kernels/kernels.h"

#define WIDTH_KERNEL(op, w) BINARY(op##_##w, uint##w##_t, uint##w##_t, element_##op##_##w(x, y))
#define SIGN_KERNELS(op, w)                                                  \
	BINARY(op##_i##w, int##w##_t, int##w##_t, element_##op##_i##w(x, y)) \
	BINARY(op##_u##w, uint##w##_t, uint##w##_t, element_##op##_u##w(x, y))

#define INTEGER_KERNELS(w)    \
	WIDTH_KERNEL(sum, w)  \
	WIDTH_KERNEL(prod, w) \
	WIDTH_KERNEL(band, w) \
	WIDTH_KERNEL(bor, w)  \
	WIDTH_KERNEL(bxor, w) \
	WIDTH_KERNEL(land, w) \
	WIDTH_KERNEL(lor, w)  \
	WIDTH_KERNEL(lxor, w) \
	SIGN_KERNELS(min, w)  \
	SIGN_KERNELS(max, w)

INTEGER_KERNELS(8)
INTEGER_KERNELS(16)
INTEGER_KERNELS(32)
INTEGER_KERNELS(64)

SCALAR_BINARY(sum_128, uint128, uint128, element_sum_128(x, y))

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
