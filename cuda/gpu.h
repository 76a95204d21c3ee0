/*
 * Internal to the plug-in: the opened devices, their streams, and the tasks that run.
 *
 * A lane is a stream with the tasks submitted to it, in order. `next` asks for the first of them;
 * while the caller sleeps, or drains, a thread waits for it. (A host function in the stream would
 * hold up the tasks after it, and would never be called once the device has failed.) The lock
 * guards the lists of tasks and the counters; all else belongs to the thread that calls the
 * plug-in.
 */
#ifndef COLLCTL_CUDA_GPU_H
#define COLLCTL_CUDA_GPU_H

#include <pthread.h>
#include <stdint.h>

#include <cuda_runtime_api.h>

extern "C" {
#include "cuda/plugin.h"
}
#include "cuda/kernels.h"

#define GPU_DEVICES_MOST 32
#define TABLE            4096              /* inputs that a fold may have, less FOLD_DIRECT */
#define STAGE_LEAST      ((size_t)2 << 20) /* bytes for inputs from other devices */
#define STAGE_MOST       ((size_t)32 << 20)
#define BOUNCE           4                  /* pinned pieces on their way */
#define BOUNCE_LEAST     ((size_t)64 << 10) /* bytes of a piece */
#define BOUNCE_MOST      ((size_t)4 << 20)

struct task {
	struct task *next;
	struct lane *lane;
	cudaEvent_t event; /* recorded after the work */
	const char *why;   /* it has failed before its work was in the stream; else NULL */
	void *cookie;
	bool report; /* next tells of it */
	unsigned epoch;
	enum gpu_op op;
	int device;
	bool others; /* it reads memory of other devices: a failure of one of them fails it */
	cudaError_t error;
	bool watched; /* the lane's thread waits for its event */
	bool used;    /* done with; the thread recycles it if it still waits */
};

struct tasks {
	struct task *first, **last;
};

enum lane_kind {
	LANE_TO_DEVICE,
	LANE_TO_DEVICE_2,
	LANE_TO_HOST,
	LANE_TO_HOST_2,
	LANE_BETWEEN, /* copies from devices to devices */
	LANE_COMPUTE,
	LANE_NCCL, /* with GPU_PATH_NCCL */
	LANES
};

struct lane {
	struct device *device;
	cudaStream_t stream;
	struct tasks tasks;
	struct task *idle; /* events belong to a device, so each lane keeps its tasks */
	int ntasks;
	pthread_cond_t more;
	pthread_t thread;
	bool started;
};

struct device {
	struct gpu *gpu;
	int index, ordinal; /* in the list given to open; CUDA's */
	int processors;
	struct lane lanes[LANES];
	const void **table; /* in its memory: addresses of a fold's inputs */

	/* Without access to the memory of other devices, data come through pieces of host memory
	 * (gpu_make_stage). */
	void *stage; /* of device 0, which folds inputs on others */
	void *bounce[BOUNCE];
	cudaEvent_t emptied[BOUNCE]; /* recorded here when the piece may be written again */
	cudaEvent_t fetched;         /* recorded here when another device may read a piece; also
	                              * without pieces it tells whether the device has failed */
	unsigned next_piece;
};

/* Memory of the caller. */
struct place {
	const void *p;
	size_t bytes;
	int device; /* or PLACE_HOST: pinned */
};

#define PLACE_HOST    (-1)
#define PLACE_UNKNOWN (-2)

struct gpu {
	int ndevices;
	bool peers;      /* each device accesses the memory of all others */
	bool registered; /* some pinned host memory is the process's own, so all will be */
	bool pins;       /* it is the driver's: the process's cannot be registered */
	int event_fd;
	pthread_mutex_t lock;
	pthread_cond_t idle; /* signalled when running becomes 0 */
	bool stop;
	bool sleeps;  /* the caller does, or drains: the lanes' threads wait for their tasks */
	bool fetches; /* there may be work in LANE_TO_HOST_2 that belongs to tasks of other devices
	               */
	int running;
	unsigned epoch; /* drain begins a new one: older tasks are not reported */
	struct tasks done;
	enum gpu_path asked;
	size_t stage_bytes, bounce_bytes; /* of a stage; of a piece */
	int64_t start_ns;                 /* that NCCL may take to start */
	struct nccl *nccl;                /* NULL: it was not asked for */
	bool nccl_runs;                   /* its thread */
	bool nccl_stopped;                /* what its streams complete from now on may be wrong */
	uint64_t nccl_folds;
	struct place *places; /* by address */
	size_t nplaces, places_room;
	/* Held while NCCL starts kernels on one device after another. What may wait for the kernels
	 * of a device, as cudaFree, would do so for ever between them. */
	pthread_mutex_t launching;
	struct device devices[];
};

/* Writes a sentence, and the name and text of @error unless it is cudaSuccess. Returns -1. */
__attribute__((format(printf, 4, 5))) int gpu_fail(char *why, size_t cap, cudaError_t error,
                                                   const char *format, ...);

/* In a function that returns an error: return that of @call if it fails. */
#define GPU_TRY(call)                                     \
	do {                                              \
		const cudaError_t error_of_call = (call); \
		if (error_of_call != cudaSuccess)         \
			return error_of_call;             \
	} while (0)

/* A condition whose times are those of CLOCK_MONOTONIC. */
void gpu_condition(pthread_cond_t *);
/* Begin a thread that takes no signals: these are for the program's own. False: there is none. */
bool gpu_thread(pthread_t *, void *(*fn)(void *), void *arg);
/* The time @ns from now. */
struct timespec gpu_until(int64_t ns);

/* Make the memory through which data on devices that it does not access come, unless it is there.
 * The device is the current one then. */
cudaError_t gpu_make_stage(struct device *);

/* ---- cuda/lanes.cu ---- */

/* Start the lane's thread; cudaErrorUnknown: the system refuses. */
cudaError_t lane_start(struct lane *lane, struct device *device);
/* After drain: end the thread and release all. Also of a lane that lane_start left half made. */
void lane_stop(struct lane *lane);
/* A task for the lane, with its event. NULL: error. */
struct task *lane_task(struct lane *lane, cudaError_t *error);
/* The task runs from now on: drain waits for it. */
void lane_begin(struct task *task);
/* Its work is in the stream. After an error the caller ends it by lane_fail. lane_fail: it has no
 * work in the stream any more, and fails with @why, which must outlive it. */
cudaError_t lane_push(struct task *task);
void lane_fail(struct task *task, const char *why);
/* Make what is in the stream a task that is not reported, so that drain waits for it. The lane's
 * device is the current one. */
cudaError_t lane_watch(struct lane *lane);
/* The emptier of the lanes @kind and @kind + 1. */
struct lane *lane_pick(struct device *device, enum lane_kind kind);

/* Of several devices the index of the first that has failed, with *error its error. -1: none has.
 */
int gpu_failed(const struct gpu *, cudaError_t *error);
int gpu_next(struct gpu *, void **cookie, char *why, size_t cap);
void gpu_will_sleep(struct gpu *);
int gpu_drain(struct gpu *, int64_t ns);

/* ---- cuda/places.cu: the calls come from the caller's thread ---- */

/* False: no memory. @device: its index, or PLACE_HOST. */
bool place_add(struct gpu *, const void *p, size_t bytes, int device);
void place_remove(struct gpu *, const void *p);
/* The index of the device that has @p[bytes], or PLACE_HOST; PLACE_UNKNOWN: the caller has no such
 * memory. */
int place_of(const struct gpu *, const void *p, uint64_t bytes);

/* ---- cuda/submit.cu ---- */

int gpu_submit(struct gpu *, const struct gpu_task *, char *why, size_t cap);
/* "a copy", ... */
const char *gpu_op_name(enum gpu_op op);
/* Fold @n elements at @offset bytes of the inputs, which the device accesses. Inputs from
 * FOLD_DIRECT on are only for LANE_COMPUTE's stream. */
cudaError_t gpu_fold(struct device *, cudaStream_t, const struct fold_row *, void *dst,
                     const void *const *inputs, int ninputs, uint64_t offset, uint64_t n);

/* Copy a word from @from's table to @to's and look at it. *lost: it is another one. */
cudaError_t gpu_try_access(struct device *to, struct device *from, bool by_kernel, bool *lost);
/* Load all kernels to the current device. */
cudaError_t gpu_load_kernels(void);

/* ---- cuda/nccl.cu ---- */

/* Start NCCL and wait until it is ready, at most gpu->start_ns. -1: error. */
int nccl_open(struct gpu *, char *why, size_t cap);
/* Was NCCL asked for, and can it do a fold of this kind? */
bool nccl_can(const struct gpu *, const struct gpu_task *);
/* Does each device have an input, and none too many? @places: the device of each input. */
bool nccl_spread(const struct gpu *, const int *places, int ninputs);
/* Hand it over; its @task, of LANE_NCCL, has begun. -1: no memory, or NCCL has failed. */
int nccl_submit(struct gpu *, struct task *task, const struct gpu_task *, const struct fold_row *,
                const int *places);
/* With the lock held: abort what NCCL does, and end it. */
void nccl_stop(struct gpu *);
/* After drain: end and release it. -1: it has not ended at @until, and stays. */
int nccl_close(struct gpu *, const struct timespec *until);
/* As gpu_plugin.nccl. */
int nccl_report(struct gpu *, uint64_t *folds, char *text, size_t cap);

#endif
