/* Run one call that takes long (fsync, say) on a thread of its own while the event loop goes on. */
#ifndef COLLCTL_BASE_OFFLOAD_H
#define COLLCTL_BASE_OFFLOAD_H

#include <pthread.h>
#include <stdatomic.h>

#include "lib/base/err.h"

struct offload {
	pthread_t thread;
	int (*fn)(void *ctx, struct err *err);
	void *ctx;
	int ret;
	struct err err;
	int eventfd; /* readable once fn has returned; -1: not running */
	atomic_bool stop;
};

int offload_start(struct offload *, int (*fn)(void *ctx, struct err *err), void *ctx,
                  struct err *err);
/* What fn does is not wanted any more: it may end early. */
void offload_stop(struct offload *);
/* To be asked now and then by what takes long: -1, in the fn of an offload that was told to stop;
 * 0, also where no offload runs it. */
int offload_stopped(struct err *err);
/* Waits for fn if it still runs; returns what it returned, its error in *err. */
int offload_finish(struct offload *, struct err *err);

#endif
