/* The names that outputs take. */
#include <stdio.h>

#include "lib/data/files/names_taken.h"
#include "tests/unit/unit.h"

#define MANY 1000

TEST(test_each_name_is_taken_once_in_its_folder)
{
	static char name[MANY][8];
	struct names_taken t = {0};
	struct err err = ERR_INIT;
	assert_int_equal(names_taken_init(&t, MANY + 4, &err), 0);
	for (int i = 0; i < MANY; i++) {
		snprintf(name[i], sizeof name[i], "%d", i);
		assert_int_equal(names_taken_by(&t, (struct name_key){1, 2, 0, name[i]}, i), i);
	}
	for (int i = 0; i < MANY; i++)
		assert_int_equal(names_taken_by(&t, (struct name_key){1, 2, 0, name[i]}, MANY), i);
	const struct name_key others[] = {
	        {1, 3, 0, "7"}, {3, 2, 0, "7"}, {1, 2, 1, "7"}, {1, 2, 0, ""}};
	for (int i = 0; i < 4; i++)
		assert_int_equal(names_taken_by(&t, others[i], MANY + i), MANY + i);
	assert_int_equal(names_taken_init(&t, 1, &err), 0);
	assert_int_equal(names_taken_by(&t, (struct name_key){1, 2, 0, "7"}, 5), 5);
	names_taken_release(&t);
}
int main(void)
{
	return unit_run(NULL, NULL);
}
