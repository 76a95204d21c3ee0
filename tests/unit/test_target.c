/* Places of outputs: one file has one place, by whatever path; other files have others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/data/target.h"

static char folder[] = "/tmp/test_target.XXXXXX";

static int enter(void **state)
{
	(void)state;
	return mkdtemp(folder) && chdir(folder) == 0 && mkdir("a", 0777) == 0 &&
	                       mkdir("b", 0777) == 0 && symlink("a", "link") == 0
	               ? 0
	               : -1;
}

static int leave(void **state)
{
	char command[64];
	(void)state;
	snprintf(command, sizeof command, "rm -rf %s", folder);
	return chdir("/") == 0 && system(command) == 0 ? 0 : -1;
}

static void put(const char *path)
{
	int fd = open(path, O_CREAT | O_WRONLY, 0600);
	assert_true(fd >= 0);
	close(fd);
}

static void one_file_has_one_place(void **state)
{
	char whole[128];
	(void)state;
	snprintf(whole, sizeof whole, "%s/a/x", folder);
	uint64_t x = target_place("a/x", false);
	assert_int_not_equal(x, 0);
	assert_int_equal(target_place("./a/x", false), x);
	assert_int_equal(target_place("b/../a//x", false), x);
	assert_int_equal(target_place("link/x", false), x);
	assert_int_equal(target_place(whole, false), x);
	put("a/x"); /* whether it is there or not */
	assert_int_equal(target_place("a/x", false), x);
	assert_int_equal(target_place_in(target_place("link/", false), "x"), x);
	assert_int_not_equal(target_place("a/y", false), x);
	assert_int_not_equal(target_place("b/x", false), x);
}

static void a_folder_that_is_to_be_made_has_a_place(void **state)
{
	(void)state;
	uint64_t set = target_place("a/set", false);
	assert_int_not_equal(set, 0);
	assert_int_equal(target_place("a/set//", false), set);
	assert_int_equal(target_place("link/set/", false), set);
	assert_int_not_equal(target_place("a", false), target_place("b", false));
	assert_int_equal(target_place("link", false), target_place("a/", false));
	assert_int_not_equal(target_place_in(set, "x"), target_place_in(set, "y"));
}

static void a_second_name_is_another_place(void **state)
{
	(void)state;
	put("a/one"); /* each name is replaced for itself */
	assert_int_equal(link("a/one", "a/two"), 0);
	assert_int_not_equal(target_place("a/one", false), target_place("a/two", false));
}

static void symlinks_are_followed_by_force_alone(void **state)
{
	(void)state;
	put("a/real");
	assert_int_equal(symlink("real", "a/soft"), 0);
	assert_int_equal(target_place("a/soft", false), 0);
	assert_int_equal(target_place("a/soft", true), target_place("a/real", false));
}

static void what_is_no_place(void **state)
{
	(void)state;
	assert_int_equal(mkfifo("a/pipe", 0600), 0);
	assert_int_equal(target_place("-", false), 0);
	assert_int_equal(target_place("/dev/null", true), 0);
	assert_int_equal(target_place("a/pipe", false), 0);
	assert_int_equal(target_place("nowhere/x", false), 0);
	assert_int_equal(target_place_in(0, "x"), 0);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(one_file_has_one_place),
	        cmocka_unit_test(a_folder_that_is_to_be_made_has_a_place),
	        cmocka_unit_test(a_second_name_is_another_place),
	        cmocka_unit_test(symlinks_are_followed_by_force_alone),
	        cmocka_unit_test(what_is_no_place),
	};
	return cmocka_run_group_tests(tests, enter, leave);
}
