/*
 * The builder and the inference of dependencies.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "algorithms/table.h"
#include "tests/unit/frontier_oracle.h"
#include "tests/unit/unit.h"

static struct sched *build(enum coll_kind kind,
                           void (*emit)(struct sched_builder *, const struct coll_args *),
                           const struct coll_args *args, enum sched_error *e)
{
	const struct coll_algorithm alg = {.kind = kind, .name = "toy", .emit = emit};

	return coll_build(&alg, args, e);
}

static struct sched *build_ok(enum coll_kind kind,
                              void (*emit)(struct sched_builder *, const struct coll_args *),
                              const struct coll_args *args)
{
	enum sched_error e;
	struct sched *s = build(kind, emit, args, &e);

	assert_int_equal(e, SCHED_OK);
	assert_non_null(s);
	return s;
}

static void assert_step(const struct sched *s, uint32_t i, enum sched_op op, int peer,
                        struct sched_span dst, struct sched_span src, uint64_t len)
{
	const struct sched_step *st = &s->steps[i];

	assert_true(i < s->nsteps);
	assert_int_equal(st->op, op);
	assert_int_equal(st->peer, peer);
	assert_int_equal(st->dst.buf, dst.buf);
	assert_int_equal(st->src.buf, src.buf);
	if (dst.buf != SCHED_NONE)
		assert_int_equal(st->dst.off, dst.off);
	if (src.buf != SCHED_NONE)
		assert_int_equal(st->src.off, src.off);
	assert_int_equal(st->len, len);
}

static void assert_dep(const struct sched *s, uint32_t step, uint32_t k, uint32_t on, uint64_t lo,
                       uint64_t hi, int64_t shift)
{
	const struct sched_dep *d = &s->deps[s->steps[step].dep + k];

	assert_true(k < s->steps[step].ndep);
	assert_int_equal(d->step, on);
	assert_int_equal(d->lo, lo);
	assert_int_equal(d->hi, hi);
	assert_true(d->shift == shift);
}

#define NOWHERE      ((struct sched_span){SCHED_NONE, 0})
#define AT(buf, off) ((struct sched_span){buf, off})

static const uint64_t off_4_6[] = {0, 4, 10};

/* ---- mapping ---- */

static void emit_fold(struct sched_builder *b, const struct coll_args *a)
{
	sched_fold_inputs(b, sched_out(b, 0), 0, a->off[a->size]);
}

TEST(test_one_input_is_in_place)
{
	const struct coll_args a = {.size = 2, .ninputs = 1, .stores = true, .off = off_4_6};
	struct sched *s = build_ok(COLL_ALLREDUCE, emit_fold, &a);

	assert_int_equal(s->nbufs, 2);
	assert_int_equal(s->bufs[0].len, 0);
	assert_int_equal(s->bufs[1].len, 10);
	assert_int_equal(s->nsteps, 2);
	assert_step(s, 0, SCHED_READ, -1, AT(1, 0), AT(0, 0), 10);
	assert_step(s, 1, SCHED_WRITE, -1, AT(0, 0), AT(1, 0), 10);
	sched_free(s);
}

static void emit_fold_blocks(struct sched_builder *b, const struct coll_args *a)
{
	for (int j = a->size - 1; j >= 0; j--)
		sched_fold_inputs(b, sched_out(b, a->off[j]), a->off[j], a->off[j + 1] - a->off[j]);
}

TEST(test_several_inputs_are_folded)
{
	const struct coll_args a = {.size = 2, .ninputs = 3, .stores = true, .off = off_4_6};
	struct sched *s = build_ok(COLL_ALLREDUCE, emit_fold_blocks, &a);

	assert_int_equal(s->nbufs, 4);
	for (int i = 0; i < 4; i++)
		assert_int_equal(s->bufs[i].len, 10);
	assert_int_equal(s->nsteps, 6 + 2 + 2);
	assert_step(s, 0, SCHED_READ, -1, AT(0, 4), AT(0, 4), 6);
	assert_step(s, 2, SCHED_READ, -1, AT(2, 4), AT(2, 4), 6);
	assert_step(s, 3, SCHED_READ, -1, AT(0, 0), AT(0, 0), 4);
	assert_step(s, 6, SCHED_LOCAL_REDUCE, -1, AT(3, 4), AT(0, 4), 6);
	assert_step(s, 8, SCHED_WRITE, -1, AT(0, 4), AT(3, 4), 6);
	assert_step(s, 9, SCHED_WRITE, -1, AT(0, 0), AT(3, 0), 4);
	/* Each input's READ of the block. */
	assert_int_equal(s->steps[7].ndep, 3);
	assert_dep(s, 7, 0, 3, 0, 4, 0);
	assert_dep(s, 7, 2, 5, 0, 4, 0);
	sched_free(s);
}

static void emit_nothing(struct sched_builder *b, const struct coll_args *a)
{
	(void)b;
	(void)a;
}

static void emit_own_block(struct sched_builder *b, const struct coll_args *a)
{
	const uint64_t len = a->off[a->rank + 1] - a->off[a->rank];

	sched_copy(b, sched_out(b, a->off[a->rank]), sched_in(b, 0, 0), len, 0);
}

TEST(test_an_input_that_is_a_block_of_the_output)
{
	const struct coll_args a = {
	        .rank = 1, .size = 2, .ninputs = 1, .stores = true, .off = off_4_6};
	struct sched *s = build_ok(COLL_ALLGATHER, emit_own_block, &a);

	assert_int_equal(s->bufs[0].len, 0);
	assert_int_equal(s->bufs[1].len, 10);
	assert_int_equal(s->nsteps, 2);
	assert_step(s, 0, SCHED_READ, -1, AT(1, 4), AT(0, 0), 6);
	assert_step(s, 1, SCHED_WRITE, -1, AT(0, 0), AT(1, 0), 10);
	sched_free(s);
}

TEST(test_an_output_that_is_a_block_of_the_input)
{
	const struct coll_args a = {
	        .rank = 1, .size = 2, .ninputs = 1, .stores = true, .off = off_4_6};
	struct sched *s = build_ok(COLL_REDUCE_SCATTER, emit_nothing, &a);

	assert_int_equal(s->bufs[1].len, 10);
	assert_int_equal(s->nsteps, 2);
	assert_step(s, 0, SCHED_READ, -1, AT(1, 0), AT(0, 0), 10);
	assert_step(s, 1, SCHED_WRITE, -1, AT(0, 0), AT(1, 4), 6);
	sched_free(s);
}

TEST(test_layouts)
{
	struct coll_layout x = coll_layout(COLL_BROADCAST, 1, 4, 2);

	assert_int_equal(x.in_hi - x.in_lo, 0);
	assert_int_equal(x.out_hi - x.out_lo, 4);
	x = coll_layout(COLL_SCATTER, 2, 4, 2);
	assert_int_equal(x.in_hi - x.in_lo, 4);
	assert_int_equal(x.out_lo, 2);
	assert_int_equal(x.out_hi, 3);
	x = coll_layout(COLL_GATHER, 1, 4, 2);
	assert_int_equal(x.in_lo, 1);
	assert_int_equal(x.out_hi - x.out_lo, 0);
	x = coll_layout(COLL_REDUCE, 1, 4, 2);
	assert_int_equal(x.in_hi, 4);
	assert_int_equal(x.out_hi, 0);
	assert_false(coll_layout(COLL_ALLTOALL, 0, 4, 0).in_place);
}

static void emit_must_not(struct sched_builder *b, const struct coll_args *a)
{
	(void)b;
	(void)a;
	fail_msg("the emitter was called for one rank");
}

TEST(test_one_rank)
{
	const uint64_t off[] = {0, 7};
	const struct coll_args a = {.size = 1, .ninputs = 2, .stores = true, .off = off};
	struct sched *s = build_ok(COLL_ALLREDUCE, emit_must_not, &a);

	assert_int_equal(s->nsteps, 4);
	assert_step(s, 2, SCHED_LOCAL_REDUCE, -1, AT(2, 0), AT(0, 0), 7);
	assert_step(s, 3, SCHED_WRITE, -1, AT(0, 0), AT(2, 0), 7);
	sched_free(s);
}

TEST(test_no_output_no_writes)
{
	const struct coll_args a = {.size = 2, .ninputs = 1, .stores = false, .off = off_4_6};
	struct sched *s = build_ok(COLL_ALLREDUCE, emit_fold, &a);

	assert_int_equal(s->nsteps, 1);
	assert_int_equal(s->bufs[1].len, 10);
	sched_free(s);
}

/* ---- errors ---- */

static void emit_range_then_peer(struct sched_builder *b, const struct coll_args *a)
{
	(void)a;
	sched_send(b, 1, sched_out(b, 0), 0); /* dropped */
	sched_send(b, 1, sched_out(b, 5), 6);
	sched_send(b, 0, sched_out(b, 0), 1);
}

static void emit_peer_then_range(struct sched_builder *b, const struct coll_args *a)
{
	(void)a;
	sched_recv(b, 2, sched_out(b, 0), 1);
	sched_send(b, 1, sched_out(b, 5), 6);
}

static void emit_self(struct sched_builder *b, const struct coll_args *a)
{
	sched_send(b, a->rank, sched_out(b, 0), 1);
}

static void emit_overlap(struct sched_builder *b, const struct coll_args *a)
{
	(void)a;
	sched_copy(b, sched_out(b, 0), sched_out(b, 3), 4, 0);
}

static void emit_touching(struct sched_builder *b, const struct coll_args *a)
{
	(void)a;
	sched_copy(b, sched_out(b, 0), sched_out(b, 4), 4, 0);
	sched_recv_reduce(b, 1, sched_out(b, 2), sched_out(b, 2), 4, 0);
}

static void emit_send_acc(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span acc = sched_scratch(b, SCHED_ACC, 4);

	(void)a;
	sched_copy(b, acc, sched_out(b, 0), 4, 0);
	sched_send(b, 1, acc, 4);
}

static void emit_odd_flag(struct sched_builder *b, const struct coll_args *a)
{
	(void)a;
	sched_copy(b, sched_out(b, 0), sched_out(b, 4), 4, SCHED_WIRE_LEFT);
}

static void emit_wrapping(struct sched_builder *b, const struct coll_args *a)
{
	(void)a;
	sched_send(b, 1, sched_out(b, UINT64_MAX - 1), 4);
}

static void emit_no_such_input(struct sched_builder *b, const struct coll_args *a)
{
	(void)a;
	sched_copy(b, sched_out(b, 0), sched_in(b, 1, 0), 4, 0);
}

TEST(test_errors)
{
	static const struct {
		void (*emit)(struct sched_builder *, const struct coll_args *);
		enum sched_error want;
	} cases[] = {
	        {emit_range_then_peer, SCHED_RANGE},
	        {emit_peer_then_range, SCHED_PEER},
	        {emit_self, SCHED_PEER},
	        {emit_overlap, SCHED_OVERLAP},
	        {emit_touching, SCHED_OK},
	        {emit_send_acc, SCHED_TYPE},
	        {emit_odd_flag, SCHED_TYPE},
	        {emit_wrapping, SCHED_RANGE},
	        {emit_no_such_input, SCHED_RANGE},
	};
	const struct coll_args a = {.size = 2, .ninputs = 1, .stores = true, .off = off_4_6};

	for (size_t i = 0; i < LENGTH(cases); i++) {
		enum sched_error e;
		struct sched *s = build(COLL_ALLREDUCE, cases[i].emit, &a, &e);

		assert_int_equal(e, cases[i].want);
		assert_true(!s == (e != SCHED_OK));
		sched_free(s);
	}
}

TEST(test_bad_arguments)
{
	static const uint64_t falling[] = {0, 4, 3}, late[] = {1, 4, 5};
	const struct coll_args cases[] = {
	        {.rank = 2, .size = 2, .ninputs = 1, .stores = true, .off = off_4_6},
	        {.size = 2, .root = 2, .ninputs = 1, .stores = true, .off = off_4_6},
	        {.size = 2, .ninputs = 0, .stores = true, .off = off_4_6},
	        {.size = 2, .ninputs = 1, .stores = true, .off = falling},
	        {.size = 2, .ninputs = 1, .stores = true, .off = late},
	};

	for (size_t i = 0; i < LENGTH(cases); i++) {
		enum sched_error e;

		assert_null(build(COLL_ALLREDUCE, emit_fold, &cases[i], &e));
		assert_int_not_equal(e, SCHED_OK);
	}
}

/* ---- dependencies ---- */

static void emit_send_recv(struct sched_builder *b, const struct coll_args *a)
{
	(void)a;
	sched_send(b, 1, sched_out(b, 2), 6);
	sched_recv(b, 1, sched_out(b, 4), 6);
}

/*
 * elements  0 1 2 3 | 4 5 6 7 8 9
 * SEND          [-----------)
 * RECV              [-----------)
 */
TEST(test_dependencies_by_hand)
{
	const struct coll_args a = {.size = 2, .ninputs = 1, .stores = true, .off = off_4_6};
	struct sched *s = build_ok(COLL_ALLREDUCE, emit_send_recv, &a);

	assert_int_equal(s->nsteps, 3 + 2 + 2);
	assert_step(s, 0, SCHED_READ, -1, AT(1, 2), AT(0, 2), 6);
	assert_step(s, 1, SCHED_READ, -1, AT(1, 8), AT(0, 8), 2);
	assert_step(s, 2, SCHED_READ, -1, AT(1, 0), AT(0, 0), 2);
	assert_step(s, 3, SCHED_SEND, 1, NOWHERE, AT(1, 2), 6);
	assert_int_equal(s->steps[3].ndep, 1); /* RAW */
	assert_dep(s, 3, 0, 0, 0, 6, 0);
	assert_step(s, 4, SCHED_RECV, 1, AT(1, 4), NOWHERE, 6);
	assert_int_equal(s->steps[4].ndep, 2);
	assert_dep(s, 4, 0, 1, 4, 6, -4); /* WAW where nothing was sent */
	assert_dep(s, 4, 1, 3, 0, 4, 2);  /* WAR */
	assert_step(s, 5, SCHED_WRITE, -1, AT(0, 0), AT(1, 0), 4);
	assert_int_equal(s->steps[5].ndep, 2);
	assert_dep(s, 5, 0, 0, 2, 4, -2);
	assert_dep(s, 5, 1, 2, 0, 2, 0);
	assert_int_equal(s->steps[6].ndep, 1);
	assert_dep(s, 6, 0, 4, 0, 6, 0);
	assert_int_equal(s->ndeps, 6);
	sched_free(s);
}

static void emit_pieces(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span t = sched_scratch(b, SCHED_DATA, 10);

	(void)a;
	sched_copy(b, t, sched_out(b, 0), 10, 0);
	sched_send(b, 1, t, 5);
	sched_send(b, 1, t, 10);
	sched_recv_reduce(b, 1, t, t, 10, 0);
	sched_reduce(b, sched_out(b, 0), t, 10, 0);
}

TEST(test_dependencies_are_joined)
{
	const struct coll_args a = {.size = 2, .ninputs = 1, .stores = true, .off = off_4_6};
	struct sched *s = build_ok(COLL_ALLREDUCE, emit_pieces, &a);

	assert_step(s, 3, SCHED_SEND, 1, NOWHERE, AT(2, 0), 10);
	assert_int_equal(s->steps[3].ndep, 1); /* though the first SEND cut the COPY's range */
	assert_dep(s, 3, 0, 1, 0, 10, 0);
	assert_int_equal(s->steps[4].ndep, 3); /* RECV_REDUCE: RAW on COPY, WAR on both SENDs */
	assert_dep(s, 4, 0, 1, 0, 10, 0);
	assert_dep(s, 4, 1, 2, 0, 5, 0);
	assert_dep(s, 4, 2, 3, 0, 10, 0);
	/* REDUCE: RAW on the READ, which COPY read since (WAR), and on RECV_REDUCE. */
	assert_int_equal(s->steps[5].ndep, 3);
	assert_dep(s, 5, 0, 0, 0, 10, 0);
	assert_dep(s, 5, 1, 1, 0, 10, 0);
	assert_dep(s, 5, 2, 4, 0, 10, 0);
	sched_free(s);
}

TEST(test_files_in_the_order_of_need)
{
	const uint64_t off[] = {0, 4, 8, 12};
	const struct coll_args a = {.rank = 1, .size = 3, .ninputs = 1, .stores = true, .off = off};
	struct sched *s =
	        build_ok(COLL_ALLREDUCE, coll_find(COLL_ALLREDUCE, "ring_chunked")->emit, &a);
	const uint64_t reads[] = {4, 6, 0, 2, 8, 10}, writes[] = {8, 10, 4, 6, 0, 2};

	for (uint32_t i = 0; i < 6; i++) {
		assert_step(s, i, SCHED_READ, -1, AT(1, reads[i]), AT(0, reads[i]), 2);
		assert_step(s, s->nsteps - 6 + i, SCHED_WRITE, -1, AT(0, writes[i]),
		            AT(1, writes[i]), 2);
	}
	sched_free(s);
}

/* The rule itself: what a shifted and a partial dependency let through. */
TEST(test_frontier_rule)
{
	const struct coll_args a = {.size = 2, .ninputs = 1, .stores = true, .off = off_4_6};
	struct sched *s = build_ok(COLL_ALLREDUCE, emit_send_recv, &a);
	uint64_t done[7] = {6, 2, 2, 0, 0, 0, 0};
	const uint64_t recv_limit[] = {0, 0, 0, 1, 2, 3, 6};

	/* RECV's element 0 is SEND's element 2; behind element 4 nothing of SEND's is left. */
	for (uint64_t sent = 0; sent <= 6; sent++) {
		done[3] = sent;
		assert_int_equal(frontier_limit(s, 4, done), recv_limit[sent]);
	}
	/* WRITE's first two elements come from READ 2, the others from READ 0. */
	done[0] = 1;
	assert_int_equal(frontier_limit(s, 5, done), 3);
	done[2] = 1;
	assert_int_equal(frontier_limit(s, 5, done), 1);
	sched_free(s);
}

static uint64_t seed;

/* Steps at random over the output and two scratch buffers. */
static void emit_random(struct sched_builder *b, const struct coll_args *a)
{
	const uint64_t n = a->off[a->size];
	const struct sched_span bufs[] = {sched_out(b, 0), sched_scratch(b, SCHED_DATA, n),
	                                  sched_scratch(b, SCHED_DATA, n)};
	const uint64_t count = 1 + random_below(&seed, 12);

	for (uint64_t i = 0; i < count; i++) {
		const uint64_t len = 1 + random_below(&seed, n), x = random_below(&seed, 3);
		const struct sched_span p = span_add(bufs[x], random_below(&seed, n - len + 1));
		const struct sched_span q =
		        span_add(bufs[(x + 1) % 3], random_below(&seed, n - len + 1));

		switch (random_below(&seed, 7)) {
		case 0:
			sched_send(b, 1, p, len);
			break;
		case 1:
			sched_recv(b, 1, p, len);
			break;
		case 2:
			sched_recv_reduce(b, 1, p, p, len, 0);
			break;
		case 3:
			sched_recv_reduce(b, 1, p, q, len, SCHED_WIRE_LEFT);
			break;
		case 4:
			sched_copy(b, p, q, len, 0);
			break;
		case 5:
			sched_reduce(b, p, q, len, 0);
			break;
		default:
			/* Not onto the output, where a single input lies. */
			sched_fold_inputs(b, span_add(bufs[1 + x % 2], p.off), q.off, len);
			break;
		}
	}
}

TEST(test_random_dependencies)
{
	const int runs = getenv("COLLCTL_LONG") ? 1000000 : 30000;

	for (int i = 0; i < runs; i++) {
		const uint64_t n = 1 + (uint64_t)i % 9;
		const uint64_t off[] = {0, n / 2, n};
		const struct coll_args a = {
		        .size = 2, .ninputs = 1 + i % 3, .stores = true, .off = off};
		struct sched *s;

		seed = (uint64_t)i;
		s = build_ok(COLL_ALLREDUCE, emit_random, &a);
		if (oracle_racy(s))
			fail_msg("seed %d: a dependency is missing", i);
		if (!oracle_needed(s))
			fail_msg("seed %d: a dependency without a conflict", i);
		sched_free(s);
	}
}

/* Steps and dependencies grow with the ranks, not with their square. */
TEST(test_thousands_of_ranks)
{
	const int size = 4096;
	uint64_t *off = calloc((size_t)size + 1, sizeof(*off));

	for (size_t i = 0; i < coll_algorithms_len; i++) {
		const bool barrier = coll_algorithms[i]->kind == COLL_BARRIER;
		const struct coll_args a = {.rank = size / 3,
		                            .size = size,
		                            .ninputs = 1,
		                            .stores = true,
		                            .off = off,
		                            .steps = 3};
		enum sched_error e;
		struct sched *s;

		coll_split(barrier ? 1 : 10000019, size, off);
		s = coll_build(coll_algorithms[i], &a, &e);
		assert_int_equal(e, SCHED_OK);
		assert_true(s->nsteps <= 16u * (unsigned)size);
		assert_true(s->ndeps <= 16u * (unsigned)size);
		sched_free(s);
	}
	free(off);
}

/* ---- names and blocks ---- */

TEST(test_split)
{
	for (int size = 1; size < 20; size++)
		for (uint64_t n = 0; n < 50; n++) {
			uint64_t off[21];

			coll_split(n, size, off);
			assert_int_equal(off[0], 0);
			assert_int_equal(off[size], n);
			for (int j = 0; j < size; j++)
				assert_int_equal(off[j + 1] - off[j],
				                 n / (uint64_t)size +
				                         ((uint64_t)j < n % (uint64_t)size));
		}
}

TEST(test_names)
{
	enum coll_kind k;

	for (unsigned i = 0; i < COLL_KINDS; i++) {
		assert_int_equal(coll_by_name(coll_name((enum coll_kind)i), &k), 0);
		assert_int_equal(k, i);
	}
	assert_int_equal(coll_by_name("reduce_scatter", &k), -1);
	assert_null(coll_find(COLL_BARRIER, "direct"));
}

TEST(test_rows_are_whole)
{
	for (size_t i = 0; i < coll_algorithms_len; i++) {
		const struct coll_algorithm *alg = coll_algorithms[i];
		char path[128];

		assert_ptr_equal(coll_find(alg->kind, alg->name), alg);
		assert_non_null(alg->help);
		assert_non_null(alg->steps);
		assert_non_null(alg->bytes);
		assert_non_null(alg->restrictions);
		assert_non_null(alg->source);
		assert_true(alg->emit || alg->falls_back);
		assert_int_equal(!alg->cost, !alg->emit);
		snprintf(path, sizeof(path), "algorithms/%s/%s.c", coll_name(alg->kind), alg->name);
		for (char *c = path; *c; c++)
			*c = *c == '-' ? '_' : *c;
		/* A row for devices is on the page of the steps that it names. */
		if (!access("algorithms/table.c", R_OK) && !(alg->flags & COLL_DEVICES))
			assert_int_equal(access(path, R_OK), 0);
	}
}

/* ---- devices ---- */

/* Only the inputs are in device memory, nothing is copied there, and files take the output from
 * host memory. */
static void check_lifted(const struct sched *s, uint64_t nin)
{
	uint64_t far = 0;

	for (uint32_t i = 0; i < s->nbufs; i++)
		far += s->bufs[i].place ? s->bufs[i].len : 0;
	assert_int_equal(far, (uint64_t)s->ninputs * nin);
	for (uint32_t i = 0; i < s->nsteps; i++) {
		const struct sched_step *st = &s->steps[i];

		if (st->op == SCHED_WRITE)
			assert_int_equal(s->bufs[st->src.buf].place, 0);
		if (st->op == SCHED_COPY)
			assert_true(s->bufs[st->src.buf].place || !s->bufs[st->dst.buf].place);
	}
}

TEST(test_only_inputs_are_on_devices)
{
	static const uint64_t off[] = {0, 3, 3, 8, 20, 21};
	enum sched_error e;

	for (size_t i = 0; i < coll_algorithms_len; i++) {
		struct coll_args a = {.size = 5, .root = 2, .off = off, .stores = true};
		const struct coll_algorithm *alg = coll_algorithms[i];
		const struct coll_algorithm *runs = coll_resolve(alg, &a);
		const bool several = coll_takes_several(alg->kind);

		if (alg->kind == COLL_EXCHANGE || alg->kind == COLL_ALLTOALL)
			continue;
		for (a.rank = 0; a.rank < a.size; a.rank++)
			for (a.ninputs = 1; a.ninputs <= (several ? 3 : 1); a.ninputs += 2)
				for (a.devices = 1; a.devices <= 2; a.devices++) {
					const struct coll_layout l =
					        coll_layout(alg->kind, a.rank, a.size, a.root);
					struct sched *s = coll_build(runs, &a, &e);
					assert_non_null(s);
					check_lifted(s, coll_in_at(alg->kind, &a, l.in_hi));
					sched_free(s);
				}
	}
}

/* ---- what is asked for ---- */

TEST(test_offsets_of_uneven_parts)
{
	static const uint64_t counts[] = {1, 2, 3, 0, 5, 0, 7, 0, 9};
	static const uint64_t sends[] = {0, 7, 7, 16}, receives[] = {0, 3, 3, 12};
	uint64_t off[4], recv_off[4];

	coll_offsets(counts, 3, 2, off, recv_off);
	assert_memory_equal(off, sends, sizeof(sends));
	assert_memory_equal(recv_off, receives, sizeof(receives));
}

TEST(test_steps_of_an_exchange)
{
	static const uint64_t off[13] = {0};
	enum sched_error e;

	for (unsigned steps = 0; steps < 40; steps++) {
		const struct coll_args a = {.size = 12, .ninputs = 1, .off = off, .steps = steps};
		struct sched *s = build(COLL_EXCHANGE, emit_nothing, &a, &e);

		assert_int_equal(e, steps == 1 || steps == 2 ? SCHED_OK : SCHED_STEPS);
		sched_free(s);
	}
}

int main(void)
{
	return unit_run(NULL, NULL);
}
