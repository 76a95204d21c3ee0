/*
 * Keep a value in the store: a thread waits, by blocking queries, for the key to go (the store was
 * restarted, or has forgotten it), and then puts the value again. A value of somebody else's is
 * left alone. The store is the thread's between keeper_start and keeper_stop.
 */
#ifndef COLLCTL_JOB_KEEPER_H
#define COLLCTL_JOB_KEEPER_H

#include "lib/base/offload.h"
#include "lib/job/store.h"

struct keeper {
	struct store *store;
	const char *key;
	char *value;         /* owned; NULL: nothing to keep */
	uint64_t index;      /* ModifyIndex of @value; 0: the store has none, or it is unknown */
	uint64_t wait_index; /* to wait on next */
	bool running;
	struct offload thread;
};

/* A store that can't be watched is no reason to fail: then nobody watches. */
void keeper_start(struct keeper *);
void keeper_stop(struct keeper *); /* idempotent; takes no longer than the store's client needs */
/* Stop, then delete the value if the store still has it. 0: the store has it no more; -1: error. */
int keeper_withdraw(struct keeper *, int64_t deadline, struct err *err);
void keeper_release(struct keeper *);

#endif
