/*
 * Selection: for every collective, size and length auto takes the cheapest of those that it may.
 */
#include <math.h>
#include <string.h>

#include "algorithms/table.h"
#include "lib/price/cost.h"
#include "lib/price/select.h"
#include "tests/unit/unit.h"

static struct select_args args_of(int kind, int size, uint64_t bytes)
{
	return (struct select_args){
	        .kind = (enum coll_kind)kind,
	        .size = size,
	        .bytes = bytes,
	        .op = REDUCE_SUM,
	        .dtype = DTYPE_F32,
	        .steps = 1,
	};
}

static const struct coll_algorithm *chosen(const struct select_args *a, struct selection *s)
{
	struct err err = {.rank = ERR_RANK_SELF};

	assert_int_equal(select_all(a, s, &err), 0);
	return s->alg;
}

static const struct coll_algorithm *only_chosen(const struct select_args *a)
{
	const struct coll_algorithm *alg;
	struct err err = {.rank = ERR_RANK_SELF};

	assert_int_equal(select_auto(a, &alg, &err), 0);
	return alg;
}

static bool serves(int kind, int size)
{
	return kind != COLL_EXCHANGE || size % 2 == 0;
}

static void check_choice(const struct select_args *a)
{
	struct selection s;
	const struct coll_algorithm *alg = chosen(a, &s);
	const struct select_price *taken = NULL;

	assert_non_null(alg);
	for (size_t i = 0; i < s.nprices; i++)
		if (s.prices[i].alg == alg)
			taken = &s.prices[i];
	assert_non_null(taken);
	assert_int_equal(taken->verdict, SELECT_CANDIDATE);
	assert_ptr_equal(taken->runs, alg);
	for (size_t i = 0; i < s.nprices; i++) {
		assert_int_equal(s.prices[i].alg->kind, a->kind);
		if (s.prices[i].verdict == SELECT_CANDIDATE)
			assert_true(s.prices[i].formula >= taken->formula);
		else
			assert_true(s.prices[i].runs != s.prices[i].alg ||
			            (s.prices[i].alg->flags & (COLL_DIVERGENT | COLL_UNEVEN)));
	}
	assert_ptr_equal(only_chosen(a), alg);
	selection_release(&s);
}

TEST(test_takes_the_cheapest)
{
	for (int kind = 0; kind < COLL_KINDS; kind++)
		for (int size = 1; size <= 70; size++)
			for (uint64_t bytes = 0; bytes < UINT64_C(1) << 31;
			     bytes = bytes * 16 + 4) {
				const struct select_args a = args_of(kind, size, bytes);

				if (kind != COLL_BARRIER && serves(kind, size))
					check_choice(&a);
			}
}

/* Sums of floats, not of whole numbers, nor minima. */
TEST(test_divergent_bits)
{
	static const struct {
		enum reduce_op op;
		enum dtype dtype;
		bool allowed, candidate;
	} cases[] = {
	        {REDUCE_SUM, DTYPE_F32, false, false},  {REDUCE_PROD, DTYPE_F64, false, false},
	        {REDUCE_AVG, DTYPE_BF16, false, false}, {REDUCE_SUM, DTYPE_F32, true, true},
	        {REDUCE_SUM, DTYPE_I8, false, true},    {REDUCE_MAX, DTYPE_F32, false, true},
	        {REDUCE_BXOR, DTYPE_U64, false, true},
	};

	for (size_t k = 0; k < LENGTH(cases); k++) {
		struct select_args a = args_of(COLL_ALLREDUCE, 5, 1000);
		struct selection s;

		a.op = cases[k].op;
		a.dtype = cases[k].dtype;
		a.divergent = cases[k].allowed;
		chosen(&a, &s);
		for (size_t i = 0; i < s.nprices; i++)
			if (s.prices[i].alg->flags & COLL_DIVERGENT)
				assert_int_equal(s.prices[i].verdict == SELECT_CANDIDATE,
				                 cases[k].candidate);
		selection_release(&s);
	}
}

TEST(test_rank_order)
{
	for (int kind = COLL_ALLREDUCE; kind <= COLL_REDUCE_SCATTER; kind++) {
		struct select_args a = args_of(kind, 40, 1 << 20);
		struct selection s;
		const struct coll_algorithm *alg;

		a.ordered = true;
		alg = chosen(&a, &s);
		assert_non_null(alg);
		assert_true(alg->flags & COLL_ORDERED);
		selection_release(&s);
	}
}

/* A joint operation is for those that run one, also in rank order, and is sent as it is. */
TEST(test_joint_operations)
{
	static const uint32_t inputs[64] = {[0 ... 63] = 2};

	for (int kind = COLL_ALLREDUCE; kind <= COLL_REDUCE_SCATTER; kind++)
		for (int size = 1; size <= 64; size++) {
			struct select_args a = args_of(kind, size, 1 << 20);
			struct selection s;
			const struct coll_algorithm *alg;

			a.op = REDUCE_MEDIAN;
			a.dtype = DTYPE_F16;
			a.joint = inputs;
			a.folds = true;
			alg = chosen(&a, &s);
			assert_non_null(alg);
			assert_true(alg->flags & COLL_JOINT);
			assert_int_equal(select_wire(&a, alg), DTYPE_F16);
			for (size_t i = 0; i < s.nprices; i++)
				assert_true(s.prices[i].runs != s.prices[i].alg ||
				            (s.prices[i].verdict == SELECT_CANDIDATE) ==
				                    !!(s.prices[i].alg->flags & COLL_JOINT));
			selection_release(&s);
		}
}

/* A reduce of much is shared among the ranks. */
TEST(test_joint_reduce)
{
	static const uint32_t inputs[8] = {1, 1, 1, 1, 1, 1, 1, 1};
	struct select_args a = args_of(COLL_REDUCE, 8, 1 << 28);
	const struct coll_algorithm *alg;
	struct selection s;

	a.op = REDUCE_TRIMMED;
	a.joint = inputs;
	alg = chosen(&a, &s);
	assert_string_equal(alg->name, "direct");
	selection_release(&s);
}

TEST(test_narrow_floats_are_rounded_once)
{
	static const enum dtype narrow[] = {DTYPE_F16, DTYPE_BF16};

	for (int k = 0; k < 2; k++)
		for (int kind = COLL_ALLREDUCE; kind < COLL_KINDS; kind++) {
			const bool reduces = kind == COLL_ALLREDUCE || kind == COLL_REDUCE_SCATTER;
			struct select_args a = args_of(kind, SELECT_DIRECT_MAX, 1 << 20);
			struct selection s;

			a.dtype = narrow[k];
			chosen(&a, &s);
			assert_int_equal(s.reason == SELECT_BY_ROUNDING, reduces);
			assert_true(!reduces || !strcmp(s.alg->name, "direct"));
			selection_release(&s);
			a.size++;
			if (serves(kind, a.size)) {
				chosen(&a, &s);
				assert_int_equal(s.reason, kind == COLL_BARRIER
				                                   ? SELECT_BY_LINKS
				                                   : SELECT_BY_FORMULA);
				selection_release(&s);
			}
		}
}

TEST(test_a_barrier_takes_the_links_to_rank_0)
{
	for (int size = 2; size < 70; size++) {
		struct select_args a = args_of(COLL_BARRIER, size, 1);
		struct selection s;
		chosen(&a, &s);
		assert_string_equal(s.alg->name, "all_to_one");
		selection_release(&s);
	}
}

/* What travels wider than it is in the files is priced as wide as it travels. */
TEST(test_wire)
{
	static const struct {
		enum reduce_op op;
		enum dtype dtype;
		bool ordered, folds, weighted;
		enum dtype ring, direct;
	} cases[] = {
	        {.op = REDUCE_SUM, .dtype = DTYPE_F32, .ring = DTYPE_F32, .direct = DTYPE_F32},
	        {.op = REDUCE_SUM, .dtype = DTYPE_F16, .ring = DTYPE_F16, .direct = DTYPE_F16},
	        {.op = REDUCE_AVG, .dtype = DTYPE_BF16, .ring = DTYPE_F32, .direct = DTYPE_BF16},
	        {.op = REDUCE_SUM,
	         .dtype = DTYPE_F8E4M3,
	         .ring = DTYPE_F32,
	         .direct = DTYPE_F8E4M3},
	        {.op = REDUCE_MAX,
	         .dtype = DTYPE_F8E5M2,
	         .ring = DTYPE_F8E5M2,
	         .direct = DTYPE_F8E5M2},
	        {.op = REDUCE_SUM,
	         .dtype = DTYPE_F16,
	         .folds = true,
	         .ring = DTYPE_F32,
	         .direct = DTYPE_F32},
	        {.op = REDUCE_AVG,
	         .dtype = DTYPE_F32,
	         .weighted = true,
	         .ring = DTYPE_F64,
	         .direct = DTYPE_F64},
	        {.op = REDUCE_AVG, .dtype = DTYPE_I16, .ring = DTYPE_F64, .direct = DTYPE_F64},
	};
	const struct coll_algorithm *ring = coll_find(COLL_ALLREDUCE, "ring_chunked");
	const struct coll_algorithm *direct = coll_find(COLL_ALLREDUCE, "direct");

	for (size_t k = 0; k < LENGTH(cases); k++) {
		struct select_args a = args_of(COLL_ALLREDUCE, 40, 1 << 20), wide;
		struct selection s, as_wide;

		a.op = cases[k].op;
		a.dtype = cases[k].dtype;
		a.folds = cases[k].folds;
		a.weighted = cases[k].weighted;
		assert_int_equal(select_wire(&a, ring), cases[k].ring);
		assert_int_equal(select_wire(&a, direct), cases[k].direct);
		chosen(&a, &s);
		/* The price is that of a file of the type that travels. */
		wide = args_of(COLL_ALLREDUCE, 40,
		               a.bytes / dtype_size(a.dtype) * dtype_size(cases[k].ring));
		wide.dtype = cases[k].ring;
		wide.op = REDUCE_MAX; /* which never travels wider */
		chosen(&wide, &as_wide);
		for (size_t i = 0; i < s.nprices; i++) {
			if (s.prices[i].alg != ring)
				continue;
			assert_true(s.prices[i].bytes == wide.bytes);
			assert_float_equal(s.prices[i].formula, as_wide.prices[i].formula, 0);
		}
		selection_release(&s);
		selection_release(&as_wide);
	}
}

/* All algorithms round averages, 8-bit floats and sums of several inputs once: that is no reason
 * for direct. */
TEST(test_others_round_once_too)
{
	static const struct {
		enum reduce_op op;
		enum dtype dtype;
		bool folds;
	} cases[] = {
	        {REDUCE_AVG, DTYPE_F16, false},    {REDUCE_AVG, DTYPE_BF16, false},
	        {REDUCE_SUM, DTYPE_F8E4M3, false}, {REDUCE_SUM, DTYPE_F8E5M2, false},
	        {REDUCE_AVG, DTYPE_F8E4M3, false}, {REDUCE_SUM, DTYPE_F16, true},
	};

	for (size_t k = 0; k < LENGTH(cases); k++) {
		struct select_args a = args_of(COLL_ALLREDUCE, 32, 64);

		a.op = cases[k].op;
		a.dtype = cases[k].dtype;
		a.folds = cases[k].folds;
		check_choice(&a);
		assert_string_not_equal(only_chosen(&a)->name, "direct");
	}
}

/* A measurement speaks for the bytes that an algorithm sends, not for those of the file. */
TEST(test_measurements_of_the_wire)
{
	const struct coll_algorithm *ring = coll_find(COLL_ALLREDUCE, "ring_chunked");
	const struct coll_algorithm *direct = coll_find(COLL_ALLREDUCE, "direct");
	struct select_measured rows[] = {
	        {ring, 4, true, false, 1 << 20, 1.0},
	        {direct, 4, true, false, 1 << 20, 3.0},
	        {ring, 4, true, false, 2 << 20, 2.0},
	        {direct, 4, true, false, 2 << 20, 1.5},
	};
	const struct select_tuning t = {.rates = price_default, .measured = rows, .nmeasured = 4};
	struct select_args a = args_of(COLL_ALLREDUCE, 4, 1 << 20);
	struct selection s;

	a.tuning = &t;
	a.dtype = DTYPE_F16;
	a.op = REDUCE_AVG; /* direct sends 1 MiB, ring_chunked 2 MiB */
	assert_ptr_equal(chosen(&a, &s), ring);
	assert_int_equal(s.measured_at, 2 << 20);
	selection_release(&s);
	rows[2].seconds = 4.0;
	assert_ptr_equal(chosen(&a, &s), direct);
	assert_int_equal(s.measured_at, 1 << 20);
	selection_release(&s);
}

static enum select_reason reason_of(const struct select_args *a)
{
	struct selection s;

	chosen(a, &s);
	const enum select_reason reason = s.reason;
	selection_release(&s);
	return reason;
}

/* Of two sizes as near the smaller; of one algorithm's measurements only the nearest. */
TEST(test_measurements)
{
	const struct coll_algorithm *ring = coll_find(COLL_ALLREDUCE, "ring_chunked");
	const struct coll_algorithm *circulant = coll_find(COLL_ALLREDUCE, "circulant");
	struct select_measured rows[] = {
	        {circulant, 4, true, false, 1023, 2.0}, {ring, 4, true, false, 1023, 1.0},
	        {circulant, 4, true, false, 4095, 1.0}, {ring, 4, true, false, 4095, 2.0},
	        {ring, 8, true, false, 2047, 1e-9},     {ring, 4, false, false, 2047, 1e-9},
	};
	const struct select_tuning t = {
	        .rates = price_default, .measured = rows, .nmeasured = LENGTH(rows)};
	struct select_args a = args_of(COLL_ALLREDUCE, 4, 2047);
	struct selection s;

	a.tuning = &t;
	assert_ptr_equal(chosen(&a, &s), ring);
	assert_int_equal(s.reason, SELECT_BY_MEASUREMENT);
	assert_int_equal(s.measured_at, 1023);
	selection_release(&s);
	a.bytes = 2100;
	assert_ptr_equal(chosen(&a, &s), circulant);
	assert_int_equal(s.measured_at, 4095);
	selection_release(&s);
	a.size = 5;
	chosen(&a, &s);
	assert_int_equal(s.reason, SELECT_BY_FORMULA);
	selection_release(&s);
}

/* Measurements of memory lanes count for ranks of one host that may use them, and for nobody else;
 * whether the connections would be encrypted does not matter. */
TEST(test_measurements_in_memory)
{
	const struct coll_algorithm *ring = coll_find(COLL_ALLREDUCE, "ring_chunked");
	struct select_measured row = {ring, 4, true, true, 4096, 1e-9};
	const struct select_tuning t = {.rates = price_default, .measured = &row, .nmeasured = 1};
	struct select_args a = args_of(COLL_ALLREDUCE, 4, 4096);
	static const int hosts[] = {0, 0, 1, 1};

	a.tuning = &t;
	a.memory = true;
	assert_int_equal(reason_of(&a), SELECT_BY_FORMULA); /* several hosts */
	a.host_cpus = 2;
	assert_int_equal(reason_of(&a), SELECT_BY_MEASUREMENT);
	a.insecure = true;
	assert_int_equal(reason_of(&a), SELECT_BY_MEASUREMENT);
	a.memory = false;
	assert_int_equal(reason_of(&a), SELECT_BY_FORMULA);
	a.memory = true;
	a.host = hosts;
	assert_int_equal(reason_of(&a), SELECT_BY_FORMULA);
	row.memory = false;
	a.insecure = false;
	assert_int_equal(reason_of(&a), SELECT_BY_MEASUREMENT);
}

/* The measured rates of devices hold wherever the ranks are: those of the kind of connection, or
 * the others if the file has none of that kind. */
TEST(test_rates_of_devices)
{
	struct select_tuning t = {.rates = price_default,
	                          .memory = price_in_memory(&price_default, 1, 1)};
	struct select_args a = args_of(COLL_ALLREDUCE, 4, 4096);

	t.rates.device_copy = 5;
	t.memory.device_copy = 7;
	t.memory.lends = false;
	a.memory = true;
	assert_true(select_model(&a).device_copy == price_default.device_copy);
	a.tuning = &t;
	assert_true(select_model(&a).device_copy == 5);
	a.host_cpus = 2;
	assert_true(select_model(&a).device_copy == 5);
	t.memory.lends = true;
	assert_true(select_model(&a).device_copy == 7);
	a.memory = false;
	assert_true(select_model(&a).device_copy == 5);
}

static double price_of(const struct select_args *a, const char *name)
{
	struct selection s;
	double price = -1;

	chosen(a, &s);
	for (size_t i = 0; i < s.nprices; i++)
		if (!strcmp(s.prices[i].alg->name, name))
			price = s.prices[i].formula;
	selection_release(&s);
	return price;
}

/* Hosts of which only a --limit-rate of the first is known. */
static void limit(struct network *n, uint64_t rate)
{
	struct err err = {0};

	assert_int_equal(network_init(n, 16, false, &err), 0);
	network_add(n, 0, &(struct network_found){.limit = rate});
	network_settle(n, &price_default);
}

/* With --limit-rate the bytes that the busiest rank sends are the price, and measurements without
 * the limit do not count. */
TEST(test_limit_rate)
{
	const struct coll_algorithm *tree = coll_find(COLL_BROADCAST, "binomial");
	struct select_measured row = {tree, 16, true, false, 1 << 20, 0.001};
	const struct select_tuning t = {.rates = price_default, .measured = &row, .nmeasured = 1};
	struct select_args a = args_of(COLL_BROADCAST, 16, 1 << 20);
	struct selection s;
	struct network n;
	double fast;

	fast = price_of(&a, "binomial");
	a.network = &n;
	limit(&n, UINT64_C(1) << 40);
	assert_true(fast - price_of(&a, "binomial") == 0);
	network_release(&n);
	limit(&n, 1 << 20);
	assert_true(price_of(&a, "binomial") >= 4); /* the root sends it to 4 ranks */
	a.host_cpus = 2;
	assert_true(price_of(&a, "binomial") >= 4);
	a.host_cpus = 0;
	a.tuning = &t;
	assert_true(chosen(&a, &s) != tree);
	assert_int_equal(s.reason, SELECT_BY_FORMULA);
	selection_release(&s);
	network_release(&n);
}

/* ---- ranks that share hosts ---- */

#define PLACED_MAX 64

/* @n ranks on each of @hosts hosts. */
static struct select_args placed_args(int kind, int hosts, int n, uint64_t bytes, int *host)
{
	struct select_args a = args_of(kind, hosts * n, bytes);

	for (int r = 0; r < a.size; r++)
		host[r] = r / n;
	a.host = host;
	return a;
}

/* What leaves a host with the algorithm that auto takes, of S = 1, against the least of all. */
static double excess(const struct select_args *a)
{
	const struct coll_algorithm *taken = only_chosen(a);
	uint64_t off[PLACED_MAX + 1];
	const struct coll_args args = {
	        .size = a->size, .ninputs = 1, .off = off, .host = a->host, .esize = 4};
	double least = INFINITY;

	coll_split(a->bytes / 4, a->size, off);
	for (size_t i = 0; i < coll_algorithms_len; i++)
		if (coll_algorithms[i]->kind == a->kind &&
		    !(coll_algorithms[i]->flags & (COLL_DEVICES | COLL_DIVERGENT)))
			least = fmin(least, coll_cost_of(coll_algorithms[i], &args).leaves);
	return coll_cost_of(taken, &args).leaves / least;
}

/* Of long vectors auto sends hardly more out of a host than must leave it. */
TEST(test_long_vectors_on_hosts)
{
	static const int clusters[][2] = {{2, 2}, {2, 4}, {4, 2}, {4, 4}, {4, 8}, {8, 8}, {5, 3}};
	static const enum coll_kind kinds[] = {COLL_ALLREDUCE, COLL_REDUCE_SCATTER, COLL_ALLGATHER,
	                                       COLL_BROADCAST, COLL_REDUCE};
	int host[PLACED_MAX];

	for (size_t c = 0; c < LENGTH(clusters); c++)
		for (size_t k = 0; k < LENGTH(kinds); k++) {
			const struct select_args a = placed_args((int)kinds[k], clusters[c][0],
			                                         clusters[c][1], 64 << 20, host);

			if (excess(&a) > 1.2)
				fail_msg("%s on %dx%d: %s sends %.2f times the least",
				         coll_name(kinds[k]), clusters[c][0], clusters[c][1],
				         only_chosen(&a)->name, excess(&a));
		}
}

/* Known hosts of one rank each, and one host: the same as without them. */
TEST(test_nothing_is_shared)
{
	int host[PLACED_MAX];

	for (int kind = 0; kind < COLL_KINDS; kind++)
		for (int size = 2; size <= 16; size += 2)
			for (uint64_t bytes = 64; bytes < UINT64_C(1) << 28; bytes *= 64) {
				const struct select_args apart =
				        placed_args(kind, size, 1, bytes, host);
				struct select_args one, alone = args_of(kind, size, bytes);

				assert_ptr_equal(only_chosen(&apart), only_chosen(&alone));
				one = placed_args(kind, 1, size, bytes, host);
				one.host_cpus = alone.host_cpus = 3;
				assert_ptr_equal(only_chosen(&one), only_chosen(&alone));
			}
}

/* direct rounds 16-bit floats once, but not at the cost of a shared link. */
TEST(test_narrow_floats_on_hosts)
{
	int host[PLACED_MAX];
	struct select_args a = placed_args(COLL_ALLREDUCE, 4, 4, 64 << 20, host);

	a.dtype = DTYPE_BF16;
	assert_string_not_equal(only_chosen(&a)->name, "direct");
	a = placed_args(COLL_ALLREDUCE, 1, 16, 64 << 20, host);
	a.dtype = DTYPE_BF16;
	assert_string_equal(only_chosen(&a)->name, "direct");
}

/* Ranks that share the processors of their hosts work more slowly. */
TEST(test_processors_of_hosts)
{
	int host[PLACED_MAX];
	struct select_args a = placed_args(COLL_ALLREDUCE, 2, 8, 64 << 20, host);
	double each, fewer;

	a.tuning = NULL;
	each = price_of(&a, "hosts");
	a.host_cpus = 8;
	assert_true(price_of(&a, "hosts") - each == 0);
	a.host_cpus = 1;
	fewer = price_of(&a, "hosts");
	assert_true(fewer > 1.5 * each);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
