/*
 * The executor's failures, over in-memory lanes: a damaged lane and a failing file are noticed, and
 * who is to blame is named.
 */
#include "algorithms/table.h"
#include "tests/unit/exec_oracle.h"

#ifdef COLLCTL_SANITIZED /* ten times slower: a sample of the bytes */
#define STEP 3
#else
#define STEP 1
#endif

/* Run @l with a fault on the lane from -> to: rank @to must fail with ERR_INTEGRITY and blame
 * @from. */
static void must_notice(const struct list *l, const struct timing *t, enum fault fault, int from,
                        int to, uint64_t at)
{
	static struct world w;
	struct err err = {0};
	int failed = -1;
	world_init_list(&w, l, t);
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
static uint64_t lane_bytes(const struct list *l, const struct timing *t, int from, int to)
{
	static struct world w;
	world_init_list(&w, l, t);
	run_world(&w);
	uint64_t n = w.taps[from][to][0][0] ? w.taps[from][to][0][0]->seen : 0;
	world_free(&w);
	return n;
}

enum lanes { PLAIN, LENT, CODED };

/* Every STEP-th byte of every lane, trailers among them. Memory that is lent has no checksums. A
 * coded lane has those of the connection below, without which a damaged length is waited for. */
static void damage_everywhere(const struct list *l, enum lanes lanes_are)
{
	struct timing t = {.streams = 2,
	                   .capacity = 4096,
	                   .seed = 5,
	                   .lends = lanes_are == LENT,
	                   .piece = lanes_are == CODED ? 64 : 0};
	int lanes = 0, size = l->parts[0].size;
	for (int from = 0; from < size; from++)
		for (int to = 0; to < size; to++) {
			uint64_t n = from == to ? 0 : lane_bytes(l, &t, from, to);
			for (uint64_t at = (uint64_t)to % STEP; at < n; at += STEP) {
				if (lanes_are == PLAIN)
					must_notice(l, &t, FAULT_FLIP, from, to, at);
				must_notice(l, &t, FAULT_CUT, from, to, at);
			}
			if (n)
				must_notice(l, &t, FAULT_EXTRA, from, to, 0);
			lanes += n > 0;
		}
	assert_true(lanes >= size - 1);
}

static const struct list *small_job(const struct coll_algorithm *alg, int size)
{
	static struct list l;
	uint64_t seed = 3;
	l.n = 1;
	l.windows[0] = 2;
	l.parts[0] = (struct problem){
	        .alg = alg, .dtype = DTYPE_F32, .op = REDUCE_SUM, .count = 11, .seed = 3};
	problem_fill(&l.parts[0], &seed, size, 1);
	return &l;
}

TEST(a_damaged_lane_is_noticed)
{
	for (size_t a = 0; a < coll_algorithms_len; a++) {
		const struct coll_algorithm *alg = coll_algorithms[a];
		for (enum lanes k = PLAIN; alg->kind != COLL_BARRIER && k <= CODED; k++)
			damage_everywhere(small_job(alg, serves(alg, 3) ? 3 : 4), k);
	}
}

/* Rank @from has lost its lane to @to before it could begin: @to must blame it, whether or not its
 * schedule can read from the lane. */
static void must_notice_at_the_start(const struct list *l, const struct timing *t, int from, int to)
{
	static struct world w;
	struct err err = {0};
	int failed = -1, ret = 0;
	world_init_list(&w, l, t);
	w.fault = FAULT_RESET;
	w.fault_from = from;
	w.fault_to = to;
	start(&w);
	w.taps[from][to][0][0]->conn.hung_up = true;
	for (int i = 0; ret >= 0 && i < PATIENCE; i++)
		for (int r = 0; ret >= 0 && r < w.size; r++) {
			if (r == from)
				continue;
			failed = r;
			ret = exec_advance(w.exec[r], &err);
		}
	if (ret >= 0 || failed != to || err.code != ERR_PEER_LOST || err.rank != from)
		fail_msg("reset from %d to %d: rank %d says %d, rank %d: %s: %s", from, to, failed,
		         err.code, err.rank, err.text, describe(&w));
	world_free(&w);
}

TEST(a_lane_that_was_lost_before_its_sender_began_is_noticed)
{
	const struct timing t = {.streams = 1, .capacity = 4096, .seed = 5};
	for (size_t a = 0; a < coll_algorithms_len; a++) {
		const struct coll_algorithm *alg = coll_algorithms[a];
		const int size = serves(alg, 5) ? 5 : 4;
		if (alg->kind == COLL_BARRIER)
			continue;
		const struct list *l = small_job(alg, size);
		for (int from = 0; from < size; from++)
			for (int to = 0; to < size; to++)
				if (from != to && lane_bytes(l, &t, from, to))
					must_notice_at_the_start(l, &t, from, to);
	}
}

/* A sender that has sent all ends its lanes while the others may not read from them yet. */
TEST(a_lane_that_its_sender_has_ended_is_read_to_its_end)
{
	for (size_t a = 0; a < coll_algorithms_len; a++) {
		const struct coll_algorithm *alg = coll_algorithms[a];
		for (int coded = 0; alg->kind != COLL_BARRIER && coded < 2; coded++) {
			static struct world w;
			const struct timing t = {.streams = 2,
			                         .capacity = 4096,
			                         .seed = 5,
			                         .hung_up = true,
			                         .piece = coded ? 64 : 0};
			world_init_list(&w, small_job(alg, serves(alg, 5) ? 5 : 4), &t);
			run_world(&w);
			world_free(&w);
		}
	}
}

/* A broadcast between two sums of other types, on three ranks. */
static const struct list *mixed(void)
{
	static struct list l;
	uint64_t seed = 3;
	l.n = 3;
	for (int k = 0; k < l.n; k++) {
		l.parts[k] = (struct problem){
		        .alg = k == 1 ? coll_find(COLL_BROADCAST, "binomial")
		                      : coll_find(COLL_ALLREDUCE, k ? "circulant" : "ring_chunked"),
		        .dtype = k == 0   ? DTYPE_BF16
		                 : k == 1 ? DTYPE_U8
		                          : DTYPE_F64,
		        .op = REDUCE_SUM,
		        .count = 7 + (uint64_t)k,
		        .seed = 3,
		};
		l.windows[k] = 1 + (uint32_t)k;
		problem_fill(&l.parts[k], &seed, 3, 1);
	}
	return &l;
}

TEST(a_damaged_lane_of_several_parts_is_noticed)
{
	for (enum lanes k = PLAIN; k <= CODED; k++)
		damage_everywhere(mixed(), k);
}

TEST(a_failing_file_of_any_part_fails_its_rank)
{
	for (int i = 0; i < 12; i++) {
		static struct world w;
		const struct list *l = mixed();
		bool reading = i & 1;
		struct timing t = {.streams = 2, .capacity = 4096, .files = i & 2};
		struct err err = {0};
		int failed = -1;
		world_init_list(&w, l, &t);
		w.fail_part = i >> 2;
		int r = l->parts[w.fail_part].root; /* reads and writes in every part */
		*(reading ? &w.fail_read : &w.fail_write) = r;
		start(&w);
		assert_int_equal(play(&w, &failed, &err), -1);
		assert_int_equal(failed, r);
		assert_int_equal(err.code, reading ? ERR_INPUT : ERR_OUTPUT);
		world_free(&w);
	}
}

TEST(a_failing_file_fails_its_rank)
{
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
TEST(it_says_whom_it_waits_for)
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
	return unit_run(NULL, NULL);
}
