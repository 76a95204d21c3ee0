/*
 * Direct exchange between unequal hosts: the shares reach the bound, the cuts are the same
 * everywhere, and the algorithms are right for any shares, also for none.
 */
#include <math.h>

#include "algorithms/table.h"
#include "lib/price/fill.h"
#include "lib/price/network.h"
#include "lib/price/select.h"
#include "lib/price/traffic.h"
#include "tests/unit/concrete.h"

/* ---- shares ---- */

#define ALL (-1) /* instead of a root: an allreduce */

/* The time of sending S = 1 with these shares. */
static double time_of(const double *rate, int n, int root, const uint32_t *share)
{
	double most = 0;
	for (int i = 0; i < n; i++) {
		const double part = (double)share[i] / FILL_ALL;
		const double beside = root == ALL || root == i ? 1 : 0;
		most = fmax(most, (beside + part * (n - 2)) / rate[i]);
	}
	return most;
}

static double bound_of(const double *rate, int n, int root)
{
	double sum = 0, least = INFINITY;
	for (int i = 0; i < n; i++) {
		sum += rate[i];
		least = fmin(least, rate[i]);
	}
	return root == ALL ? fmax(2 * (n - 1) / sum, 1 / least)
	                   : fmax((n - 1) / sum, 1 / rate[root]);
}

static void reaches_the_bound(const double *rate, int n)
{
	for (int root = ALL; root < n; root++) {
		uint32_t share[MAX_SIZE];
		uint64_t sum = 0;
		fill_shares(rate, n, root, share);
		for (int i = 0; i < n; i++)
			sum += share[i];
		assert_int_equal(sum, FILL_ALL);
		assert_true(n < 3 ||
		            time_of(rate, n, root, share) < bound_of(rate, n, root) * 1.0001);
	}
}

TEST(shares_reach_the_bound)
{
	static const double cases[][8] = {
	        {4, 4, 4, 2},   {4, 4, 4, 4, 4, 4, 4, 2}, {4, 4, 4, 0.4},
	        {1, 1, 1},      {1e-9, 1, 1e9},           {1e-9, 1e-9, 1e9, 1e9},
	        {1e-300, 1, 1}, {1e300, 1e300, 1},        {7},
	        {3, 1}};
	uint64_t seed = 5;
	for (size_t i = 0; i < LENGTH(cases); i++) {
		int n = 0;
		while (n < 8 && cases[i][n] > 0)
			n++;
		reaches_the_bound(cases[i], n);
	}
	for (int turn = 0; turn < 500; turn++) {
		double rate[MAX_SIZE];
		const int n = 1 + (int)random_below(&seed, MAX_SIZE);
		for (int i = 0; i < n; i++)
			rate[i] = exp2((double)random_below(&seed, 160) / 10);
		reaches_the_bound(rate, n);
	}
}

TEST(a_slow_host_owns_nothing)
{
	static const double rate[] = {4, 4, 4, 0.4}, homes[] = {5, 1, 1, 1};
	uint32_t share[4];
	fill_shares(rate, 4, ALL, share);
	assert_int_equal(share[3], 0);
	assert_true(share[0] - share[1] <= 2 && share[1] - share[2] <= 2);
	/* of a broadcast, a root that sends slowly; others own what they can send */
	fill_shares(rate, 4, 3, share);
	assert_int_equal(share[3], 0);
	assert_true(share[0] - share[1] <= 2 && share[1] - share[2] <= 2);
	fill_shares(homes, 4, 0, share);
	assert_true(share[0] > share[1] && share[1] - share[3] <= 2 && share[3] > FILL_ALL / 6);
}

/* Any shares that add up to FILL_ALL, often with zeros. */
static void draw_shares(uint64_t *seed, int n, uint32_t *share)
{
	uint32_t left = FILL_ALL;
	for (int i = 0; i < n; i++) {
		const bool none = random_below(seed, 3) == 0;
		share[i] = none ? 0 : (uint32_t)random_below(seed, (uint64_t)left + 1);
		left -= share[i];
	}
	share[random_below(seed, (uint64_t)n)] += left;
}

TEST(cuts)
{
	static const uint64_t counts[] = {0, 1, 100, 1 << 20, (1 << 20) + 7, UINT64_MAX / 16};
	uint64_t seed = 9;
	for (size_t turn = 0; turn < 600; turn++) {
		const int n = 1 + (int)random_below(&seed, MAX_SIZE);
		const unsigned esize = (unsigned[]){0, 1, 2, 4, 8, 16}[turn % 6];
		const uint64_t count = counts[turn / 6 % 6];
		uint64_t off[MAX_SIZE + 1];
		uint32_t share[MAX_SIZE];
		draw_shares(&seed, n, share);
		fill_cuts(share, n, count, esize, off);
		assert_true(off[0] == 0 && off[n] == count);
		for (int i = 0; i < n; i++) {
			const double part = (double)share[i] / FILL_ALL * (double)count;
			assert_true(off[i] <= off[i + 1]);
			assert_true(share[i] || off[i] == off[i + 1]);
			assert_true(fabs((double)(off[i + 1] - off[i]) - part) <=
			            64 + (double)count * 1e-9);
			if (count >= 1 << 20 && esize && off[i] != count)
				assert_int_equal(off[i] * esize % FILL_ALIGN, 0);
		}
	}
}

/* ---- the ranks of hosts ---- */

static struct network links_of(const double *up, const double *down, int hosts)
{
	struct err err = {0};
	struct network n;
	assert_int_equal(network_init(&n, hosts, false, &err), 0);
	for (int h = 0; h < hosts; h++)
		network_add(&n, h,
		            &(struct network_found){(uint64_t)(up[h] * 1e6),
		                                    (uint64_t)(down[h] * 1e6), NETWORK_TOLD, 0, 0});
	network_settle(&n, &price_default);
	return n;
}

/* The first rank of a host owns its part; in rank order all do. */
TEST(shares_of_ranks)
{
	static const double rate[] = {4, 4, 4, 2}, up[] = {8, 8, 8, 8};
	static const int host[] = {0, 1, 0, 2, 3, 1, 0};
	struct coll_args args = {.size = 7, .host = host};
	struct network n = links_of(up, rate, 4);
	uint32_t of[4], share[7];
	struct err err = {0};
	fill_shares(rate, 4, ALL, of);
	assert_int_equal(network_shares(&n, COLL_ALLREDUCE, &args, share, &err), 0);
	const uint32_t first[] = {of[0], of[1], 0, of[2], of[3], 0, 0};
	for (int r = 0; r < 7; r++)
		assert_true(share[r] + 4 > first[r] && share[r] < first[r] + 4);
	args.ordered = true;
	assert_int_equal(network_shares(&n, COLL_ALLREDUCE, &args, share, &err), 0);
	assert_true(share[0] >= of[0] / 3 && share[2] == share[6] && share[5] >= of[1] / 2);
	uint64_t sum = 0;
	for (int r = 0; r < 7; r++)
		sum += share[r];
	assert_int_equal(sum, FILL_ALL);
	network_release(&n);
}

/* ---- the algorithms are right ---- */

static void draw_blocks(struct shape *sh, uint64_t *seed)
{
	static const uint64_t counts[] = {97, 0, 1, 4096, 12};
	uint32_t share[MAX_SIZE];
	draw_shares(seed, sh->size, share);
	fill_cuts(share, sh->size, counts[random_below(seed, 5)], 4, sh->off);
}

static void right_for_any_shares(enum coll_kind kind)
{
	const struct coll_algorithm *alg = coll_find(kind, "weighted");
	uint64_t seed = 31;
	for (int p = 1; p <= up_to(MAX_SIZE, 16); p++)
		for (int turn = 0; turn < (p < 9 ? 8 : 2); turn++) {
			struct shape sh = {.size = p, .root = turn * 5 % p, .ninputs = turn % 3};
			draw_blocks(&sh, &seed);
			sh.joins = kind == COLL_ALLREDUCE && turn % 4 == 3;
			assert_true(shape_fit(&sh, alg));
			assert_verified(alg, &sh);
		}
}

TEST(allreduce_is_right_for_any_shares)
{
	right_for_any_shares(COLL_ALLREDUCE);
}

TEST(broadcast_is_right_for_any_shares)
{
	right_for_any_shares(COLL_BROADCAST);
}

/* Ranks on at most as many hosts, numbered in the order of their lowest ranks. */
static void draw_hosts(uint64_t *seed, int size, int *host)
{
	const int most = 1 + (int)random_below(seed, (uint64_t)size);
	int number[MAX_SIZE], hosts = 0;
	memset(number, -1, sizeof number);
	for (int r = 0; r < size; r++) {
		const int drawn = (int)random_below(seed, (uint64_t)most);
		if (number[drawn] < 0)
			number[drawn] = hosts++;
		host[r] = number[drawn];
	}
}

TEST(right_on_any_hosts)
{
	const struct coll_algorithm *const algs[] = {coll_find(COLL_ALLREDUCE, "weighted_hosts"),
	                                             coll_find(COLL_ALLREDUCE, "weighted"),
	                                             coll_find(COLL_BROADCAST, "weighted")};
	uint64_t seed = 77;
	for (size_t turn = 0; turn < (long_run() ? 3000 : 180); turn++) {
		const struct coll_algorithm *alg = algs[turn % LENGTH(algs)];
		const int p = 3 + (int)random_below(&seed, (uint64_t)up_to(30, 10));
		int host[MAX_SIZE];
		struct shape sh = {.size = p,
		                   .root = (int)turn % p,
		                   .ninputs = 1 + (int)turn % 2,
		                   .host = host};
		draw_hosts(&seed, p, host);
		draw_blocks(&sh, &seed);
		assert_true(shape_fit(&sh, alg));
		assert_verified(alg, &sh);
	}
}

/* With --order rank ranks of one host do not add first. */
TEST(rank_order_keeps_an_owner_a_rank)
{
	static const int host[] = {0, 0, 1, 2};
	const struct coll_algorithm *alg = coll_find(COLL_ALLREDUCE, "weighted");
	struct coll_args args = {.size = 4, .host = host};
	assert_string_equal(coll_resolve(alg, &args)->name, "weighted_hosts");
	args.ordered = true;
	assert_ptr_equal(coll_resolve(alg, &args), alg);
	args.size = 2;
	args.host = NULL;
	assert_string_equal(coll_resolve(alg, &args)->name, "direct");
	static const int two[] = {0, 0, 1, 1};
	args = (struct coll_args){.size = 4, .host = two};
	assert_string_equal(coll_resolve(alg, &args)->name, "hosts");
}

/* ---- the choice ---- */

static const char *choice(enum coll_kind kind, const double *up, const double *down, int size,
                          enum dtype dtype)
{
	struct select_args a = {.kind = kind, .size = size, .bytes = 16 << 20, .dtype = dtype};
	struct network n = links_of(up, down, size);
	const struct coll_algorithm *alg;
	struct err err = {0};
	a.network = &n;
	assert_int_equal(select_auto(&a, &alg, &err), 0);
	network_release(&n);
	return alg->name;
}

/* `auto` takes it where links differ; 16-bit floats, which are rounded once, too. */
TEST(the_choice_for_allreduce)
{
	static const double half[] = {40, 40, 40, 20}, eighth[] = {40, 40, 40, 40, 40, 40, 40, 20},
	                    near[] = {40, 40, 40, 38};
	const enum coll_kind kind = COLL_ALLREDUCE;
	assert_string_equal(choice(kind, half, half, 4, DTYPE_F32), "weighted");
	assert_string_equal(choice(kind, eighth, eighth, 8, DTYPE_F32), "weighted");
	assert_string_equal(choice(kind, half, half, 4, DTYPE_BF16), "weighted");
	assert_string_not_equal(choice(kind, near, near, 4, DTYPE_F32), "weighted");
}

/* Where hosts receive as fast as they send, a chain is as good; not where they send slowly. */
TEST(the_choice_for_broadcast)
{
	static const double even[] = {40, 40, 40, 40}, half[] = {40, 40, 20, 20},
	                    homes[] = {20, 4, 4, 4}, down[] = {20, 20, 20, 20},
	                    slow_root[] = {4, 20, 4, 4};
	const enum coll_kind kind = COLL_BROADCAST;
	assert_string_equal(choice(kind, homes, down, 4, DTYPE_F32), "weighted");
	assert_string_equal(choice(kind, half, even, 4, DTYPE_U8), "weighted");
	assert_string_not_equal(choice(kind, half, half, 4, DTYPE_F32), "weighted");
	assert_string_not_equal(choice(kind, even, even, 4, DTYPE_F32), "weighted");
	assert_string_not_equal(choice(kind, slow_root, down, 4, DTYPE_F32), "weighted");
}

/* ---- the price ---- */

/* The price is that of the bytes at the host that needs longest, as the schedules have them. */
static void price_is_the_bound(enum coll_kind kind, const double *up, int root)
{
	static const double down[] = {9, 9, 9, 9};
	const struct coll_algorithm *alg = coll_find(kind, "weighted");
	struct network n = links_of(up, down, 4);
	uint64_t off[5];
	uint32_t share[4];
	double data[4];
	struct coll_args args = {
	        .size = 4, .root = root < 0 ? 0 : root, .ninputs = 1, .off = off, .esize = 4};
	struct traffic t;
	struct err err = {0};
	assert_int_equal(network_shares(&n, kind, &args, share, &err), 0);
	fill_cuts(share, 4, 1 << 22, 4, off);
	assert_true(traffic_of(alg, &args, n.port, &t));
	for (int i = 0; i < 4; i++)
		data[i] = up[i] * 1e6 * NETWORK_PAYLOAD;
	assert_true(fabs(t.out / (1 << 22) / bound_of(data, 4, root) - 1) < 1e-3);
	if (kind == COLL_BROADCAST)
		assert_true(fabs(t.in / (1 << 22) * 9e6 * NETWORK_PAYLOAD - 1) < 1e-3);
	network_release(&n);
}

TEST(the_price_is_the_bound)
{
	static const double half[] = {4, 4, 4, 2}, homes[] = {8, 1, 1, 2};
	price_is_the_bound(COLL_ALLREDUCE, half, ALL);
	for (int root = 0; root < 4; root++) {
		price_is_the_bound(COLL_BROADCAST, half, root);
		price_is_the_bound(COLL_BROADCAST, homes, root);
	}
}

int main(void)
{
	return unit_run(NULL, NULL);
}
