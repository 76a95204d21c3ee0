/*
 * The stand-in: a plug-in whose devices are host memory with a GPU's manners, for tests on machines
 * without one. A device's memory can be touched only while a task runs on it: a touch by the host
 * faults. Each device has three threads, for copies to it, copies from it, and arithmetic; tasks
 * are complete late, in another order than they began.
 *
 * - COLLCTL_STANDIN_DEVICES=N: the number of devices, 1 to 8 (default 1)
 * - COLLCTL_STANDIN_DELAY=US,SEED: each task takes up to US microseconds longer
 * - COLLCTL_STANDIN_RATE=BYTES: bytes a second of each thread's tasks (default: not limited)
 * - COLLCTL_STANDIN_MEMORY=BYTES: memory of each device (default 1 GiB)
 * - COLLCTL_STANDIN_FAIL=K: the K-th task fails
 * - COLLCTL_STANDIN_HANG=K: the K-th task never completes
 * - COLLCTL_STANDIN_DRIVER=no: there is no driver; =hang: it never answers
 */
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "cuda/plugin.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/exec/memory_space.h"

#define DEVICES_MOST 8
#define QUEUES       3
#define HOST         (-1)

/* Memory of a device, or pinned host memory. */
struct region {
	struct region *next;
	uint8_t *p;
	size_t bytes;
	int device; /* HOST */
	int users;  /* tasks that run on it */
};

struct job {
	struct job *next;
	struct gpu_task task;
	bool fails, hangs;
	int64_t late;         /* ns */
	const void *inputs[]; /* of a fold */
};

/* Tasks that run one after another, on a thread. */
struct queue {
	struct gpu *gpu;
	pthread_t thread;
	pthread_cond_t more;
	struct job *first, **last;
};

struct gpu {
	int n;
	pthread_mutex_t lock;
	pthread_cond_t idle;
	struct region *regions;
	uint64_t used[DEVICES_MOST];
	struct queue queues[DEVICES_MOST][QUEUES];
	int begun; /* threads */
	struct job *ended, **ended_last;
	unsigned running; /* tasks that are queued or run */
	unsigned long submitted;
	bool stop;
	int fd;
	uint64_t dice;
};

static uint64_t setting(const char *name, uint64_t otherwise)
{
	const char *s = getenv(name);
	return s && *s ? strtoull(s, NULL, 10) : otherwise;
}

static int device_count(char *why, size_t cap)
{
	const char *driver = getenv("COLLCTL_STANDIN_DRIVER");
	uint64_t n = setting("COLLCTL_STANDIN_DEVICES", 1);
	while (driver && strcmp(driver, "hang") == 0)
		pause();
	if (driver && strcmp(driver, "no") == 0) {
		snprintf(why, cap, "no driver (stand-in)");
		return -1;
	}
	return n > DEVICES_MOST ? DEVICES_MOST : (int)n;
}

/* ---- memory ---- */

static struct region *region_of(struct gpu *g, const void *p, size_t bytes)
{
	const uint8_t *a = p;
	for (struct region *r = g->regions; r; r = r->next)
		if (a >= r->p && bytes <= r->bytes && a <= r->p + r->bytes - bytes)
			return r;
	return NULL;
}

static void *region_new(struct gpu *g, int device, size_t bytes, char *why, size_t cap)
{
	const uint64_t most = setting("COLLCTL_STANDIN_MEMORY", UINT64_C(1) << 30);
	struct region *r = calloc(1, sizeof *r);
	void *p = MAP_FAILED;
	pthread_mutex_lock(&g->lock);
	bool fits = device == HOST || bytes <= most - g->used[device];
	if (r && fits)
		p = mmap(NULL, bytes, device == HOST ? PROT_READ | PROT_WRITE : PROT_NONE,
		         MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (p != MAP_FAILED) {
		*r = (struct region){g->regions, p, bytes, device, 0};
		g->regions = r;
		if (device != HOST)
			g->used[device] += bytes;
	}
	pthread_mutex_unlock(&g->lock);
	if (p != MAP_FAILED)
		return p;
	snprintf(why, cap, "out of memory (stand-in)");
	free(r);
	return NULL;
}

static void region_free(struct gpu *g, void *p)
{
	pthread_mutex_lock(&g->lock);
	for (struct region **at = &g->regions; *at; at = &(*at)->next) {
		struct region *r = *at;
		if (r->p != p)
			continue;
		*at = r->next;
		if (r->device != HOST)
			g->used[r->device] -= r->bytes;
		munmap(r->p, r->bytes);
		free(r);
		break;
	}
	pthread_mutex_unlock(&g->lock);
}

/* Let a task use the memory at @p, or no longer. */
static void use(struct gpu *g, const void *p, size_t bytes, int change)
{
	pthread_mutex_lock(&g->lock);
	struct region *r = region_of(g, p, bytes);
	if (r && r->device != HOST) {
		bool was = r->users > 0;
		r->users += change;
		if (was != (r->users > 0) &&
		    mprotect(r->p, r->bytes, was ? PROT_NONE : PROT_READ | PROT_WRITE) != 0)
			abort();
	}
	pthread_mutex_unlock(&g->lock);
}

/* ---- tasks ---- */

static size_t bytes_of(const struct gpu_task *t)
{
	return t->op == GPU_COPY ? t->n : t->n * dtype_size((enum dtype)t->dtype);
}

static void use_all(struct gpu *g, const struct gpu_task *t, int change)
{
	use(g, t->dst, bytes_of(t), change);
	if (t->op == GPU_COPY)
		use(g, t->src, t->n, change);
	for (int i = 0; t->op == GPU_FOLD && i < t->ninputs; i++)
		use(g, (const uint8_t *)t->inputs[i] + t->offset, bytes_of(t), change);
}

static void compute(const struct gpu_task *t)
{
	struct memory_task m = {.op = t->op == GPU_FOLD ? MEMORY_FOLD : MEMORY_IDENTITY,
	                        .dst = t->dst,
	                        .inputs = (uint8_t *const *)t->inputs,
	                        .ninputs = t->ninputs,
	                        .offset = t->offset,
	                        .n = t->n,
	                        .to = (enum dtype)t->dtype,
	                        .of = (enum dtype)t->dtype,
	                        .acc = (enum dtype)t->acc,
	                        .reduce = (enum reduce_op)t->reduce};
	memory_host.start(&memory_host, &m, NULL);
}

static void run(struct gpu *g, const struct job *j)
{
	use_all(g, &j->task, 1);
	if (j->task.op == GPU_COPY)
		memcpy(j->task.dst, j->task.src, j->task.n);
	else
		compute(&j->task);
	use_all(g, &j->task, -1);
}

/* Wait as long as a slow device would work. With the lock held. */
static void lag(struct queue *q, int64_t ns)
{
	const int64_t end = clock_ns() + ns;
	const struct timespec until = {end / NS_PER_SEC, end % NS_PER_SEC};
	while (ns > 0 && !q->gpu->stop && clock_ns() < end)
		pthread_cond_timedwait(&q->more, &q->gpu->lock, &until);
}

/* With the lock held. */
static void end(struct gpu *g, struct job *j)
{
	uint64_t one = 1;
	j->next = NULL;
	*g->ended_last = j;
	g->ended_last = &j->next;
	g->running--;
	pthread_cond_broadcast(&g->idle);
	if (io_retry(write(g->fd, &one, sizeof one)) < 0)
		abort();
}

static void *queue_main(void *arg)
{
	struct queue *q = arg;
	struct gpu *g = q->gpu;
	pthread_mutex_lock(&g->lock);
	while (!g->stop) {
		struct job *j = q->first;
		if (!j || j->hangs) {
			pthread_cond_wait(&q->more, &g->lock);
			continue;
		}
		q->first = j->next;
		if (!q->first)
			q->last = &q->first;
		pthread_mutex_unlock(&g->lock);
		if (!j->fails)
			run(g, j);
		pthread_mutex_lock(&g->lock);
		lag(q, j->late);
		end(g, j);
	}
	pthread_mutex_unlock(&g->lock);
	return NULL;
}

/* The error that a GPU would report of operands that it cannot reach. */
static const char *check(struct gpu *g, const struct gpu_task *t)
{
	const struct region *to = region_of(g, t->dst, bytes_of(t)), *from = to;
	if (t->op == GPU_COPY)
		from = region_of(g, t->src, t->n);
	for (int i = 0; t->op == GPU_FOLD && i < t->ninputs; i++) {
		from = region_of(g, (const uint8_t *)t->inputs[i] + t->offset, bytes_of(t));
		if (!from || from->device == HOST)
			return "an input of a fold is not in device memory";
	}
	if (!to || !from)
		return "an operand is neither in device memory nor in pinned host memory";
	if (to->device != t->device && from->device != t->device)
		return "no operand is on the device that runs the task";
	return t->op != GPU_COPY && to->device != t->device ? "the result is on another device"
	                                                    : NULL;
}

static int64_t lateness(struct gpu *g, const struct gpu_task *t)
{
	const char *delay = getenv("COLLCTL_STANDIN_DELAY");
	const uint64_t rate = setting("COLLCTL_STANDIN_RATE", 0);
	int64_t ns = rate ? (int64_t)((double)bytes_of(t) * 1e9 / (double)rate) : 0;
	uint64_t us = delay ? strtoull(delay, NULL, 10) : 0;
	g->dice = g->dice * 6364136223846793005u + 1442695040888963407u;
	return ns + (us ? (int64_t)((g->dice >> 33) % (us + 1)) * 1000 : 0);
}

static int submit(struct gpu *g, const struct gpu_task *t, char *why, size_t cap)
{
	const size_t ninputs = t->op == GPU_FOLD ? (size_t)t->ninputs : 0;
	struct job *j = calloc(1, sizeof *j + ninputs * sizeof *j->inputs);
	const char *wrong;
	if (!j) {
		snprintf(why, cap, "out of memory");
		return -1;
	}
	pthread_mutex_lock(&g->lock);
	wrong = check(g, t);
	if (wrong) {
		pthread_mutex_unlock(&g->lock);
		free(j);
		snprintf(why, cap, "illegal address (stand-in): %s", wrong);
		return -1;
	}
	const struct region *to = region_of(g, t->dst, bytes_of(t));
	const struct region *from = t->op == GPU_COPY ? region_of(g, t->src, t->n) : to;
	struct queue *q = &g->queues[t->device][from->device == HOST ? 0
	                                        : to->device == HOST ? 1
	                                                             : 2];
	g->submitted++;
	*j = (struct job){.task = *t,
	                  .fails = g->submitted == setting("COLLCTL_STANDIN_FAIL", 0),
	                  .hangs = g->submitted == setting("COLLCTL_STANDIN_HANG", 0),
	                  .late = lateness(g, t)};
	for (size_t i = 0; i < ninputs; i++)
		j->inputs[i] = t->inputs[i];
	j->task.inputs = j->inputs;
	*q->last = j;
	q->last = &j->next;
	g->running++;
	pthread_cond_signal(&q->more);
	pthread_mutex_unlock(&g->lock);
	return 0;
}

static int event_fd(struct gpu *g)
{
	return g->fd;
}

static struct job *take_ended(struct gpu *g)
{
	struct job *j = g->ended;
	if (j && !(g->ended = j->next))
		g->ended_last = &g->ended;
	return j;
}

static int next(struct gpu *g, void **cookie, char *why, size_t cap)
{
	pthread_mutex_lock(&g->lock);
	struct job *j = take_ended(g);
	pthread_mutex_unlock(&g->lock);
	if (!j)
		return 0;
	bool failed = j->fails;
	*cookie = j->task.cookie;
	free(j);
	if (!failed)
		return 1;
	snprintf(why, cap, "launch failed (stand-in)");
	return -1;
}

static int drain(struct gpu *g, int64_t ns)
{
	struct timespec until;
	struct job *j;
	int late = 0;
	clock_gettime(CLOCK_MONOTONIC, &until);
	ns += until.tv_nsec;
	until.tv_sec += ns / NS_PER_SEC;
	until.tv_nsec = ns % NS_PER_SEC;
	pthread_mutex_lock(&g->lock);
	while (g->running && !late)
		late = pthread_cond_timedwait(&g->idle, &g->lock, &until);
	while ((j = take_ended(g)))
		free(j);
	late = g->running > 0;
	pthread_mutex_unlock(&g->lock);
	return late ? -1 : 0;
}

/* ---- opening and closing ---- */

static void gpu_close(struct gpu *g)
{
	struct job *j;
	pthread_mutex_lock(&g->lock);
	g->stop = true;
	for (int k = 0; k < g->n * QUEUES; k++)
		pthread_cond_broadcast(&g->queues[k / QUEUES][k % QUEUES].more);
	pthread_mutex_unlock(&g->lock);
	for (int k = 0; k < g->begun; k++)
		pthread_join(g->queues[k / QUEUES][k % QUEUES].thread, NULL);
	for (int k = 0; k < g->n * QUEUES; k++) {
		struct queue *q = &g->queues[k / QUEUES][k % QUEUES];
		while ((j = q->first)) {
			q->first = j->next;
			free(j);
		}
		pthread_cond_destroy(&q->more);
	}
	while ((j = take_ended(g)))
		free(j);
	while (g->regions)
		region_free(g, g->regions->p);
	pthread_cond_destroy(&g->idle);
	pthread_mutex_destroy(&g->lock);
	if (g->fd >= 0)
		close(g->fd);
	free(g);
}

static struct gpu *gpu_open(const int *devices, int n, char *why, size_t cap)
{
	const char *delay = getenv("COLLCTL_STANDIN_DELAY");
	const char *seed = delay ? strchr(delay, ',') : NULL;
	struct gpu *g = calloc(1, sizeof *g);
	pthread_condattr_t attr;
	(void)devices;
	if (!g || n > DEVICES_MOST) {
		snprintf(why, cap, "out of memory");
		free(g);
		return NULL;
	}
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_mutex_init(&g->lock, NULL);
	pthread_cond_init(&g->idle, &attr);
	g->n = n;
	g->ended_last = &g->ended;
	g->dice = seed ? strtoull(seed + 1, NULL, 10) : 1;
	g->fd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	bool ok = g->fd >= 0;
	for (int k = 0; k < n * QUEUES; k++) {
		struct queue *q = &g->queues[k / QUEUES][k % QUEUES];
		q->gpu = g;
		q->last = &q->first;
		pthread_cond_init(&q->more, &attr);
		ok = ok && pthread_create(&q->thread, NULL, queue_main, q) == 0;
		g->begun += ok;
	}
	pthread_condattr_destroy(&attr);
	if (ok)
		return g;
	snprintf(why, cap, "no descriptor or thread (stand-in)");
	gpu_close(g);
	return NULL;
}

static int describe(struct gpu *g, int device, char *name, size_t name_cap, uint64_t *free_bytes,
                    uint64_t *total, char *why, size_t cap)
{
	(void)why, (void)cap;
	snprintf(name, name_cap, "stand-in %d", device);
	*total = setting("COLLCTL_STANDIN_MEMORY", UINT64_C(1) << 30);
	pthread_mutex_lock(&g->lock);
	*free_bytes = *total - g->used[device];
	pthread_mutex_unlock(&g->lock);
	return 0;
}

static const char *path(struct gpu *g)
{
	return g->n > 1 ? "host" : "";
}

static void release(struct gpu *g, int device, void *p, size_t bytes)
{
	(void)device, (void)bytes;
	region_free(g, p);
}

static void *alloc_host(struct gpu *g, size_t bytes, char *why, size_t cap)
{
	return region_new(g, HOST, bytes, why, cap);
}

static void release_host(struct gpu *g, void *p, size_t bytes)
{
	(void)bytes;
	region_free(g, p);
}

__attribute__((visibility("default"))) extern const struct gpu_plugin collctl_gpu_plugin;
const struct gpu_plugin collctl_gpu_plugin = {
        .size = sizeof(struct gpu_plugin),
        .version = GPU_PLUGIN_VERSION,
        .name = "stand-in",
        .count = device_count,
        .open = gpu_open,
        .close = gpu_close,
        .describe = describe,
        .path = path,
        .alloc = region_new,
        .release = release,
        .alloc_host = alloc_host,
        .release_host = release_host,
        .submit = submit,
        .event_fd = event_fd,
        .next = next,
        .drain = drain,
};
