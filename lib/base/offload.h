/* Run one blocking call (fsync, say) on a thread of its own while the event loop goes on. */
#ifndef COLLCTL_BASE_OFFLOAD_H
#define COLLCTL_BASE_OFFLOAD_H

#include <pthread.h>

#include "lib/base/err.h"

struct offload {
	pthread_t thread;
	int (*fn)(void *ctx, struct err *err);
	void *ctx;
	int ret;
	struct err err;
	int eventfd; /* readable once fn has returned; -1: not running */
};

int offload_start(struct offload *, int (*fn)(void *ctx, struct err *err), void *ctx,
                  struct err *err);
/* Waits for fn if it still runs; returns what it returned, its error in *err. */
int offload_finish(struct offload *, struct err *err);

#endif
