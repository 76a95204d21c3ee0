/* Patterns of paths below a folder. */
#include <string.h>

#include "lib/base/path_pattern.h"
#include "tests/unit/unit.h"

TEST(patterns_of_paths)
{
	static const struct {
		const char *pattern, *path;
		bool file, folder; /* does it match, as a file and as a folder? */
	} cases[] = {
	        {"a", "a", true, true},
	        {"a", "x/a", true, true},
	        {"a", "x/a/y", true, true},
	        {"a", "ab", false, false},
	        {"*.o", "x/y.o", true, true},
	        {"x*o", "x/y.o", false, false},
	        {"*", ".hidden", true, true},
	        {"?", "xy/ab", false, false},
	        {"[ab]", "b", true, true},
	        {"[z]", "[z]", true, true}, /* its name */
	        {"/a", "a", true, true},
	        {"/a", "x/a", false, false},
	        {"/a/b", "a/b/c", true, true},
	        {"a/b", "x/a/b", true, true},
	        {"a/b", "a/x/b", false, false},
	        {"a/b", "a", false, false},
	        {"a/", "a", false, true},
	        {"a/", "x/a", false, true},
	        {"a/", "a/x", true, true},
	        {"a/**", "a", false, false},
	        {"a/**", "a/b", true, true},
	        {"a/**/b", "a/b", true, true},
	        {"a/**/b", "a/x/y/b/c", true, true},
	        {"a/**/b", "a/x/y", false, false},
	        {"/**/b", "x/b", true, true},
	        {"", "a", false, false},
	        {"/", "a", false, false},
	        {"/", "a/b", false, false},
	        {"//", "a", false, false},
	};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		assert_int_equal(path_matches(cases[i].pattern, cases[i].path, false),
		                 cases[i].file);
		assert_int_equal(path_matches(cases[i].pattern, cases[i].path, true),
		                 cases[i].folder);
	}
}

TEST(names_that_no_file_has)
{
	char longest[600];
	memset(longest, 'a', sizeof longest);
	longest[sizeof longest - 1] = '\0';
	assert_false(path_matches("a*", longest, false));
	assert_false(path_matches(longest, "a", false));
}

int main(void)
{
	return unit_run(NULL, NULL);
}
