/*
 * Keeps a value in the store. A thread waits, by blocking queries, until the key is missing because
 * the store has lost it, for instance by a restart; then it puts the value again. It never replaces
 * a value of another process.
 *
 * One thread calls these functions. From keeper_start to keeper_stop only the keeper's thread may
 * use the store. The store and the key must outlive the keeper.
 */
#ifndef COLLCTL_STORE_KEEPER_H
#define COLLCTL_STORE_KEEPER_H

#include "lib/base/offload.h"
#include "lib/store/store.h"

struct keeper {
	struct store *store;
	const char *key;
	char *value;    /* owned; NULL: nothing to keep */
	uint64_t index; /* the store's index of the value (store_value); 0: none, or not known */
	uint64_t first; /* the index since the caller has put it: while it is this, nobody has
	                   changed or removed the value; 0: not known */
	uint64_t wait_index; /* for the next blocking query */
	bool running;
	struct offload thread;
};

/* The caller has set store, key, value and index. If no thread can be started, the value is not
 * kept; that is not an error. */
void keeper_start(struct keeper *);
/* Wait for the thread to end, which interrupts its query. Idempotent. */
void keeper_stop(struct keeper *);
/* Stop, and put the value again where it has been all the time. 1: done, so no other process has
 * had the key; 0: the value has been changed or removed meanwhile; -1: as store_put. */
int keeper_confirm(struct keeper *, int64_t deadline, struct err *err);
/* Stop, and delete the value if the store still has it. 0: the store does not have it; -1: as
 * store_delete. */
int keeper_withdraw(struct keeper *, int64_t deadline, struct err *err);
void keeper_release(struct keeper *); /* stops; frees the value; idempotent */

#endif
