/*
 * The verifier and the algorithms: each holds what its row says, for every P; and what is wrong is
 * found. A verifier that finds nothing proves nothing, so every step of every algorithm is broken
 * in every way that is thought of here.
 */
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <cmocka.h>

#include "algorithms/verify.h"
#include "tests/unit/frontier_oracle.h"

#define MAX_SIZE 64

static bool long_run(void)
{
	return getenv("COLLCTL_LONG");
}

/* The largest number of ranks to go to. Sanitizers see the same code in smaller jobs. */
static int up_to(int size, int sanitized)
{
#ifdef COLLCTL_SANITIZED
	return long_run() ? size : sanitized;
#else
	(void)sanitized;
	return size;
#endif
}

/* ---- sets of schedules ---- */

struct set {
	const struct coll_algorithm *alg;
	struct coll_args args;
	uint64_t off[MAX_SIZE + 1];
	struct sched *s[MAX_SIZE];
};

static void set_build(struct set *t)
{
	struct coll_args a = t->args;

	for (a.rank = 0; a.rank < a.size; a.rank++) {
		enum sched_error e;

		t->s[a.rank] = sched_build(t->alg, &a, &e);
		assert_int_equal(e, SCHED_OK);
	}
}

static void set_init(struct set *t, const struct coll_algorithm *alg, int size, uint64_t n,
                     int ninputs)
{
	t->alg = alg;
	t->args =
	        (struct coll_args){.size = size, .ninputs = ninputs, .noutputs = 1, .off = t->off};
	coll_split(alg->kind == COLL_BARRIER ? 1 : n, size, t->off);
	set_build(t);
}

static bool set_verify(const struct set *t, char *why)
{
	return verify_schedules(t->alg, &t->args, t->s, why);
}

static void set_release(struct set *t)
{
	for (int r = 0; r < t->args.size; r++)
		sched_free(t->s[r]);
}

static void assert_verified(const struct coll_algorithm *alg, const struct coll_args *a)
{
	char why[VERIFY_TEXT];

	if (!verify_algorithm(alg, a, why))
		fail_msg("%s of %d ranks, %d inputs, %llu elements: %s", alg->name, a->size,
		         a->ninputs, (unsigned long long)a->off[a->size], why);
}

/* ---- the algorithms are right ---- */

static void test_every_size(void **state)
{
	(void)state;
	for (size_t i = 0; i < coll_algorithms_len; i++)
		for (int p = 1; p <= up_to(MAX_SIZE, 17); p++) {
			const struct coll_algorithm *alg = &coll_algorithms[i];
			const bool barrier = alg->kind == COLL_BARRIER;
			const uint64_t u = (uint64_t)p;
			const uint64_t ns[] = {97, u - 1, 0, u, 4 * u + 3, 1, 12 * u};
			const size_t count = barrier ? 1 : long_run() || p < 24 ? 7 : 3;

			for (size_t k = 0; k < count; k++) {
				uint64_t off[MAX_SIZE + 1];
				struct coll_args a = {
				        .size = p, .ninputs = 1, .noutputs = 1, .off = off};

				coll_split(ns[k], p, off);
				a.root = barrier ? p / 2 : 0;
				assert_verified(alg, &a);
				a.ninputs = 2 + (p & 1);
				if (!barrier && (long_run() || k == (p < 24 ? 4 : 0)))
					assert_verified(alg, &a);
			}
		}
}

static void test_random_blocks(void **state)
{
	const int runs = long_run() ? 20000 : 1000;

	(void)state;
	for (int i = 0; i < runs; i++) {
		uint64_t seed = (uint64_t)i, off[MAX_SIZE + 1];
		const struct coll_algorithm *alg =
		        &coll_algorithms[random_below(&seed, coll_algorithms_len)];
		const int p = 1 + (int)random_below(&seed, 20);
		struct coll_args a = {.size = p,
		                      .root = (int)random_below(&seed, (uint64_t)p),
		                      .ninputs = 1,
		                      .noutputs = 1,
		                      .off = off};

		if (alg->kind == COLL_BARRIER) {
			coll_split(1, p, off);
		} else {
			a.ninputs += (int)random_below(&seed, 3);
			off[0] = 0;
			for (int j = 0; j < p; j++)
				off[j + 1] = off[j] +
				             (random_below(&seed, 3) ? random_below(&seed, 12) : 0);
		}
		assert_verified(alg, &a);
	}
}

static void test_inputs_differ_between_ranks(void **state)
{
	(void)state;
	for (size_t i = 0; i < coll_algorithms_len; i++) {
		struct set t = {.alg = &coll_algorithms[i], .args = {.size = 7, .noutputs = 1}};
		char why[VERIFY_TEXT];

		if (t.alg->kind == COLL_BARRIER)
			continue;
		t.args.off = t.off;
		coll_split(45, 7, t.off);
		for (int r = 0; r < 7; r++) {
			enum sched_error e;

			t.args.rank = r;
			t.args.ninputs = 1 + r % 3;
			t.s[r] = sched_build(t.alg, &t.args, &e);
			assert_int_equal(e, SCHED_OK);
		}
		if (!set_verify(&t, why))
			fail_msg("%s: %s", t.alg->name, why);
		set_release(&t);
	}
}

static void test_long_vectors(void **state)
{
	(void)state;
	for (size_t i = 0; i < coll_algorithms_len; i++) {
		uint64_t off[6];
		const struct coll_args a = {.size = 5, .ninputs = 1, .noutputs = 1, .off = off};

		if (coll_algorithms[i].kind == COLL_BARRIER)
			continue;
		coll_split(UINT64_C(1) << 45, 5, off);
		assert_verified(&coll_algorithms[i], &a);
	}
}

/* ---- figures ---- */

static int larger(int a, int b)
{
	return a > b ? a : b;
}

/* circulant's allgather: the longest chain to the first @count blocks, when the pairs have come up
 * to @s1. */
static int circulant_chain(int s1, int count)
{
	const int s = s1 - s1 / 2;

	if (count <= 1)
		return 0;
	if (count <= s)
		return circulant_chain(s, count);
	return larger(circulant_chain(s, s), 1 + circulant_chain(s, s1 - s));
}

/*
 * The longest chain is the row's rounds, unless some blocks have nothing to wait for and go earlier
 * than their round: then it is known too.
 */
static uint64_t chain_of(const struct coll_algorithm *alg, int p, const struct coll_cost *c)
{
	const int phases = alg->kind == COLL_ALLREDUCE        ? 2
	                   : alg->kind == COLL_REDUCE_SCATTER ? 1
	                   : alg->kind == COLL_ALLGATHER      ? 1
	                                                      : 0;

	alg = coll_resolve(alg, &(struct coll_args){.size = p});
	if (phases && !strcmp(alg->name, "circulant"))
		return (uint64_t)(phases * circulant_chain(p, p));
	if (!strcmp(alg->name, "halving_doubling")) {
		int l = 0;

		while (p >> (l + 1))
			l++;
		return (uint64_t)(phases == 2 ? 2 * l : l + (p > 2));
	}
	return (uint64_t)c->rounds;
}

static void test_figures(void **state)
{
	(void)state;
	for (size_t i = 0; i < coll_algorithms_len; i++)
		for (int p = 1; p <= MAX_SIZE; p++) {
			const struct coll_algorithm *alg = &coll_algorithms[i];
			const uint64_t n = alg->kind == COLL_BARRIER ? 1 : MAX_SIZE * (uint64_t)p;
			struct sched_figures f;
			struct coll_cost c;
			char why[VERIFY_TEXT];
			struct set t;

			set_init(&t, alg, p, n, 1);
			c = coll_cost_of(alg, &t.args);
			assert_true(sched_figures(t.s, p, &f, why));
			assert_int_equal(f.rounds, chain_of(alg, p, &c));
			assert_true(fabs((double)f.elements - c.sent * (double)n) < 1e-6);
			assert_true(fabs((double)f.received - c.received * (double)n) < 1e-6);
			assert_true(fabs((double)f.reduced - c.reduced * (double)n) < 1e-6);
			assert_true((double)f.messages <= c.messages);
			set_release(&t);
		}
}

struct expected {
	const char *name;
	uint64_t messages, peers, scratch;
};

static void test_figures_by_hand(void **state)
{
	/* P = 6, 24 elements */
	static const struct expected want[] = {
	        {"ring_chunked", 20, 2, 0},      /* 4(P-1) */
	        {"recursive_doubling", 3, 3, 0}, /* 2 rounds and the fold */
	        {"direct", 10, 5, 4},
	        {"all_to_all", 5, 5, 0},
	        {"all_to_one", 5, 5, 0},
	        {"dissemination", 3, 4, 0}, /* r+1, r+2, r+4 = r-2; r-1 */
	};

	(void)state;
	for (size_t i = 0; i < sizeof(want) / sizeof(want[0]); i++) {
		const struct coll_algorithm *alg = coll_find(COLL_ALLREDUCE, want[i].name);
		struct sched_figures f;
		char why[VERIFY_TEXT];
		struct set t;

		alg = alg ? alg : coll_find(COLL_BARRIER, want[i].name);
		assert_non_null(alg);
		set_init(&t, alg, 6, 24, 1);
		assert_true(sched_figures(t.s, 6, &f, why));
		assert_int_equal(f.messages, want[i].messages);
		assert_int_equal(f.peers, want[i].peers);
		assert_int_equal(f.scratch, want[i].scratch);
		set_release(&t);
	}
}

/* ---- mutants: one step is broken ---- */

enum mutation {
	MUT_DROP,
	MUT_DST_UP,
	MUT_DST_DOWN,
	MUT_SRC_UP,
	MUT_SRC_DOWN,
	MUT_SHORTER,
	MUT_LONGER,
	MUT_FINAL,
	MUT_LEFT,
	MUT_LANE,
	MUT_PEER,              /* + k: the k-th rank */
	MUT_OP = MUT_PEER + 8, /* + k: the k-th operation */
	MUTATIONS = MUT_OP + SCHED_OPS
};

static void change_op(struct sched_step *st, unsigned op, int rank, int size)
{
	const bool wire = op == SCHED_SEND || op == SCHED_RECV || op == SCHED_RECV_REDUCE;

	st->op = (uint8_t)op;
	if (st->dst.buf == SCHED_NONE)
		st->dst = st->src;
	if (st->src.buf == SCHED_NONE)
		st->src = st->dst;
	if (wire && st->peer < 0)
		st->peer = (rank + 1) % size;
	if (!wire)
		st->peer = -1;
	if (op == SCHED_READ)
		st->src.buf = 0;
	if (op == SCHED_WRITE)
		st->dst.buf = 0;
}

/* Break step @i of @s; false where there is nothing to break in this way. */
static bool mutate(struct sched *s, uint32_t i, unsigned m)
{
	struct sched_step *st = &s->steps[i];

	if (m >= MUT_OP) {
		if (st->op == m - MUT_OP ||
		    (s->size == 1 && m - MUT_OP >= SCHED_SEND && m - MUT_OP <= SCHED_RECV_REDUCE))
			return false;
		change_op(st, m - MUT_OP, s->rank, s->size);
		return true;
	}
	if (m >= MUT_PEER) {
		const int peer = (int)(m - MUT_PEER);

		if (st->peer < 0 || peer >= s->size || peer == st->peer)
			return false;
		st->peer = peer;
		return true;
	}
	switch (m) {
	case MUT_DROP:
		memmove(st, st + 1, (s->nsteps - i - 1) * sizeof(*st));
		s->nsteps--;
		return true;
	case MUT_DST_UP:
	case MUT_DST_DOWN:
		st->dst.off += m == MUT_DST_UP ? 1 : UINT64_MAX;
		return st->dst.buf != SCHED_NONE;
	case MUT_SRC_UP:
	case MUT_SRC_DOWN:
		st->src.off += m == MUT_SRC_UP ? 1 : UINT64_MAX;
		return st->src.buf != SCHED_NONE;
	case MUT_SHORTER:
	case MUT_LONGER:
		st->len += m == MUT_LONGER ? 1 : UINT64_MAX;
		return true;
	case MUT_FINAL:
		st->flags ^= SCHED_FINAL;
		return true;
	case MUT_LEFT:
		st->flags ^= SCHED_WIRE_LEFT;
		return true;
	default:
		st->lane++;
		return st->peer >= 0;
	}
}

/*
 * Swapping the operands of a reduction leaves another schedule that is right too where its sum is
 * made once and copied, or where ranks may differ anyway: never where the order is promised, nor
 * where both partners of an exchange make the same sum.
 */
static bool may_swap(const struct set *t, int rank, const struct sched_step *st)
{
	const int p = t->args.size;
	const char *name = t->alg->name;

	if (st->op != SCHED_RECV_REDUCE && st->op != SCHED_REDUCE)
		return false;
	if (t->alg->flags & COLL_ORDERED)
		return false;
	if (!strcmp(name, "recursive_doubling")) {
		int core = 1;

		while (2 * core <= p)
			core *= 2;
		/* The fold: an odd rank among the first 2x takes its lower neighbour's vector. */
		return rank < 2 * (p - core) && rank % 2 && st->peer == rank - 1;
	}
	return true;
}

static bool covers(const struct access *x, struct sched_span at, const struct sched_step *st)
{
	return x->span.buf == at.buf && x->span.off <= at.off && at.off < x->span.off + st->len;
}

/* Does the input end where step @st of @rank ends to read it? */
static bool at_end(const struct set *t, int rank, const struct sched_step *st)
{
	struct coll_args a = t->args;
	const enum coll_kind kind = t->alg->kind;

	a.rank = rank;
	return st->src.off + st->len ==
	       coll_in_at(kind, &a, coll_layout(kind, rank, a.size, a.root).in_hi);
}

/*
 * One element more of a READ or LOCAL_REDUCE leaves the schedule right in two cases: the very same
 * was put there last, by a step of the same kind; or the next step that touches that element, if
 * any does, overwrites it unread.
 */
static bool may_lengthen(const struct set *t, const struct sched *s, uint32_t i)
{
	const struct sched_step *st = &s->steps[i];
	const struct sched_span at = span_add(st->dst, st->len);
	bool same = false;

	if ((st->op != SCHED_READ && st->op != SCHED_LOCAL_REDUCE) || at_end(t, s->rank, st))
		return false;
	for (uint32_t j = 0; j < s->nsteps; j++) {
		const struct sched_step *o = &s->steps[j];
		struct access x[16];
		bool reads = false, writes = false;

		for (int k = accesses_of(s, o, x) - 1; k >= 0; k--)
			if (covers(&x[k], at, o))
				*(x[k].writes ? &writes : &reads) = true;
		if (j < i && writes)
			same = o->op == st->op && o->src.buf == st->src.buf &&
			       at.off - o->dst.off + o->src.off == st->src.off + st->len;
		if (j > i && (reads || writes))
			return same || !reads;
	}
	return true;
}

static void copy_steps(struct sched *to, const struct sched *from)
{
	memcpy(to->steps, from->steps, from->nsteps * sizeof(*to->steps));
	to->nsteps = from->nsteps;
}

static struct sched *clone(const struct sched *s)
{
	struct sched *c = malloc(sizeof(*c));

	assert_non_null(c);
	*c = *s;
	c->steps = calloc((size_t)s->nsteps + 1, sizeof(*c->steps));
	c->bufs = calloc((size_t)s->nbufs + 1, sizeof(*c->bufs));
	c->deps = calloc((size_t)s->ndeps + 1, sizeof(*c->deps));
	assert_non_null(c->steps);
	assert_non_null(c->bufs);
	assert_non_null(c->deps);
	memcpy(c->steps, s->steps, s->nsteps * sizeof(*c->steps));
	memcpy(c->bufs, s->bufs, s->nbufs * sizeof(*c->bufs));
	memcpy(c->deps, s->deps, s->ndeps * sizeof(*c->deps));
	return c;
}

static unsigned long mutants, swapped, lengthened;

/* Every mutant of rank @r's schedule is found, but for those that are as good. */
static void check_mutants(struct set *t, int r)
{
	struct sched *good = t->s[r], *bad = clone(good);
	char why[VERIFY_TEXT];

	t->s[r] = bad;
	for (uint32_t i = 0; i < good->nsteps; i++)
		for (unsigned m = 0; m < MUTATIONS; m++) {
			const bool swap = m == MUT_LEFT && may_swap(t, r, &good->steps[i]);
			const bool lengthen = m == MUT_LONGER && may_lengthen(t, good, i);
			bool found;

			copy_steps(bad, good);
			if (!mutate(bad, i, m))
				continue;
			found = sched_infer(bad) || !set_verify(t, why);
			if (found == (swap || lengthen))
				fail_msg("%s of %d ranks, %d inputs: mutation %u of rank %d step "
				         "%u %s: %s",
				         t->alg->name, t->args.size, t->args.ninputs, m, r, i,
				         found ? "is refused" : "is not found", found ? why : "");
			mutants++;
			swapped += swap;
			lengthened += lengthen;
		}
	t->s[r] = good;
	sched_free(bad);
}

static void test_mutants(void **state)
{
	(void)state;
	for (size_t i = 0; i < coll_algorithms_len; i++)
		for (int p = 1; p <= up_to(8, 4); p++)
			for (int n = 1; n <= 2; n++) {
				struct set t;

				if (n > 1 && (coll_algorithms[i].kind == COLL_BARRIER || p > 4))
					continue;
				set_init(&t, &coll_algorithms[i], p, 3 * (uint64_t)p + 1, n);
				for (int r = 0; r < p; r++)
					check_mutants(&t, r);
				set_release(&t);
			}
	print_message("%lu mutants; as good are %lu swapped and %lu lengthened\n", mutants, swapped,
	              lengthened);
	assert_true(20 * (swapped + lengthened) < mutants);
}

/* ---- mutants: one dependency is gone ---- */

static void drop_dep(struct sched *s, const struct sched *good, uint32_t step, uint32_t k)
{
	struct sched_step *st = &s->steps[step];

	copy_steps(s, good);
	memcpy(s->deps, good->deps, good->ndeps * sizeof(*s->deps));
	s->ndeps = good->ndeps;
	st->ndep--;
	memmove(&s->deps[st->dep + k], &s->deps[st->dep + k + 1],
	        (st->ndep - k) * sizeof(*s->deps));
}

/* The verifier misses a dropped dependency exactly where the others imply it. */
static void check_dropped(struct set *t, int r, unsigned long *needed, unsigned long *implied)
{
	struct sched *good = t->s[r], *bad = clone(good);
	char why[VERIFY_TEXT];

	assert_false(oracle_racy(good));
	assert_true(oracle_needed(good));
	t->s[r] = bad;
	for (uint32_t i = 0; i < good->nsteps; i++)
		for (uint32_t k = 0; k < good->steps[i].ndep; k++) {
			bool racy, found;

			drop_dep(bad, good, i, k);
			racy = oracle_racy(bad);
			found = !set_verify(t, why);
			if (racy != found)
				fail_msg("%s of %d ranks: dependency %u of rank %d step %u is %s",
				         t->alg->name, t->args.size, k, r, i,
				         racy ? "missed" : "implied, but refused");
			*(racy ? needed : implied) += 1;
		}
	t->s[r] = good;
	sched_free(bad);
}

static void test_dropped_dependencies(void **state)
{
	unsigned long needed = 0, implied = 0;

	(void)state;
	for (size_t i = 0; i < coll_algorithms_len; i++)
		for (int p = 2; p <= up_to(6, 4); p++) {
			struct set t;

			set_init(&t, &coll_algorithms[i], p, 2 * (uint64_t)p + 1,
			         1 + (p == 3 && coll_algorithms[i].kind != COLL_BARRIER));
			for (int r = 0; r < p; r++)
				check_dropped(&t, r, &needed, &implied);
			set_release(&t);
		}
	print_message("%lu dropped dependencies are needed, %lu implied\n", needed, implied);
	assert_true(needed > 10 * implied);
}

/* A dependency that holds on a part of its range only. */
static void test_shortened_dependencies(void **state)
{
	struct sched *good, *bad;
	char why[VERIFY_TEXT];
	struct set t;
	int shortened = 0;

	(void)state;
	set_init(&t, coll_find(COLL_ALLREDUCE, "recursive_doubling"), 4, 9, 1);
	good = t.s[1];
	bad = t.s[1] = clone(good);
	for (uint32_t k = 0; k < good->ndeps; k++)
		for (int end = 0; end < 2; end++) {
			memcpy(bad->deps, good->deps, good->ndeps * sizeof(*bad->deps));
			if (end)
				bad->deps[k].hi--;
			else
				bad->deps[k].lo++;
			if (oracle_racy(bad) != !set_verify(&t, why))
				fail_msg("dependency %u cut at end %d", k, end);
			shortened += oracle_racy(bad);
		}
	assert_true(shortened > 0);
	t.s[1] = good;
	sched_free(bad);
	set_release(&t);
}

static void test_malformed_dependencies(void **state)
{
	struct sched *good, *bad;
	char why[VERIFY_TEXT];
	struct set t;

	(void)state;
	set_init(&t, coll_find(COLL_ALLREDUCE, "recursive_doubling"), 2, 9, 1);
	good = t.s[1];
	bad = t.s[1] = clone(good);
	bad->deps[bad->steps[2].dep].step = 2; /* itself */
	assert_false(set_verify(&t, why));
	assert_non_null(strstr(why, "malformed"));
	memcpy(bad->deps, good->deps, good->ndeps * sizeof(*bad->deps));
	bad->deps[bad->steps[2].dep].shift += 100;
	assert_false(set_verify(&t, why));
	assert_non_null(strstr(why, "malformed"));
	t.s[1] = good;
	sched_free(bad);
	set_release(&t);
}

/* ---- what a row promises is checked ---- */

static void refuse(enum coll_kind kind, const char *name, unsigned flags, int size,
                   const char *because)
{
	struct coll_algorithm alg = *coll_find(kind, name);
	uint64_t off[MAX_SIZE + 1];
	const struct coll_args a = {.size = size, .ninputs = 1, .noutputs = 1, .off = off};
	char why[VERIFY_TEXT];

	alg.flags = flags;
	coll_split(kind == COLL_BARRIER ? 1 : 3 * (uint64_t)size, size, off);
	assert_false(verify_algorithm(&alg, &a, why));
	if (!strstr(why, because))
		fail_msg("%s: %s", name, why);
}

static void test_promises(void **state)
{
	(void)state;
	refuse(COLL_ALLREDUCE, "ring_chunked", COLL_ORDERED, 4, "rank order");
	refuse(COLL_ALLREDUCE, "recursive_doubling", COLL_ORDERED, 4, "rank order");
	refuse(COLL_ALLREDUCE, "ring_chunked", COLL_FINAL, 4, "not applied");
	refuse(COLL_ALLREDUCE, "direct", COLL_ORDERED, 4, "unannounced");
	refuse(COLL_BARRIER, "all_to_all", 0, 3, "another order");
	refuse(COLL_BARRIER, "dissemination", COLL_DIVERGENT, 3, "twice");
}

static void verify_toy(enum coll_kind kind, unsigned flags,
                       void (*emit)(struct sched_builder *, const struct coll_args *), int size,
                       uint64_t n, const char *because)
{
	const struct coll_algorithm alg = {
	        .kind = kind, .name = "toy", .flags = flags, .emit = emit};
	uint64_t off[MAX_SIZE + 1];
	const struct coll_args a = {
	        .size = size, .root = size / 2, .ninputs = 1, .noutputs = 1, .off = off};
	char why[VERIFY_TEXT] = "";
	bool ok;

	coll_split(n, size, off);
	ok = verify_algorithm(&alg, &a, why);
	if (ok == !!because || (because && !strstr(why, because)))
		fail_msg("%s, %d ranks: %s", coll_name(kind), size, ok ? "verified" : why);
}

/* Both send n elements and receive to where their last ones stand: on a lane of one element neither
 * gets rid of its last. */
static void emit_stuck(struct sched_builder *b, const struct coll_args *a)
{
	const uint64_t n = a->off[a->size];
	const struct sched_span s = sched_scratch(b, SCHED_DATA, 2 * n - 1);

	sched_copy(b, s, sched_out(b, 0), n, 0);
	sched_send(b, !a->rank, s, n);
	sched_recv(b, !a->rank, span_add(s, n - 1), n);
	sched_reduce(b, sched_out(b, 0), span_add(s, n - 1), n, a->rank ? SCHED_WIRE_LEFT : 0);
}

/* Each waits for the other before it sends. */
static void emit_circle(struct sched_builder *b, const struct coll_args *a)
{
	sched_recv(b, !a->rank, sched_out(b, 0), a->off[2]);
	sched_send(b, !a->rank, sched_out(b, 0), a->off[2]);
}

/* Rank 1's two messages are the wrong way round. */
static void emit_swapped(struct sched_builder *b, const struct coll_args *a)
{
	const uint64_t n = a->off[1];
	const uint64_t first = a->rank ? n : 0, second = a->rank ? 0 : n;
	const struct sched_span s = sched_scratch(b, SCHED_DATA, 2 * n);
	const unsigned left = a->rank ? SCHED_WIRE_LEFT : 0;

	sched_send(b, !a->rank, sched_out(b, first), n);
	sched_send(b, !a->rank, sched_out(b, second), n);
	sched_recv(b, !a->rank, s, 2 * n > n ? n : 0);
	sched_recv(b, !a->rank, span_add(s, n), n);
	sched_reduce(b, sched_out(b, 0), s, 2 * n, left);
}

/* Never summed: the rank's own contribution alone. */
static void emit_idle(struct sched_builder *b, const struct coll_args *a)
{
	(void)b;
	(void)a;
}

/* The same sum in an order that differs by rank. */
static void emit_own_first(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span out = sched_out(b, 0);

	sched_send(b, !a->rank, out, a->off[2]);
	sched_recv_reduce(b, !a->rank, out, out, a->off[2], 0);
}

static void test_defects(void **state)
{
	(void)state;
	verify_toy(COLL_ALLREDUCE, 0, emit_stuck, 2, 1, NULL);
	verify_toy(COLL_ALLREDUCE, 0, emit_stuck, 2, 4, "in a circle");
	verify_toy(COLL_ALLREDUCE, 0, emit_circle, 2, 4, "waits for itself");
	verify_toy(COLL_ALLREDUCE, 0, emit_swapped, 2, 6, "adds element");
	verify_toy(COLL_ALLREDUCE, 0, emit_idle, 2, 6, "1 of 2 contributions are missing");
	verify_toy(COLL_ALLREDUCE, 0, emit_own_first, 2, 6, "another order");
	verify_toy(COLL_ALLREDUCE, COLL_DIVERGENT, emit_own_first, 2, 6, NULL);
}

/* ---- collectives whose input or output is a part ---- */

static uint64_t block_len(const struct coll_args *a, int j)
{
	return a->off[j + 1] - a->off[j];
}

static void emit_allgather(struct sched_builder *b, const struct coll_args *a)
{
	const uint64_t own = block_len(a, a->rank);

	sched_fold_inputs(b, sched_out(b, a->off[a->rank]), 0, own);
	for (int p = 0; p < a->size; p++) {
		if (p == a->rank)
			continue;
		sched_send(b, p, sched_out(b, a->off[a->rank]), own);
		sched_recv(b, p, sched_out(b, a->off[p]), block_len(a, p));
	}
}

static void emit_reduce_scatter(struct sched_builder *b, const struct coll_args *a)
{
	const uint64_t own = block_len(a, a->rank);

	for (int p = 0; p < a->size; p++)
		if (p != a->rank)
			sched_send(b, p, sched_in(b, 0, a->off[p]), block_len(a, p));
	for (int p = 0; p < a->size; p++)
		if (p != a->rank)
			sched_recv_reduce(b, p, sched_out(b, 0), sched_out(b, 0), own, 0);
}

static void emit_broadcast(struct sched_builder *b, const struct coll_args *a)
{
	for (int p = 0; a->rank == a->root && p < a->size; p++)
		if (p != a->root)
			sched_send(b, p, sched_out(b, 0), a->off[a->size]);
	if (a->rank != a->root)
		sched_recv(b, a->root, sched_out(b, 0), a->off[a->size]);
}

static void emit_scatter(struct sched_builder *b, const struct coll_args *a)
{
	for (int p = 0; a->rank == a->root && p < a->size; p++)
		if (p != a->root)
			sched_send(b, p, sched_in(b, 0, a->off[p]), block_len(a, p));
	if (a->rank != a->root)
		sched_recv(b, a->root, sched_out(b, 0), block_len(a, a->rank));
}

static void emit_gather(struct sched_builder *b, const struct coll_args *a)
{
	for (int p = 0; a->rank == a->root && p < a->size; p++)
		if (p != a->root)
			sched_recv(b, p, sched_out(b, a->off[p]), block_len(a, p));
	if (a->rank != a->root)
		sched_send(b, a->root, sched_in(b, 0, 0), block_len(a, a->rank));
}

static void emit_reduce(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span out = sched_out(b, 0);

	for (int p = 0; a->rank == a->root && p < a->size; p++)
		if (p != a->root)
			sched_recv_reduce(b, p, out, out, a->off[a->size], 0);
	if (a->rank != a->root)
		sched_send(b, a->root, sched_in(b, 0, 0), a->off[a->size]);
}

static void emit_scan(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span out = sched_out(b, 0);

	if (a->rank)
		sched_recv_reduce(b, a->rank - 1, out, out, a->off[a->size], SCHED_WIRE_LEFT);
	if (a->rank + 1 < a->size)
		sched_send(b, a->rank + 1, out, a->off[a->size]);
}

static void test_parts(void **state)
{
	static const struct {
		enum coll_kind kind;
		void (*emit)(struct sched_builder *, const struct coll_args *);
	} toys[] = {
	        {COLL_ALLGATHER, emit_allgather}, {COLL_REDUCE_SCATTER, emit_reduce_scatter},
	        {COLL_BROADCAST, emit_broadcast}, {COLL_SCATTER, emit_scatter},
	        {COLL_GATHER, emit_gather},       {COLL_REDUCE, emit_reduce},
	        {COLL_SCAN, emit_scan},
	};

	(void)state;
	for (size_t i = 0; i < sizeof(toys) / sizeof(toys[0]); i++)
		for (int p = 1; p <= 7; p++) {
			verify_toy(toys[i].kind, 0, toys[i].emit, p, 3 * (uint64_t)p + 2, NULL);
			verify_toy(toys[i].kind, 0, toys[i].emit, p, (uint64_t)p / 2, NULL);
		}
	/* One collective's schedule is none of another. */
	verify_toy(COLL_ALLREDUCE, 0, emit_scan, 3, 7, "contributions are missing");
	verify_toy(COLL_SCAN, 0, coll_find(COLL_ALLREDUCE, "circulant")->emit, 3, 7,
	           "does not belong there");
	verify_toy(COLL_ALLGATHER, 0, emit_gather, 3, 7, "before anything is there");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_every_size),
	        cmocka_unit_test(test_random_blocks),
	        cmocka_unit_test(test_inputs_differ_between_ranks),
	        cmocka_unit_test(test_long_vectors),
	        cmocka_unit_test(test_figures),
	        cmocka_unit_test(test_figures_by_hand),
	        cmocka_unit_test(test_mutants),
	        cmocka_unit_test(test_dropped_dependencies),
	        cmocka_unit_test(test_shortened_dependencies),
	        cmocka_unit_test(test_malformed_dependencies),
	        cmocka_unit_test(test_promises),
	        cmocka_unit_test(test_defects),
	        cmocka_unit_test(test_parts),
	};

	return cmocka_run_group_tests_name("verify", tests, NULL, NULL);
}
