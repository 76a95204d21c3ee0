/* For the programs that use a plug-in alone: opening it, and tasks that are waited for. */
#ifndef COLLCTL_TESTS_PLUGIN_H
#define COLLCTL_TESTS_PLUGIN_H

#include <dlfcn.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "cuda/plugin.h"

#define SKIPPED 77

static const struct gpu_limits plugin_limits = {.start_ns = INT64_C(10000000000),
                                                .pinned = UINT64_MAX};

/* Sets *devices to their number. Ends the program if there is no plug-in or no device. */
static inline const struct gpu_plugin *plugin_open(const char *path, int *devices)
{
	char why[GPU_WHY] = "no device";
	void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);

	if (!library) {
		printf("skipped: %s\n", dlerror());
		exit(SKIPPED);
	}
	const struct gpu_plugin *p = dlsym(library, GPU_PLUGIN_SYMBOL);
	if (!p || p->size < sizeof *p || p->version != GPU_PLUGIN_VERSION) {
		printf("%s: not a plug-in of version %d\n", path, GPU_PLUGIN_VERSION);
		exit(1);
	}
	*devices = p->count(why, sizeof why);
	if (*devices <= 0) {
		printf("skipped: %s: %s\n", p->name, why);
		exit(SKIPPED);
	}
	return p;
}

/* Wait for @n tasks. -1: one has failed; prints why. */
static inline int plugin_wait(const struct gpu_plugin *p, struct gpu *gpu, int n)
{
	char why[GPU_WHY] = "";
	void *cookie;

	while (n > 0) {
		p->will_sleep(gpu);
		struct pollfd fd = {.fd = p->event_fd(gpu), .events = POLLIN};
		uint64_t count;
		int got;
		if (poll(&fd, 1, 60000) != 1) {
			printf("no task was complete within a minute\n");
			return -1;
		}
		if (read(fd.fd, &count, sizeof count) < 0)
			continue;
		while ((got = p->next(gpu, &cookie, why, sizeof why)) > 0)
			n--;
		if (got < 0) {
			printf("a task failed: %s\n", why);
			return -1;
		}
	}
	return 0;
}

static inline int plugin_submit(const struct gpu_plugin *p, struct gpu *gpu,
                                const struct gpu_task *t)
{
	char why[GPU_WHY] = "";

	if (p->submit(gpu, t, why, sizeof why) == 0)
		return 0;
	printf("a task was refused: %s\n", why);
	return -1;
}

static inline int plugin_do(const struct gpu_plugin *p, struct gpu *gpu, const struct gpu_task *t)
{
	return plugin_submit(p, gpu, t) < 0 ? -1 : plugin_wait(p, gpu, 1);
}

static inline int plugin_copy(const struct gpu_plugin *p, struct gpu *gpu, int device, void *dst,
                              const void *src, uint64_t n)
{
	const struct gpu_task t = {
	        .op = GPU_COPY, .device = device, .dst = dst, .src = src, .n = n};
	return plugin_do(p, gpu, &t);
}

#endif
