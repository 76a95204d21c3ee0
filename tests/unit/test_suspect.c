/* What is met at a record's address, and whether the record is stale by it. */
#include "lib/base/clock.h"
#include "lib/store/suspect.h"
#include "tests/unit/unit.h"

#define AT(seconds) ((int64_t)((seconds)*1e9))

TEST(test_gone)
{
	struct suspect s = {0};

	assert_false(suspect_is_stale(&s, AT(100)));
	suspect_meet(&s, MET_NOTHING, AT(1));
	assert_false(suspect_is_stale(&s, AT(100)));
	suspect_meet(&s, MET_NOBODY, AT(1));
	assert_true(suspect_is_stale(&s, AT(1)));
	suspect_meet(&s, MET_LIFE, AT(2));
	assert_false(suspect_is_stale(&s, AT(100)));
	suspect_meet(&s, MET_SILENCE, AT(3));
	assert_true(suspect_is_stale(&s, AT(3)));
	/* Somebody answers after all. */
	suspect_meet(&s, MET_CLOSE, AT(4));
	assert_false(suspect_is_stale(&s, AT(4)));
}

TEST(test_strangers)
{
	struct suspect s = {0};

	for (int round = 0; round < 5; round++) {
		suspect_meet(&s, MET_STRANGER, AT(1));
		suspect_meet(&s, MET_STRANGER, AT(1));
		assert_false(suspect_is_stale(&s, AT(100)));
		suspect_meet(&s, MET_LIFE, AT(1));
	}
	suspect_meet(&s, MET_STRANGER, AT(1));
	suspect_meet(&s, MET_CLOSE, AT(1));
	suspect_meet(&s, MET_STRANGER, AT(1));
	assert_false(suspect_is_stale(&s, AT(2)));
	suspect_meet(&s, MET_STRANGER, AT(1));
	assert_true(suspect_is_stale(&s, AT(1)));
}

/* A coordinator that is full for a while is not replaced. */
TEST(test_closes)
{
	struct suspect s = {0};

	for (int i = 0; i <= 40; i++) {
		suspect_meet(&s, MET_CLOSE, AT(1 + i * 0.1));
		assert_false(suspect_is_stale(&s, AT(1 + i * 0.1)));
	}
	suspect_meet(&s, MET_LIFE, AT(5.5));
	suspect_meet(&s, MET_CLOSE, AT(6));
	assert_false(suspect_is_stale(&s, AT(7)));
	suspect_meet(&s, MET_CLOSE, AT(10));
	suspect_meet(&s, MET_CLOSE, AT(10.9));
	assert_false(suspect_is_stale(&s, AT(10.9)));
	suspect_meet(&s, MET_CLOSE, AT(11.1));
	assert_true(suspect_is_stale(&s, AT(11.1)));
}

int main(void)
{
	return unit_run(NULL, NULL);
}
