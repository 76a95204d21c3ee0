/* Whose progress holds off --timeout. */
#include "lib/job/coordinator/advance.h"
#include "tests/unit/unit.h"

#define TIMEOUT 30

TEST(nobody_has_progress)
{
	struct advance a;
	advance_init(&a, 0);
	assert_false(advance_counts(&a, 0, -1, 1, TIMEOUT));
}

TEST(several_ranks_hold_it_off_for_ever)
{
	struct advance a;
	advance_init(&a, 0);
	for (int64_t t = 0; t < 100000; t += 7)
		assert_true(advance_counts(&a, 2, 1, t, TIMEOUT));
	/* One after the other: a byte is sent in one turn and received in another. */
	for (int64_t t = 100000; t < 200000; t += 7)
		assert_true(advance_counts(&a, 1, (int)(t & 1), t, TIMEOUT));
}

TEST(a_rank_alone_counts_for_a_bounded_time)
{
	struct advance a;
	int64_t t = 1000;
	advance_init(&a, 0);
	for (; t < 1000 + ADVANCE_ALONE * TIMEOUT; t++)
		assert_true(advance_counts(&a, 1, 3, t, TIMEOUT));
	for (; t < 100000; t += 7)
		assert_false(advance_counts(&a, 1, 3, t, TIMEOUT));
	/* Once another rank has progress, too, both count. */
	assert_true(advance_counts(&a, 2, 3, t, TIMEOUT));
	assert_true(advance_counts(&a, 1, 3, t + 1, TIMEOUT));
	assert_false(advance_counts(&a, 1, 3, t + 1 + ADVANCE_ALONE * TIMEOUT, TIMEOUT));
	assert_true(advance_counts(&a, 1, 2, t + 2 + ADVANCE_ALONE * TIMEOUT, TIMEOUT));
}

int main(void)
{
	return unit_run(NULL, NULL);
}
