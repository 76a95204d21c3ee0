/*
 * Internal to the plug-in: the opened devices, their streams, and the tasks that run.
 *
 * A lane is a stream with the tasks submitted to it, in order, and a thread that waits for the
 * first of them. (A host function in the stream would hold up the tasks after it, and would never
 * be called once the device has failed.) The lock guards the lists of tasks and the counters; all
 * else belongs to the thread that calls the plug-in.
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

#define TABLE        4096               /* inputs that a fold may have, less FOLD_DIRECT */
#define STAGE        ((size_t)32 << 20) /* bytes for inputs from other devices */
#define BOUNCE       4                  /* pinned pieces on their way */
#define BOUNCE_BYTES ((size_t)4 << 20)  /* of a piece */

struct task {
	struct task *next;
	struct lane *lane;
	cudaEvent_t event; /* recorded after the work */
	void *cookie;
	bool report; /* next tells of it */
	unsigned epoch;
	enum gpu_op op;
	int device;
	cudaError_t error;
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

	/* Without access to the memory of other devices, data come through pieces of host memory.
	 */
	void *stage;
	void *bounce[BOUNCE];
	cudaEvent_t emptied[BOUNCE]; /* recorded here when the piece may be written again */
	cudaEvent_t fetched;         /* recorded here when another device may read a piece */
	unsigned next_piece;
};

struct gpu {
	int ndevices;
	bool peers; /* each device accesses the memory of all others */
	int event_fd;
	pthread_mutex_t lock;
	pthread_cond_t idle; /* signalled when running becomes 0 */
	bool stop;
	int running;
	unsigned epoch; /* drain begins a new one: older tasks are not reported */
	struct tasks done;
	struct device devices[];
};

/* Writes a sentence, and the name and text of @error unless it is cudaSuccess. Returns -1. */
__attribute__((format(printf, 4, 5))) int gpu_fail(char *why, size_t cap, cudaError_t error,
                                                   const char *format, ...);

/* ---- cuda/lanes.cu ---- */

/* Start the lane's thread; cudaErrorUnknown: the system refuses. */
cudaError_t lane_start(struct lane *lane, struct device *device);
/* After drain: end the thread and release all. Also of a lane that lane_start left half made. */
void lane_stop(struct lane *lane);
/* A task for the lane, with its event. NULL: error. */
struct task *lane_task(struct lane *lane, cudaError_t *error);
/* The task's work is in the stream. lane_drop: it has none. */
cudaError_t lane_push(struct task *task);
void lane_drop(struct task *task);
/* The emptier of the lanes @kind and @kind + 1. */
struct lane *lane_pick(struct device *device, enum lane_kind kind);

int gpu_next(struct gpu *, void **cookie, char *why, size_t cap);
int gpu_drain(struct gpu *, int64_t ns);

/* ---- cuda/submit.cu ---- */

int gpu_submit(struct gpu *, const struct gpu_task *, char *why, size_t cap);

#endif
