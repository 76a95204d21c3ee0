/*
 * Outputs that several ranks name. Each rank's offer claims the places that it writes
 * (lib/data/files/target.h); rank 0 compares the claims, and its terms say which of a rank's
 * outputs another rank writes. Pure; PROTOCOL.md has the layout.
 */
#ifndef COLLCTL_COLL_AGREEMENT_CLAIMS_H
#define COLLCTL_COLL_AGREEMENT_CLAIMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/base/err.h"

#define CLAIMS_MAX 8192 /* places that a rank claims */

/* Encode the @n places of the output that the user names @path. places[i] gets result i of the job.
 * Place 0 means that the place cannot be compared. */
void claims_put(struct buf *, const char *path, const uint64_t *places, uint32_t n);

/* The claims of all ranks. Empty when zeroed. */
struct claims {
	struct claim {
		uint64_t place;
		int rank;
		uint32_t at;      /* index among the rank's claims */
		uint32_t result;  /* index of the result */
		struct view path; /* encoded, in the intent */
		bool dropped;     /* another rank writes it */
	} * list;
	size_t n, cap;
};
void claims_release(struct claims *);

/* Decode all claims of @rank. ERR_INTEGRITY if malformed. */
int claims_get(struct claims *, int rank, struct view *, struct err *err);

/* If several ranks claim one place for the same result (@replicated: result i is the same on all
 * ranks), one of them writes it and the others drop it. The writer is @root, because its output may
 * be its input, or else the lowest of these ranks. If their results differ: ERR_USAGE, with the
 * second of these ranks as the culprit; the message names all of them and the path. */
int claims_settle(struct claims *, bool replicated, int root, struct err *err);

/* After claims_settle: the places that @rank drops, in the order of its claims. *dropped[*n] is
 * malloced. */
int claims_dropped(const struct claims *, int rank, bool **dropped, uint32_t *n, struct err *err);
void claims_put_dropped(struct buf *, const bool *dropped, uint32_t n);
/* Set the elements of @dropped[n] that the message lists. */
int claims_get_dropped(struct view *, bool *dropped, uint32_t n, struct err *err);

#endif
