/* sort_list against qsort: lists in order, in reverse, with one item out of its place, and with
 * equal items. */
#include <stdlib.h>
#include <string.h>

#include "lib/base/sort.h"
#include "tests/unit/unit.h"

#define MOST 40

static int by_value(const void *a, const void *b)
{
	const int x = *(const int *)a, y = *(const int *)b;
	return (x > y) - (x < y);
}

static void assert_sorts(const int *list, size_t n)
{
	int found[MOST], expected[MOST];
	memcpy(found, list, sizeof found);
	memcpy(expected, list, sizeof expected);
	sort_list(found, n, sizeof *found, by_value);
	if (n)
		qsort(expected, n, sizeof *expected, by_value);
	assert_memory_equal(found, expected, sizeof found);
}

/* Equal items: two of each value. */
TEST(one_item_out_of_its_place)
{
	int list[MOST];
	for (size_t n = 0; n <= MOST; n++)
		for (size_t from = 0; from < n; from++)
			for (size_t to = 0; to < n; to++) {
				for (int i = 0; i < MOST; i++)
					list[i] = i / 2;
				const int moved = list[from];
				list[from] = list[to];
				list[to] = moved;
				assert_sorts(list, n);
			}
}

TEST(reverse_order)
{
	int list[MOST];
	for (size_t n = 0; n <= MOST; n++) {
		for (int i = 0; i < MOST; i++)
			list[i] = MOST - i / 3;
		assert_sorts(list, n);
	}
}

int main(void)
{
	return unit_run(NULL, NULL);
}
