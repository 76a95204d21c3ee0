/*
 * For every unit test: cmocka, behind the headers that it needs; and a test is there by its
 * definition alone:
 *
 *   TEST(what_holds)
 *   {
 *           assert_...
 *   }
 */
#ifndef COLLCTL_TESTS_UNIT_H
#define COLLCTL_TESTS_UNIT_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include <cmocka.h>

/* The elements of an array. */
#define LENGTH(array) (sizeof(array) / sizeof *(array))

#define UNIT_TESTS 64 /* of a program, at most */

static struct CMUnitTest unit_tests[UNIT_TESTS];

static inline void add_test(const struct CMUnitTest *t)
{
	size_t i = 0;

	while (unit_tests[i].name)
		if (++i == UNIT_TESTS - 1)
			abort();
	unit_tests[i] = *t;
}

/* @set_up and @tear_down, or NULL: before and after this test. */
#define TEST_WITH(test, set_up, tear_down)                                            \
	static void test(void **state);                                               \
	__attribute__((constructor)) static void add_##test(void)                     \
	{                                                                             \
		add_test(&(struct CMUnitTest){#test, test, set_up, tear_down, NULL}); \
	}                                                                             \
	static void test(void **state)

#define TEST(test) TEST_WITH(test, NULL, NULL)

/* All tests, in the order of their definitions. @set_up and @tear_down, or NULL: before and after
 * all. */
static inline int unit_run(CMFixtureFunction set_up, CMFixtureFunction tear_down)
{
	return cmocka_run_group_tests(unit_tests, set_up, tear_down);
}

#endif
