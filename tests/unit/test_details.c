/* What ranks tell of their arrays: out and in again, cut at every byte, and what is impossible. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "lib/job/details.h"

#define SIZE 3

static struct array_info matrix(uint64_t rows, uint64_t columns)
{
	struct array_info info = {
	        .format = ARRAY_NPY, .dtype = DTYPE_F32, .ndim = 2, .shape = {rows, columns}};
	assert_int_equal(array_count(&info), 0);
	return info;
}

/* Encode, decode: what comes back in *info, *counts, *even; the decoder's result. */
static int there_and_back(const struct array_info *said, const uint64_t *cut, int size,
                          struct array_info *info, uint64_t *counts, bool *even)
{
	struct err err = {0};
	struct buf b;
	buf_init(&b, 1u << 20);
	details_put_array(&b, said, cut, size);
	assert_false(b.failed);
	int ret = details_get_array(view_of(b.data, b.len), SIZE, info, counts, even, &err);
	assert_int_equal(err.code, ret ? ERR_INTEGRITY : 0);
	buf_release(&b);
	return ret;
}

static void arrays_come_back(void **state)
{
	static const uint64_t cut[SIZE] = {5, 0, 2};
	struct array_info said = matrix(7, 4), info;
	uint64_t counts[SIZE];
	bool even;
	(void)state;
	assert_int_equal(there_and_back(&said, NULL, SIZE, &info, counts, &even), 0);
	assert_true(even && array_same(&said, &info) && info.format == ARRAY_NPY);
	assert_int_equal(info.count, 28);
	assert_int_equal(there_and_back(&said, cut, SIZE, &info, counts, &even), 0);
	assert_false(even);
	assert_memory_equal(counts, cut, sizeof cut);
	said = (struct array_info){.format = ARRAY_RAW, .dtype = DTYPE_U8, .count = 1};
	assert_int_equal(there_and_back(&said, NULL, SIZE, &info, counts, &even), 0);
	assert_true(info.ndim == 0 && info.count == 1 && info.format == ARRAY_RAW);
}

static void what_can_t_be_is_refused(void **state)
{
	static const uint64_t cut[SIZE] = {5, 0, 2}, more[SIZE] = {5, 1, 2};
	static const uint64_t huge[SIZE] = {INT64_MAX, INT64_MAX, 9};
	struct array_info info, said = matrix(7, 4), bad[7];
	struct err err = {0};
	uint64_t counts[SIZE];
	struct buf b;
	bool even;
	(void)state;
	for (int i = 0; i < 7; i++)
		bad[i] = said;
	bad[0].format = ARRAY_FORMAT_AUTO;
	bad[1].format = (enum array_format)3;
	bad[2].dtype = DTYPE_NONE;
	bad[3].dtype = DTYPES;
	bad[4].shape[0] = UINT64_MAX / 2;
	bad[5].shape[1] = UINT64_MAX;
	bad[6].ndim = 0;
	for (int i = 0; i < 7; i++)
		assert_int_equal(
		        there_and_back(&bad[i], i == 6 ? cut : NULL, SIZE, &info, counts, &even),
		        -1);
	/* More dimensions than there may be, all of them there. */
	buf_init(&b, 1u << 10);
	buf_put_u8(&b, ARRAY_NPY);
	buf_put_u8(&b, DTYPE_F32);
	buf_put_u8(&b, ARRAY_MAX_DIMS + 1);
	for (int i = 0; i <= ARRAY_MAX_DIMS; i++)
		buf_put_u64(&b, 1);
	buf_put_u32(&b, 0);
	assert_int_equal(
	        details_get_array(view_of(b.data, b.len), SIZE, &info, counts, &even, &err), -1);
	assert_int_equal(err.code, ERR_INTEGRITY);
	buf_release(&b);
	assert_int_equal(there_and_back(&said, more, SIZE, &info, counts, &even), -1);
	assert_int_equal(there_and_back(&said, huge, SIZE, &info, counts, &even), -1);
	assert_int_equal(there_and_back(&said, cut, SIZE - 1, &info, counts, &even), -1);
}

static void arrays_cut_anywhere(void **state)
{
	static const uint64_t cut[SIZE] = {5, 0, 2};
	struct array_info said = matrix(7, 4), info;
	uint64_t counts[SIZE];
	bool even;
	struct buf b;
	(void)state;
	buf_init(&b, 1u << 20);
	details_put_array(&b, &said, cut, SIZE);
	for (size_t n = 0; n < b.len; n++) {
		struct err err = {0};
		uint8_t *part = malloc(n ? n : 1); /* its own, for a sanitizer to see the end */
		assert_non_null(part);
		memcpy(part, b.data, n);
		assert_int_equal(
		        details_get_array(view_of(part, n), SIZE, &info, counts, &even, &err), -1);
		free(part);
	}
	struct err err = {0};
	buf_put_u8(&b, 0);
	assert_int_equal(
	        details_get_array(view_of(b.data, b.len), SIZE, &info, counts, &even, &err), -1);
	buf_release(&b);
}

static void rows_come_back(void **state)
{
	static const uint64_t rows[SIZE] = {0, INT64_MAX, 0}, many[SIZE] = {1, INT64_MAX, 0};
	uint64_t back[SIZE];
	struct err err = {0};
	struct buf b;
	(void)state;
	buf_init(&b, 100);
	details_put_rows(&b, rows, SIZE);
	assert_int_equal(details_get_rows(view_of(b.data, b.len), SIZE, back, &err), 0);
	assert_memory_equal(back, rows, sizeof rows);
	for (size_t n = 0; n <= b.len; n++) {
		err_clear(&err);
		int size = n == b.len ? SIZE - 1 : SIZE; /* too short; at last too long */
		assert_int_equal(details_get_rows(view_of(b.data, n), size, back, &err), -1);
		assert_int_equal(err.code, ERR_INTEGRITY);
	}
	buf_release(&b);
	buf_init(&b, 100);
	details_put_rows(&b, many, SIZE);
	err_clear(&err);
	assert_int_equal(details_get_rows(view_of(b.data, b.len), SIZE, back, &err), -1);
	buf_release(&b);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(arrays_come_back),
	        cmocka_unit_test(what_can_t_be_is_refused),
	        cmocka_unit_test(arrays_cut_anywhere),
	        cmocka_unit_test(rows_come_back),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
