/* bench: what it takes for right and for wrong, and the rates that it fits. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "lib/coll/bench.h"

#define RANKS    3
#define COUNT    10000 /* more than a chunk */
#define MEASURED 128

/* The results of a sum over three ranks, made here from their inputs; then one bit of it is
 * another. */
static void one_wrong_element_is_seen(void **state)
{
	static float in[RANKS][COUNT], out[COUNT];
	static const uint64_t off[RANKS + 1] = {0, COUNT / 3, 2 * COUNT / 3, COUNT};
	struct err err = {0};
	(void)state;
	for (int r = 0; r < RANKS; r++) {
		struct coll_args args = {.rank = r, .size = RANKS, .ninputs = 1, .off = off};
		struct bench_values v = {.kind = COLL_ALLREDUCE, .dtype = DTYPE_F32, .args = &args};
		v.buf = malloc(BENCH_SCRATCH);
		assert_int_equal(bench_read(&v, 0, 0, in[r], 0, COUNT, &err), 0);
		for (int i = 0; i < COUNT; i++)
			out[i] += in[r][i];
		if (r == RANKS - 1) {
			assert_int_equal(bench_write(&v, 0, out, 0, COUNT, true, &err), 0);
			assert_int_equal(v.wrong, 0);
			out[0] += 1;
			out[COUNT - 1] = -out[COUNT - 1];
			assert_int_equal(bench_write(&v, 0, out + 1, 1, COUNT - 1, true, &err), 0);
			assert_int_equal(v.wrong, 1);
			assert_int_equal(bench_write(&v, 0, out, 0, COUNT, true, &err), 0);
			assert_int_equal(v.wrong, 3);
		}
		free(v.buf);
	}
	assert_memory_not_equal(in[0], in[1], sizeof in[0]);
}

/* Fill @t with the times that @truth predicts. */
static void measure(struct select_tuning *t, const struct price_model *truth, bool memory)
{
	for (size_t i = 0; i < coll_algorithms_len; i++) {
		const struct coll_algorithm *alg = coll_algorithms[i];
		const struct coll_args args = {.size = 4};
		if (alg->kind != COLL_ALLREDUCE)
			continue;
		const struct coll_cost cost = coll_cost_of(alg, &args);
		for (uint64_t bytes = 4096; bytes <= 64 << 20; bytes *= 64)
			if (t->nmeasured < MEASURED)
				t->measured[t->nmeasured++] = (struct select_measured){
				        .alg = alg,
				        .size = 4,
				        .secure = true,
				        .memory = memory,
				        .bytes = bytes,
				        .seconds = price_formula(truth, &cost, (double)bytes)};
	}
}

/* Times that the model itself predicts for other rates: the fit finds rates that predict them, for
 * each kind of connection. */
static void rates_are_found_again(void **state)
{
	static struct select_measured measured[MEASURED];
	struct select_tuning t = {.rates = price_default, .measured = measured};
	struct price_model truth = price_default, memory = price_in_memory(&price_default, 1, 1);
	(void)state;
	truth.latency *= 0.25;
	truth.egress *= 3;
	truth.ingress = truth.egress;
	memory.latency *= 2;
	memory.inside = memory.latency;
	memory.reduce *= 3;
	measure(&t, &memory, true);
	const size_t shared = t.nmeasured;
	measure(&t, &truth, false);
	assert_true(t.nmeasured > shared);
	bench_fit(&t);
	assert_true(t.memory.lends && !t.rates.lends);
	for (size_t i = 0; i < t.nmeasured; i++) {
		const struct coll_args args = {.size = 4};
		const struct coll_cost cost = coll_cost_of(measured[i].alg, &args);
		double price = price_formula(i < shared ? &t.memory : &t.rates, &cost,
		                             (double)measured[i].bytes);
		if (fabs(log(price / measured[i].seconds)) > log(1.2))
			fail_msg("%s of %llu bytes: %g, is %g", measured[i].alg->name,
			         (unsigned long long)measured[i].bytes, price, measured[i].seconds);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(one_wrong_element_is_seen),
	        cmocka_unit_test(rates_are_found_again),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
