/*
 * Keep a value in the store. A thread waits, by blocking queries, until the key is missing (the
 * store was restarted, or has lost it), and then puts the value again. It does not replace a value
 * of another process. Between keeper_start and keeper_stop only the thread uses the store.
 */
#ifndef COLLCTL_STORE_KEEPER_H
#define COLLCTL_STORE_KEEPER_H

#include "lib/base/offload.h"
#include "lib/store/store.h"

struct keeper {
	struct store *store;
	const char *key;
	char *value;         /* owned; NULL: nothing to keep */
	uint64_t index;      /* ModifyIndex of @value; 0: the store has none, or it is unknown */
	uint64_t wait_index; /* to wait on next */
	bool running;
	struct offload thread;
};

/* If the store cannot be watched, nothing watches it; that is no error. */
void keeper_start(struct keeper *);
void keeper_stop(struct keeper *); /* idempotent; takes no longer than the store's client needs */
/* Stop, then delete the value if the store still has it. 0: the store does not have it any more;
 * -1: error. */
int keeper_withdraw(struct keeper *, int64_t deadline, struct err *err);
void keeper_release(struct keeper *);

#endif
