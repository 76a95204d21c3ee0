/*
 * The planner: from the offers of all ranks, rank 0 chooses each vector's algorithm, wire type and
 * number of windows, the number of streams, and the writer of an output that several ranks name. A
 * pure function of its arguments: no I/O, no clock. One thread.
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
#include "lib/exec/budget.h"
#include "lib/job/proto.h"
#include "lib/price/select.h"

struct planner {
	const struct coll_request *request;
	const struct agreement *agreed;     /* rank 0's vectors and root */
	const struct select_tuning *tuning; /* NULL: none */
	/* Called for the choice of each vector's algorithm; may be NULL. */
	void (*selected)(void *ctx, const struct select_args *, const struct selection *);
	void *selected_ctx;

	struct planned *vectors; /* [nvectors]: one for each of agreed, which may get more later */
	int nvectors;
	struct claims claims;
	struct rank_files *gathered; /* [size], if files are gathered */
	uint64_t listed;             /* bytes of memory for these */
	uint64_t *reads;             /* [size]: offer.reads of each rank */
	uint64_t order;              /* offer.order of the first rank */
	bool weighted, keeps_order;  /* as in struct agreement */
	uint32_t piece;              /* as in struct agreement */
	int nwithout, without;       /* the number of ranks that cannot code; the first of them */
	double divisor;
	uint64_t contributions; /* the inputs of all ranks */
	uint32_t *inputs;       /* [ncame], if the operation is joint: the inputs of each rank */
	uint64_t most_inputs;   /* the most inputs of a rank */
	/* What the offers say of the hosts. The caller adds what it knows, and settles it before
	 * planner_decide. */
	struct network network;
	uint32_t *shares; /* [ncame], if an algorithm needs them; else NULL */
	uint64_t streams; /* the most that a rank requests; 0: automatic */
	struct budget_far far;
	uint32_t far_streams; /* budget_far_streams; 0: as for near hosts */
	uint64_t bytes;       /* of all vectors */
	bool clones;          /* as in struct agreement */
};

/* The caller has set the first five members; what they point to must outlive the planner.
 * ERR_RESOURCE. */
int planner_init(struct planner *, struct err *err);
void planner_release(struct planner *);

/* Add the offer of @rank, which takes part; call it in rank order. @ninputs, @streams: of its
 * intent. The planner takes ownership of some parts, which it removes from *@offer. Only the memory
 * of offer->claims must outlive the planner. ERR_INTEGRITY: the offer does not fit the job. */
int planner_take(struct planner *, int rank, struct offer *offer, uint32_t ninputs,
                 uint32_t streams, struct err *err);
/* After the last planner_take: find the largest group of ranks that read the same files, and write
 * them to @ranks[size], ascending. Returns their number; 0: no two ranks do; -1: ERR_RESOURCE. */
int planner_same_inputs(const struct planner *, int *ranks, struct err *err);
/* Choose. Uses plan->memory, total_inputs, host and host_cpus; sets plan->streams. ERR_USAGE: no
 * algorithm can run this, or outputs collide (claims_settle). */
int planner_decide(struct planner *, struct plan *plan, struct err *err);

/* After planner_decide: the predicted time of vector @i, without files and devices. 0: not known,
 * as on all ranks but the coordinator. */
double planner_seconds(const struct planner *, int i);

/* If the round trips decide for another algorithm of vector @i than for near hosts: returns that of
 * near hosts, and sets *chosen. Else NULL. */
const struct coll_algorithm *planner_near_choice(const struct planner *, int i,
                                                 const struct coll_algorithm **chosen);

/* Does request.wire ask for coded pieces, as far as the links are known (after planner_decide)? */
bool planner_wants_coding(const struct planner *);

/* Can ranks of a host have outputs with the same bytes, that nobody has but for their data?
 * @host: as in struct agreement. */
bool planner_may_clone(const struct coll_request *, const int *host);

/* Encode the terms of @rank. @root: the root's offer, or empty. */
void planner_terms(const struct planner *, int rank, struct view root, struct buf *out);

/* The form of the offers; the form of the terms of @rank, if rank @planner plans. */
struct offer_form offer_form_of(const struct coll_request *, int size);
struct terms_form terms_form_of(const struct coll_request *, int rank, int size, int root,
                                int planner, uint32_t nclaims);

#endif
