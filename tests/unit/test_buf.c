/* Buffers that declare their maximum, and the encoding of what goes over the wire. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"
#include "tests/unit/unit.h"

TEST(numbers_are_little_endian)
{
	static const uint8_t want[] = {1, 3, 2, 7, 6, 5, 4, 15, 14, 13, 12, 11, 10, 9, 8};
	struct buf b;
	buf_init(&b, 100);
	buf_put_u8(&b, 1);
	buf_put_u16(&b, 0x0203);
	buf_put_u32(&b, 0x04050607);
	buf_put_u64(&b, 0x08090a0b0c0d0e0f);
	assert_false(b.failed);
	assert_int_equal(b.len, sizeof want);
	assert_memory_equal(b.data, want, sizeof want);
	struct view v = view_of(b.data, b.len);
	assert_int_equal(view_u8(&v), 1);
	assert_int_equal(view_u16(&v), 0x0203);
	assert_int_equal(view_u32(&v), 0x04050607);
	assert_true(view_u64(&v) == 0x08090a0b0c0d0e0f);
	assert_int_equal(view_left(&v), 0);
	assert_false(v.failed);
	buf_release(&b);
}

TEST(extremes_come_back)
{
	struct buf b;
	buf_init(&b, 100);
	buf_put_u8(&b, UINT8_MAX);
	buf_put_u16(&b, UINT16_MAX);
	buf_put_u32(&b, UINT32_MAX);
	buf_put_u64(&b, UINT64_MAX);
	struct view v = view_of(b.data, b.len);
	assert_int_equal(view_u8(&v), UINT8_MAX);
	assert_int_equal(view_u16(&v), UINT16_MAX);
	assert_int_equal(view_u32(&v), UINT32_MAX);
	assert_true(view_u64(&v) == UINT64_MAX);
	buf_release(&b);
}

TEST(it_grows_to_its_maximum_and_no_further)
{
	struct buf b;
	buf_init(&b, 1000);
	for (int i = 0; i < 1000; i++)
		buf_put_u8(&b, (uint8_t)i);
	assert_false(b.failed);
	assert_int_equal(b.len, 1000);
	assert_true(b.cap <= 1000);
	for (int i = 0; i < 1000; i++)
		assert_int_equal(b.data[i], (uint8_t)i);
	buf_put_u8(&b, 1);
	assert_true(b.failed);
	assert_int_equal(b.len, 1000);
	assert_null(buf_room(&b, 0)); /* sticky */
	buf_release(&b);
	assert_false(b.failed);
	assert_int_equal(b.max, 1000);
	buf_put_u8(&b, 1);
	assert_int_equal(b.len, 1);
	buf_release(&b);
	assert_null(b.data);
}

TEST(more_than_the_maximum_at_once)
{
	struct buf b;
	buf_init(&b, 10);
	assert_null(buf_room(&b, SIZE_MAX));
	assert_true(b.failed);
	assert_null(b.data);
	buf_release(&b);
	buf_init(&b, 10);
	buf_put(&b, "0123456789x", 11);
	assert_true(b.failed);
	assert_int_equal(b.len, 0);
	buf_release(&b);
}

TEST(dropping_moves_what_is_left)
{
	struct buf b;
	buf_init(&b, 10);
	buf_put(&b, "0123456789", 10);
	buf_drop(&b, 0);
	assert_int_equal(b.len, 10);
	buf_drop(&b, 7);
	assert_int_equal(b.len, 3);
	assert_memory_equal(b.data, "789", 3);
	buf_put(&b, "abcdefg", 7); /* there is room again */
	assert_false(b.failed);
	assert_memory_equal(b.data, "789abcdefg", 10);
	buf_drop(&b, 10);
	assert_int_equal(b.len, 0);
	buf_release(&b);
}

TEST(strings)
{
	struct buf b;
	char out[32];
	buf_init(&b, 200000);
	buf_put_str(&b, "hello");
	buf_put_str(&b, "");
	buf_put_str(&b, NULL);
	buf_put_str(&b, "a\nb\x1b\x7f");
	struct view v = view_of(b.data, b.len);
	view_str(&v, out, sizeof out);
	assert_string_equal(out, "hello");
	view_str(&v, out, sizeof out);
	assert_string_equal(out, "");
	view_str(&v, out, sizeof out);
	assert_string_equal(out, "");
	view_str(&v, out, sizeof out);
	assert_string_equal(out, "a\\x0ab\\x1b\\x7f"); /* a terminal is not spoken to */
	assert_false(v.failed);
	assert_int_equal(view_left(&v), 0);
	buf_release(&b);
}

TEST(strings_are_cut_to_their_room)
{
	struct buf b;
	char out[16];
	buf_init(&b, 100);
	buf_put_str(&b, "hello\nworld");
	buf_put_u8(&b, 7);
	for (size_t cap = 1; cap <= sizeof out; cap++) {
		struct view v = view_of(b.data, b.len);
		memset(out, '#', sizeof out);
		view_str(&v, out, cap);
		assert_true(strlen(out) < cap);
		assert_memory_equal(out, "hello\\x0aworld", strlen(out));
		/* an escape is whole or not there */
		assert_true(strlen(out) <= 5 || strlen(out) >= 9);
		if (cap < sizeof out)
			assert_int_equal(out[cap], '#');
		assert_int_equal(view_u8(&v), 7); /* the rest is passed over */
		assert_false(v.failed);
	}
	buf_release(&b);
}

TEST(a_string_of_64_kib_is_cut)
{
	struct buf b;
	char *s = malloc(70001);
	memset(s, 'x', 70000);
	s[70000] = '\0';
	buf_init(&b, 100000);
	buf_put_str(&b, s);
	assert_int_equal(b.len, 2 + UINT16_MAX);
	buf_release(&b);
	free(s);
}

TEST(a_short_view_fails_for_good)
{
	static const uint8_t bytes[] = {5, 0, 'a', 'b', 'c', 'd'}; /* a string that is cut */
	char out[8] = "before";
	struct view v = view_of(bytes, sizeof bytes);
	view_str(&v, out, sizeof out);
	assert_true(v.failed);
	assert_string_equal(out, "");
	assert_int_equal(view_u8(&v), 0);
	assert_null(view_bytes(&v, 0));
	for (size_t n = 0; n < 8; n++) {
		static const uint8_t ones[8] = {1, 1, 1, 1, 1, 1, 1, 1};
		v = view_of(ones, n);
		assert_true(view_u64(&v) == 0);
		assert_true(v.failed);
		v = view_of(ones, n);
		assert_int_equal(view_u32(&v), n < 4 ? 0 : 0x01010101);
		assert_int_equal(v.failed, n < 4);
		v = view_of(ones, n);
		assert_int_equal(view_u16(&v), n < 2 ? 0 : 0x0101);
		assert_int_equal(v.failed, n < 2);
	}
	v = view_of(bytes, sizeof bytes);
	assert_null(view_bytes(&v, SIZE_MAX));
	assert_true(v.failed);
}

TEST(json_strings)
{
	static const char text[] = "a\"\\\b\f\n\r\t\001\037\0/\303\274";
	struct buf b;
	buf_init(&b, 100);
	buf_put_json(&b, text, sizeof text - 1);
	buf_put_u8(&b, 0);
	assert_string_equal((char *)b.data,
	                    "\"a\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u001f\\u0000/\303\274\"");
	buf_release(&b);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
