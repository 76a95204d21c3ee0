/*
 * Run one long call, such as fsync, on a separate thread while the event loop continues. A thread
 * whose call may never return can be left running (offload_leave).
 *
 * One thread, the owner's, calls offload_start, _stop, _finish and _leave; only fn calls
 * offload_stopped. After a successful offload_start the owner must call either offload_finish or
 * offload_leave. *o must not move until then.
 */
#ifndef COLLCTL_BASE_OFFLOAD_H
#define COLLCTL_BASE_OFFLOAD_H

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"

struct offload {
	const struct offload *parent; /* on whose thread it was started; NULL: on no such thread */
	pthread_t thread;
	int (*fn)(void *ctx, struct err *err);
	void *ctx;
	int ret;
	struct err err;
	int eventfd; /* readable once fn has returned; -1: no thread */
	atomic_bool stop;
	atomic_bool over; /* fn has returned, or offload_leave was called */
	void (*drop)(void *ctx);
};

/* Call @fn on a new thread. ERR_RESOURCE. */
int offload_start(struct offload *, int (*fn)(void *ctx, struct err *err), void *ctx,
                  struct err *err);
/* Ask fn to end early. */
void offload_stop(struct offload *);
/* fn calls this from time to time and ends if it returns -1. -1 after offload_stop, also of the
 * offload that has started this one: ERR_OTHER; else 0. On any other thread: 0. */
int offload_stopped(struct err *err);
/* Wait until fn has returned. Returns its result, with its error in *err. */
int offload_finish(struct offload *, struct err *err);
/* Instead of offload_finish: do not wait. Once fn has returned, @drop frees @ctx, on this thread or
 * on fn's, and @o, which must be malloced, is freed. Until then the thread counts as stuck
 * (stuck.h), and fn may use only @ctx and memory that is never freed. */
void offload_leave(struct offload *o, void (*drop)(void *ctx));

/* Call @fn @n times at once, each with its own @bytes from @ctx on: the first on this thread, the
 * others on new ones. Returns when all have returned. -1, and *err of the first that failed: one
 * has failed, or no thread could be started; the others on new threads were then asked to end. */
int offload_share(int n, int (*fn)(void *ctx, struct err *err), void *ctx, size_t bytes,
                  struct err *err);

#endif
