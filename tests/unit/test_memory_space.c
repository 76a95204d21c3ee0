/*
 * The executor over the memory of toy devices: far memory, which the host can't touch (its
 * addresses are of pages that nobody may read or write), and whose tasks are complete late, in
 * random order, and from another stack than the one that started them. Every algorithm gives the
 * host's bits.
 */
#include <sys/mman.h>

#include "algorithms/table.h"
#include "tests/unit/exec_oracle.h"

/* ---- far memory ---- */

#define REGIONS 512
#define TASKS   4096

static struct region {
	uint8_t *address, *memory; /* what the executor has; what is there */
	size_t bytes;
} regions[REGIONS];

static struct {
	struct memory_task task;
	bool ran; /* complete, but not told */
} tasks[TASKS];

static int ntasks;
static bool starting, telling;
static uint64_t dice = 1;
static long started, fails_at; /* the task that fails; 0: none */

static void *far_alloc(const struct memory_space *space, size_t bytes, struct err *err)
{
	struct region *r = regions;
	(void)space, (void)err;
	while (r->address)
		r++;
	assert_true(r < regions + REGIONS);
	*r = (struct region){mmap(NULL, bytes, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0),
	                     calloc(1, bytes), bytes};
	assert_true(r->address != MAP_FAILED && r->memory);
	return r->address;
}

static void far_free(const struct memory_space *space, void *p, size_t bytes)
{
	(void)space;
	for (struct region *r = regions; p && r < regions + REGIONS; r++)
		if (r->address == p) {
			assert_int_equal(r->bytes, bytes);
			munmap(r->address, bytes);
			free(r->memory);
			*r = (struct region){0};
			return;
		}
	assert_null(p);
}

/* What is at @address for @bytes, in far memory (then *@far is set) or in the host's. */
static uint8_t *memory_at(const void *address, size_t bytes, bool *far)
{
	const uint8_t *a = address;
	for (struct region *r = regions; r < regions + REGIONS; r++)
		if (r->address && a >= r->address && a + bytes <= r->address + r->bytes) {
			*far = true;
			return r->memory + (a - r->address);
		}
	return (uint8_t *)address;
}

static void run_task(const struct memory_task *task)
{
	struct memory_task t = *task;
	uint8_t *inputs[INPUTS];
	struct err err = {0};
	bool far = false;
	assert_true(t.op == MEMORY_FOLD || t.op == MEMORY_IDENTITY ||
	            (t.op == MEMORY_CONVERT && t.to == t.of && !t.final));
	t.dst = memory_at(t.dst, t.n * dtype_size(t.to), &far);
	if (t.op == MEMORY_CONVERT)
		t.a = memory_at(t.a, t.n * dtype_size(t.of), &far);
	assert_true(far);
	for (int k = 0; k < t.ninputs; k++) {
		far = false;
		inputs[k] = memory_at(t.inputs[k] + t.offset, t.n * dtype_size(t.of), &far);
		assert_true(far);
	}
	t.inputs = inputs;
	t.offset = 0;
	assert_int_equal(memory_host.start(&memory_host, &t, &err), 1);
}

static int far_start(const struct memory_space *space, const struct memory_task *task,
                     struct err *err)
{
	(void)space, (void)err;
	assert_false(starting);
	assert_true(ntasks < TASKS && task->n > 0 && task->done);
	starting = true;
	tasks[ntasks].task = *task;
	tasks[ntasks].ran = false;
	ntasks++;
	started++;
	starting = false;
	return 0;
}

static void far_cancel(const struct memory_space *space, const void *owner)
{
	(void)space;
	for (int i = 0; i < ntasks;)
		if (tasks[i].task.owner == owner)
			tasks[i] = tasks[--ntasks];
		else
			i++;
}

static const struct memory_space far = {
        .name = "far",
        .alloc = far_alloc,
        .free = far_free,
        .start = far_start,
        .cancel = far_cancel,
};

static const struct memory_space *const devices[] = {&far, &far, &far};

/* Run some task, not the first, or report one that has run. */
static bool turn(void)
{
	bool any = ntasks > 0;
	for (unsigned i = below(&dice, 4); ntasks && i > 0; i--) {
		int k = (int)below(&dice, (unsigned)ntasks);
		const struct memory_task t = tasks[k].task;
		static const struct err lost = {
		        .code = ERR_RESOURCE, .rank = ERR_RANK_SELF, .text = "far memory is gone"};
		if (!tasks[k].ran) {
			run_task(&t);
			tasks[k].ran = true;
			continue;
		}
		tasks[k] = tasks[--ntasks];
		assert_false(telling);
		telling = true;
		t.done(t.ctx, fails_at && started >= fails_at ? &lost : NULL);
		telling = false;
	}
	return any;
}

static struct timing far_timing(uint64_t *state, uint64_t bytes)
{
	struct timing t = pick_timing(state, bytes);
	t.devices = devices;
	t.ndevices = 1 + (int)below(state, 3);
	t.turn = turn;
	return t;
}

/* ---- tests ---- */

TEST(every_algorithm)
{
	static const enum dtype types[] = {DTYPE_F32, DTYPE_BF16, DTYPE_I64, DTYPE_C128};
	uint64_t seed = 11;
	for (size_t a = 0; a < coll_algorithms_len; a++)
		for (size_t d = 0; d < LENGTH(types); d++) {
			struct problem p = {.alg = coll_algorithms[a],
			                    .dtype = types[d],
			                    .op = d == 1 ? REDUCE_AVG : REDUCE_SUM,
			                    .count = 40 + below(&seed, 60),
			                    .seed = draw(&seed) >> 40};
			int size = serves(p.alg, 5) ? 5 : 4;
			if (p.alg->kind == COLL_BARRIER || !sensible(&p) || !serves(p.alg, size))
				continue;
			p.ordered = (p.alg->flags & COLL_ORDERED) && (d & 1);
			problem_fill(&p, &seed, size, INPUTS);
			struct timing t = far_timing(&seed, p.count * 8);
			try(&p, &t, 1);
			assert_int_equal(ntasks, 0);
		}
	assert_true(started > 1000);
}

TEST(with_file_threads_and_again)
{
	static const char *const names[] = {"ring_chunked", "direct", "recursive_doubling"};
	uint64_t seed = 12;
	for (int i = 0; i < 12; i++) {
		struct problem p = {.alg = coll_find(COLL_ALLREDUCE, names[i % 3]),
		                    .dtype = i & 1 ? DTYPE_F16 : DTYPE_F64,
		                    .op = REDUCE_SUM,
		                    .count = 5000,
		                    .seed = draw(&seed) >> 40};
		problem_fill(&p, &seed, 4, i & 2 ? 1 : INPUTS);
		struct timing t = far_timing(&seed, p.count * 8);
		t.files = i % 4 < 2;
		t.stalls = false;
		if (!t.files) {
			t.repeats = 2;
			t.windows = 1;
			t.streams = 1;
		}
		try(&p, &t, 1);
	}
}

/* A task that fails ends its rank with its words; what is under way then ends with the executor. */
TEST(a_task_that_fails)
{
	for (long k = 1; k < 40; k += 3) {
		static struct world w;
		uint64_t seed = 13;
		struct problem p = {.alg = coll_find(COLL_ALLREDUCE, "circulant"),
		                    .dtype = DTYPE_BF16,
		                    .op = REDUCE_SUM,
		                    .count = 300,
		                    .seed = 13};
		struct err err = {0};
		int failed = -1;
		problem_fill(&p, &seed, 3, 2);
		struct timing t = {.windows = 3,
		                   .streams = 2,
		                   .capacity = 4096,
		                   .seed = 13,
		                   .devices = devices,
		                   .ndevices = 2,
		                   .turn = turn};
		started = 0;
		fails_at = k;
		world_init(&w, &p, &t);
		start(&w);
		assert_int_equal(play(&w, &failed, &err), -1);
		assert_int_equal(err.code, ERR_RESOURCE);
		assert_non_null(strstr(err.text, "far memory is gone, in step "));
		fails_at = 0;
		world_free(&w);
		assert_int_equal(ntasks, 0);
	}
}

int main(void)
{
	return unit_run(NULL, NULL);
}
