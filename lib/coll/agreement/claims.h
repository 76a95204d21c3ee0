/*
 * Outputs that several ranks name. Each rank's offer claims the places that it writes; a place is a
 * number for a file (lib/data/files/target.h). Rank 0 compares the claims, and its terms say which
 * of a rank's outputs another rank writes. Pure functions; one thread. PROTOCOL.md has the bytes.
 */
#ifndef COLLCTL_COLL_AGREEMENT_CLAIMS_H
#define COLLCTL_COLL_AGREEMENT_CLAIMS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/base/err.h"

#define CLAIMS_MAX 8192 /* the most places that a rank may claim */

/* Encode the @n places of the output @path: result i of the job is written to places[i]; 0: the
 * place is not known, and is not compared. */
void claims_put(struct buf *, const char *path, const uint64_t *places, uint32_t n);

/* The claims of all ranks. Empty when zeroed. */
struct claims {
	struct claim {
		uint64_t place;
		int rank;
		uint32_t at;      /* index among the rank's claims */
		uint32_t result;  /* index of the result */
		struct view path; /* points into the message, which must outlive the claims */
		bool dropped;     /* another rank writes it */
	} * list;
	size_t n, cap;
};
void claims_release(struct claims *);

/* Decode and add all claims of @rank; the view advances. ERR_INTEGRITY: malformed. */
int claims_get(struct claims *, int rank, struct view *, struct err *err);

/* Decide who writes a place that several ranks claim. If their results are the same (@replicated:
 * result i is the same on all ranks), one rank writes it and the others drop it: @root writes it if
 * it is one of them, because its output may be its input; else the lowest rank. If their results
 * differ: ERR_USAGE names all of these ranks and the path; the culprit is the second of them. */
int claims_settle(struct claims *, bool replicated, int root, struct err *err);

/* After claims_settle: which of @rank's claims it drops, in their order. (*dropped)[*n] is
 * malloced. ERR_RESOURCE. */
int claims_dropped(const struct claims *, int rank, bool **dropped, uint32_t *n, struct err *err);
void claims_put_dropped(struct buf *, const bool *dropped, uint32_t n);
/* Decode it into @dropped[n], which is all false. ERR_INTEGRITY. */
int claims_get_dropped(struct view *, bool *dropped, uint32_t n, struct err *err);

#endif
