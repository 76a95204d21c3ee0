/* Lists of ranks as text. */
#include <string.h>

#include "lib/job/ranks.h"
#include "tests/unit/unit.h"

/* The list of those of @ranks (-1: the end) in @cap bytes, which nothing is written behind. */
static const char *list(const int *ranks, size_t cap)
{
	static char buf[512];
	struct rank_list l;
	memset(buf, '#', sizeof buf);
	rank_list_init(&l, buf, cap);
	for (; *ranks >= 0; ranks++)
		rank_list_add(&l, *ranks);
	assert_ptr_equal(rank_list_end(&l), buf);
	assert_true(strlen(buf) < cap);
	for (size_t i = cap; i < sizeof buf; i++)
		assert_int_equal(buf[i], '#');
	return buf;
}

#define LIST(...) list((const int[]){__VA_ARGS__, -1}, 256)

TEST(ranges_are_drawn_together)
{
	assert_string_equal(list((const int[]){-1}, 256), "");
	assert_string_equal(LIST(0), "0");
	assert_string_equal(LIST(7), "7");
	assert_string_equal(LIST(0, 1), "0, 1");
	assert_string_equal(LIST(0, 1, 2), "0-2");
	assert_string_equal(LIST(0, 2, 3, 4, 5, 9), "0, 2-5, 9");
	assert_string_equal(LIST(1, 2, 4, 5, 6, 65534, 65535), "1, 2, 4-6, 65534, 65535");
}

TEST(what_does_not_fit_is_told_as_dots)
{
	int odd[101];
	for (int i = 0; i < 100; i++)
		odd[i] = 100000 + 2 * i;
	odd[100] = -1;
	for (size_t cap = 48; cap < 300; cap++) {
		const char *s = list(odd, cap);
		assert_memory_equal(s, "100000, ", 8);
		assert_string_equal(s + strlen(s) - 5, ", ...");
		assert_null(strstr(s, "..., "));
	}
}

TEST(a_list_may_fill_up_with_its_last)
{
	/* All of it, or dots: never a number that was cut. */
	for (size_t cap = 33; cap < 64; cap++) {
		const char *s = list((const int[]){1, 3, 5, 7, 9, 11, 13, 15, 17, -1}, cap);
		static const char all[] = "1, 3, 5, 7, 9, 11, 13, 15, 17";
		if (strcmp(s, all) == 0)
			continue;
		size_t n = strlen(s);
		assert_true(n > 5);
		assert_string_equal(s + n - 5, ", ...");
		assert_memory_equal(s, all, n - 5);
		assert_int_equal(all[n - 5], ',');
	}
}

int main(void)
{
	return unit_run(NULL, NULL);
}
