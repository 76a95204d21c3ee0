#include <unistd.h>

#include "lib/base/numa.h"
#include "tests/unit/unit.h"

static int count_of(const char *text)
{
	cpu_set_t set;
	return numa_parse(text, &set) ? CPU_COUNT(&set) : -1;
}

TEST(a_list_of_processors)
{
	cpu_set_t set;
	assert_true(numa_parse("0-3,8,10-11\n", &set));
	assert_int_equal(CPU_COUNT(&set), 7);
	assert_true(CPU_ISSET(3, &set) && CPU_ISSET(8, &set) && CPU_ISSET(11, &set));
	assert_false(CPU_ISSET(9, &set));
	assert_int_equal(count_of("5"), 1);
	assert_int_equal(count_of("1023\n"), 1);
}

TEST(what_is_no_list)
{
	const char *const none[] = {"",    "\n", "a",    "3-",     "-3",    "5-3",
	                            "1,",  ",1", "1024", "0-1024", "1 - 3", "99999999999999999999",
	                            "0-3x"};
	for (size_t i = 0; i < sizeof none / sizeof *none; i++)
		assert_int_equal(count_of(none[i]), -1);
}

TEST(nodes_of_this_machine)
{
	cpu_set_t set;
	assert_false(numa_processors(-1, &set));
	assert_false(numa_processors(1000000, &set));
	if (access("/sys/devices/system/node/node0/cpulist", R_OK) == 0)
		assert_true(numa_processors(0, &set) && CPU_COUNT(&set) > 0);
}

TEST(memory_on_a_node)
{
	assert_false(numa_prefer(-1));
	assert_false(numa_prefer(1000000));
	if (!numa_prefer(0))
		skip();               /* this kernel has no nodes, or somebody has chosen some */
	assert_false(numa_prefer(0)); /* it has been chosen */
	numa_prefer_none();
	assert_true(numa_prefer(0));
	numa_prefer_none();
}

int main(void)
{
	return unit_run(NULL, NULL);
}
