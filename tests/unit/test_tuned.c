/*
 * allgather tuned: the decision tree as Open MPI writes it is the oracle; and falling back.
 */
#include <stdlib.h>

#include "algorithms/table.h"
#include "lib/sched/sched.h"
#include "tests/unit/unit.h"

static const char *const names[] = {
        NULL, "linear", "bruck", "recursive_doubling", "ring", "neighbor", "two_proc",
};

/* Open MPI, coll_tuned_allgather_decision.c */
static int oracle(int communicator_size, uint64_t total_dsize)
{
	if (communicator_size == 2) {
		return 6;
	} else if (communicator_size < 32) {
		return 3;
	} else if (communicator_size < 64) {
		if (total_dsize < 1024) {
			return 3;
		} else if (total_dsize < 65536) {
			return 5;
		} else {
			return 4;
		}
	} else if (communicator_size < 128) {
		if (total_dsize < 512) {
			return 3;
		} else if (total_dsize < 65536) {
			return 5;
		} else {
			return 4;
		}
	} else if (communicator_size < 256) {
		if (total_dsize < 512) {
			return 3;
		} else if (total_dsize < 131072) {
			return 5;
		} else if (total_dsize < 524288) {
			return 4;
		} else if (total_dsize < 1048576) {
			return 5;
		} else {
			return 4;
		}
	} else if (communicator_size < 512) {
		if (total_dsize < 32) {
			return 3;
		} else if (total_dsize < 128) {
			return 2;
		} else if (total_dsize < 1024) {
			return 3;
		} else if (total_dsize < 131072) {
			return 5;
		} else if (total_dsize < 524288) {
			return 4;
		} else if (total_dsize < 1048576) {
			return 5;
		} else {
			return 4;
		}
	} else if (communicator_size < 1024) {
		if (total_dsize < 64) {
			return 3;
		} else if (total_dsize < 256) {
			return 2;
		} else if (total_dsize < 2048) {
			return 3;
		} else {
			return 5;
		}
	} else if (communicator_size < 2048) {
		if (total_dsize < 4) {
			return 3;
		} else if (total_dsize < 8) {
			return 2;
		} else if (total_dsize < 16) {
			return 3;
		} else if (total_dsize < 32) {
			return 2;
		} else if (total_dsize < 256) {
			return 3;
		} else if (total_dsize < 512) {
			return 2;
		} else if (total_dsize < 4096) {
			return 3;
		} else {
			return 5;
		}
	} else if (communicator_size < 4096) {
		if (total_dsize < 32) {
			return 2;
		} else if (total_dsize < 128) {
			return 3;
		} else if (total_dsize < 512) {
			return 2;
		} else if (total_dsize < 4096) {
			return 3;
		} else {
			return 5;
		}
	} else {
		if (total_dsize < 2) {
			return 3;
		} else if (total_dsize < 8) {
			return 2;
		} else if (total_dsize < 16) {
			return 3;
		} else if (total_dsize < 512) {
			return 2;
		} else if (total_dsize < 4096) {
			return 3;
		} else {
			return 5;
		}
	}
}

static uint64_t *off;

static struct coll_args args_of(int size, uint64_t count, unsigned esize)
{
	off = realloc(off, ((size_t)size + 1) * sizeof(*off));
	assert_non_null(off);
	coll_split(count, size, off);
	return (struct coll_args){
	        .size = size, .ninputs = 1, .stores = true, .off = off, .esize = esize};
}

static const char *choice(int size, uint64_t count, unsigned esize)
{
	const struct coll_args a = args_of(size, count, esize);

	return coll_find(COLL_ALLGATHER, "tuned")->falls_back(&a);
}

TEST(test_every_decision)
{
	static const uint64_t limits[] = {0,   2,    4,    8,    16,    32,     64,     128,    256,
	                                  512, 1024, 2048, 4096, 65536, 131072, 524288, 1048576};

	for (int limit = 2; limit <= 4096; limit *= 2)
		for (int p = limit - 1 + (limit == 2); p <= limit + 1; p++)
			for (size_t i = 0; i < LENGTH(limits); i++)
				for (uint64_t n = limits[i] - (limits[i] > 0); n <= limits[i] + 1;
				     n++)
					assert_string_equal(choice(p, n, 1), names[oracle(p, n)]);
}

TEST(test_bytes)
{
	/* of 600 ranks: bruck from 64 bytes on */
	assert_string_equal(choice(600, 63, 1), "recursive_doubling");
	assert_string_equal(choice(600, 8, 8), "bruck");
	assert_string_equal(choice(600, 15, 0), "recursive_doubling");
	assert_string_equal(choice(600, 16, 0), "bruck");
	assert_string_equal(choice(600, UINT64_MAX / 2, 8), "neighbor");
}

static const char *what_runs(const char *name, int size, uint64_t count)
{
	const struct coll_args a = args_of(size, count, 1);

	return coll_resolve(coll_find(COLL_ALLGATHER, name), &a)->name;
}

TEST(test_fall_backs)
{
	assert_string_equal(what_runs("recursive_doubling", 8, 9), "recursive_doubling");
	assert_string_equal(what_runs("recursive_doubling", 9, 9), "bruck");
	assert_string_equal(what_runs("neighbor", 6, 9), "neighbor");
	assert_string_equal(what_runs("neighbor", 7, 9), "ring");
	assert_string_equal(what_runs("two_proc", 2, 9), "two_proc");
	assert_string_equal(what_runs("two_proc", 3, 9), "ring");
	assert_string_equal(what_runs("tuned", 2, 9), "two_proc");
	assert_string_equal(what_runs("tuned", 3, 9), "bruck");
	assert_string_equal(what_runs("tuned", 16, 9), "recursive_doubling");
	assert_string_equal(what_runs("tuned", 33, 2000), "ring");
	assert_string_equal(what_runs("tuned", 34, 2000), "neighbor");
	free(off);
	off = NULL;
}

int main(void)
{
	return unit_run(NULL, NULL);
}
