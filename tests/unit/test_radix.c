/*
 * The algorithms that --base is for: right, and as their rows say, for every radix.
 */
#include <math.h>

#include "algorithms/table.h"
#include "lib/price/cost.h"
#include "tests/unit/sets.h"

static int ceil_log(int64_t k, int p)
{
	int rounds = 0;

	for (int64_t d = 1; d < p; d *= k)
		rounds++;
	return rounds;
}

/* The number of factors of @p by @base and what is left. */
static int factors(int64_t base, int64_t p)
{
	int n = 0;

	for (; p % base == 0; p /= base)
		n++;
	return n + (p > 1);
}

static void check(const char *name, enum coll_kind kind, int p, unsigned base)
{
	const struct coll_algorithm *alg = coll_find(kind, name);
	const uint64_t n = 2 * (uint64_t)p;
	const bool bcube = kind == COLL_ALLREDUCE;
	const int64_t k = base ? base : 2;
	struct shape sh = {.size = p, .ninputs = 1, .base = base};
	struct sched_figures f;
	struct coll_cost c;
	char why[VERIFY_TEXT];
	struct set t;

	shape_split(&sh, n + (uint64_t)(p % 2));
	set_init(&t, alg, &sh);
	if (p <= up_to(20, 12) && !set_verify(&t, why))
		fail_msg("%s: %s", shape_words(alg, &sh), why);
	set_release(&t);

	shape_split(&sh, n);
	set_init(&t, alg, &sh);
	assert_true(sched_figures(t.s, p, &f, why));
	c = coll_cost_of(alg, &t.args[0]);
	assert_int_equal(c.rounds, bcube ? 2 * factors(k, p) : ceil_log(k, p));
	/* bruck's last round may have nothing to wait for. */
	assert_in_range(f.rounds, (uint64_t)c.rounds - (!bcube && p > 2), (uint64_t)c.rounds);
	assert_true(fabs((double)f.elements - c.sent * (double)n) < 1e-6);
	assert_true(fabs((double)f.received - c.received * (double)n) < 1e-6);
	assert_true(fabs((double)f.reduced - c.reduced * (double)n) < 1e-6);
	assert_int_equal(f.messages, c.messages);
	set_release(&t);
}

TEST(test_every_base)
{
	static const unsigned bases[] = {0, 3, 4, 5, 8, 16, 63, 64, UINT32_MAX};

	for (size_t i = 0; i < LENGTH(bases); i++)
		for (int p = 2; p <= up_to(MAX_SIZE, 17); p++) {
			check("bcube", COLL_ALLREDUCE, p, bases[i]);
			check("bruck", COLL_ALLGATHER, p, bases[i]);
		}
}

/* The factors of 12 by hand, and how far apart the partners of rank 0 are. */
TEST(test_mixed_radix)
{
	static const struct {
		unsigned base;
		int peers, rounds;
	} want[] = {
	        {2, 1 + 1 + 2, 6}, /* 2, 2, 3 */
	        {3, 2 + 3, 4},     /* 3, 4 */
	        {4, 3 + 2, 4},     /* 4, 3 */
	        {5, 11, 2},        /* 12 */
	        {6, 5 + 1, 4},     /* 6, 2 */
	};

	for (size_t i = 0; i < LENGTH(want); i++) {
		const struct coll_algorithm *alg = coll_find(COLL_ALLREDUCE, "bcube");
		struct shape sh = {.size = 12, .ninputs = 1, .base = want[i].base};
		struct sched_figures f;
		char why[VERIFY_TEXT];
		struct set t;

		shape_split(&sh, 24);
		set_init(&t, alg, &sh);
		assert_true(sched_figures(t.s, 12, &f, why));
		assert_int_equal(f.peers, want[i].peers);
		assert_int_equal(f.rounds, want[i].rounds);
		set_release(&t);
	}
}

int main(void)
{
	return unit_run(NULL, NULL);
}
