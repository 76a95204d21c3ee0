/*
 * Folds by NCCL, of inputs on several devices, for GPU_PATH_NCCL: sums, products, minima and maxima
 * of integers, sums and products of f32 and f64. NCCL chooses the order. (Its minima and maxima of
 * floats lose NaN, and it rounds narrow floats after each addition.)
 *
 * One thread makes all calls to NCCL. Its communicators do not block, so that each call can be
 * aborted; NCCL has no event for the end of a call, so the thread looks after growing pauses.
 *
 * Source: NCCL user guide, "Creating a communicator", "Fault tolerance".
 */
#include "cuda/gpu.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <dlfcn.h>

#include "cuda/nccl_api.h"

#ifndef NCCL_LIBRARY
#define NCCL_LIBRARY "libnccl.so.2"
#endif
#define NCCL_LEAST  21800 /* the first version with all that is used */
#define NCCL_BLOCKS 4     /* thread blocks that its kernels may take; the link is the limit */
#define PAUSE_LEAST 50000 /* ns */
#define PAUSE_MOST  2000000
#define TRIAL_BYTES ((size_t)256 << 10)

struct nccl_fold {
	struct nccl_fold *next;
	struct task *task;
	struct gpu_task t;
	const struct fold_row *row;
	const void *inputs[]; /* [t.ninputs], then an int for each: the index of its device */
};

enum nccl_state {
	NCCL_STARTS,
	NCCL_READY,
	NCCL_ENDED, /* or it has failed: why says so */
};

struct nccl_calls {
	ncclResult_t (*version)(int *);
	ncclResult_t (*unique_id)(ncclUniqueId *);
	ncclResult_t (*init)(ncclComm_t *, int, ncclUniqueId, int, ncclConfig_t *);
	ncclResult_t (*state)(ncclComm_t, ncclResult_t *);
	ncclResult_t (*abort)(ncclComm_t);
	ncclResult_t (*group_start)(void);
	ncclResult_t (*group_end)(void);
	ncclResult_t (*reduce)(const void *, void *, size_t, ncclDataType_t, ncclRedOp_t, int,
	                       ncclComm_t, cudaStream_t);
	const char *(*error)(ncclResult_t);
};

/* gpu->lock guards state, stop, why and the list of folds; all else is the thread's. */
struct nccl {
	struct gpu *gpu;
	pthread_t thread;
	bool begun; /* it has to be joined */
	pthread_cond_t more, changed;
	enum nccl_state state;
	bool stop;
	char why[GPU_WHY];
	struct nccl_fold *first, **last;
	struct timespec until; /* when it must have started */
	int version;
	struct nccl_calls calls;
	void **stages;      /* [ndevices] gpu->stage_bytes on each device: sums of its inputs */
	cudaEvent_t *ended; /* [ndevices] recorded when the device's part of a fold has ended */
	uint8_t *trial;     /* pinned */
	ncclComm_t comms[]; /* [ndevices] */
};

__attribute__((format(printf, 2, 3))) static int fail(struct nccl *n, const char *format, ...)
{
	va_list args;

	va_start(args, format);
	pthread_mutex_lock(&n->gpu->lock);
	if (!*n->why)
		vsnprintf(n->why, sizeof n->why, format, args);
	pthread_mutex_unlock(&n->gpu->lock);
	va_end(args);
	return -1;
}

/* -1: it has failed, as @what and the name of @error say. */
static int passed(struct nccl *n, const char *what, cudaError_t error)
{
	return error == cudaSuccess ? 0 : fail(n, "%s%s", what, cudaGetErrorName(error));
}

/* Record that the device's stream comes to here. */
static cudaError_t end_here(const struct nccl *n, int d)
{
	const struct device *device = &n->gpu->devices[d];

	GPU_TRY(cudaSetDevice(device->ordinal));
	return cudaEventRecord(n->ended[d], device->lanes[LANE_NCCL].stream);
}

static bool is_past(const struct timespec *t)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec > t->tv_sec || (now.tv_sec == t->tv_sec && now.tv_nsec >= t->tv_nsec);
}

/* ---- the library ---- */

static int load(struct nccl *n)
{
	const char *given = getenv("COLLCTL_NCCL_PATH");
	void *library = dlopen(given && *given ? given : NCCL_LIBRARY, RTLD_NOW | RTLD_LOCAL);
	const struct {
		const char *name;
		void *at;
	} symbols[] = {
	        {"ncclGetVersion", &n->calls.version},
	        {"ncclGetUniqueId", &n->calls.unique_id},
	        {"ncclCommInitRankConfig", &n->calls.init},
	        {"ncclCommGetAsyncError", &n->calls.state},
	        {"ncclCommAbort", &n->calls.abort},
	        {"ncclGroupStart", &n->calls.group_start},
	        {"ncclGroupEnd", &n->calls.group_end},
	        {"ncclReduce", &n->calls.reduce},
	        {"ncclGetErrorString", &n->calls.error},
	};

	const char *one_by_one = getenv("CUDA_LAUNCH_BLOCKING");
	if (one_by_one && strcmp(one_by_one, "1") == 0)
		return fail(n, "CUDA_LAUNCH_BLOCKING=1 lets one device wait for ever for the next");
	if (!library)
		return fail(n, "%s", dlerror());
	for (size_t i = 0; i < sizeof symbols / sizeof *symbols; i++) {
		void *symbol = dlsym(library, symbols[i].name);
		if (!symbol)
			return fail(n, "%s", dlerror());
		memcpy(symbols[i].at, &symbol, sizeof symbol);
	}
	if (n->calls.version(&n->version) != ncclSuccess || n->version < NCCL_LEAST)
		return fail(n, "NCCL has version %d.%d, but this plug-in needs %d.%d",
		            n->version / 10000, n->version / 100 % 100, NCCL_LEAST / 10000,
		            NCCL_LEAST / 100 % 100);
	return 0;
}

/* ---- calls ---- */

static bool is_started(struct nccl *n, ncclResult_t result)
{
	if (result == ncclSuccess || result == ncclInProgress)
		return true;
	fail(n, "%s", n->calls.error(result));
	return false;
}

/* 1: a call of some communicator goes on; 0: all have ended; -1: one has failed. */
static int look(struct nccl *n)
{
	int ret = 0;

	for (int i = 0; i < n->gpu->ndevices; i++) {
		ncclResult_t state = ncclSuccess;
		if (!n->comms[i])
			continue;
		if (!is_started(n, n->calls.state(n->comms[i], &state)) || !is_started(n, state))
			return -1;
		ret |= state == ncclInProgress;
	}
	return ret;
}

/* Wait for *pause, which becomes longer. -1: it is to stop, or @until is over. */
static int wait_a_little(struct nccl *n, int64_t *pause, const struct timespec *until)
{
	const struct timespec next = gpu_until(*pause);

	if (is_past(until))
		return fail(n, "NCCL did not %s in time",
		            n->state == NCCL_STARTS ? "start" : "begin a reduction");
	pthread_mutex_lock(&n->gpu->lock);
	if (!n->stop)
		pthread_cond_timedwait(&n->more, &n->gpu->lock, &next);
	const bool stop = n->stop;
	pthread_mutex_unlock(&n->gpu->lock);
	*pause = 2 * *pause < PAUSE_MOST ? 2 * *pause : PAUSE_MOST;
	return stop ? fail(n, "NCCL was stopped") : 0;
}

/* Wait for the end of the last call. -1: it has failed, is to stop, or has not ended at @until. */
static int settle(struct nccl *n, const struct timespec *until)
{
	int64_t pause = PAUSE_LEAST;
	int state;

	while ((state = look(n)) > 0)
		if (wait_a_little(n, &pause, until) < 0)
			return -1;
	return state;
}

static int make_communicators(struct nccl *n)
{
	ncclUniqueId id;
	ncclConfig_t config = NCCL_CONFIG_INITIALIZER;
	bool fine = is_started(n, n->calls.unique_id(&id)) && is_started(n, n->calls.group_start());

	config.blocking = 0;
	config.maxCTAs = NCCL_BLOCKS;
	if (!fine)
		return -1;
	for (int i = 0; i < n->gpu->ndevices && fine; i++)
		fine = cudaSetDevice(n->gpu->devices[i].ordinal) == cudaSuccess &&
		       is_started(n, n->calls.init(&n->comms[i], n->gpu->ndevices, id, i, &config));
	if (!is_started(n, n->calls.group_end()) || !fine)
		return -1;
	return settle(n, &n->until);
}

static cudaError_t make_stages(struct nccl *n)
{
	for (int i = 0; i < n->gpu->ndevices; i++) {
		GPU_TRY(cudaSetDevice(n->gpu->devices[i].ordinal));
		GPU_TRY(cudaMalloc(&n->stages[i], n->gpu->stage_bytes));
		GPU_TRY(cudaEventCreateWithFlags(&n->ended[i], cudaEventDisableTiming));
	}
	return cudaHostAlloc((void **)&n->trial, TRIAL_BYTES, cudaHostAllocPortable);
}

/* Kernels of a device may have to wait for its other kernels when they are loaded, and NCCL's wait
 * for those of other devices. Source: CUDA programming guide, "Lazy loading". */
static cudaError_t load_kernels(const struct nccl *n)
{
	for (int i = 0; i < n->gpu->ndevices; i++) {
		GPU_TRY(cudaSetDevice(n->gpu->devices[i].ordinal));
		GPU_TRY(gpu_load_kernels());
	}
	return cudaSuccess;
}

/* Ends what runs, too. */
static void abort_communicators(struct nccl *n)
{
	if (!n->calls.group_start || n->calls.group_start() != ncclSuccess)
		return;
	for (int i = 0; i < n->gpu->ndevices; i++)
		if (n->comms[i])
			(void)n->calls.abort(n->comms[i]);
	(void)n->calls.group_end();
}

/* ---- folds ---- */

static bool type_of(int dtype, ncclDataType_t *type)
{
	switch (dtype) {
	case DTYPE_I8:
		*type = ncclInt8;
		return true;
	case DTYPE_U8:
		*type = ncclUint8;
		return true;
	case DTYPE_I32:
		*type = ncclInt32;
		return true;
	case DTYPE_U32:
		*type = ncclUint32;
		return true;
	case DTYPE_I64:
		*type = ncclInt64;
		return true;
	case DTYPE_U64:
		*type = ncclUint64;
		return true;
	case DTYPE_F32:
		*type = ncclFloat32;
		return true;
	case DTYPE_F64:
		*type = ncclFloat64;
		return true;
	default:
		return false;
	}
}

static bool op_of(int reduce, ncclRedOp_t *op)
{
	switch (reduce) {
	case REDUCE_SUM:
	case REDUCE_AVG:
		*op = ncclSum;
		return true;
	case REDUCE_PROD:
		*op = ncclProd;
		return true;
	case REDUCE_MIN:
		*op = ncclMin;
		return true;
	case REDUCE_MAX:
		*op = ncclMax;
		return true;
	default:
		return false;
	}
}

bool nccl_can(const struct gpu *gpu, const struct gpu_task *t)
{
	const bool is_float = t->dtype == DTYPE_F32 || t->dtype == DTYPE_F64;
	ncclDataType_t type;
	ncclRedOp_t op;

	return gpu->nccl && t->acc == t->dtype && type_of(t->dtype, &type) &&
	       op_of(t->reduce, &op) && !(is_float && (op == ncclMin || op == ncclMax));
}

static const int *places_of(const struct nccl_fold *f)
{
	return (const int *)(const void *)(f->inputs + f->t.ninputs);
}

/* Fold device @d's inputs of elements [pos, pos + n), if it has several. Returns where the sum is.
 */
static const void *fold_own(struct nccl *n, const struct nccl_fold *f, int d, uint64_t pos,
                            uint64_t count)
{
	struct device *device = &n->gpu->devices[d];
	const unsigned size = f->row->size;
	const uint64_t offset = f->t.offset + pos * size;
	char *dst = (char *)f->t.dst + pos * size;
	const void *own[FOLD_DIRECT];
	int nown = 0;

	for (int k = 0; k < f->t.ninputs; k++)
		if (places_of(f)[k] == d)
			own[nown++] = f->inputs[k];
	if (nown == 1)
		return (const char *)own[0] + offset;
	if (d != f->t.device)
		dst = (char *)n->stages[d] + (uintptr_t)dst % VECTOR;
	const cudaError_t error = gpu_fold(device, device->lanes[LANE_NCCL].stream, f->row, dst,
	                                   own, nown, offset, count);
	if (error == cudaSuccess)
		return dst;
	fail(n, "GPU %d: %s", device->ordinal, cudaGetErrorName(error));
	return NULL;
}

/* Start the reduction of @from[ndevices], on the devices' streams, to @to of device @root. */
static int add(struct nccl *n, const void *const *from, void *to, size_t count, ncclDataType_t type,
               ncclRedOp_t op, int root, const struct timespec *until)
{
	struct gpu *gpu = n->gpu;
	bool fine = true;
	int ret = -1;

	pthread_mutex_lock(&gpu->launching);
	if (is_started(n, n->calls.group_start())) {
		for (int d = 0; d < gpu->ndevices && fine; d++)
			fine = is_started(n,
			                  n->calls.reduce(from[d], d == root ? to : NULL, count,
			                                  type, op, root, n->comms[d],
			                                  gpu->devices[d].lanes[LANE_NCCL].stream));
		if (is_started(n, n->calls.group_end()) && fine)
			ret = settle(n, until);
	}
	pthread_mutex_unlock(&gpu->launching);
	return ret;
}

static int reduce(struct nccl *n, const struct nccl_fold *f, uint64_t pos, uint64_t count)
{
	struct gpu *gpu = n->gpu;
	const void *from[GPU_DEVICES_MOST];
	char *to = (char *)f->t.dst + pos * f->row->size;
	ncclDataType_t type = ncclInt8;
	ncclRedOp_t op = ncclSum;

	type_of(f->t.dtype, &type);
	op_of(f->t.reduce, &op);
	for (int d = 0; d < gpu->ndevices; d++) {
		if (cudaSetDevice(gpu->devices[d].ordinal) != cudaSuccess)
			return fail(n, "GPU %d does not answer", gpu->devices[d].ordinal);
		from[d] = fold_own(n, f, d, pos, count);
		if (!from[d])
			return -1;
	}
	const struct timespec until = gpu_until(gpu->start_ns);
	return add(n, from, to, count, type, op, f->t.device, &until);
}

/* ---- a trial ---- */

/* Each byte of the stage of device d becomes d + 1. */
static cudaError_t fill_stages(const struct nccl *n)
{
	for (int d = 0; d < n->gpu->ndevices; d++) {
		GPU_TRY(cudaSetDevice(n->gpu->devices[d].ordinal));
		GPU_TRY(cudaMemsetAsync(n->stages[d], d + 1, TRIAL_BYTES,
		                        n->gpu->devices[d].lanes[LANE_NCCL].stream));
	}
	return cudaSuccess;
}

/* Wait for the streams of all devices: if one fails, the others' kernels wait for ever. */
static int await_trial(struct nccl *n)
{
	int64_t pause = PAUSE_LEAST;
	cudaError_t error = cudaSuccess;

	for (int d = 0; d < n->gpu->ndevices && error == cudaSuccess; d++)
		error = end_here(n, d);
	for (bool runs = true; runs && error == cudaSuccess;) {
		runs = false;
		for (int d = 0; d < n->gpu->ndevices && error == cudaSuccess; d++) {
			error = cudaEventQuery(n->ended[d]);
			runs |= error == cudaErrorNotReady;
			if (error == cudaErrorNotReady)
				error = cudaSuccess;
		}
		if (runs && error == cudaSuccess && wait_a_little(n, &pause, &n->until) < 0)
			return -1;
	}
	return passed(n, "", error);
}

static cudaError_t fetch_trial(const struct nccl *n)
{
	const struct device *device = &n->gpu->devices[0];
	const cudaStream_t stream = device->lanes[LANE_NCCL].stream;

	GPU_TRY(cudaSetDevice(device->ordinal));
	GPU_TRY(cudaMemcpyAsync(n->trial, n->stages[0], TRIAL_BYTES, cudaMemcpyDeviceToHost,
	                        stream));
	return cudaStreamSynchronize(stream);
}

/* NCCL connects the devices when it first adds, and fails then if it cannot. */
static int try_once(struct nccl *n)
{
	const void *from[GPU_DEVICES_MOST];
	uint8_t sum = 0;

	for (int d = 0; d < n->gpu->ndevices; d++) {
		from[d] = n->stages[d];
		sum = (uint8_t)(sum + d + 1);
	}
	if (passed(n, "", fill_stages(n)) < 0 ||
	    add(n, from, n->stages[0], TRIAL_BYTES, ncclUint8, ncclSum, 0, &n->until) < 0 ||
	    await_trial(n) < 0 || passed(n, "", fetch_trial(n)) < 0)
		return -1;
	for (size_t i = 0; i < TRIAL_BYTES; i++)
		if (n->trial[i] != sum)
			return fail(n, "its sums on these devices are wrong");
	return 0;
}

/* ---- the end of folds ---- */

/* The root's stream goes on when all devices have ended their part. */
static cudaError_t join(const struct nccl *n, int root)
{
	struct gpu *gpu = n->gpu;

	for (int d = 0; d < gpu->ndevices; d++) {
		if (d == root)
			continue;
		GPU_TRY(end_here(n, d));
		GPU_TRY(cudaStreamWaitEvent(gpu->devices[root].lanes[LANE_NCCL].stream, n->ended[d],
		                            0));
		/* Its thread stops NCCL if the device fails: the others would wait for it. */
		GPU_TRY(lane_watch(&gpu->devices[d].lanes[LANE_NCCL]));
	}
	return cudaSetDevice(gpu->devices[root].ordinal);
}

static int run(struct nccl *n, const struct nccl_fold *f)
{
	/* A stage's contents are aligned as the destination is. */
	const uint64_t most = (n->gpu->stage_bytes - VECTOR) / f->row->size;

	for (uint64_t pos = 0; pos < f->t.n; pos += most)
		if (reduce(n, f, pos, f->t.n - pos < most ? f->t.n - pos : most) < 0)
			return -1;
	return passed(n, "", join(n, f->t.device));
}

/* ---- the thread ---- */

/* With the lock held. */
static struct nccl_fold *take_fold(struct nccl *n)
{
	struct nccl_fold *f = n->first;

	if (f && !(n->first = f->next))
		n->last = &n->first;
	return f;
}

/* Run folds until one fails, which is then the first of the list, or until the thread is to stop.
 */
static void run_folds(struct nccl *n)
{
	struct nccl_fold *f;
	bool fine = true;

	pthread_mutex_lock(&n->gpu->lock);
	while (fine && !n->stop) {
		f = take_fold(n);
		if (!f) {
			pthread_cond_wait(&n->more, &n->gpu->lock);
			continue;
		}
		pthread_mutex_unlock(&n->gpu->lock);
		fine = run(n, f) == 0;
		if (fine && lane_push(f->task) != cudaSuccess)
			fine = fail(n, "the end of a reduction cannot be awaited") == 0;
		if (fine)
			free(f);
		pthread_mutex_lock(&n->gpu->lock);
		if (!fine) {
			f->next = n->first;
			n->first = f;
			if (!f->next)
				n->last = &f->next;
		}
	}
	pthread_mutex_unlock(&n->gpu->lock);
}

/* Wait until the streams have no work of folds that failed. */
static void await_streams(struct nccl *n)
{
	for (int d = 0; d < n->gpu->ndevices; d++)
		if (n->ended[d] && end_here(n, d) == cudaSuccess)
			(void)cudaEventSynchronize(n->ended[d]);
	(void)cudaGetLastError();
}

static void fail_folds(struct nccl *n)
{
	struct nccl_fold *f;

	do {
		pthread_mutex_lock(&n->gpu->lock);
		f = take_fold(n);
		pthread_mutex_unlock(&n->gpu->lock);
		if (f)
			lane_fail(f->task, *n->why ? n->why : "NCCL was stopped");
		free(f);
	} while (f);
}

static void set_state(struct nccl *n, enum nccl_state state)
{
	pthread_mutex_lock(&n->gpu->lock);
	n->state = state;
	pthread_cond_broadcast(&n->changed);
	pthread_mutex_unlock(&n->gpu->lock);
}

static void *nccl_main(void *arg)
{
	struct nccl *n = (struct nccl *)arg;

	if (load(n) == 0 && passed(n, "kernels cannot be loaded: ", load_kernels(n)) == 0 &&
	    make_communicators(n) == 0 && passed(n, "no memory for NCCL: ", make_stages(n)) == 0 &&
	    try_once(n) == 0) {
		set_state(n, NCCL_READY);
		run_folds(n);
	}
	set_state(n, NCCL_ENDED); /* from now on it takes no folds */
	abort_communicators(n);
	await_streams(n);
	fail_folds(n);
	pthread_mutex_lock(&n->gpu->lock);
	n->gpu->nccl_runs = false;
	pthread_cond_broadcast(&n->changed);
	pthread_mutex_unlock(&n->gpu->lock);
	return NULL;
}

/* ---- what the rest of the plug-in calls ---- */

static struct nccl *make(int ndevices)
{
	const size_t count = (size_t)ndevices;
	struct nccl *n = (struct nccl *)calloc(1, sizeof *n + count * sizeof *n->comms);

	if (!n)
		return NULL;
	n->stages = (void **)calloc(count, sizeof *n->stages);
	n->ended = (cudaEvent_t *)calloc(count, sizeof *n->ended);
	if (n->stages && n->ended)
		return n;
	free(n->stages);
	free(n->ended);
	free(n);
	return NULL;
}

static int start(struct gpu *gpu, char *why, size_t cap)
{
	struct nccl *n = make(gpu->ndevices);

	if (!n)
		return gpu_fail(why, cap, cudaSuccess, "no memory for NCCL");
	n->gpu = gpu;
	n->last = &n->first;
	n->until = gpu_until(gpu->start_ns);
	gpu_condition(&n->more);
	gpu_condition(&n->changed);
	gpu->nccl = n;
	gpu->nccl_runs = true; /* the thread clears it */
	n->begun = gpu_thread(&n->thread, nccl_main, n);
	if (n->begun)
		return 0;
	gpu->nccl_runs = false;
	n->state = NCCL_ENDED;
	snprintf(n->why, sizeof n->why, "no thread for NCCL");
	return gpu_fail(why, cap, cudaSuccess, "%s", n->why);
}

int nccl_open(struct gpu *gpu, char *why, size_t cap)
{
	int ret = 0;

	if (start(gpu, why, cap) < 0)
		return -1;
	struct nccl *n = gpu->nccl;
	pthread_mutex_lock(&gpu->lock);
	while (n->state == NCCL_STARTS)
		if (pthread_cond_timedwait(&n->changed, &gpu->lock, &n->until) != 0)
			break;
	if (n->state != NCCL_READY)
		ret = gpu_fail(why, cap, cudaSuccess, "NCCL cannot be used: %s",
		               *n->why ? n->why : "it did not start in time");
	pthread_mutex_unlock(&gpu->lock);
	return ret;
}

bool nccl_spread(const struct gpu *gpu, const int *places, int ninputs)
{
	int inputs[GPU_DEVICES_MOST] = {0};

	for (int k = 0; k < ninputs; k++)
		inputs[places[k]]++;
	for (int d = 0; d < gpu->ndevices; d++)
		if (inputs[d] < 1 || inputs[d] > FOLD_DIRECT)
			return false;
	return true;
}

int nccl_submit(struct gpu *gpu, struct task *task, const struct gpu_task *t,
                const struct fold_row *row, const int *places)
{
	struct nccl *n = gpu->nccl;
	const size_t count = (size_t)t->ninputs;
	struct nccl_fold *f = (struct nccl_fold *)calloc(
	        1, sizeof *f + count * (sizeof *f->inputs + sizeof *places));

	if (!f)
		return -1;
	f->task = task;
	f->t = *t;
	f->row = row;
	memcpy(f->inputs, t->inputs, count * sizeof *f->inputs);
	memcpy(f->inputs + count, places, count * sizeof *places);
	f->t.inputs = f->inputs;
	pthread_mutex_lock(&gpu->lock);
	const bool ready = n->state == NCCL_READY && !n->stop;
	if (ready) {
		*n->last = f;
		n->last = &f->next;
		gpu->nccl_folds++;
		pthread_cond_signal(&n->more);
	}
	pthread_mutex_unlock(&gpu->lock);
	if (!ready)
		free(f);
	return ready ? 0 : -1;
}

void nccl_stop(struct gpu *gpu)
{
	if (!gpu->nccl)
		return;
	gpu->nccl_stopped = true;
	gpu->nccl->stop = true;
	pthread_cond_signal(&gpu->nccl->more);
}

int nccl_close(struct gpu *gpu, const struct timespec *until)
{
	struct nccl *n = gpu->nccl;

	if (!n)
		return 0;
	pthread_mutex_lock(&gpu->lock);
	nccl_stop(gpu);
	while (gpu->nccl_runs && pthread_cond_timedwait(&n->changed, &gpu->lock, until) == 0)
		;
	const bool runs = gpu->nccl_runs;
	pthread_mutex_unlock(&gpu->lock);
	if (runs)
		return -1;
	if (n->begun)
		pthread_join(n->thread, NULL);
	for (int i = 0; i < gpu->ndevices; i++) {
		(void)cudaSetDevice(gpu->devices[i].ordinal);
		if (n->stages[i])
			cudaFree(n->stages[i]);
		if (n->ended[i])
			cudaEventDestroy(n->ended[i]);
	}
	if (n->trial)
		cudaFreeHost(n->trial);
	pthread_cond_destroy(&n->more);
	pthread_cond_destroy(&n->changed);
	free(n->stages);
	free(n->ended);
	free(n);
	gpu->nccl = NULL;
	return 0;
}

int nccl_report(struct gpu *gpu, uint64_t *folds, char *text, size_t cap)
{
	const struct nccl *n = gpu->nccl;

	*text = '\0';
	*folds = 0;
	if (!n)
		return 0;
	pthread_mutex_lock(&gpu->lock);
	const bool failed = *n->why != '\0';
	if (failed)
		snprintf(text, cap, "%s", n->why);
	else if (n->state == NCCL_READY)
		snprintf(text, cap, "%d.%d.%d", n->version / 10000, n->version / 100 % 100,
		         n->version % 100);
	*folds = gpu->nccl_folds;
	pthread_mutex_unlock(&gpu->lock);
	return failed ? -1 : *text ? 1 : 0;
}
