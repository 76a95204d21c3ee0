/* bench: what it takes for right and for wrong, the rates that it fits, how it measures devices. */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "algorithms/table.h"
#include "lib/coll/bench/bench.h"
#include "lib/price/cost.h"
#include "tests/unit/unit.h"

#define RANKS    3
#define COUNT    10000 /* more than a chunk */
#define MEASURED 128

/* The results of a sum over three ranks, made here from their inputs; then one bit of it is
 * another. */
TEST(one_wrong_element_is_seen)
{
	static float in[RANKS][COUNT], out[COUNT];
	static const uint64_t off[RANKS + 1] = {0, COUNT / 3, 2 * COUNT / 3, COUNT};
	struct err err = {0};
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
TEST(rates_are_found_again)
{
	static struct select_measured measured[MEASURED];
	struct select_tuning t = {.rates = price_default, .measured = measured};
	struct price_model truth = price_default, memory = price_in_memory(&price_default, 1, 1);
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

/* ---- devices ---- */

/* The rates of devices outlast a fit, in both kinds of connection. */
TEST(rates_of_devices_stay)
{
	static struct select_measured measured[MEASURED];
	struct select_tuning t = {.rates = price_default, .measured = measured};
	const struct price_model memory = price_in_memory(&price_default, 1, 1);
	const struct bench_device_rates none = {0}, some = {.start = 3e-6, .copy = 2e-11};
	measure(&t, &memory, true);
	measure(&t, &price_default, false);
	bench_device_set(&t.rates, &some);
	bench_device_set(&t.rates, &none);
	bench_fit(&t);
	const struct price_model *const models[] = {&t.rates, &t.memory};
	for (int i = 0; i < 2; i++) {
		assert_true(models[i]->device_start == 3e-6);
		assert_true(models[i]->device_copy == 2e-11);
		assert_true(models[i]->device_fold == price_default.device_fold);
	}
}

/* The start is not part of the time of a byte, and the slowest kind of task counts. */
TEST(the_slowest_task_counts)
{
	struct bench_device_rates r = {0};
	struct bench_device_times t = {
	        .start = 12e-6, .few = 10e-6, .few_bytes = 1000, .many_bytes = 1001000};
	t.many = t.few + 1e6 * 1e-10;
	bench_device_take(&r, &t);
	t.start = 9e-6;
	t.many = t.few + 1e6 * 3e-10;
	bench_device_take(&r, &t);
	assert_true(r.start == 12e-6 && r.fold == 0);
	assert_true(fabs(r.copy - 3e-10) < 1e-15);
	t.folds = true;
	t.many = t.few / 2; /* nothing to be learned */
	bench_device_take(&r, &t);
	assert_true(r.fold == 0);
	t.many = t.few + 1e6 * 2e-12;
	bench_device_take(&r, &t);
	assert_true(fabs(r.fold - 2e-12) < 1e-17 && fabs(r.copy - 3e-10) < 1e-15);
}

/* Toy devices: host memory, of which there is little; a task is complete some turns later. */
#define TOYS    2
#define AT_ONCE 16
static struct toy {
	uint64_t most;  /* bytes of an allocation that succeeds */
	uint64_t asked; /* of the largest one */
	int allocated;
	bool lazy; /* it does not work */
	struct memory_task tasks[AT_ONCE];
	int busy, most_busy; /* of them */
	int turns;           /* until the first is complete */
	long started, fails_at;
	uint64_t largest; /* bytes of a task */
} toy;

static void *toy_alloc(const struct memory_space *space, size_t bytes, struct err *err)
{
	void *p = bytes <= toy.most ? calloc(1, bytes) : NULL;
	toy.asked = bytes > toy.asked ? bytes : toy.asked;
	toy.allocated += p != NULL;
	if (!p)
		err_set(err, ERR_RESOURCE, "%s has no memory", space->name);
	return p;
}

static void toy_free(const struct memory_space *space, void *p, size_t bytes)
{
	(void)space, (void)bytes;
	assert_int_equal(toy.busy, 0);
	toy.allocated -= p != NULL;
	free(p);
}

static int toy_start(const struct memory_space *space, const struct memory_task *t, struct err *err)
{
	const uint64_t bytes = t->n * dtype_size(t->to);
	(void)space, (void)err;
	assert_true(toy.busy < AT_ONCE);
	for (int i = 0; i < toy.busy; i++) /* they do not conflict */
		assert_true((uint8_t *)toy.tasks[i].dst + bytes <= (uint8_t *)t->dst);
	toy.tasks[toy.busy++] = *t;
	toy.most_busy = toy.busy > toy.most_busy ? toy.busy : toy.most_busy;
	toy.turns = (int)(++toy.started % 3);
	toy.largest = bytes > toy.largest ? bytes : toy.largest;
	return 0;
}

static void toy_cancel(const struct memory_space *space, const void *owner)
{
	(void)space;
	if (toy.busy && toy.tasks[0].owner == owner)
		toy.busy = 0;
}

static int toy_turn(struct bench_devices *d, struct err *err)
{
	static const struct err gone = {
	        .code = ERR_RESOURCE, .rank = ERR_RANK_SELF, .text = "the toy is gone"};
	assert_true(toy.busy && d->device && d->what);
	if (toy.turns-- > 0)
		return 0;
	const struct memory_task t = toy.tasks[0];
	memmove(toy.tasks, toy.tasks + 1, (size_t)--toy.busy * sizeof *toy.tasks);
	if (!toy.lazy)
		assert_int_equal(memory_host.start(&memory_host, &t, err), 1);
	t.done(t.ctx, toy.started == toy.fails_at ? &gone : NULL);
	return 0;
}

static int interrupted(struct bench_devices *d, struct err *err)
{
	(void)d;
	return err_set(err, ERR_PEER_LOST, "interrupted");
}

static const struct memory_space toy_space = {
        .name = "toy",
        .alloc = toy_alloc,
        .free = toy_free,
        .start = toy_start,
        .cancel = toy_cancel,
};
static const struct memory_space *const toys[TOYS] = {&toy_space, &toy_space};

static int measure_toys(const struct toy *like, uint64_t room,
                        int (*turn)(struct bench_devices *, struct err *), struct err *err)
{
	struct bench_device_rates r = {0};
	struct bench_devices d = {.spaces = toys,
	                          .n = TOYS,
	                          .host = &toy_space,
	                          .room = room,
	                          .device_room = room,
	                          .turn = turn};
	toy = *like;
	*err = (struct err){.rank = ERR_RANK_SELF};
	int ret = bench_devices_measure(&d, &r, err);
	assert_int_equal(toy.allocated, 0);
	assert_int_equal(toy.busy, 0);
	if (ret == 0)
		assert_true(r.start > 0 && r.copy >= 0 && r.fold >= 0 && d.moved > toy.largest);
	return ret;
}

TEST(devices_are_measured_in_the_memory_there_is)
{
	struct err err;
	assert_int_equal(measure_toys(&(struct toy){.most = 1 << 20}, UINT64_MAX, toy_turn, &err),
	                 0);
	assert_int_equal(toy.largest, 1 << 19);
	assert_int_equal(err.code, 0);
	assert_int_equal(measure_toys(&(struct toy){.most = 1 << 30}, 1 << 21, toy_turn, &err), 0);
	assert_int_equal(toy.asked, 1 << 21);
	assert_int_equal(toy.largest, 1 << 20);
	assert_int_equal(measure_toys(&(struct toy){.most = 1000}, 1 << 21, toy_turn, &err), -1);
	assert_int_equal(err.code, ERR_RESOURCE);
	assert_string_equal(err.text, "toy has no memory");
}

/* Where the time of a large fold tells nothing: more bytes, in tasks that are queued at once. */
TEST(a_fold_of_a_fast_device_is_measured_again)
{
	const uint64_t inputs = 2 * (UINT64_C(256) << 20);
	struct toy lazy = {.most = inputs, .lazy = true};
	struct err err;
	assert_int_equal(measure_toys(&lazy, UINT64_MAX, toy_turn, &err), 0);
	assert_int_equal(toy.asked, inputs);
	assert_int_equal(toy.most_busy, AT_ONCE);
	assert_int_equal(toy.largest, 32 << 20);
	assert_int_equal(measure_toys(&lazy, inputs - 1, toy_turn, &err), 0);
	assert_int_equal(toy.most_busy, 1);
	lazy.most--;
	assert_int_equal(measure_toys(&lazy, UINT64_MAX, toy_turn, &err), 0);
	assert_int_equal(toy.most_busy, 1);
}

TEST(a_device_fails_or_the_job_ends)
{
	struct err err;
	for (long k = 1; k < 40; k += 13) {
		const struct toy failing = {.most = 1 << 20, .fails_at = k};
		assert_int_equal(measure_toys(&failing, UINT64_MAX, toy_turn, &err), -1);
		assert_int_equal(err.code, ERR_RESOURCE);
		assert_string_equal(err.text, "the toy is gone");
		assert_int_equal(toy.started, k);
	}
	assert_int_equal(
	        measure_toys(&(struct toy){.most = 1 << 20}, UINT64_MAX, interrupted, &err), -1);
	assert_int_equal(err.code, ERR_PEER_LOST);
	assert_int_equal(toy.started, 1);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
