/*
 * Internal to the verifier: verifier.c (entry), verify_races.c, verify_values.c (the symbolic run),
 * verify_promise.c (the expected output), verify_lanes.c.
 */
#ifndef COLLCTL_PROOF_VERIFIER_INTERNAL_H
#define COLLCTL_PROOF_VERIFIER_INTERNAL_H

#include "lib/proof/graph.h"
#include "lib/proof/values.h"
#include "lib/proof/verifier.h"

struct verify {
	const struct coll_algorithm *alg;
	const struct coll_args *args; /* [size]: each rank's */
	struct sched *const *scheds;
	int size;
	struct graph g;
	struct nodes nodes;
	struct pieces **bufs;    /* [rank][buffer] */
	struct pieces *outs;     /* [rank]: what was written to the output */
	struct pieces *arrived;  /* [rank], of an exchange: the elements that have arrived */
	struct pieces *messages; /* [step]: the values that a send has put on its lane */
	uint32_t *first_leaf; /* [size + 1]: the index of the rank's first input among all inputs */
	uint32_t *seen_leaf;  /* [all inputs]: the epoch of the last visit */
	uint32_t *seen_node;  /* [nodes]: the same */
	size_t seen_cap;
	uint32_t epoch; /* number of the current traversal of a tree */
	bool failed;
	char *why;
};

/* Record a defect, if it is the first; return false. */
__attribute__((format(printf, 2, 3))) bool verify_defect(struct verify *v, const char *fmt, ...);
bool verify_nomem(struct verify *v);

static inline struct coll_layout verify_layout(const struct verify *v, int rank)
{
	return coll_layout(v->alg->kind, rank, v->size, v->args[rank].root);
}

/* Each returns false if it has recorded a defect. */
bool verify_races(struct verify *v);
/* Run all steps in one order that dependencies and lanes allow; then check the outputs. */
bool verify_values(struct verify *v, enum graph_policy policy);
bool verify_outputs(struct verify *v);
/* Of an exchange: check that @message to @rank has values of rank @peer; at the end, check that all
 * elements have arrived. */
bool verify_arrival(struct verify *v, int rank, int peer, const struct pieces *message);
bool verify_arrivals(struct verify *v);
/* Do all schedules finish over lanes that buffer one element? @lent: over lanes on which a send is
 * done once its peer has consumed the elements. */
bool verify_lanes(struct verify *v, bool lent);

#endif
