/*
 * Measures devices. Each kind of task runs many times with few bytes, and some times with many, one
 * after another. The time to start a task is the median of the small ones. The time of a byte is
 * the difference between the fastest large one and the fastest small one: other ranks and programs
 * only make tasks slower. Where a large fold takes so little that this tells nothing, it is
 * measured again with more bytes than any cache has, as tasks that are queued at once.
 */
#include <stdio.h>

#include "lib/base/clock.h"
#include "lib/base/sort.h"
#include "lib/coll/bench/bench.h"
#include "lib/coll/drive.h"

#define FEW        1024u        /* bytes of a small task ... */
#define MANY       (32u << 20)  /* ... of a large one, more than a cache has ... */
#define MANY_LEAST (64u << 10)  /* ... and where memory is short */
#define HUGE_INPUT (256u << 20) /* ... of an input of a fold that is measured again */
#define QUEUED     16           /* tasks of that fold */
#define RUNS_FEW   64
#define RUNS_MANY  8
#define RUNS_LEAST 3
#define ENOUGH     (NS_PER_SEC / 10) /* after that only RUNS_LEAST tasks of a kind run */
#define FAST       1e-3              /* seconds of a large fold below which it is measured again */
#define INPUTS     2                 /* of a fold */

enum kind { COPY_TO, COPY_FROM, FOLD, KINDS };

static const char *const words[KINDS] = {"a copy to it", "a copy from it", "a fold"};

/* ---- rates from times ---- */

static void raise_to(double *rate, double found)
{
	if (found > *rate)
		*rate = found;
}

void bench_device_take(struct bench_device_rates *r, const struct bench_device_times *t)
{
	raise_to(&r->start, t->start);
	raise_to(t->folds ? &r->fold : &r->copy,
	         (t->many - t->few) / (double)(t->many_bytes - t->few_bytes));
}

void bench_device_set(struct price_model *m, const struct bench_device_rates *r)
{
	if (r->start > 0)
		m->device_start = r->start;
	if (r->copy > 0)
		m->device_copy = r->copy;
	if (r->fold > 0)
		m->device_fold = r->fold;
}

/* ---- tasks ---- */

struct probe {
	struct bench_devices *all;
	const struct memory_space *space;
	uint8_t *host, *inputs[INPUTS]; /* inputs[0] begins what is allocated on the device */
	uint64_t many;                  /* bytes of a large task */
	int running;
	struct err why;
};

static void ended(void *ctx, const struct err *why)
{
	struct probe *p = ctx;
	p->running--;
	if (why)
		err_pass(&p->why, why);
}

/* Of @bytes from byte @from of the buffers on. */
static struct memory_task task_of(struct probe *p, enum kind kind, uint64_t from, uint64_t bytes)
{
	if (kind == FOLD)
		return (struct memory_task){.op = MEMORY_FOLD,
		                            .dst = p->inputs[0] + from,
		                            .inputs = p->inputs,
		                            .ninputs = INPUTS,
		                            .offset = from,
		                            .n = bytes / dtype_size(DTYPE_F32),
		                            .to = DTYPE_F32,
		                            .of = DTYPE_F32,
		                            .acc = DTYPE_F32,
		                            .reduce = REDUCE_SUM,
		                            .owner = p,
		                            .done = ended,
		                            .ctx = p};
	return (struct memory_task){.op = MEMORY_CONVERT,
	                            .dst = kind == COPY_TO ? p->inputs[0] : p->host,
	                            .a = kind == COPY_TO ? p->host : p->inputs[0],
	                            .n = bytes,
	                            .to = DTYPE_U8,
	                            .of = DTYPE_U8,
	                            .owner = p,
	                            .done = ended,
	                            .ctx = p};
}

/* Run @bytes as @tasks tasks that are started at once. */
static int run_once(struct probe *p, enum kind kind, uint64_t bytes, int tasks, double *seconds,
                    struct err *err)
{
	const uint64_t each = bytes / (unsigned)tasks;
	const int64_t began = clock_ns();
	int ret = 0;
	p->all->what = words[kind];
	p->running = 0;
	for (int i = 0; i < tasks && ret >= 0; i++) {
		const struct memory_task t = task_of(p, kind, (unsigned)i * each, each);
		p->running++;
		ret = p->space->start(p->space, &t, err);
		p->running -= ret != 0;
	}
	while (ret >= 0 && p->running > 0)
		ret = p->all->turn(p->all, err);
	*seconds = (double)(clock_ns() - began) / NS_PER_SEC;
	p->all->moved += bytes;
	if (ret >= 0 && p->why.code)
		ret = err_pass(err, &p->why);
	return ret < 0 ? -1 : 0;
}

static int run_all(struct probe *p, enum kind kind, uint64_t bytes, int tasks, int runs,
                   double *least, double *median, struct err *err)
{
	const int64_t until = clock_ns() + ENOUGH;
	double times[RUNS_FEW];
	int n = 0;
	do {
		if (run_once(p, kind, bytes, tasks, &times[n++], err) < 0)
			return -1;
	} while (n < RUNS_LEAST || (n < runs && clock_ns() < until));
	sort_doubles(times, (size_t)n);
	*least = times[0];
	*median = times[n / 2];
	return 0;
}

static int measure_few(struct probe *p, struct bench_device_times t[KINDS], struct err *err)
{
	for (enum kind k = 0; k < KINDS; k++)
		if (run_all(p, k, FEW, 1, RUNS_FEW, &t[k].few, &t[k].start, err) < 0)
			return -1;
	return 0;
}

/* A task of p->many bytes, or several that are so many together. */
static int measure_large(struct probe *p, enum kind kind, int tasks, struct bench_device_times *t,
                         struct bench_device_rates *r, struct err *err)
{
	const unsigned passes = kind == FOLD ? INPUTS + 1 : 1; /* it reads and writes */
	double ignored;
	if (run_all(p, kind, p->many, tasks, RUNS_MANY, &t->many, &ignored, err) < 0)
		return -1;
	t->folds = kind == FOLD;
	t->few_bytes = passes * FEW;
	t->many_bytes = passes * p->many;
	bench_device_take(r, t);
	return 0;
}

static int measure_many(struct probe *p, struct bench_device_times t[KINDS],
                        struct bench_device_rates *r, struct err *err)
{
	for (enum kind k = 0; k < KINDS; k++)
		if (measure_large(p, k, 1, &t[k], r, err) < 0)
			return -1;
	return 0;
}

/* ---- a device ---- */

static void free_buffers(struct probe *p)
{
	p->space->free(p->space, p->inputs[0], INPUTS * p->many);
	p->all->host->free(p->all->host, p->host, p->many);
}

static int make_buffers(struct probe *p, struct err *err)
{
	const struct memory_space *host = p->all->host;
	p->inputs[0] = p->space->alloc(p->space, INPUTS * p->many, err);
	p->host = p->inputs[0] ? host->alloc(host, p->many, err) : NULL;
	if (!p->host) {
		free_buffers(p);
		return -1;
	}
	p->inputs[1] = p->inputs[0] + p->many;
	return 0;
}

/* The largest buffers that --memory permits and that there is memory for. */
static int make_large_buffers(struct probe *p, struct err *err)
{
	for (p->many = MANY; p->many > MANY_LEAST; p->many /= 2) {
		struct err why = ERR_INIT;
		if (INPUTS * p->many <= p->all->room && make_buffers(p, &why) == 0)
			return 0;
	}
	return make_buffers(p, err);
}

/* A fold of what no cache has, if there is the memory for it. */
static int measure_huge_fold(struct probe *p, struct bench_device_times *t,
                             struct bench_device_rates *r, struct err *err)
{
	const size_t bytes = (size_t)INPUTS * HUGE_INPUT;
	struct err why = ERR_INIT;
	p->inputs[0] = bytes <= p->all->device_room ? p->space->alloc(p->space, bytes, &why) : NULL;
	if (!p->inputs[0])
		return 0;
	p->inputs[1] = p->inputs[0] + HUGE_INPUT;
	p->many = HUGE_INPUT;
	int ret = measure_large(p, FOLD, QUEUED, t, r, err);
	p->space->cancel(p->space, p);
	p->space->free(p->space, p->inputs[0], bytes);
	return ret;
}

static int measure_device(struct bench_devices *d, const struct memory_space *space,
                          struct bench_device_rates *r, struct err *err)
{
	struct probe p = {.all = d, .space = space, .why = ERR_INIT};
	struct bench_device_times t[KINDS];
	p.many = FEW;
	if (make_buffers(&p, err) < 0)
		return -1;
	d->device = space->name;
	int ret = measure_few(&p, t, err);
	space->cancel(space, &p);
	free_buffers(&p);
	if (ret == 0 && (ret = make_large_buffers(&p, err)) == 0) {
		ret = measure_many(&p, t, r, err);
		space->cancel(space, &p);
		free_buffers(&p);
	}
	if (ret == 0 && t[FOLD].many < FAST)
		ret = measure_huge_fold(&p, &t[FOLD], r, err);
	d->device = NULL;
	return ret;
}

int bench_devices_measure(struct bench_devices *d, struct bench_device_rates *r, struct err *err)
{
	for (int i = 0; i < d->n; i++)
		if (measure_device(d, d->spaces[i], r, err) < 0)
			return -1;
	return 0;
}

/* ---- in a job ---- */

static int turn(struct bench_devices *d, struct err *err)
{
	job_moved(d->job, d->moved, 0);
	return job_turn(d->job, err);
}

static int waits_for(void *ctx, int *peers, int cap, char *device, size_t device_cap)
{
	const struct bench_devices *d = ctx;
	(void)peers, (void)cap;
	*device = '\0';
	if (d->device)
		snprintf(device, device_cap, "device %s has not completed %s", d->device, d->what);
	return 0;
}

int bench_devices(struct job *job, struct devices *devices, uint64_t room, uint64_t device_room,
                  struct bench_device_rates *r, struct err *err)
{
	struct bench_devices d = {.spaces = devices_spaces(devices),
	                          .n = devices_count(devices),
	                          .host = devices_host(devices),
	                          .room = room,
	                          .device_room = device_room,
	                          .turn = turn,
	                          .job = job};
	if (devices_attach(devices, job_loop(job), err) < 0)
		return -1;
	job_phase(job, PHASE_RUN);
	job_waits(job, waits_for, &d);
	drive_hurry(job, devices, true);
	int ret = bench_devices_measure(&d, r, err);
	drive_hurry(job, devices, false);
	job_waits(job, NULL, NULL);
	devices_detach(devices);
	return ret;
}
