/*
 * The planner: from the offers of all ranks, rank 0 chooses each vector's algorithm, wire type and
 * windows, the number of streams, and the writer of an output that several ranks name. A pure
 * function of its arguments: no I/O, no clock.
 *
 *     planner_init -> planner_take (every rank's offer) -> planner_decide -> planner_terms (of each
 *       rank) -> planner_release
 */
#ifndef COLLCTL_COLL_AGREEMENT_PLANNER_H
#define COLLCTL_COLL_AGREEMENT_PLANNER_H

#include "lib/coll/agreement/agreement.h"
#include "lib/coll/agreement/claims.h"
#include "lib/coll/agreement/offer.h"
#include "lib/coll/agreement/terms.h"
#include "lib/job/proto.h"
#include "lib/price/select.h"

struct planner {
	const struct coll_request *request;
	const struct agreement *agreed;     /* rank 0's vectors and root */
	const struct select_tuning *tuning; /* NULL: none */
	/* Reports the choice of an algorithm; may be NULL. */
	void (*selected)(void *ctx, const struct select_args *, const struct selection *);
	void *selected_ctx;

	struct planned *vectors; /* one per vector */
	struct claims claims;
	struct rank_files *gathered; /* [size], if files are gathered */
	uint64_t *reads;             /* [size] of the offers */
	uint64_t order;
	bool weighted, keeps_order;
	double divisor;
	uint64_t most_inputs; /* of any rank */
	uint64_t limit_rate;  /* the lowest of any rank; 0: none */
	uint64_t streams;     /* the most that any rank requests; 0: automatic */
};

/* The caller sets the first five members; what they point to must outlive the planner. */
int planner_init(struct planner *, struct err *err);
void planner_release(struct planner *);

/* Add an offer, in rank order. Afterwards the caller may free its memory, except that of the
 * claims. Moves the parts of @offer that the planner keeps. ERR_INTEGRITY if the offer does not fit
 * the job. */
int planner_take(struct planner *, int rank, struct offer *offer, uint32_t ninputs,
                 uint32_t streams, struct err *err);
/* The largest group of ranks that read the same files: their numbers in @ranks ([size]), ascending.
 * Returns how many; 0: no two ranks do. Call it after the last planner_take. ERR_RESOURCE: -1. */
int planner_same_inputs(const struct planner *, int *ranks, struct err *err);
/* Reads @plan's memory, total_inputs and host_cpus; sets its streams. */
int planner_decide(struct planner *, struct plan *plan, struct err *err);

/* Encode the terms of @rank. @root: the root's offer, or empty. */
void planner_terms(const struct planner *, int rank, struct view root, struct buf *out);

/* The form of the offers, and of the terms of @rank. */
struct offer_form offer_form_of(const struct coll_request *, int size);
struct terms_form terms_form_of(const struct coll_request *, int rank, int size, int root,
                                uint32_t nclaims);

#endif
