/*
 * Calls of a function with the progress of a job, for programs that use the library: when it is
 * open, when data start to move, at its end, and five times a second meanwhile. One thread.
 */
#ifndef COLLCTL_COLL_PROGRESS_CALLS_H
#define COLLCTL_COLL_PROGRESS_CALLS_H

#include "lib/coll/coll.h"
#include "lib/net/loop.h"

struct progress_calls {
	/* @phase: join, connect, run or commit. @done of @total bytes of this rank's files are
	 * through all stages; 0 of 0: not known. @left: seconds; negative: not known. */
	void (*fn)(void *ctx, const char *phase, uint64_t done, uint64_t total, double left);
	void *ctx;
	struct job *job; /* NULL: it is not open */
	const struct coll *coll;
	uint64_t bytes, done;
	int64_t since; /* data move */
	struct loop_timer timer;
};

/* For coll_observer.opened and .moving. Without a function they do nothing. */
void progress_calls_open(struct progress_calls *, struct job *);
void progress_calls_move(struct progress_calls *, uint64_t bytes, const struct coll *);
/* After coll_run, before coll_end: the last call. */
void progress_calls_end(struct progress_calls *);

#endif
