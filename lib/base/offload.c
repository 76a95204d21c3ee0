#include "lib/base/io.h"
#include "lib/base/offload.h"
#include "lib/base/stuck.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static _Thread_local const struct offload *own; /* the offload that this thread runs */

static void let_go(struct offload *o)
{
	o->drop(o->ctx);
	close(o->eventfd);
	free(o);
	stuck_remove();
}

static void *run(void *arg)
{
	struct offload *o = arg;
	own = o;
	o->ret = o->fn(o->ctx, &o->err);
	event_signal(o->eventfd);
	if (atomic_exchange(&o->over, true))
		let_go(o);
	return NULL;
}

int offload_start(struct offload *o, int (*fn)(void *ctx, struct err *err), void *ctx,
                  struct err *err)
{
	memset(o, 0, sizeof *o);
	o->parent = own;
	o->fn = fn;
	o->ctx = ctx;
	o->err.rank = ERR_RANK_SELF;
	o->eventfd = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
	if (o->eventfd < 0)
		return err_errno(err, ERR_RESOURCE, "eventfd");
	if (pthread_create(&o->thread, NULL, run, o) == 0)
		return 0;
	close(o->eventfd);
	o->eventfd = -1;
	return err_set(err, ERR_RESOURCE, "cannot start a thread");
}

void offload_stop(struct offload *o)
{
	atomic_store(&o->stop, true);
}

int offload_stopped(struct err *err)
{
	for (const struct offload *o = own; o; o = o->parent)
		if (atomic_load(&o->stop))
			return err_set(err, ERR_OTHER, "was cancelled");
	return 0;
}

int offload_finish(struct offload *o, struct err *err)
{
	pthread_join(o->thread, NULL);
	close(o->eventfd);
	o->eventfd = -1;
	if (o->ret < 0 && err && !err->code)
		*err = o->err;
	return o->ret;
}

void offload_leave(struct offload *o, void (*drop)(void *ctx))
{
	offload_stop(o);
	pthread_detach(o->thread);
	o->drop = drop;
	stuck_add();
	if (atomic_exchange(&o->over, true))
		let_go(o);
}

int offload_share(int n, int (*fn)(void *ctx, struct err *err), void *ctx, size_t bytes,
                  struct err *err)
{
	struct offload *others = err_calloc((size_t)n, sizeof *others, "the threads", err);
	int started = 1, ret = others ? 0 : -1;
	while (started < n && ret == 0) {
		ret = offload_start(&others[started], fn, (char *)ctx + (size_t)started * bytes,
		                    err);
		started += ret == 0;
	}
	if (ret == 0)
		ret = fn(ctx, err);
	for (int i = 1; i < started; i++) {
		if (ret < 0)
			offload_stop(&others[i]);
		if (offload_finish(&others[i], err) < 0)
			ret = -1;
	}
	free(others);
	return ret;
}
