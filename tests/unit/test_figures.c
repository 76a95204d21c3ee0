/*
 * The figures of the algorithms: their schedules have the rounds, messages and bytes of the closed
 * forms that selection prices, and these are the ones that are promised.
 */
#include <math.h>

#include "algorithms/parts/traeff.h"
#include "algorithms/table.h"
#include "lib/price/cost.h"
#include "tests/unit/sets.h"

/* ---- the longest chain ----
 *
 * It is the row's rounds, unless some blocks have nothing to wait for and go earlier than their
 * round. Then it is known too, but for those of which it is a bound.
 */

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

/* allgather bruck: the longest chain to the first @count slots, of radix @k. */
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

/* alltoall bruck: the longest chain to what goes @w far. What has gone @v far before goes with it
 * if there are so many ranks. */
static int transit_chain(int p, int k, int w)
{
	int most = 0;

	for (int v = 1; v < w && v + w < p; v *= k)
		most = larger(most, transit_chain(p, k, v));
	return 1 + most;
}

static int alltoall_bruck_chain(int p, int k)
{
	int most = 0;

	for (int w = 1; w < p; w *= k)
		most = larger(most, transit_chain(p, k, w));
	return most;
}

/* Who broadcasts or reduces in blocks sends some before their round: the row's rounds are a bound.
 */
static bool chain_is_shorter(const struct coll_algorithm *alg, int p)
{
	const uint64_t none[MAX_SIZE + 1] = {0};
	const struct coll_args a = {.size = p, .off = none};

	alg = coll_resolve(alg, &a);
	return (alg->kind == COLL_BROADCAST || alg->kind == COLL_REDUCE) &&
	       (!strcmp(alg->name, "circulant") || !strcmp(alg->name, "scatter_allgather") ||
	        !strcmp(alg->name, "rs_gather"));
}

/* Of what @alg resolves to, on more than one rank. */
static int chain_of(const struct coll_algorithm *alg, const struct coll_args *a,
                    const struct coll_cost *c)
{
	const enum coll_kind kind = alg->kind;
	const int phases = kind == COLL_ALLREDUCE ? 2 : 1;
	const int p = a->size, l = log2_floor(p);

	if (!strcmp(alg->name, "circulant"))
		return phases * circulant_chain(p, p);
	if (strstr(alg->name, "halving_doubling"))
		return phases == 2 ? 2 * l : l + (p > 2);
	if (!strcmp(alg->name, "bruck"))
		return kind == COLL_ALLGATHER ? bruck_chain(p, bruck_base(a), p)
		                              : alltoall_bruck_chain(p, bruck_base(a));
	if (!strcmp(alg->name, "sparbit") || !strcmp(alg->name, "binomial"))
		return l;
	if (kind == COLL_ALLGATHER && !strcmp(alg->name, "linear"))
		return l + 1;
	return (int)c->rounds;
}

/* ---- the closed forms ---- */

/* The elements that make blocks even: those of the ranks and of halves of halves, and those that
 * broadcast and reduce circulant cut. */
static uint64_t even_count(const struct coll_algorithm *alg, int p)
{
	return MAX_SIZE * (uint64_t)p * (chain_is_shorter(alg, p) ? (uint64_t)traeff_blocks(p) : 1);
}

static void must_be(const struct set *t, const char *what, double is, double should)
{
	if (fabs(is - should) > 1e-6)
		fail_msg("%s: %s: %g, not %g", shape_words(t->alg, &t->shape), what, is, should);
}

/* Messages are cut in two where a run of blocks wraps: only there. */
static bool wraps(const struct coll_algorithm *alg, int p)
{
	return !strcmp(alg->name, "circulant") && !chain_is_shorter(alg, p);
}

static void check_figures(const struct coll_algorithm *alg, struct shape *sh)
{
	const struct coll_args a = shape_args(sh);
	const struct coll_cost c = coll_cost_of(alg, &a);
	const double n = (double)coll_count(&a);
	struct sched_figures f;
	char why[VERIFY_TEXT];
	struct set t;

	set_init(&t, alg, sh);
	assert_true(sched_figures(t.s, t.size, &f, why));
	if (chain_is_shorter(alg, t.size))
		assert_in_range(f.rounds, log2_floor(t.size), (uint64_t)c.rounds);
	else if (t.size > 1)
		must_be(&t, "rounds", (double)f.rounds, chain_of(coll_resolve(alg, &a), &a, &c));
	must_be(&t, "sent", (double)f.elements, c.sent * n);
	must_be(&t, "received", (double)f.received, c.received * n);
	must_be(&t, "reduced", (double)f.reduced, c.reduced * n);
	/* Of others than circulant's reductions and gathers a bound, for some P. */
	if ((double)f.messages > c.messages || wraps(coll_resolve(alg, &a), t.size))
		must_be(&t, "messages", (double)f.messages, c.messages);
	set_release(&t);
}

/* Does the cost depend on the base? Else one is enough. */
static bool has_base(const struct coll_algorithm *alg, struct shape sh, unsigned base)
{
	const struct coll_args a = shape_args(&sh);
	const struct coll_cost c = coll_cost_of(alg, &a);
	struct coll_args other = a;
	struct coll_cost d;

	other.base = base;
	d = coll_cost_of(alg, &other);
	return memcmp(&c, &d, sizeof(c)) != 0;
}

TEST(test_closed_forms)
{
	static const unsigned bases[] = {3, 4, 7};

	for (size_t i = 0; i < coll_algorithms_len; i++)
		for (int p = 1; p <= MAX_SIZE; p++) {
			const struct coll_algorithm *alg = coll_algorithms[i];
			struct shape sh = {.size = p, .ninputs = 1};

			shape_split(&sh, even_count(alg, p));
			if (!shape_fit(&sh, alg))
				continue;
			check_figures(alg, &sh);
			for (size_t k = 0; k < LENGTH(bases); k++) {
				struct shape other = sh;

				other.base = bases[k];
				if (has_base(alg, sh, bases[k]))
					check_figures(alg, &other);
			}
		}
}

/* Joint operations, of one input of each rank, of two, and of different numbers. */
TEST(test_joint_closed_forms)
{
	int checked = 0;

	for (size_t i = 0; i < coll_algorithms_len; i++)
		for (int p = 1; p <= MAX_SIZE; p++)
			for (int n = 0; n <= 2; n++) {
				const struct coll_algorithm *alg = coll_algorithms[i];
				struct shape sh = {
				        .size = p, .root = p / 3, .ninputs = n, .joins = true};

				shape_split(&sh, even_count(alg, p));
				if (!shape_fit(&sh, alg) || p == 1)
					continue;
				check_figures(alg, &sh);
				checked++;
			}
	assert_true(checked > 3 * MAX_SIZE);
}

/* An exchange of fewer steps than can be. */
TEST(test_steps)
{
	for (unsigned steps = 1; steps <= 4; steps++) {
		struct shape sh = {.size = 16, .ninputs = 1, .steps = steps};

		shape_split(&sh, 16 * 12);
		check_figures(coll_find(COLL_EXCHANGE, "pairwise_exchange"), &sh);
		assert_int_equal(sh.steps, steps);
	}
}

/* ---- the words of the rows ---- */

/* What the words stand for. */
struct figure {
	int p, l, q; /* ranks; floor and ceil of their log2 */
	unsigned base, steps;
};

static double not_power(const struct figure *f)
{
	return f->l == f->q ? 0 : 2;
}

static double words_p_1(const struct figure *f)
{
	return f->p - 1;
}
static double words_half(const struct figure *f)
{
	return f->p / 2;
}
static double words_q(const struct figure *f)
{
	return f->q;
}
static double words_q_1(const struct figure *f)
{
	return 1 + f->q;
}
static double words_2q(const struct figure *f)
{
	return 2 * f->q;
}
static double words_l(const struct figure *f)
{
	return f->l + (f->p > 1 << f->l) + (f->p > 1.5 * (1 << f->l));
}
static double words_l_1(const struct figure *f)
{
	return f->l + (f->p > 2) + not_power(f);
}
static double words_2l(const struct figure *f)
{
	return 2 * f->l + not_power(f);
}
static double words_1(const struct figure *f)
{
	return f->p > 1;
}
static double words_2(const struct figure *f)
{
	return 2 * (f->p > 1);
}
static double words_c(const struct figure *f)
{
	return f->steps;
}
static double words_4(const struct figure *f)
{
	return 4 * (f->p - 1);
}

static double words_log_k(const struct figure *f)
{
	int n = 0;
	for (double d = 1; d < f->p; d *= f->base)
		n++;
	return n;
}

static double words_123(const struct figure *f)
{
	return fmax(1, floor(log2(4 * (f->p - 1) / 3.) + 1e-12));
}

static double bytes_123(const struct figure *f)
{
	return ceil(log2(4 * (f->p - 1) / 3.) - 1e-12);
}

static double bytes_halves(const struct figure *f)
{
	return f->p > 2 ? 1 : 0.5;
}

static double bytes_part(const struct figure *f)
{
	return (f->p - 1.) / f->p;
}
static double bytes_2_parts(const struct figure *f)
{
	return 2 * (f->p - 1.) / f->p;
}

/* Compared with the messages of the rank that sends most, where they say so, else with the steps in
 * sequence. */
static const struct words {
	const char *words;
	double (*value)(const struct figure *);
	bool messages;
} step_words[] =
        {
                {"1", words_1, false},
                {"2", words_2, false},
                {"q", words_q, false},
                {"1 + q", words_q_1, false},
                {"2q", words_2q, false},
                {"2q, pipelined", words_2q, false},
                {"log2 P", words_q, false},
                {"ceil(log_k P)", words_log_k, false},
                {"P/2", words_half, false},
                {"P-1", words_p_1, false},
                {"P-1, pipelined", words_p_1, false},
                {"C", words_c, false},
                {"4(P-1) messages", words_4, true},
                {"L (+1 if P > 2^L, +2 if P > 1.5 2^L)", words_l, false},
                {"2L (+2 if P is not a power of two)", words_2l, false},
                {"L (+1 if P > 2, +2 more if P > 2^L)", words_l_1, false},
                {"max(1, floor(log2(4(P-1)/3)))", words_123, false},
                /* Not of P alone. */
                {"2 for each factor of P", NULL, false},
                {"n-1+q messages", NULL, true},
                {"those of the chosen algorithm", NULL, false},
},
  byte_words[] = {
          {"S", words_1, false},
          {"qS", words_q, false},
          {"S (S/2 for 2 ranks)", bytes_halves, false},
          {"(P-1)S", words_p_1, false},
          {"(P-1)b", bytes_part, false},
          {"S(P-1)/P", bytes_part, false},
          {"2S(P-1)/P", bytes_2_parts, false},
          {"S ceil(log2(4(P-1)/3))", bytes_123, false},
};

static const struct words *find_words(const struct words *of, size_t n, const char *text)
{
	for (size_t i = 0; i < n; i++)
		if (strcmp(of[i].words, text) == 0)
			return &of[i];
	return NULL;
}

static void words_are(const struct coll_algorithm *alg, const struct coll_args *a, const char *what,
                      const struct words *w, double is)
{
	const struct figure f = {a->size, log2_floor(a->size), log2_ceil(a->size),
	                         a->base ? a->base : 2, a->steps};
	const double says = w->value(&f);
	if (fabs(says - is) > 1e-9)
		fail_msg("%s %s of %d ranks: %s '%s' are %g, in the schedule %g",
		         coll_name(alg->kind), alg->name, a->size, what, w->words, says, is);
}

/* `collctl algorithms` prints what plan counts. */
TEST(test_words)
{
	for (size_t i = 0; i < coll_algorithms_len; i++) {
		const struct coll_algorithm *alg = coll_algorithms[i];
		const struct words *steps = find_words(step_words, LENGTH(step_words), alg->steps);
		const struct words *bytes = find_words(byte_words, LENGTH(byte_words), alg->bytes);
		if (!steps && !strstr(alg->name, "hosts"))
			fail_msg("%s %s: steps '%s': add the words here", coll_name(alg->kind),
			         alg->name, alg->steps);
		for (int p = 2; p <= MAX_SIZE && steps && steps->value; p++) {
			struct shape sh = {.size = p, .ninputs = 1};
			shape_split(&sh, even_count(alg, p));
			if (!shape_fit(&sh, alg))
				continue;
			const struct coll_args a = shape_args(&sh);
			if (coll_resolve(alg, &a) != alg)
				continue;
			const struct coll_cost c = coll_cost_of(alg, &a);
			words_are(alg, &a, "steps", steps, steps->messages ? c.messages : c.rounds);
			if (bytes && alg->kind != COLL_BARRIER)
				words_are(alg, &a, "bytes", bytes, c.sent);
		}
	}
}

/* ---- by hand ---- */

/* P = 8, so L = q = 3: what the rows say in words. Sent: eighths of S, by the rank that sends most.
 */
static const struct expected {
	enum coll_kind kind;
	const char *name;
	double rounds;
	uint64_t messages;
	double sent;
	uint64_t peers;
} expected[] = {
        {COLL_ALLREDUCE, "ring", 7, 7, 56, 2},
        {COLL_ALLREDUCE, "ring_chunked", 14, 28, 14, 2},
        {COLL_ALLREDUCE, "halving_doubling", 6, 6, 14, 3},
        {COLL_ALLREDUCE, "bcube", 6, 6, 14, 3},
        {COLL_ALLREDUCE, "recursive_doubling", 3, 3, 24, 3},
        {COLL_ALLREDUCE, "rabenseifner", 6, 6, 14, 3},
        {COLL_ALLREDUCE, "circulant", 6, 8, 14, 5},
        {COLL_ALLREDUCE, "direct", 2, 14, 14, 7},
        {COLL_ALLREDUCE, "double_tree", 6, 32, 16, 4},
        {COLL_ALLREDUCE, "census", 3, 3, 24, 5},
        {COLL_REDUCE_SCATTER, "halving_doubling", 4, 4, 8, 4},
        {COLL_REDUCE_SCATTER, "circulant", 3, 4, 7, 5},
        {COLL_REDUCE_SCATTER, "ring", 7, 7, 7, 2},
        {COLL_REDUCE_SCATTER, "direct", 1, 7, 7, 7},
        {COLL_ALLGATHER, "linear", 4, 3, 24, 7},
        {COLL_ALLGATHER, "bruck", 3, 3, 7, 5},
        {COLL_ALLGATHER, "recursive_doubling", 3, 3, 7, 3},
        {COLL_ALLGATHER, "circulant", 3, 5, 7, 5},
        {COLL_ALLGATHER, "ring", 7, 7, 7, 2},
        {COLL_ALLGATHER, "direct", 1, 7, 7, 7},
        {COLL_ALLGATHER, "neighbor", 4, 4, 7, 2},
        {COLL_ALLGATHER, "sparbit", 3, 7, 7, 5},
        {COLL_BROADCAST, "one_to_all", 1, 7, 56, 7},
        {COLL_BROADCAST, "binomial", 3, 3, 24, 3},
        {COLL_BROADCAST, "ring", 7, 1, 8, 2},
        {COLL_BROADCAST, "scatter_allgather", 6, 6, 14, 5},
        {COLL_BROADCAST, "circulant", 4, 35, 8 * 35. / 33, 5},
        {COLL_BROADCAST, "weighted", 2, 14, 14, 7},
        {COLL_REDUCE, "linear", 1, 1, 8, 7},
        {COLL_REDUCE, "binomial", 3, 1, 8, 3},
        {COLL_REDUCE, "ring", 7, 1, 8, 2},
        {COLL_REDUCE, "rs_gather", 6, 5, 8, 5},
        {COLL_REDUCE, "circulant", 4, 33, 8, 5},
        {COLL_GATHER, "linear", 1, 1, 1, 7},
        {COLL_GATHER, "binomial", 3, 1, 4, 3},
        {COLL_SCATTER, "linear", 1, 7, 7, 7},
        {COLL_SCATTER, "binomial", 3, 3, 7, 3},
        {COLL_ALLTOALL, "direct", 1, 7, 7, 7},
        {COLL_ALLTOALL, "pairwise", 7, 7, 7, 7},
        {COLL_ALLTOALL, "bruck", 3, 3, 12, 5},
        {COLL_SCAN, "linear", 7, 1, 8, 2},
        {COLL_SCAN, "recursive_doubling", 3, 3, 24, 3},
        {COLL_SCAN, "doubling_123", 3, 4, 32, 6},
        {COLL_EXSCAN, "linear", 7, 1, 8, 2},
        {COLL_EXSCAN, "recursive_doubling", 3, 3, 24, 3},
        {COLL_EXSCAN, "doubling_123", 3, 4, 32, 6},
        {COLL_EXCHANGE, "pairwise_exchange", 3, 3, 8, 3},
        {COLL_BARRIER, "all_to_all", 1, 7, 56, 7},
        {COLL_BARRIER, "all_to_one", 2, 7, 56, 7},
        {COLL_BARRIER, "dissemination", 3, 3, 24, 5},
};

TEST(test_by_hand)
{
	for (size_t i = 0; i < LENGTH(expected); i++) {
		const struct expected *x = &expected[i];
		const struct coll_algorithm *alg = coll_find(x->kind, x->name);
		struct shape sh = {.size = 8, .ninputs = 1};
		struct sched_figures f;
		char why[VERIFY_TEXT];
		struct coll_args a;
		struct set t;

		assert_non_null(alg);
		shape_split(&sh, even_count(alg, 8));
		assert_true(shape_fit(&sh, alg));
		a = shape_args(&sh);
		set_init(&t, alg, &sh);
		assert_true(sched_figures(t.s, 8, &f, why));
		must_be(&t, "rounds", coll_cost_of(alg, &a).rounds, x->rounds);
		must_be(&t, "messages", (double)f.messages, (double)x->messages);
		must_be(&t, "sent", 8 * (double)f.elements / (double)coll_count(&a), x->sent);
		must_be(&t, "peers", (double)f.peers, (double)x->peers);
		set_release(&t);
	}
}

/* ---- what takes an algorithm's place ---- */

static void takes_the_place(enum coll_kind kind, const char *name, const struct coll_args *a,
                            const char *other)
{
	const struct coll_algorithm *alg = coll_find(kind, name), *real = coll_resolve(alg, a);
	struct coll_cost c = coll_cost_of(alg, a), d = coll_cost_of(real, a);

	if (strcmp(real->name, other) != 0)
		fail_msg("%s %s of %d ranks is %s, not %s", coll_name(kind), name, a->size,
		         real->name, other);
	assert_memory_equal(&c, &d, sizeof(c));
}

/* ---- the work of each rank ---- */

TEST(test_work)
{
	static const struct {
		enum coll_kind kind;
		const char *name;
		int size;
		double busy, moved;
	} works[] = {
	        {COLL_REDUCE, "linear", 8, 1.0 / 8, 2},
	        {COLL_REDUCE, "binomial", 8, 7.0 / 3 / 8, 0},
	        {COLL_REDUCE, "ring", 5, 4.0 / 5, 0},
	        {COLL_GATHER, "linear", 4, 1.0 / 4, 0},
	        {COLL_BROADCAST, "one_to_all", 3, 2.0 / 3, 0},
	        {COLL_ALLREDUCE, "ring_chunked", 6, 1, 0},
	        {COLL_ALLGATHER, "bruck", 16, 30.0 / 31, 1},
	        {COLL_EXSCAN, "linear", 3, (1 + 3 + 1) / 3.0 / 3, 1},
	};

	for (size_t i = 0; i < LENGTH(works); i++) {
		const struct coll_algorithm *alg = coll_find(works[i].kind, works[i].name);
		struct shape sh = {.size = works[i].size, .ninputs = 1};
		struct coll_cost c = {0};

		shape_split(&sh, 60 * (uint64_t)sh.size);
		const struct coll_args a = shape_args(&sh);
		coll_count_work(alg, &a, &c);
		if (fabs(c.busy - works[i].busy) > 1e-9 || fabs(c.moved - works[i].moved) > 1e-9)
			fail_msg("%s: busy %g, moved %g", shape_words(alg, &sh), c.busy, c.moved);
	}
}

TEST(test_fall_backs)
{
	static const uint64_t off[] = {0, 1, 2, 3};

	for (int p = 2; p <= MAX_SIZE; p++) {
		const struct coll_args a = {.size = p};
		const bool two_to_the = (p & (p - 1)) == 0;

		takes_the_place(COLL_ALLGATHER, "recursive_doubling", &a,
		                two_to_the ? "recursive_doubling" : "bruck");
		takes_the_place(COLL_ALLGATHER, "neighbor", &a, p % 2 ? "ring" : "neighbor");
		takes_the_place(COLL_ALLGATHER, "two_proc", &a, p == 2 ? "two_proc" : "ring");
		takes_the_place(COLL_ALLTOALL, "bruck", &a, "bruck");
		takes_the_place(COLL_ALLREDUCE, "hosts", &a, "circulant");
		takes_the_place(COLL_BARRIER, "hosts", &a, "dissemination");
		takes_the_place(COLL_GATHER, "hosts", &a, "linear");
		takes_the_place(COLL_SCATTER, "hosts", &a, "linear");
		takes_the_place(COLL_ALLTOALL, "hosts", &a, "pairwise");
	}
	takes_the_place(COLL_ALLTOALL, "bruck",
	                &(struct coll_args){.size = 3, .off = off, .recv_off = off}, "pairwise");
	/* Whoever has a fall-back says so. */
	for (size_t i = 0; i < coll_algorithms_len; i++)
		assert_true(!coll_algorithms[i]->falls_back || *coll_algorithms[i]->restrictions);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
