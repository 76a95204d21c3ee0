/*
 * Algorithms that know hosts: they are proved for every cluster of as many ranks on each host, and
 * for random ones, and no more leaves a host than is promised.
 */
#include <math.h>

#include "algorithms/parts/hosts.h"
#include "algorithms/parts/traeff.h"
#include "algorithms/table.h"
#include "lib/price/cost.h"
#include "lib/price/traffic.h"
#include "tests/unit/concrete.h"

/* ---- clusters ---- */

struct cluster {
	int hosts, size;
	int least, most; /* ranks on a host */
	int host[MAX_SIZE];
};

static void measure(struct cluster *c)
{
	int ranks[MAX_SIZE] = {0};

	c->hosts = 0;
	for (int r = 0; r < c->size; r++) {
		ranks[c->host[r]]++;
		c->hosts = c->host[r] < c->hosts ? c->hosts : c->host[r] + 1;
	}
	c->least = c->size;
	c->most = 0;
	for (int h = 0; h < c->hosts; h++) {
		c->least = ranks[h] < c->least ? ranks[h] : c->least;
		c->most = ranks[h] > c->most ? ranks[h] : c->most;
	}
}

/* @n ranks on each of @hosts, host by host, or (@dealt) dealt out one by one. */
static struct cluster regular(int hosts, int n, bool dealt)
{
	struct cluster c = {.size = hosts * n};

	for (int r = 0; r < c.size; r++)
		c.host[r] = dealt ? r % hosts : r / n;
	measure(&c);
	return c;
}

/* Any ranks on any hosts; half of them host by host. */
static struct cluster any_cluster(int size, uint64_t *seed)
{
	struct cluster c = {.size = size};
	const uint64_t most = 1 + random_below(seed, (uint64_t)size);
	const bool by_host = random_below(seed, 2);
	int number[MAX_SIZE], hosts = 0;

	for (int h = 0; h < size; h++)
		number[h] = -1;
	for (int r = 0; r < size; r++) {
		const int drawn = (int)random_below(seed, most);

		if (by_host) {
			hosts += r == 0 || random_below(seed, 3) == 0;
			c.host[r] = hosts - 1;
			continue;
		}
		if (number[drawn] < 0)
			number[drawn] = hosts++;
		c.host[r] = number[drawn];
	}
	measure(&c);
	return c;
}

/* ---- the algorithms ---- */

static bool is_hosts(const struct coll_algorithm *alg)
{
	return !strcmp(alg->name, "hosts");
}

/* Has a schedule that depends on the hosts. */
static bool knows_hosts(const struct coll_algorithm *alg)
{
	return is_hosts(alg) || (!strcmp(alg->name, "circulant") &&
	                         (alg->kind == COLL_ALLREDUCE || alg->kind == COLL_REDUCE_SCATTER ||
	                          alg->kind == COLL_ALLGATHER));
}

static struct shape shape_of(const struct cluster *c, uint64_t count)
{
	struct shape sh = {.size = c->size, .ninputs = 1, .host = c->host};

	shape_split(&sh, count);
	return sh;
}

/* ---- they are right ---- */

static void verify_cluster(const struct cluster *c, size_t turn)
{
	const uint64_t p = (uint64_t)c->size;
	const uint64_t counts[] = {3 * p, p - 1, 97, 1, 5 * p + 2, 0};

	for (size_t i = 0; i < coll_algorithms_len; i++) {
		struct shape sh = shape_of(c, counts[(turn + i) % 6]);

		if (!knows_hosts(coll_algorithms[i]))
			continue;
		sh.root = (int)((turn * 7 + i) % p);
		sh.ninputs = (turn + i) % 4 ? 1 : 2;
		sh.devices = (turn + i) % 9 ? 0 : -1;
		assert_true(shape_fit(&sh, coll_algorithms[i]));
		assert_verified(coll_algorithms[i], &sh);
	}
}

/* As many ranks on each host: all such clusters of up to 64 ranks, or some of them. */
TEST(test_every_regular_cluster)
{
	size_t turn = 0;

	for (int hosts = 1; hosts <= MAX_SIZE; hosts++)
		for (int n = 1; hosts * n <= MAX_SIZE; n++) {
			const struct cluster a = regular(hosts, n, false);
			const struct cluster b = regular(hosts, n, true);

			turn++;
			if (!long_run() && hosts * n > up_to(20, 9) && turn % (size_t)up_to(8, 60))
				continue;
			verify_cluster(&a, turn);
			verify_cluster(&b, turn + 3);
		}
}

static void random_blocks(struct shape *sh, uint64_t *seed)
{
	for (int j = 0; j < sh->size; j++)
		sh->off[j + 1] = sh->off[j] + (random_below(seed, 3) ? random_below(seed, 9) : 0);
}

/* Any cluster, blocks, root, numbers of inputs and devices: proved, and run with numbers. */
static void one_cluster(uint64_t seed)
{
	const struct cluster c = any_cluster(2 + (int)random_below(&seed, 15), &seed);

	for (size_t i = 0; i < coll_algorithms_len; i++) {
		struct shape sh = shape_of(&c, 0);
		struct set t;

		if (!knows_hosts(coll_algorithms[i]))
			continue;
		random_blocks(&sh, &seed);
		sh.root = (int)random_below(&seed, (uint64_t)c.size);
		sh.ninputs = (int)random_below(&seed, 4);
		sh.devices = (int)random_below(&seed, 8) == 0 ? -1 : 0;
		assert_true(shape_fit(&sh, coll_algorithms[i]));
		assert_verified(coll_algorithms[i], &sh);
		if (c.size > 9)
			continue;
		set_init(&t, coll_algorithms[i], &sh);
		if (!concretely_right(&t))
			fail_msg("%s: wrong numbers", shape_words(coll_algorithms[i], &sh));
		set_release(&t);
	}
}

TEST(test_random_clusters)
{
	const uint64_t runs = long_run() ? 6000 : (uint64_t)up_to(300, 60);

	for (uint64_t i = 0; i < runs; i++)
		one_cluster(i);
}

/* ---- what leaves a host ---- */

/* A number of elements that all cuts divide evenly. */
static uint64_t even_count(const struct cluster *c)
{
	return (uint64_t)(c->size * c->least * c->hosts) * (uint64_t)traeff_blocks(c->hosts);
}

/* The ranks of a host times all others', of the host where that is most. */
static double largest_product(const struct cluster *c)
{
	double most = 0;

	for (int h = 0; h < c->hosts; h++) {
		int ranks = 0;

		for (int r = 0; r < c->size; r++)
			ranks += c->host[r] == h;
		most = fmax(most, (double)ranks * (c->size - ranks));
	}
	return most;
}

/* The elements that leave the busiest host, at most; of S = 1. */
static double bound_of(const struct coll_algorithm *alg, const struct cluster *c)
{
	const double n = c->hosts, p = c->size, q = log2_ceil(c->hosts);
	const double blocks = traeff_blocks(c->hosts);

	switch (alg->kind) {
	case COLL_ALLREDUCE:
		return 2 * (n - 1) / n;
	case COLL_REDUCE:
		return 1;
	case COLL_BROADCAST:
		return (blocks - 1 + q) / blocks;
	case COLL_REDUCE_SCATTER: /* all blocks but those of the smallest host */
		return 1 - c->least / p;
	case COLL_ALLGATHER:
		return (n - 1) * c->most / p;
	case COLL_GATHER: /* the blocks of its ranks */
		return c->most / p;
	case COLL_SCATTER:
		return 1 - c->least / p;
	case COLL_ALLTOALL: /* of whichever host sends most */
		return largest_product(c) / p;
	default:
		return q;
	}
}

static void check_traffic(const struct coll_algorithm *alg, const struct cluster *c)
{
	struct shape sh = shape_of(c, even_count(c));
	const struct coll_args a = shape_args(&sh);
	const bool even = c->least == c->most;
	struct traffic t, emitted;
	double leaves, bound;
	struct set set;

	if (!knows_hosts(alg) || (!even && !is_hosts(alg)) || c->hosts < 2)
		return;
	assert_true(shape_fit(&sh, alg));
	set_init(&set, alg, &sh);
	assert_true(traffic_of_schedules(set.s, c->host, c->size, &t));
	assert_true(traffic_of(alg, &a, NULL, &emitted));
	assert_memory_equal(&t, &emitted, sizeof(t));
	leaves = (double)t.leaves / (double)coll_count(&a);
	bound = bound_of(alg, c);
	if (leaves > bound + 1e-9 || (even && leaves < bound - 1e-9))
		fail_msg("%s: %g S leave a host, not %g", shape_words(alg, &sh), leaves, bound);
	if (alg->kind == COLL_GATHER || alg->kind == COLL_SCATTER)
		assert_int_equal(t.outer, c->hosts - 1);
	else if (alg->kind == COLL_ALLTOALL)
		assert_int_equal(t.outer, c->hosts * (c->hosts - 1));
	else if (alg->kind != COLL_BARRIER)
		assert_true(bound <= 2 * (c->hosts - 1.) / c->hosts + 1e-9 || !even);
	set_release(&set);
}

TEST(test_what_leaves_a_host)
{
	uint64_t seed = 1;

	for (size_t i = 0; i < coll_algorithms_len; i++) {
		for (int hosts = 2; hosts <= MAX_SIZE / 2; hosts++)
			for (int n = 1; hosts * n <= up_to(MAX_SIZE, 24); n++) {
				const struct cluster a = regular(hosts, n, false);
				const struct cluster b = regular(hosts, n, true);

				check_traffic(coll_algorithms[i], &a);
				check_traffic(coll_algorithms[i], &b);
			}
		for (int k = 0; k < 100; k++) {
			const struct cluster c = any_cluster(2 + k / 4, &seed);

			check_traffic(coll_algorithms[i], &c);
		}
	}
}

/* What algorithms that do not know hosts send out of them: 4 hosts of 8 ranks, by hand. */
TEST(test_flat_algorithms)
{
	static const struct {
		const char *name;
		double leaves;
	} expected[] = {{"ring_chunked", 62. / 32},
	                {"direct", 12},
	                {"halving_doubling", 1.5},
	                {"hosts", 1.5},
	                {"circulant", 1.5}};
	const struct cluster c = regular(4, 8, false);
	const struct shape sh = shape_of(&c, even_count(&c));
	const struct coll_args a = shape_args(&sh);

	for (size_t i = 0; i < LENGTH(expected); i++) {
		struct traffic t;

		assert_true(traffic_of(coll_find(COLL_ALLREDUCE, expected[i].name), &a, NULL, &t));
		if (fabs((double)t.leaves / (double)coll_count(&a) - expected[i].leaves) > 1e-9)
			fail_msg("%s: %llu of %llu leave a host", expected[i].name,
			         (unsigned long long)t.leaves, (unsigned long long)coll_count(&a));
	}
}

/* ---- the closed forms ---- */

static void must_be(const struct shape *sh, const struct coll_algorithm *alg, const char *what,
                    double is, double should, bool exactly)
{
	if (is > should + 1e-9 || (exactly && is < should - 1e-9))
		fail_msg("%s: %s: %g, not %g", shape_words(alg, sh), what, is, should);
}

static void check_cost(const struct coll_algorithm *alg, const struct cluster *c)
{
	const bool even = c->least == c->most;
	struct shape sh = shape_of(c, even_count(c));
	const struct coll_args a = shape_args(&sh);
	const struct coll_cost cost = coll_cost_of(alg, &a);
	struct sched_figures f;
	char why[VERIFY_TEXT];
	struct set t;
	double n;

	if (!knows_hosts(alg) || c->hosts < 2 || c->hosts == c->size)
		return;
	assert_true(shape_fit(&sh, alg));
	n = (double)coll_count(&a);
	set_init(&t, alg, &sh);
	assert_true(sched_figures(t.s, t.size, &f, why));
	must_be(&sh, alg, "rounds", (double)f.rounds, cost.rounds, false);
	must_be(&sh, alg, "messages", (double)f.messages, cost.messages, false);
	must_be(&sh, alg, "sent", (double)f.elements, cost.sent * n, even);
	must_be(&sh, alg, "received", (double)f.received, cost.received * n, even);
	must_be(&sh, alg, "reduced", (double)f.reduced, cost.reduced * n, even);
	set_release(&t);
}

TEST(test_closed_forms)
{
	uint64_t seed = 1;

	for (size_t i = 0; i < coll_algorithms_len; i++) {
		for (int hosts = 2; hosts <= MAX_SIZE / 2; hosts++)
			for (int n = 2; hosts * n <= up_to(MAX_SIZE, 24); n++) {
				const struct cluster c = regular(hosts, n, false);

				check_cost(coll_algorithms[i], &c);
			}
		for (int k = 0; k < 100; k++) {
			const struct cluster c = any_cluster(2 + k / 4, &seed);

			check_cost(coll_algorithms[i], &c);
		}
	}
}

/* ---- where hosts do not matter ---- */

/* Field by field: the gaps between them have any value. */
static bool same_step(const struct sched_step *a, const struct sched_step *b)
{
	return a->op == b->op && a->flags == b->flags && a->peer == b->peer &&
	       a->dst.buf == b->dst.buf && a->dst.off == b->dst.off && a->src.buf == b->src.buf &&
	       a->src.off == b->src.off && a->len == b->len && a->dep == b->dep &&
	       a->ndep == b->ndep;
}

/* Unknown, one rank on each, or one host: another algorithm, or the same as without hosts. */
TEST(test_nothing_shared)
{
	const struct cluster apart = regular(9, 1, false), one = regular(1, 9, false);
	const struct cluster *clusters[] = {&apart, &one};

	for (size_t i = 0; i < coll_algorithms_len; i++)
		for (size_t k = 0; k < 2; k++) {
			const struct coll_algorithm *alg = coll_algorithms[i];
			struct shape with = shape_of(clusters[k], 50), without = with;
			struct set a, b;

			without.host = NULL;
			if (!knows_hosts(alg))
				continue;
			assert_true(shape_fit(&with, alg) && shape_fit(&without, alg));
			set_init(&a, alg, &with);
			set_init(&b, alg, &without);
			assert_true(!is_hosts(alg) || coll_resolve(alg, &a.args[0]) != alg);
			for (int r = 0; r < a.size; r++) {
				assert_int_equal(a.s[r]->nsteps, b.s[r]->nsteps);
				for (uint32_t n = 0; n < a.s[r]->nsteps; n++)
					assert_true(
					        same_step(&a.s[r]->steps[n], &b.s[r]->steps[n]));
			}
			set_release(&a);
			set_release(&b);
		}
}

/* Numbers that are none are refused. */
TEST(test_hosts_that_are_none)
{
	static const int bad[][4] = {{1, 0, 0, 1}, {0, 2, 1, 1}, {0, -1, 0, 1}, {0, 0, 1, 4}};
	const uint64_t off[] = {0, 1, 2, 3, 4};

	for (size_t i = 0; i < LENGTH(bad); i++) {
		const struct coll_args a = {
		        .size = 4, .ninputs = 1, .stores = true, .off = off, .host = bad[i]};
		enum sched_error e;

		assert_null(coll_build(coll_find(COLL_ALLREDUCE, "direct"), &a, &e));
		assert_int_equal(e, SCHED_RANGE);
	}
}

int main(void)
{
	return unit_run(NULL, NULL);
}
