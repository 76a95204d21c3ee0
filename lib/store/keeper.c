#include "lib/store/keeper.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"

#define QUERY_TIME (60 * NS_PER_SEC) /* of one query, which is then repeated */
#define PUT_TIME   (5 * NS_PER_SEC)

static bool is_stopped(void *ctx)
{
	const struct keeper *k = ctx;
	return atomic_load(&k->thread.stop);
}

/* Get the key's value, after a change if wait_index is set. 1: there is a value; 0: none; -1: the
 * store does not answer. */
static int look(struct keeper *k, int64_t deadline, struct err *err)
{
	struct store_value v;
	if (store_get(k->store, k->key, k->wait_index, &v, &k->wait_index, deadline, err) < 0) {
		k->wait_index = 0;
		return -1;
	}
	size_t len = strlen(k->value);
	bool ours = v.index && v.len == len && memcmp(v.data, k->value, len) == 0;
	free(v.data);
	k->index = ours ? v.index : 0;
	return v.index != 0;
}

static int keep(void *ctx, struct err *err)
{
	struct keeper *k = ctx;
	(void)err;
	while (!is_stopped(k)) {
		struct err e = ERR_INIT;
		if (look(k, clock_ns() + QUERY_TIME, &e) != 0 || is_stopped(k))
			continue;
		k->wait_index = 0;
		store_put(k->store, k->key, k->value, strlen(k->value), 0, clock_ns() + PUT_TIME,
		          &e);
	}
	return 0;
}

void keeper_start(struct keeper *k)
{
	struct err ignored = {0};
	if (!k->value || k->running)
		return;
	store_interrupt(k->store, is_stopped, k);
	k->running = offload_start(&k->thread, keep, k, &ignored) == 0;
}

void keeper_stop(struct keeper *k)
{
	if (!k->running)
		return;
	offload_stop(&k->thread);
	store_wake(k->store);
	offload_finish(&k->thread, NULL);
	k->running = false;
}

int keeper_confirm(struct keeper *k, int64_t deadline, struct err *err)
{
	keeper_stop(k);
	store_interrupt(k->store, NULL, NULL);
	k->index = 0; /* keeper_withdraw asks for it */
	return k->first ? store_put(k->store, k->key, k->value, strlen(k->value), k->first,
	                            deadline, err)
	                : 0;
}

int keeper_withdraw(struct keeper *k, int64_t deadline, struct err *err)
{
	if (!k->value)
		return 0;
	keeper_stop(k);
	/* A signal that ends this rank must not leave its record in the store: the deadline is
	 * short. */
	store_interrupt(k->store, NULL, NULL);
	if (!k->index) { /* the last put may have been interrupted */
		k->wait_index = 0;
		if (look(k, deadline, err) < 0)
			return -1;
	}
	if (k->index && store_delete(k->store, k->key, k->index, deadline, err) < 0)
		return -1;
	keeper_release(k);
	return 0;
}

void keeper_release(struct keeper *k)
{
	keeper_stop(k);
	free(k->value);
	k->value = NULL;
	k->index = 0;
}
