/*
 * Broken schedules: a verifier that finds nothing proves nothing, so every step of every algorithm
 * is broken in every way that is thought of here. What it does not find must be as good as what was
 * there: the oracle, which runs it with numbers, says whether it is.
 */
#include "algorithms/table.h"
#include "tests/unit/concrete.h"

/* ---- mutants: one step is broken ---- */

enum mutation {
	MUT_DROP,
	MUT_DST_UP,
	MUT_DST_DOWN,
	MUT_SRC_UP,
	MUT_SRC_DOWN,
	MUT_DST_BUF,
	MUT_SRC_BUF,
	MUT_SHORTER,
	MUT_LONGER,
	MUT_FINAL,
	MUT_LEFT,
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
	case MUT_DST_BUF:
		st->dst.buf++;
		return st->dst.buf != SCHED_NONE + 1;
	case MUT_SRC_BUF:
		st->src.buf++;
		return st->src.buf != SCHED_NONE + 1;
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
		return false;
	}
}

/* ---- mutants are found ---- */

static unsigned long mutants, as_good, strict, asked;

/*
 * A mutant that is not found is one that the oracle runs to the right end: operands swapped where a
 * sum is made once and copied, or where ranks may differ; an element more read or copied, that is
 * overwritten unread; a copy that only keeps others waiting. One that is found may yet come to the
 * right end, by luck (what it reads is not there, or is overwritten unread): these are few.
 */
static void judge(struct set *t, int r, uint32_t i, unsigned m, struct sched *bad)
{
	char why[VERIFY_TEXT] = "";
	const bool sound = !sched_infer(bad), found = !sound || !set_verify(t, why);

	mutants++;
	if (!found) {
		as_good++;
		if (!concretely_right(t))
			fail_msg("%s: mutation %u of rank %d step %u is not found",
			         shape_words(t->alg, &t->shape), m, r, i);
	} else if (sound && mutants % 64 == 0) {
		asked++;
		strict += concretely_right(t);
	}
}

/* Break rank @r's schedule; of all the mutants take one in @stride, which @seed chooses. */
static void check_mutants(struct set *t, int r, uint64_t stride, uint64_t *seed)
{
	struct sched *good = t->s[r], *bad = clone(good);

	t->s[r] = bad;
	for (uint32_t i = 0; i < good->nsteps; i++)
		for (unsigned m = 0; m < MUTATIONS; m++) {
			if (random_below(seed, stride))
				continue;
			copy_steps(bad, good);
			if (mutate(bad, i, m))
				judge(t, r, i, m, bad);
		}
	t->s[r] = good;
	sched_free(bad);
}

/* About @wanted mutants of a set. */
static void check_set(const struct coll_algorithm *alg, const struct shape *sh, uint64_t wanted)
{
	uint64_t seed = (uint64_t)sh->size, n = 0;
	struct set t;

	set_init(&t, alg, sh);
	if (!concretely_right(&t))
		fail_msg("%s: the oracle says no", shape_words(alg, sh));
	for (int r = 0; r < t.size; r++)
		n += t.s[r]->nsteps * (uint64_t)MUTATIONS;
	for (int r = 0; r < t.size; r++)
		check_mutants(&t, r, n > wanted ? n / wanted : 1, &seed);
	set_release(&t);
}

/* Hosts of two ranks; of an odd number of ranks one has three. */
static const int hosts[] = {0, 0, 1, 1, 2, 2, 3, 3}, odd_hosts[] = {0, 1, 1, 0, 1, 2, 2};

static bool knows_hosts(const struct coll_algorithm *alg)
{
	return !strcmp(alg->name, "hosts") || !strcmp(alg->name, "circulant") ||
	       !strcmp(alg->name, "weighted_hosts") ||
	       (alg->kind == COLL_BROADCAST && !strcmp(alg->name, "weighted"));
}

TEST(test_mutants)
{
	static const uint64_t uneven[] = {2, 3, 0, 1, 1, 2, 4, 0, 3, 1, 2, 2, 0, 0, 5, 1};
	const uint64_t wanted = long_run() ? 6000 : 1500;

	for (size_t i = 0; i < coll_algorithms_len; i++)
		for (int p = 1; p <= up_to(8, 4); p++)
			for (int n = 1; n <= 2; n++) {
				struct shape sh = {.size = p, .root = p / 2, .ninputs = n};

				shape_split(&sh, 3 * (uint64_t)p + 1);
				if (shape_fit(&sh, coll_algorithms[i]) && sh.ninputs == n)
					check_set(coll_algorithms[i], &sh, wanted);
				sh.devices = 1 + (int)(i + (size_t)p) % 2;
				if (sh.ninputs == n && p % 2 == 0)
					check_set(coll_algorithms[i], &sh, wanted / 2);
				sh.devices = 0;
				sh.host = p % 2 ? odd_hosts : hosts;
				if (knows_hosts(coll_algorithms[i]) && p > 2 && sh.ninputs == n)
					check_set(coll_algorithms[i], &sh, wanted);
				sh.host = NULL;
				sh.joins = true;
				if (shape_fit(&sh, coll_algorithms[i]))
					check_set(coll_algorithms[i], &sh, wanted);
				sh.joins = false;
				if (coll_algorithms[i]->kind != COLL_ALLTOALL || n > 1 || p > 4)
					continue;
				sh.counts = uneven;
				check_set(coll_algorithms[i], &sh, wanted);
			}
	print_message("%lu mutants, %lu as good; of %lu that are found the oracle passes %lu\n",
	              mutants, as_good, asked, strict);
	assert_true(10 * as_good < mutants);
	assert_true(10 * strict < asked);
}

/* ---- mutants of joint operations ---- */

/* Does step @i of @s store a contribution where a joint operation reads it? */
static bool stores_contribution(const struct sched *s, uint32_t i)
{
	const struct sched_step *st = &s->steps[i];

	return (st->op == SCHED_RECV || st->op == SCHED_COPY) &&
	       st->dst.buf >= sched_scratch_from(s);
}

/* @bad is rank @r's schedule in @t. */
static void must_be_refused(struct set *t, int r, struct sched *bad, const char *what)
{
	char why[VERIFY_TEXT];

	t->s[r] = bad;
	if (sched_infer(bad))
		return;
	if (concretely_right(t))
		fail_msg("%s: rank %d: %s is as good", shape_words(t->alg, &t->shape), r, what);
	if (set_verify(t, why))
		fail_msg("%s: rank %d: %s is not found", shape_words(t->alg, &t->shape), r, what);
}

/* Two contributions change places; one stands twice, and another nowhere. */
static int check_places(struct set *t, int r, struct sched *good, struct sched *bad)
{
	int found = 0;

	for (uint32_t i = 0; i < good->nsteps; i++)
		for (uint32_t j = 0; j < good->nsteps; j++) {
			if (i == j || !stores_contribution(good, i) ||
			    !stores_contribution(good, j))
				continue;
			copy_steps(bad, good);
			bad->steps[i].dst = good->steps[j].dst;
			must_be_refused(t, r, bad, "a contribution in the place of another");
			bad->steps[j].dst = good->steps[i].dst;
			must_be_refused(t, r, bad, "an exchange of two contributions");
			found += 2;
		}
	return found;
}

/* A rank sends an input in the place of another, or another part of it. */
static int check_sends(struct set *t, int r, struct sched *good, struct sched *bad)
{
	int found = 0;

	for (uint32_t i = 0; i < good->nsteps; i++)
		for (uint32_t k = 0; k < (uint32_t)good->ninputs && good->ninputs > 1; k++) {
			if (good->steps[i].op != SCHED_SEND || good->steps[i].src.buf == k ||
			    good->steps[i].src.buf >= (uint32_t)good->ninputs)
				continue;
			copy_steps(bad, good);
			bad->steps[i].src.buf = k;
			must_be_refused(t, r, bad, "an input that is sent twice");
			found++;
		}
	return found;
}

TEST(test_joint_mutants)
{
	int places = 0, sends = 0;

	for (size_t i = 0; i < coll_algorithms_len; i++)
		for (int p = 2; p <= 4; p++)
			for (int n = 0; n <= 2; n++) {
				struct shape sh = {
				        .size = p, .root = p - 1, .ninputs = n, .joins = true};
				struct set t;

				shape_split(&sh, 3 * (uint64_t)p + 1);
				if (!shape_fit(&sh, coll_algorithms[i]))
					continue;
				set_init(&t, coll_algorithms[i], &sh);
				for (int r = 0; r < p; r++) {
					struct sched *good = t.s[r], *bad = clone(good);

					places += check_places(&t, r, good, bad);
					sends += check_sends(&t, r, good, bad);
					t.s[r] = good;
					sched_free(bad);
				}
				set_release(&t);
			}
	assert_true(places > 100 && sends > 10);
}

/* The median of a median and another contribution is not that of all. */
static void emit_nested(struct sched_builder *b, const struct coll_args *a)
{
	const uint64_t len = coll_count(a);
	const struct sched_span first = sched_scratch(b, SCHED_DATA, len);
	const struct sched_span second = sched_scratch(b, SCHED_DATA, len);
	struct sched_span between = sched_scratch(b, SCHED_DATA, len);

	if (a->rank) {
		sched_send(b, 0, sched_in(b, 0, 0), len);
		return;
	}
	sched_copy(b, first, sched_in(b, 0, 0), len, 0);
	sched_recv(b, 1, second, len);
	sched_joint(b, between, first, len);
	sched_copy(b, first, between, len, 0);
	sched_joint(b, sched_out(b, 0), first, len);
}

TEST(test_nested_joint)
{
	static const struct coll_algorithm nested = {
	        .kind = COLL_REDUCE, .name = "nested", .flags = COLL_JOINT, .emit = emit_nested};
	struct shape sh = {.size = 2, .ninputs = 1, .joins = true};
	char why[VERIFY_TEXT];

	shape_split(&sh, 5);
	assert_true(shape_fit(&sh, &nested));
	const struct coll_args a = shape_args(&sh);
	assert_false(verify_algorithm(&nested, &a, why));
	assert_non_null(strstr(why, "contribution"));
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
				         t->alg->name, t->size, k, r, i,
				         racy ? "missed" : "implied, but refused");
			*(racy ? needed : implied) += 1;
		}
	t->s[r] = good;
	sched_free(bad);
}

TEST(test_dropped_dependencies)
{
	unsigned long needed = 0, implied = 0;

	for (size_t i = 0; i < coll_algorithms_len; i++)
		for (int p = 2; p <= up_to(6, 4); p++) {
			struct set t;

			struct shape sh = {.size = p, .root = p / 2, .ninputs = 1 + (p == 3)};

			shape_split(&sh, 2 * (uint64_t)p + 1);
			if (!shape_fit(&sh, coll_algorithms[i]))
				continue;
			if (knows_hosts(coll_algorithms[i]) && p > 2)
				sh.host = p % 2 ? odd_hosts : hosts;
			set_init(&t, coll_algorithms[i], &sh);
			for (int r = 0; r < p; r++)
				check_dropped(&t, r, &needed, &implied);
			set_release(&t);
		}
	print_message("%lu dropped dependencies are needed, %lu implied\n", needed, implied);
	assert_true(needed > 10 * implied);
}

/* A dependency that holds on a part of its range only. */
TEST(test_shortened_dependencies)
{
	struct sched *good, *bad;
	char why[VERIFY_TEXT];
	struct shape sh = {.size = 4, .ninputs = 1};
	struct set t;
	int shortened = 0;

	shape_split(&sh, 9);
	set_init(&t, coll_find(COLL_ALLREDUCE, "recursive_doubling"), &sh);
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

TEST(test_malformed_dependencies)
{
	struct sched *good, *bad;
	char why[VERIFY_TEXT];
	struct shape sh = {.size = 2, .ninputs = 1};
	struct set t;

	shape_split(&sh, 9);
	set_init(&t, coll_find(COLL_ALLREDUCE, "recursive_doubling"), &sh);
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

int main(void)
{
	return unit_run(NULL, NULL);
}
