/*
 * The executor over in-memory lanes: every algorithm of every collective. Every case runs once at
 * ease (one window, one stream, unbounded lanes), is compared with a scalar reference, and then
 * under other windows, streams, lane capacities, quanta and stalls, which must give the same bits.
 * A failure names its seed and parameters; COLLCTL_SEED=<seed> runs one property case again,
 * COLLCTL_LONG=1 many more.
 */
#include "algorithms/table.h"
#include "tests/unit/exec_oracle.h"

#ifdef COLLCTL_SANITIZED /* ten times slower: a smaller sample */
#define SAMPLE 25
#define STEP   60
#define LARGE  32 /* one algorithm in so many, each of two types */
#define FILES  8  /* one algorithm in so many */
#define SPREAD 12 /* one of so many pairs of an algorithm and a size */
#else
#define SAMPLE 600
#define STEP   2
#define LARGE  2
#define FILES  1
#define SPREAD 3
#endif

/* Every type and operation, each on some sizes. */
TEST(every_algorithm_type_and_operation)
{
	uint64_t seed = 7;
	size_t turn = 0, step = long_run() ? 1 : STEP;
	for (size_t a = 0; a < coll_algorithms_len; a++)
		for (size_t d = 0; d < NDTYPES; d++)
			for (size_t op = (a + d) % step; op < REDUCE_OPS; op += step) {
				struct problem p = {.alg = coll_algorithms[a],
				                    .dtype = dtypes[d],
				                    .op = (enum reduce_op)op,
				                    .seed = draw(&seed) >> 40};
				if (p.alg->kind == COLL_BARRIER || !sensible(&p))
					continue;
				for (int k = 0; k < 2; k++) {
					int size = sizes[turn++ % NSIZES];
					if (!serves(p.alg, size))
						continue;
					p.count = 40 + below(&seed, 60);
					problem_fill(&p, &seed, size, INPUTS);
					struct timing t = pick_timing(&seed, p.count * 8);
					try(&p, &t, 1);
				}
			}
}

/* Joint operations of every type, on every number of ranks. */
TEST(joint_operations)
{
	uint64_t seed = 11;
	size_t turn = 0;
	for (size_t a = 0; a < coll_algorithms_len; a++)
		for (size_t d = 0; d < NDTYPES; d++)
			for (size_t s = 0; s < NSIZES; s++, turn++) {
				struct problem p = {.alg = coll_algorithms[a],
				                    .dtype = dtypes[d],
				                    .op = (turn + d) % 2 ? REDUCE_MEDIAN
				                                         : REDUCE_TRIMMED,
				                    .seed = draw(&seed) >> 40};
				if (!sensible(&p) || !reduce_is_joint(p.op))
					continue;
				p.count = pick_count(&seed, sizes[s]);
				problem_fill(&p, &seed, sizes[s], INPUTS);
				if (turn % 3 == 0)
					uneven(&p, &seed);
				struct timing t[2] = {pick_timing(&seed, p.count * 8),
				                      pick_timing(&seed, p.count * 8)};
				t[1].lends = true;
				try(&p, t, 2);
			}
}

static void one_property(uint64_t seed)
{
	uint64_t state = seed * 1000003;
	struct problem p = {.seed = seed};
	int size;
	do {
		p.alg = coll_algorithms[below(&state, (unsigned)coll_algorithms_len)];
		size = sizes[below(&state, NSIZES)];
	} while (p.alg->kind == COLL_BARRIER || !serves(p.alg, size));
	do {
		p.dtype = dtypes[below(&state, NDTYPES)];
		p.op = (enum reduce_op)below(&state, REDUCE_OPS);
	} while (!sensible(&p));
	p.count = pick_count(&state, size);
	p.ordered = (p.alg->flags & COLL_ORDERED) && rounds(&p) && below(&state, 2);
	problem_fill(&p, &state, size, INPUTS);
	if (below(&state, 3) == 0)
		uneven(&p, &state);
	if (p.alg->kind == COLL_ALLTOALL && below(&state, 2))
		uneven_parts(&p, &state);
	struct timing t[4];
	for (int i = 0; i < 4; i++)
		t[i] = pick_timing(&state, p.count * dtype_size(wire_of(&p)));
	t[2].piece = 16 * (1 + below(&state, 64));
	t[3].lends = true;
	try(&p, t, 4);
}

TEST(any_timing_gives_the_same_bits)
{
	const char *one = getenv("COLLCTL_SEED");
	uint64_t n = long_run() ? 5000 : SAMPLE;
	if (one) {
		one_property(strtoull(one, NULL, 10));
		return;
	}
	for (uint64_t seed = 1; seed <= n; seed++)
		one_property(seed);
}

TEST(lanes_of_one_element)
{
	for (size_t a = 0; a < coll_algorithms_len; a++)
		for (int size = 2 + (int)(a % (SPREAD / 3)); size <= 9; size += SPREAD / 3) {
			uint64_t seed = 5;
			struct problem p = {.alg = coll_algorithms[a],
			                    .dtype = DTYPE_F64,
			                    .op = REDUCE_SUM,
			                    .count = 3 * (uint64_t)size + 1,
			                    .seed = 3};
			if (p.alg->kind == COLL_BARRIER || !serves(p.alg, size))
				continue;
			problem_fill(&p, &seed, size, 2);
			struct timing t[] = {{.windows = 1, .streams = 1, .capacity = 1, .seed = 1},
			                     {.windows = 3, .streams = 2, .capacity = 1, .seed = 2},
			                     {.windows = 5,
			                      .streams = 3,
			                      .capacity = 1,
			                      .quantum = 1,
			                      .stalls = true,
			                      .seed = 3}};
			try(&p, t, 3);
		}
}

/* ---- sends that are done when the peer has consumed them ---- */

static bool lent_case(struct problem *p, size_t a, int size, uint64_t *seed)
{
	*p = (struct problem){.alg = coll_algorithms[a],
	                      .dtype = dtypes[(a + (size_t)size) % NDTYPES],
	                      .op = REDUCE_SUM,
	                      .count = 23 * (uint64_t)size + 1,
	                      .seed = 3};
	if (p->alg->kind == COLL_BARRIER || !serves(p->alg, size))
		return false;
	problem_fill(p, seed, size, 2);
	return true;
}

TEST(lent_sends)
{
	static const struct timing t[] = {
	        {.windows = 1, .streams = 1, .capacity = 1, .seed = 1, .lends = true},
	        {.windows = 4,
	         .streams = 2,
	         .capacity = 1,
	         .seed = 2,
	         .stalls = true,
	         .lends = true},
	        {.windows = 7,
	         .streams = 1,
	         .capacity = 64,
	         .quantum = 1,
	         .seed = 3,
	         .stalls = true,
	         .lends = true},
	        {.windows = 1,
	         .streams = 1,
	         .capacity = 64,
	         .seed = 4,
	         .stalls = true,
	         .lends = true,
	         .repeats = 3}};
	uint64_t seed = 13;
	for (size_t a = 0; a < coll_algorithms_len; a++)
		for (int size = 2 + (int)(a % (SPREAD / 3)); size <= 9; size += SPREAD / 3) {
			struct problem p;
			if (lent_case(&p, a, size, &seed))
				try(&p, t, LENGTH(t));
		}
}

/* Do all ranks have the bits that they have at ease, though lanes return what is lent at once? */
static bool survives_a_lie(const struct problem *p, const struct timing *t)
{
	static struct world easy, other;
	struct err err = {0};
	int failed = -1;
	bool same = true;
	struct timing ease = ease_of(p);
	ease.windows = t->windows;
	run(&easy, p, &ease);
	world_init(&other, p, t);
	start(&other);
	assert_int_equal(play(&other, &failed, &err), 0);
	for (int r = 0; r < p->size; r++)
		same &= memcmp(other.parts[0].out[r], easy.parts[0].out[r],
		               output_len(p, r) * dtype_size(p->dtype)) == 0;
	world_free(&easy);
	world_free(&other);
	return same;
}

/* The lanes of these tests show it if a send is done before its peer has consumed it. */
TEST(lent_sends_that_end_early_are_seen)
{
	uint64_t seed = 13;
	int seen = 0;
	for (size_t a = 0; a < coll_algorithms_len; a++) {
		const struct timing t = {.windows = 6,
		                         .streams = 1,
		                         .capacity = 64,
		                         .seed = a,
		                         .stalls = true,
		                         .lends = true,
		                         .lies = true};
		struct problem p;
		seen += lent_case(&p, a, 4, &seed) && !survives_a_lie(&p, &t);
	}
	assert_true(seen > 10);
}

/* More windows than elements: most are empty. */
TEST(windows_without_elements)
{
	for (size_t a = 0; a < coll_algorithms_len; a++)
		for (uint64_t count = 0; count < 7; count++) {
			uint64_t seed = 9;
			struct problem p = {.alg = coll_algorithms[a],
			                    .dtype = DTYPE_I32,
			                    .op = REDUCE_SUM,
			                    .count = count,
			                    .seed = 3};
			int size = serves(p.alg, 5) ? 5 : 4;
			if (p.alg->kind == COLL_BARRIER)
				continue;
			problem_fill(&p, &seed, size, 2);
			struct timing t[] = {
			        {.windows = 5, .streams = 3, .capacity = 64, .seed = 1},
			        {.windows = 2, .streams = 3, .capacity = 64, .seed = 2}};
			try(&p, t, 2);
		}
}

/* Vectors larger than a lane's turn, a conversion's piece and a writer's quantum. */
TEST(large_vectors)
{
	for (size_t a = 0; a < coll_algorithms_len; a++)
		for (int d = 0; d < 2; d++) {
			uint64_t seed = 11;
			struct problem p = {.alg = coll_algorithms[a],
			                    .dtype = d ? DTYPE_BF16 : DTYPE_F32,
			                    .op = d ? REDUCE_AVG : REDUCE_SUM,
			                    .count = 400009,
			                    .seed = 3};
			if (!sensible(&p))
				p.op = REDUCE_SUM;
			if (p.alg->kind == COLL_BARRIER || (a % LARGE != (size_t)d && !long_run()))
				continue;
			problem_fill(&p, &seed, serves(p.alg, 3) ? 3 : 4, 2);
			struct timing t = {.windows = 4,
			                   .streams = 2,
			                   .capacity = 70001,
			                   .stalls = true,
			                   .seed = 1};
			try(&p, &t, 1);
		}
}

TEST(files_on_threads)
{
	uint64_t seed = 21;
	for (size_t a = 0; a < coll_algorithms_len; a++)
		for (int i = 0; i < (long_run() ? 60 : 3); i++) {
			struct problem p = {.alg = coll_algorithms[a],
			                    .dtype = dtypes[below(&seed, NDTYPES)],
			                    .op = REDUCE_AVG,
			                    .count = i ? pick_count(&seed, 4) : 100003,
			                    .seed = draw(&seed) >> 40};
			int size = 1 + (int)below(&seed, 5);
			if (p.alg->kind == COLL_BARRIER || !serves(p.alg, size) ||
			    (a % FILES && !long_run()))
				continue;
			if (!sensible(&p))
				p.op = REDUCE_SUM;
			problem_fill(&p, &seed, size, INPUTS);
			struct timing t[2];
			for (int k = 0; k < 2; k++) {
				t[k] = pick_timing(&seed, p.count * dtype_size(p.dtype));
				t[k].files = true;
				t[k].stalls = false; /* only files may wake */
			}
			try(&p, t, 2);
		}
}

TEST(a_barrier_is_one_element)
{
	for (size_t a = 0; a < coll_algorithms_len; a++)
		for (int size = 1; size <= RANKS; size++) {
			static struct world w;
			struct err err = {0};
			int failed = -1;
			struct problem p = {.alg = coll_algorithms[a],
			                    .size = size,
			                    .dtype = DTYPE_U8,
			                    .op = REDUCE_BAND,
			                    .count = 1,
			                    .seed = 1};
			struct timing t = {.windows = 1,
			                   .streams = 1,
			                   .capacity = 1,
			                   .stalls = true,
			                   .seed = (uint64_t)size};
			if (p.alg->kind != COLL_BARRIER)
				continue;
			for (int j = 1; j <= size; j++)
				p.off[j] = 1;
			for (int r = 0; r < size; r++)
				p.inputs[r] = 1;
			world_init(&w, &p, &t);
			start(&w);
			/* Nobody may pass before the last has come: it is held back. */
			int late = size / 2;
			for (int round = 0; round < 50 * size; round++)
				for (int r = 0; r < size; r++)
					if (r != late && exec_advance(w.exec[r], &err) == 1)
						fail_msg("rank %d passed without rank %d: %s", r,
						         late, describe(&w));
			if (play(&w, &failed, &err) < 0)
				fail_msg("%s: %s", err.text, describe(&w));
			check_values(&w);
			world_free(&w);
		}
}

/* Again and again over the same lanes, each rank as soon as it has finished. */
TEST(a_schedule_is_repeated)
{
	uint64_t seed = 11;
	for (size_t a = 0; a < coll_algorithms_len; a++) {
		const struct coll_algorithm *alg = coll_algorithms[a];
		for (size_t s = a % SPREAD; s < NSIZES; s += SPREAD) {
			if (alg->kind == COLL_BARRIER || !serves(alg, sizes[s]))
				continue;
			struct problem p = {.alg = alg,
			                    .dtype = dtypes[s % NDTYPES],
			                    .op = REDUCE_SUM,
			                    .count = 50 + below(&seed, 500),
			                    .seed = seed};
			struct timing t = pick_timing(&seed, 2000);
			problem_fill(&p, &seed, sizes[s], 2);
			t.windows = 1;
			t.streams = 1;
			t.repeats = 4;
			try(&p, &t, 1);
		}
	}
}

/* Two ranks that exchange their vectors and finish the sum as it arrives: no algorithm of the
 * registry rounds there. */
static void emit_finished(struct sched_builder *b, const struct coll_args *a)
{
	struct sched_span own = sched_in(b, 0, 0), sum = sched_out(b, 0);
	int peer = 1 - a->rank;
	sched_send(b, peer, own, coll_count(a));
	sched_recv_reduce(b, peer, sum, own, coll_count(a),
	                  SCHED_FINAL | (a->rank ? SCHED_WIRE_LEFT : 0));
}

TEST(a_sum_is_finished_as_it_arrives)
{
	static const struct coll_algorithm finished = {.kind = COLL_ALLREDUCE,
	                                               .name = "finished",
	                                               .flags = COLL_FINAL,
	                                               .emit = emit_finished};
	for (size_t d = 0; d < NDTYPES; d++) {
		uint64_t seed = 17;
		struct problem p = {.alg = &finished,
		                    .dtype = dtypes[d],
		                    .op = REDUCE_AVG,
		                    .count = 3001,
		                    .seed = d};
		struct timing t = {.windows = 2, .streams = 2, .capacity = 997, .seed = 1};
		if (!sensible(&p))
			continue;
		problem_fill(&p, &seed, 2, 1);
		try(&p, &t, 1);
	}
}

int main(void)
{
	return unit_run(NULL, NULL);
}
