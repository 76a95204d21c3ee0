/* Lanes: streams whose tasks report their completion. */
#include "cuda/gpu.h"

#include <stdlib.h>
#include <time.h>
#include <unistd.h>

static void append(struct tasks *list, struct task *task)
{
	task->next = NULL;
	*list->last = task;
	list->last = &task->next;
}

static struct task *take(struct tasks *list)
{
	struct task *task = list->first;
	if (task) {
		list->first = task->next;
		if (!list->first)
			list->last = &list->first;
	}
	return task;
}

/* ---- completion ---- */

/* With the lock held. */
static void recycle(struct task *task)
{
	task->used = task->watched;
	if (task->watched)
		return; /* its event is not recorded anew while the thread waits for it */
	task->next = task->lane->idle;
	task->lane->idle = task;
}

/* With the lock held. */
static void end(struct gpu *gpu)
{
	gpu->running--;
	if (gpu->running == 0)
		pthread_cond_broadcast(&gpu->idle);
}

static void wake_caller(const struct gpu *gpu)
{
	const uint64_t one = 1;

	/* It fails only if the counter is full, and so readable. */
	(void)!write(gpu->event_fd, &one, sizeof one);
}

/* With the lock held. */
static void complete(struct gpu *gpu, struct task *task)
{
	if (task->report && task->epoch == gpu->epoch) {
		append(&gpu->done, task);
		if (gpu->sleeps)
			wake_caller(gpu);
	} else {
		recycle(task);
	}
	end(gpu);
}

/* Of the work before an event. cudaErrorNotReady: it goes on. */
static cudaError_t state_of(cudaEvent_t event)
{
	const cudaError_t error = cudaEventQuery(event);

	if (error == cudaErrorNotReady)
		(void)cudaGetLastError(); /* it is no error */
	return error;
}

int gpu_failed(const struct gpu *gpu, cudaError_t *error)
{
	for (int i = 0; i < gpu->ndevices && gpu->ndevices > 1; i++) {
		const cudaError_t found = state_of(gpu->devices[i].fetched);
		if (found == cudaSuccess || found == cudaErrorNotReady)
			continue;
		*error = found;
		return i;
	}
	return -1;
}

/* Has a device whose memory the task has read failed? A stream that waits for a stream of another
 * device goes on, or waits for ever, when that device has failed. */
static void find_failed(const struct gpu *gpu, struct task *task)
{
	const int failed = task->error == cudaSuccess ? gpu_failed(gpu, &task->error) : -1;

	if (failed >= 0)
		task->device = failed;
}

/* With the lock held: the first task of the lane has ended with @error. */
static void end_first(struct lane *lane, cudaError_t error)
{
	struct gpu *gpu = lane->device->gpu;
	struct task *task = take(&lane->tasks);

	lane->ntasks--;
	task->error = error;
	if (task->others)
		find_failed(gpu, task);
	if (lane == &lane->device->lanes[LANE_NCCL]) {
		if (task->error != cudaSuccess)
			nccl_stop(gpu);
		else if (gpu->nccl_stopped)
			task->why = "NCCL was stopped";
	}
	complete(gpu, task);
}

/* With the lock held: end the tasks whose work has ended. */
static void ask(struct lane *lane)
{
	while (lane->tasks.first) {
		const cudaError_t error = state_of(lane->tasks.first->event);
		if (error == cudaErrorNotReady)
			return;
		end_first(lane, error);
	}
}

static void *wait_for_tasks(void *arg)
{
	struct lane *lane = (struct lane *)arg;
	struct gpu *gpu = lane->device->gpu;
	struct task *task;
	const cudaError_t set = cudaSetDevice(lane->device->ordinal);

	pthread_mutex_lock(&gpu->lock);
	for (;;) {
		while (!(gpu->sleeps && lane->tasks.first) && !gpu->stop)
			pthread_cond_wait(&lane->more, &gpu->lock);
		task = lane->tasks.first;
		if (!task)
			break;
		task->watched = true;
		pthread_mutex_unlock(&gpu->lock);
		const cudaError_t error = cudaEventSynchronize(task->event);
		pthread_mutex_lock(&gpu->lock);
		task->watched = false;
		if (lane->tasks.first == task)
			end_first(lane, set == cudaSuccess ? error : set);
		else if (task->used)
			recycle(task);
	}
	pthread_mutex_unlock(&gpu->lock);
	return NULL;
}

/* ---- lanes ---- */

cudaError_t lane_start(struct lane *lane, struct device *device)
{
	lane->device = device;
	lane->tasks.last = &lane->tasks.first;
	GPU_TRY(cudaStreamCreateWithFlags(&lane->stream, cudaStreamNonBlocking));
	if (pthread_cond_init(&lane->more, NULL) != 0)
		return cudaErrorUnknown;
	lane->started = gpu_thread(&lane->thread, wait_for_tasks, lane);
	if (!lane->started) {
		pthread_cond_destroy(&lane->more);
		return cudaErrorUnknown;
	}
	return cudaSuccess;
}

void lane_stop(struct lane *lane)
{
	struct task *task;

	if (lane->started) {
		pthread_mutex_lock(&lane->device->gpu->lock);
		lane->device->gpu->stop = true;
		pthread_cond_signal(&lane->more);
		pthread_mutex_unlock(&lane->device->gpu->lock);
		pthread_join(lane->thread, NULL);
		pthread_cond_destroy(&lane->more);
	}
	while ((task = lane->idle)) {
		lane->idle = task->next;
		cudaEventDestroy(task->event);
		free(task);
	}
	if (lane->stream)
		cudaStreamDestroy(lane->stream);
}

struct task *lane_task(struct lane *lane, cudaError_t *error)
{
	struct gpu *gpu = lane->device->gpu;
	struct task *task;

	pthread_mutex_lock(&gpu->lock);
	task = lane->idle;
	if (task)
		lane->idle = task->next;
	pthread_mutex_unlock(&gpu->lock);
	if (task)
		return task;
	task = (struct task *)calloc(1, sizeof *task);
	if (!task) {
		*error = cudaErrorMemoryAllocation;
		return NULL;
	}
	*error = cudaEventCreateWithFlags(&task->event,
	                                  cudaEventBlockingSync | cudaEventDisableTiming);
	if (*error != cudaSuccess) {
		free(task);
		return NULL;
	}
	task->lane = lane;
	return task;
}

void lane_begin(struct task *task)
{
	struct gpu *gpu = task->lane->device->gpu;

	pthread_mutex_lock(&gpu->lock);
	task->why = NULL;
	task->error = cudaSuccess;
	task->epoch = gpu->epoch;
	gpu->running++;
	pthread_mutex_unlock(&gpu->lock);
}

cudaError_t lane_push(struct task *task)
{
	struct lane *lane = task->lane;
	struct gpu *gpu = lane->device->gpu;
	const cudaError_t error = cudaEventRecord(task->event, lane->stream);

	pthread_mutex_lock(&gpu->lock);
	if (error == cudaSuccess) {
		lane->ntasks++;
		append(&lane->tasks, task);
		if (gpu->sleeps)
			pthread_cond_signal(&lane->more);
	}
	pthread_mutex_unlock(&gpu->lock);
	return error;
}

void lane_fail(struct task *task, const char *why)
{
	struct gpu *gpu = task->lane->device->gpu;

	pthread_mutex_lock(&gpu->lock);
	task->why = why;
	complete(gpu, task);
	pthread_mutex_unlock(&gpu->lock);
}

cudaError_t lane_watch(struct lane *lane)
{
	cudaError_t error = cudaSuccess;
	struct task *task = lane_task(lane, &error);

	if (!task)
		return error;
	task->report = false;
	task->others = false;
	task->op = GPU_FOLD;
	task->device = lane->device->index;
	lane_begin(task);
	error = lane_push(task);
	if (error != cudaSuccess)
		lane_fail(task, "");
	return error;
}

struct lane *lane_pick(struct device *device, enum lane_kind kind)
{
	struct lane *a = &device->lanes[kind], *b = a + 1;

	pthread_mutex_lock(&device->gpu->lock);
	struct lane *lane = b->ntasks < a->ntasks ? b : a;
	pthread_mutex_unlock(&device->gpu->lock);
	return lane;
}

/* ---- what the caller learns ---- */

const char *gpu_op_name(enum gpu_op op)
{
	static const char *const names[] = {"a copy", "a reduction", "a fill"};

	return names[op];
}

/* With the lock held. */
static void wake_threads(struct gpu *gpu)
{
	gpu->sleeps = true;
	for (int d = 0; d < gpu->ndevices; d++)
		for (int i = 0; i < LANES; i++)
			if (gpu->devices[d].lanes[i].tasks.first)
				pthread_cond_signal(&gpu->devices[d].lanes[i].more);
}

void gpu_will_sleep(struct gpu *gpu)
{
	pthread_mutex_lock(&gpu->lock);
	wake_threads(gpu);
	if (gpu->done.first)
		wake_caller(gpu);
	pthread_mutex_unlock(&gpu->lock);
}

/* With the lock held. */
static void ask_all(struct gpu *gpu)
{
	for (int d = 0; d < gpu->ndevices; d++)
		for (int i = 0; i < LANES; i++)
			ask(&gpu->devices[d].lanes[i]);
}

int gpu_next(struct gpu *gpu, void **cookie, char *why, size_t cap)
{
	pthread_mutex_lock(&gpu->lock);
	gpu->sleeps = false;
	if (!gpu->done.first)
		ask_all(gpu);
	struct task *task = take(&gpu->done);
	if (!task) {
		pthread_mutex_unlock(&gpu->lock);
		return 0;
	}
	const cudaError_t error = task->error;
	const char *failed = task->why;
	const enum gpu_op op = task->op;
	const int ordinal = gpu->devices[task->device].ordinal;
	*cookie = task->cookie;
	recycle(task);
	pthread_mutex_unlock(&gpu->lock);
	if (failed)
		return gpu_fail(why, cap, cudaSuccess, "%s by NCCL failed on GPU %d (%s)",
		                gpu_op_name(op), ordinal, failed);
	if (error == cudaSuccess)
		return 1;
	return gpu_fail(why, cap, error, "%s failed on GPU %d", gpu_op_name(op), ordinal);
}

/* With the lock held: wait until no task runs, at most @ns. */
static void await(struct gpu *gpu, int64_t ns)
{
	const struct timespec until = gpu_until(ns);
	int ret = 0;

	while (gpu->running > 0 && ret == 0)
		ret = pthread_cond_timedwait(&gpu->idle, &gpu->lock, &until);
}

/* A task whose device has failed has ended, while another device still copies for it. */
static void watch_fetches(struct gpu *gpu)
{
	for (int d = 0; d < gpu->ndevices && gpu->fetches; d++)
		if (cudaSetDevice(gpu->devices[d].ordinal) == cudaSuccess)
			(void)lane_watch(&gpu->devices[d].lanes[LANE_TO_HOST_2]);
	(void)cudaGetLastError();
	gpu->fetches = false;
}

int gpu_drain(struct gpu *gpu, int64_t ns)
{
	struct task *task;
	uint64_t count;

	watch_fetches(gpu);
	pthread_mutex_lock(&gpu->lock);
	gpu->epoch++;
	ask_all(gpu);
	wake_threads(gpu);
	await(gpu, ns);
	if (gpu->running > 0 && gpu->nccl) { /* its kernels wait for each other */
		nccl_stop(gpu);
		await(gpu, ns);
	}
	gpu->sleeps = false;
	while ((task = take(&gpu->done)))
		recycle(task);
	while (read(gpu->event_fd, &count, sizeof count) > 0)
		;
	const int ret = gpu->running > 0 ? -1 : 0;
	pthread_mutex_unlock(&gpu->lock);
	return ret;
}
