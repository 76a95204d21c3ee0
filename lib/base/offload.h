/* Run one long call, such as fsync, on a separate thread while the event loop continues. */
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
/* The result of fn is no longer needed: fn may end early. */
void offload_stop(struct offload *);
/* For fn to call now and then: -1 after offload_stop, else 0; also 0 outside of an offload. */
int offload_stopped(struct err *err);
/* Waits for fn to end; returns its result, and its error in *err. */
int offload_finish(struct offload *, struct err *err);

#endif
