/* Folds of integers and bool, and the 128-bit sum. */
#include "cuda/fold.cuh"

namespace
{

#define BY_WIDTH(w)                    \
	FOLD_OP(sum_##w, uint##w##_t)  \
	FOLD_OP(prod_##w, uint##w##_t) \
	FOLD_OP(band_##w, uint##w##_t) \
	FOLD_OP(bor_##w, uint##w##_t)  \
	FOLD_OP(bxor_##w, uint##w##_t) \
	FOLD_OP(land_##w, uint##w##_t) \
	FOLD_OP(lor_##w, uint##w##_t)  \
	FOLD_OP(lxor_##w, uint##w##_t) \
	FOLD_OP(min_i##w, int##w##_t)  \
	FOLD_OP(max_i##w, int##w##_t)  \
	FOLD_OP(min_u##w, uint##w##_t) \
	FOLD_OP(max_u##w, uint##w##_t)

BY_WIDTH(8)
BY_WIDTH(16)
BY_WIDTH(32)
BY_WIDTH(64)

/* Of 8-byte words, because a template forgets that uint128 is aligned to 8 bytes. */
struct words {
	uint64_t low, high;
};

ELEMENT_FN uint128 value(words w)
{
	return (uint128)w.high << 64 | w.low;
}

ELEMENT_FN words element_sum_words(words x, words y)
{
	const uint128 sum = element_sum_128(value(x), value(y));
	return {(uint64_t)sum, (uint64_t)(sum >> 64)};
}

FOLD_OP(sum_words, words)

} // namespace

#define INTEGER(DTYPE, w, t)                                                            \
	FOLD(SUM, DTYPE, DTYPE, sum_##w), FOLD(PROD, DTYPE, DTYPE, prod_##w),           \
	        FOLD(MIN, DTYPE, DTYPE, min_##t), FOLD(MAX, DTYPE, DTYPE, max_##t),     \
	        FOLD(BAND, DTYPE, DTYPE, band_##w), FOLD(BOR, DTYPE, DTYPE, bor_##w),   \
	        FOLD(BXOR, DTYPE, DTYPE, bxor_##w), FOLD(LAND, DTYPE, DTYPE, land_##w), \
	        FOLD(LOR, DTYPE, DTYPE, lor_##w), FOLD(LXOR, DTYPE, DTYPE, lxor_##w)

/* Every operation on bool is and, or, or exclusive or. */
FOLD_TABLE(integer, INTEGER(I8, 8, i8), INTEGER(I16, 16, i16), INTEGER(I32, 32, i32),
           INTEGER(I64, 64, i64), INTEGER(U8, 8, u8), INTEGER(U16, 16, u16), INTEGER(U32, 32, u32),
           INTEGER(U64, 64, u64), FOLD(SUM, BOOL, BOOL, lor_8), FOLD(PROD, BOOL, BOOL, land_8),
           FOLD(MIN, BOOL, BOOL, land_8), FOLD(MAX, BOOL, BOOL, lor_8),
           FOLD(BAND, BOOL, BOOL, land_8), FOLD(BOR, BOOL, BOOL, lor_8),
           FOLD(BXOR, BOOL, BOOL, lxor_8), FOLD(LAND, BOOL, BOOL, land_8),
           FOLD(LOR, BOOL, BOOL, lor_8), FOLD(LXOR, BOOL, BOOL, lxor_8),
           FOLD(SUM, I128, I128, sum_words), FOLD(AVG, I128, I128, sum_words))
