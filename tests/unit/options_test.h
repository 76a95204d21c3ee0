/* Tests of options, none of which is in the environment. */
#ifndef COLLCTL_TESTS_OPTIONS_TEST_H
#define COLLCTL_TESTS_OPTIONS_TEST_H

#include <stdlib.h>

#include "cmd/commands.h"
#include "tests/unit/unit.h"

#define OPTIONS_TEST(name) TEST_WITH(name, clear_environment, clear_environment)

static int clear_environment(void **state)
{
	char name[64];

	for (size_t i = 0; i < option_count(); i++)
		if (option_variable(option_at(i), name, sizeof name))
			unsetenv(name);
	return 0;
}

#endif
