/*
 * Devices: memory spaces on GPUs, by a plug-in (cuda/plugin.h), which is opened if --device needs
 * it. The plug-in is beside the program in the build folder, in ../lib/collctl of an installed
 * program, or at COLLCTL_PLUGIN_PATH. devices_open may run on another thread than the rest
 * (job_ask_in_thread). Each thread that uses devices has its own set (devices_of), with its own
 * streams and pinned memory.
 */
#ifndef COLLCTL_EXEC_DEVICE_H
#define COLLCTL_EXEC_DEVICE_H

#include <limits.h>

#include "cuda/plugin.h"
#include "lib/exec/exec.h"
#include "lib/net/loop.h"

#define DEVICES_MOST 32
#define DEVICE_PATH  PATH_MAX
#define DEVICE_WHY   (DEVICE_PATH + 512)

/* "cpu", "cuda" (one device, chosen by the rank's index on its host) or "cuda:0,1". */
struct device_list {
	const char *text; /* as the user gave it; owned by the caller */
	bool wanted;      /* it is not "cpu" */
	int n;            /* number of devices; 0: one, to be chosen */
	int numbers[DEVICES_MOST];
};

struct devices; /* a set, which one thread uses at a time */
struct arena;

/* Open the plug-in and the devices of @list. @path: how devices reach each other's memory. @place:
 * the rank's index on its host, for "cuda". NULL: ERR_RESOURCE names what is missing. */
struct devices *devices_open(const struct device_list *list, enum gpu_path path,
                             const struct gpu_limits *limits, int place, struct err *err);
/* Open sets for other threads, until there are @threads, or the memory that windows leave is short.
 * NCCL has one. Returns their number, at least 1. */
int devices_extend(struct devices *first, int threads);
/* The number of sets; the set of thread @k. */
int devices_threads(const struct devices *first); /* NULL: 0 */
struct devices *devices_of(struct devices *first, int k);
/* Wait for the tasks that still run in any set, for a second: call it before the executors of
 * several threads are freed. The memory of all sets stays if one of them does not end. */
void devices_settle(struct devices *first);
/* Close the first set and all others. The executors that use the spaces must be freed before. NULL:
 * nothing. */
void devices_close(struct devices *first);

int devices_count(const struct devices *);                                /* NULL: 0 */
const struct memory_space *const *devices_spaces(const struct devices *); /* [devices_count] */
/* Pinned host memory, from which devices copy at full speed. Its tasks are those of memory_host. */
const struct memory_space *devices_host(const struct devices *);
/* Until the next call, devices_host allocates from @arena, and pins it, so that memory lanes can
 * lend the elements that devices copy; what has no room or cannot be pinned is elsewhere, and lanes
 * copy it. NULL: no arena. What is from an arena must be freed before the arena is. */
void devices_share(struct devices *, struct arena *arena);
/* Why something from the arena could not be pinned; "": nothing. */
const char *devices_not_shared(const struct devices *);
/* The free bytes, when they were opened, on the device with the least. */
uint64_t devices_free_bytes(const struct devices *);
/* The bytes of pinned host memory that the devices hold for themselves. */
uint64_t devices_pinned_bytes(const struct devices *);
/* How they reach each other's memory, as gpu_plugin.path: "nccl", "peer", "host" or "".
 * Constant. */
const char *devices_path(const struct devices *);
/* Do they reach each other's memory only through host memory? Not if NCCL was asked for. NULL:
 * false. */
bool devices_are_unlinked(const struct devices *);
/* The NUMA node that is near all devices; -1: none is known. NULL: -1. */
int devices_node(const struct devices *);
/* The state of NCCL, as gpu_plugin.nccl. */
struct device_nccl {
	int state;      /* 1: ready; 0: not requested; -1: it has failed */
	uint64_t folds; /* number of folds that NCCL made */
	char text[256]; /* its version, or why it has failed */
};
void devices_nccl(const struct devices *, struct device_nccl *out);

/* Complete tasks on @loop until devices_detach: the loop calls their done. ERR_RESOURCE. */
int devices_attach(struct devices *, struct loop *loop, struct err *err);
void devices_detach(struct devices *);
/* The same, and let the executor of *conf use their memory. */
int devices_give(struct devices *, struct exec_conf *conf, struct loop *loop, struct err *err);

/* For `version`: find the plug-in. @ns: the time limit, in ns, for the driver to count the
 * devices. */
struct device_plugin {
	char path[DEVICE_PATH];
	char name[64]; /* "": it cannot be used */
	char why[DEVICE_WHY];
	int count; /* of devices; -1: not known, and why says why */
};
void device_plugin_find(struct device_plugin *out, int64_t ns);

#endif
