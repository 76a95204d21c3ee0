/*
 * Devices: memory spaces on GPUs, by a plug-in (cuda/plugin.h) that is opened when --device asks
 * for it. It is beside the program in the build folder, in ../lib/collctl of an installed one, or
 * where COLLCTL_PLUGIN_PATH says.
 */
#ifndef COLLCTL_EXEC_DEVICE_H
#define COLLCTL_EXEC_DEVICE_H

#include <limits.h>

#include "cuda/plugin.h"
#include "lib/exec/memory_space.h"
#include "lib/net/loop.h"

#define DEVICES_MOST 32
#define DEVICE_PATH  PATH_MAX
#define DEVICE_WHY   (DEVICE_PATH + 512)

/* "cpu", "cuda" (one device, chosen by the rank's place on its host) or "cuda:0,1". */
struct device_list {
	const char *text; /* as it was given; the caller's */
	bool wanted;      /* not "cpu" */
	int n;            /* 0: to be chosen */
	int numbers[DEVICES_MOST];
};

struct devices;

/* Open the plug-in and the devices of @list; @place: the rank's place on its host, for "cuda".
 * @path: how devices reach each other's memory. NULL: ERR_RESOURCE names what is missing. */
struct devices *devices_open(const struct device_list *list, enum gpu_path path,
                             const struct gpu_limits *limits, int place, struct err *err);
/* The executors that use the spaces must be freed before. */
void devices_close(struct devices *);

int devices_count(const struct devices *);                                /* NULL: 0 */
const struct memory_space *const *devices_spaces(const struct devices *); /* [devices_count] */
/* Host memory from which devices copy at full speed; its tasks are memory_host's. */
const struct memory_space *devices_host(const struct devices *);
/* The bytes that were free on the device that had least, when they were opened. */
uint64_t devices_free_bytes(const struct devices *);
/* The pinned host memory that the devices hold for themselves, in bytes. */
uint64_t devices_pinned_bytes(const struct devices *);
/* As gpu_plugin.path: "nccl", "peer", "host", "". */
const char *devices_path(const struct devices *);
/* What NCCL did, as gpu_plugin.nccl. */
struct device_nccl {
	int state; /* 1: it is ready; 0: it was not asked for; -1: it has failed */
	uint64_t folds;
	char text[256]; /* its version, or why not */
};
void devices_nccl(const struct devices *, struct device_nccl *out);

/* Complete tasks on @loop from now on, until devices_detach. */
int devices_attach(struct devices *, struct loop *loop, struct err *err);
void devices_detach(struct devices *);

/* For `version`: the plug-in's path and name, or why there is none. The driver may take @ns
 * nanoseconds to count the devices. */
struct device_plugin {
	char path[DEVICE_PATH];
	char name[64]; /* "": it cannot be used */
	char why[DEVICE_WHY];
	int count; /* of devices; -1: unknown, *why says why */
};
void device_plugin_find(struct device_plugin *out, int64_t ns);

#endif
