/*
 * Which outputs do several ranks name? Each rank claims, in its intent, the places that it is to
 * write (lib/data/target.h); the coordinator compares them and tells each rank, in its plan, which
 * of its outputs another rank writes. PROTOCOL.md has the layout.
 */
#ifndef COLLCTL_JOB_CLAIMS_H
#define COLLCTL_JOB_CLAIMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/base/err.h"

#define CLAIMS_MAX 8192 /* places that a rank claims */

/* The @n places of what the user has named @path (-o); [i] is to hold result i of the job. A place
 * of 0 can't be compared. */
void claims_put(struct buf *, const char *path, const uint64_t *places, uint32_t n);

/* Zeroed: empty. Those of all ranks. */
struct claims {
	struct claim {
		uint64_t place;
		int rank;
		uint32_t at;      /* among the rank's */
		uint32_t result;  /* which it is to hold */
		struct view path; /* as encoded, in the intent */
		bool dropped;     /* another rank writes it */
	} * list;
	size_t n, cap;
};
void claims_release(struct claims *);

/* Read all that @rank has put. ERR_INTEGRITY: malformed. */
int claims_get(struct claims *, int rank, struct view *, struct err *err);

/* If ranks claim one place and all have the same result for it (@replicated: result i of all ranks
 * is the same), rank @root writes it, whose output may be its input, or else the lowest of them;
 * the others drop theirs. If the results differ: ERR_USAGE, of the second of these ranks, naming
 * all and the path. */
int claims_settle(struct claims *, bool replicated, int root, struct err *err);

/* Once settled: which of its places @rank drops. */
void claims_put_dropped(const struct claims *, int rank, struct buf *);
/* Set the entries of @dropped[n] that are dropped. */
int claims_get_dropped(struct view *, bool *dropped, uint32_t n, struct err *err);

#endif
