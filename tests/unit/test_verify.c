/*
 * The algorithms: each holds what its row says, for every P, root, base and blocks.
 */
#include <math.h>

#include "algorithms/traeff.h"
#include "tests/unit/concrete.h"

/* ---- the algorithms are right ---- */

static bool is_rooted(const struct coll_algorithm *alg)
{
	return alg->kind == COLL_BARRIER || alg->kind == COLL_BROADCAST ||
	       alg->kind == COLL_REDUCE || alg->kind == COLL_SCATTER || alg->kind == COLL_GATHER;
}

static void test_every_size(void **state)
{
	(void)state;
	for (size_t i = 0; i < coll_algorithms_len; i++)
		for (int p = 1; p <= up_to(MAX_SIZE, 17); p++) {
			const struct coll_algorithm *alg = &coll_algorithms[i];
			const uint64_t u = (uint64_t)p;
			const uint64_t ns[] = {97, u - 1, 0, u, 4 * u + 3, 1, 12 * u};
			const int roots[] = {0, p / 2, p - 1};
			const size_t count = long_run() || p < 24 ? 7 : 3;

			for (size_t k = 0; k < (alg->kind == COLL_BARRIER ? 3 : count); k++) {
				struct shape sh = {.size = p, .ninputs = 1};

				shape_split(&sh, ns[k]);
				sh.root = is_rooted(alg) ? roots[k % 3] : 0;
				if (!shape_fit(&sh, alg))
					continue;
				assert_verified(alg, &sh);
				sh.ninputs = p % 3; /* 0: they differ between ranks */
				sh.ninputs += sh.ninputs == 1;
				if (coll_takes_several(alg->kind) && (long_run() || k == 0))
					assert_verified(alg, &sh);
			}
		}
}

/* Blocks of up to 11 elements, a third of them empty. */
static void random_blocks(struct shape *sh, uint64_t *seed)
{
	sh->off[0] = 0;
	for (int j = 0; j < sh->size; j++)
		sh->off[j + 1] = sh->off[j] + (random_below(seed, 3) ? random_below(seed, 12) : 0);
}

static void random_counts(uint64_t *counts, int size, uint64_t *seed)
{
	const uint64_t most = 1 + random_below(seed, 12);

	for (int i = 0; i < size * size; i++)
		counts[i] = random_below(seed, 3) ? random_below(seed, most) : 0;
}

/* A case of its own for each seed: verified, and run with numbers where that is not too much. */
static void one_property(uint64_t seed)
{
	uint64_t counts[20 * 20];
	const struct coll_algorithm *alg =
	        &coll_algorithms[random_below(&seed, coll_algorithms_len)];
	struct shape sh = {.size = 1 + (int)random_below(&seed, 20)};
	struct set t;

	sh.root = (int)random_below(&seed, (uint64_t)sh.size);
	sh.ninputs = (int)random_below(&seed, 4);
	sh.base = (unsigned)random_below(&seed, 7);
	sh.base += sh.base == 1;
	sh.steps = (unsigned)random_below(&seed, 5);
	random_blocks(&sh, &seed);
	if (!shape_fit(&sh, alg))
		return;
	if (alg->kind == COLL_ALLTOALL && random_below(&seed, 2)) {
		random_counts(counts, sh.size, &seed);
		sh.counts = counts;
	}
	assert_verified(alg, &sh);
	if (sh.size > 9)
		return;
	set_init(&t, alg, &sh);
	if (!concretely_right(&t))
		fail_msg("%s: wrong numbers", shape_words(alg, &sh));
	set_release(&t);
}

static void test_random_cases(void **state)
{
	const uint64_t runs = long_run() ? 100000 : 4000;

	(void)state;
	for (uint64_t i = 0; i < runs; i++)
		one_property(i);
}

static void test_long_vectors(void **state)
{
	(void)state;
	for (size_t i = 0; i < coll_algorithms_len; i++) {
		struct shape sh = {.size = 6, .root = 3, .ninputs = 1};

		shape_split(&sh, UINT64_C(1) << 45);
		assert_true(shape_fit(&sh, &coll_algorithms[i]));
		assert_verified(&coll_algorithms[i], &sh);
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

/* alltoall bruck (k = 2): the longest chain to what goes @w far. What has gone @v far before
 * goes with it if there are so many ranks. */
static int transit_chain(int w, int p)
{
	int most = 0;

	for (int v = 1; v < w && v + w < p; v *= 2)
		most = larger(most, transit_chain(v, p));
	return 1 + most;
}

/* doubling_123: what is sent in the last of @q rounds has come in the round before where there is a
 * rank that has to receive in both; s is the last skip. */
static int chain_123(int q, int p)
{
	const int s = q < 3 ? q : 3 << (q - 3);

	return q - (q > 1 && p < (q == 2 ? 4 : s + (s + 1) / 2 + 2));
}

/* bruck: the longest chain to the first @count slots, of radix @k. */
static int bruck_chain(int p, int k, int count)
{
	int rounds = 0, d = 1;

	if (count <= 1)
		return 0;
	for (; d * k < count; d *= k)
		rounds++;
	/* Does the round hold a whole message, of d slots? */
	return 2 * d <= p ? rounds + 1 : larger(rounds, 1 + bruck_chain(p, k, p - d));
}

/* Who broadcasts or reduces in blocks sends some before their round: the row's rounds are a bound.
 */
static bool chain_is_shorter(const struct coll_algorithm *alg)
{
	return (alg->kind == COLL_BROADCAST || alg->kind == COLL_REDUCE) &&
	       (!strcmp(alg->name, "circulant") || !strcmp(alg->name, "scatter_allgather") ||
	        !strcmp(alg->name, "rs_gather"));
}

/* The elements that make blocks even: those of the ranks and of halves of halves, and those that
 * broadcast and reduce circulant cut. */
static uint64_t even_count(const struct coll_algorithm *alg, int p)
{
	if (alg->kind == COLL_BARRIER)
		return 1;
	return MAX_SIZE * (uint64_t)p * (chain_is_shorter(alg) ? (uint64_t)traeff_blocks(p) : 1);
}

/*
 * The longest chain is the row's rounds, unless some blocks have nothing to wait for and go earlier
 * than their round: then it is known too.
 */
static uint64_t chain_of(const struct coll_algorithm *alg, const struct coll_args *a,
                         const struct coll_cost *c)
{
	const int phases = alg->kind == COLL_ALLREDUCE        ? 2
	                   : alg->kind == COLL_REDUCE_SCATTER ? 1
	                   : alg->kind == COLL_ALLGATHER      ? 1
	                                                      : 0;
	const int p = a->size;
	int l = 0;

	while (p >> (l + 1))
		l++;
	alg = coll_resolve(alg, a);
	if (phases && !strcmp(alg->name, "circulant"))
		return (uint64_t)(phases * circulant_chain(p, p));
	if (!strcmp(alg->name, "doubling_123") && p > 1)
		return (uint64_t)chain_123((int)c->rounds, p);
	if (alg->kind == COLL_ALLTOALL && !strcmp(alg->name, "bruck")) {
		int most = 0;

		for (int w = 1; w < p; w *= 2)
			most = larger(most, transit_chain(w, p));
		return (uint64_t)most;
	}
	if (!strcmp(alg->name, "halving_doubling"))
		return (uint64_t)(phases == 2 ? 2 * l : l + (p > 2));
	if (alg->kind == COLL_ALLGATHER && !strcmp(alg->name, "bruck"))
		return (uint64_t)bruck_chain(p, 2, p);
	if (!strcmp(alg->name, "sparbit") || !strcmp(alg->name, "binomial"))
		return (uint64_t)l;
	return (uint64_t)c->rounds;
}

static void must_be(const struct coll_algorithm *alg, int p, const char *what, double is,
                    double should)
{
	if (fabs(is - should) > 1e-6)
		fail_msg("%s %s of %d ranks: %s: %g, not %g", coll_name(alg->kind), alg->name, p,
		         what, is, should);
}

static void test_figures(void **state)
{
	(void)state;
	for (size_t i = 0; i < coll_algorithms_len; i++)
		for (int p = 1; p <= MAX_SIZE; p++) {
			const struct coll_algorithm *alg = &coll_algorithms[i];
			const uint64_t n = even_count(alg, p);
			struct shape sh = {.size = p, .ninputs = 1};
			struct sched_figures f;
			struct coll_cost c;
			char why[VERIFY_TEXT];
			struct set t;

			shape_split(&sh, n);
			if (!shape_fit(&sh, alg))
				continue;
			set_init(&t, alg, &sh);
			c = coll_cost_of(alg, &t.args[0]);
			assert_true(sched_figures(t.s, p, &f, why));
			if (chain_is_shorter(alg))
				assert_in_range(f.rounds, log2_floor(p), (uint64_t)c.rounds);
			else
				must_be(alg, p, "rounds", (double)f.rounds,
				        (double)chain_of(alg, &t.args[0], &c));
			must_be(alg, p, "sent", (double)f.elements, c.sent * (double)n);
			must_be(alg, p, "received", (double)f.received, c.received * (double)n);
			must_be(alg, p, "reduced", (double)f.reduced, c.reduced * (double)n);
			if ((double)f.messages > c.messages)
				must_be(alg, p, "messages", (double)f.messages, c.messages);
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
		struct shape sh = {.size = 6, .ninputs = 1};
		struct sched_figures f;
		char why[VERIFY_TEXT];
		struct set t;

		alg = alg ? alg : coll_find(COLL_BARRIER, want[i].name);
		assert_non_null(alg);
		shape_split(&sh, 24);
		assert_true(shape_fit(&sh, alg));
		set_init(&t, alg, &sh);
		assert_true(sched_figures(t.s, 6, &f, why));
		assert_int_equal(f.messages, want[i].messages);
		assert_int_equal(f.peers, want[i].peers);
		assert_int_equal(f.scratch, want[i].scratch);
		set_release(&t);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_every_size),      cmocka_unit_test(test_random_cases),
	        cmocka_unit_test(test_long_vectors),    cmocka_unit_test(test_figures),
	        cmocka_unit_test(test_figures_by_hand),
	};

	return cmocka_run_group_tests_name("algorithms", tests, NULL, NULL);
}
