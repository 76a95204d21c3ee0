/*
 * The interface of a device plug-in, a shared object that runs tasks on devices such as GPUs:
 * collctl-cuda.so (NVIDIA GPUs), or collctl-standin.so, the same code over devices of host memory,
 * for tests. lib/exec/device.h opens it and is its only user. The program itself links no CUDA.
 *
 * A plug-in exports one symbol, `const struct gpu_plugin collctl_gpu_plugin`. The struct begins
 * with its own size and version and only grows at its end.
 *
 * Calls with one struct gpu come from one thread at a time; event_fd and next do not block, nor
 * does submit, but for the first task that needs memory of a device that its own does not access.
 * Several may be open for the same devices, but not by GPU_PATH_NCCL, and each may be called by
 * another thread: it has its own streams and events, and uses only memory that it has allocated or
 * registered. A function that can fail writes a sentence without a full stop into @why (at most
 * @cap bytes), which names what failed and the device library's own error name. Devices are numbers
 * from 0 in the list given to open.
 */
#ifndef COLLCTL_CUDA_PLUGIN_H
#define COLLCTL_CUDA_PLUGIN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GPU_PLUGIN_SYMBOL  "collctl_gpu_plugin"
#define GPU_PLUGIN_VERSION 5
#define GPU_WHY            256 /* bytes of a reason */

struct gpu; /* the opened devices */

enum gpu_op {
	GPU_COPY,     /* dst <- src */
	GPU_FOLD,     /* dst <- inputs[0] op .. op inputs[ninputs - 1], rounded once */
	GPU_IDENTITY, /* dst <- the operation's identity */
};

/*
 * What a device does. dst, or src of a copy from a device, is in the memory of @device. The other
 * operands are in the memory of any opened device or, for a copy, in host memory from alloc_host or
 * register_host.
 * All are aligned for their elements; device memory of alloc is aligned to 256 bytes. A fold has
 * the bits of the kernels of lib/data/kernels/reduce.h: it converts to @acc, combines from left to
 * right in
 * @acc, and rounds once to @dtype. dst may be inputs[0] + offset. Only device 0 folds inputs on
 * other devices.
 */
struct gpu_task {
	enum gpu_op op;
	int device;
	void *dst;
	const void *src;           /* copy */
	uint64_t n;                /* copy: bytes; else elements */
	const void *const *inputs; /* fold: [ninputs], valid during the call */
	int ninputs;
	uint64_t offset;        /* fold: bytes from each input to its first element */
	int dtype, acc, reduce; /* fold, identity: enum dtype, enum dtype, enum reduce_op */
	void *cookie;           /* for next */
};

/* How folds reach inputs on other devices. */
enum gpu_path {
	GPU_PATH_AUTO, /* by peer if all can, else by host */
	GPU_PATH_NCCL, /* NCCL, for all that it can add, in the order that it chooses; else as AUTO
	                */
	GPU_PATH_PEER, /* devices access each other's memory */
	GPU_PATH_HOST, /* copies through host memory */
};
#define GPU_PATHS "auto|nccl|peer|host" /* their names, in this order */

struct gpu_limits {
	int64_t start_ns; /* nanoseconds that NCCL may take to start */
	uint64_t pinned;  /* bytes of pinned memory that the plug-in may have for itself: it takes
	                     less */
	uint64_t own;     /* bytes of each device's memory that it may have; 0: an eighth of what is
	                     free */
};

struct gpu_plugin {
	size_t size;
	unsigned version;
	const char *name; /* "CUDA 13.0": the toolkit of the build */

	/* The number of devices of this machine; -1: the driver is missing, too old, ... */
	int (*count)(char *why, size_t cap);
	/* Open devices @devices[n], distinct numbers below count(). NULL: error, also if there is
	 * no @path. *stuck: threads have not ended, as with close. */
	struct gpu *(*open)(const int *devices, int n, enum gpu_path path,
	                    const struct gpu_limits *limits, bool *stuck, char *why, size_t cap);
	/* Call drain before. -1: what drain could not end, or NCCL, stays behind until the process
	 * ends, with threads that may hold the library's locks. */
	int (*close)(struct gpu *);
	/* Its name, and its free and total bytes. -1: error. */
	int (*describe)(struct gpu *, int device, char *name, size_t name_cap, uint64_t *free_bytes,
	                uint64_t *total_bytes, char *why, size_t cap);
	/* How folds have reached inputs on other devices: "nccl" (at least some), "peer", "host".
	 * "" with one device, unless NCCL was asked for. */
	const char *(*path)(struct gpu *);

	/* Zeroed device memory. NULL: error. */
	void *(*alloc)(struct gpu *, int device, size_t bytes, char *why, size_t cap);
	void (*release)(struct gpu *, int device, void *p, size_t bytes);
	/* Zeroed host memory that devices copy from and to at full speed (pinned). NULL: error. */
	void *(*alloc_host)(struct gpu *, size_t bytes, char *why, size_t cap);
	void (*release_host)(struct gpu *, void *p, size_t bytes);

	/* Start a task. Tasks may complete in any order: the caller starts only tasks whose
	 * operands are ready and that do not conflict. -1: error. */
	int (*submit)(struct gpu *, const struct gpu_task *, char *why, size_t cap);
	/* After will_sleep readable when a task has completed or failed; the caller reads its eight
	 * bytes. */
	int (*event_fd)(struct gpu *);
	/* Ask the devices. 1: *cookie is that of the next task that has completed; 0: none has; -1:
	 * a task, or the device, has failed: *cookie is its task's, or NULL. */
	int (*next)(struct gpu *, void **cookie, char *why, size_t cap);
	/* Wait until no task runs, at most @ns nanoseconds; next reports nothing of them. -1: a
	 * task still runs. */
	int (*drain)(struct gpu *, int64_t ns);

	/* Bytes of pinned memory that the plug-in itself has. */
	uint64_t (*pinned)(struct gpu *);
	/* What NCCL did. 1: *folds by NCCL, @text: its version; 0: it was not asked for; -1: it has
	 * failed, @text: why. */
	int (*nccl)(struct gpu *, uint64_t *folds, char *text, size_t cap);

	/* Until unregister_host, devices copy from and to host memory of the caller, from @p on, at
	 * full speed (pinned). It begins on a page, and shares no page with other memory that is
	 * registered. -1: the driver does not pin it: the caller may copy through memory of
	 * alloc_host. */
	int (*register_host)(struct gpu *, void *p, size_t bytes, char *why, size_t cap);
	/* Before it, no task may use the memory. */
	void (*unregister_host)(struct gpu *, void *p, size_t bytes);

	/* The caller is going to wait for event_fd: threads wait for the tasks that run, also for
	 * one that has completed since next returned 0, until the next call of next. */
	void (*will_sleep)(struct gpu *);

	/* The NUMA node that is near all devices; -1: none is known. */
	int (*node)(struct gpu *);
};

#endif
