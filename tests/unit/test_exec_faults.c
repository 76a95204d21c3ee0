/*
 * The executor's failures, over in-memory lanes: a damaged lane and a failing file are noticed, and
 * who is to blame is named.
 */
#include "tests/unit/exec_oracle.h"

/* Run @p with a fault on the lane from -> to: rank @to must fail with ERR_INTEGRITY and blame
 * @from. */
static void must_notice(const struct problem *p, const struct timing *t, enum fault fault, int from,
                        int to, uint64_t at)
{
	static struct world w;
	struct err err = {0};
	int failed = -1;
	world_init(&w, p, t);
	w.fault = fault;
	w.fault_from = from;
	w.fault_to = to;
	w.fault_at = at;
	start(&w);
	if (play(&w, &failed, &err) == 0)
		fail_msg("fault %d at byte %llu from %d to %d went unnoticed: %s", fault,
		         (unsigned long long)at, from, to, describe(&w));
	if (failed != to || err.code != ERR_INTEGRITY || err.rank != from)
		fail_msg("fault %d at %llu from %d to %d: rank %d says %d, rank %d: %s: %s", fault,
		         (unsigned long long)at, from, to, failed, err.code, err.rank, err.text,
		         describe(&w));
	world_free(&w);
}

/* Bytes that go from @from to @to on stream 0. */
static uint64_t lane_bytes(const struct problem *p, const struct timing *t, int from, int to)
{
	static struct world w;
	run(&w, p, t);
	uint64_t n = w.taps[from][to][0][0] ? w.taps[from][to][0][0]->seen : 0;
	world_free(&w);
	return n;
}

static void a_damaged_lane_is_noticed(void **state)
{
	(void)state;
	for (size_t a = 0; a < coll_algorithms_len; a++) {
		uint64_t seed = 3;
		struct problem p = {.alg = &coll_algorithms[a],
		                    .dtype = DTYPE_F32,
		                    .op = REDUCE_SUM,
		                    .count = 11,
		                    .seed = 3};
		struct timing t = {.windows = 2, .streams = 2, .capacity = 4096, .seed = 5};
		int lanes = 0, size = serves(p.alg, 3) ? 3 : 4;
		if (p.alg->kind == COLL_BARRIER)
			continue;
		problem_fill(&p, &seed, size, 1);
		for (int from = 0; from < size; from++)
			for (int to = 0; to < size; to++) {
				uint64_t n = from == to ? 0 : lane_bytes(&p, &t, from, to);
				for (uint64_t at = 0; at < n; at++) {
					must_notice(&p, &t, FAULT_FLIP, from, to, at);
					must_notice(&p, &t, FAULT_CUT, from, to, at);
				}
				if (n)
					must_notice(&p, &t, FAULT_EXTRA, from, to, 0);
				lanes += n > 0;
			}
		assert_true(lanes >= size - 1);
	}
}

static void a_failing_file_fails_its_rank(void **state)
{
	(void)state;
	for (int i = 0; i < 8; i++) {
		static struct world w;
		uint64_t seed = 3;
		bool reading = i & 1;
		struct err err = {0};
		int failed = -1;
		struct problem p = {.alg = coll_find(COLL_ALLREDUCE, "ring_chunked"),
		                    .dtype = DTYPE_F32,
		                    .op = REDUCE_SUM,
		                    .count = i & 4 ? 400009 : 1009,
		                    .seed = 3};
		struct timing t = {.windows = 3,
		                   .streams = 2,
		                   .capacity = 4096,
		                   .files = i & 2,
		                   .seed = (uint64_t)i};
		problem_fill(&p, &seed, 3, 2);
		world_init(&w, &p, &t);
		*(reading ? &w.fail_read : &w.fail_write) = 1;
		start(&w);
		assert_int_equal(play(&w, &failed, &err), -1);
		assert_int_equal(failed, 1);
		assert_int_equal(err.code, reading ? ERR_INPUT : ERR_OUTPUT);
		assert_int_equal(err.rank, ERR_RANK_SELF);
		world_free(&w);
	}
}

/* Who is waited for: those whose data is due. */
static void it_says_whom_it_waits_for(void **state)
{
	static struct world w;
	uint64_t seed = 3;
	struct err err = {0};
	struct problem p = {.alg = coll_find(COLL_ALLREDUCE, "ring_chunked"),
	                    .dtype = DTYPE_F32,
	                    .op = REDUCE_SUM,
	                    .count = 100,
	                    .seed = 3};
	int peers[8];
	(void)state;
	problem_fill(&p, &seed, 4, 1);
	world_init(&w, &p, &at_ease);
	start(&w);
	for (int i = 0; i < 10; i++)
		for (int r = 0; r < 3; r++)
			assert_int_equal(exec_advance(w.exec[r], &err), 0);
	assert_int_equal(exec_waits_for(w.exec[0], peers, 8), 1);
	assert_int_equal(peers[0], 3);
	world_free(&w);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(a_damaged_lane_is_noticed),
	        cmocka_unit_test(a_failing_file_fails_its_rank),
	        cmocka_unit_test(it_says_whom_it_waits_for),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
