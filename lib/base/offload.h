/*
 * Run one long call, such as fsync, on a separate thread while the event loop continues. A call
 * that may never return can be left behind.
 */
#ifndef COLLCTL_BASE_OFFLOAD_H
#define COLLCTL_BASE_OFFLOAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "lib/base/err.h"

struct offload {
	pthread_t thread;
	int (*fn)(void *ctx, struct err *err);
	void *ctx;
	int ret;
	struct err err;
	int eventfd; /* readable once fn has returned; -1: not running */
	atomic_bool stop;
	atomic_bool over; /* fn has returned, or is left behind */
	void (*drop)(void *ctx);
};

int offload_start(struct offload *, int (*fn)(void *ctx, struct err *err), void *ctx,
                  struct err *err);
/* The result of fn is no longer needed: fn may end early. */
void offload_stop(struct offload *);
/* For fn to call now and then: -1 after offload_stop, else 0; also 0 outside of an offload. */
int offload_stopped(struct err *err);
/* Waits for fn to end; returns its result, and its error in *err. */
int offload_finish(struct offload *, struct err *err);
/* Instead of offload_finish, without waiting: when fn has returned, drop(ctx) is called, on either
 * thread, and @o is freed. Until then its thread counts as stuck, and fn may use only memory that
 * stays. */
void offload_leave(struct offload *o, void (*drop)(void *ctx));

#endif
