/*
 * The schedules of all ranks as one graph: the steps of all ranks in one numbering, each receive
 * matched with its send, and the order that dependencies and lanes require.
 */
#ifndef COLLCTL_PROOF_GRAPH_H
#define COLLCTL_PROOF_GRAPH_H

#include "lib/sched/sched.h"

#define GRAPH_NONE UINT32_MAX
#define GRAPH_TEXT 256

struct graph {
	struct sched *const *scheds; /* owned by the caller */
	int size;
	uint32_t n;      /* steps of all ranks */
	uint32_t *first; /* [size + 1]: number of the rank's step 0 */
	int *rank;       /* [n] */
	uint32_t *match; /* [n]: a send's receive, a receive's send; else GRAPH_NONE */
	uint32_t *lane;  /* [n]: number of the lane, a pair of ranks and a direction; GRAPH_NONE:
	                    local */
	uint32_t *prev, *next; /* [n]: neighbours at the same end of the lane, or GRAPH_NONE */
	uint32_t nlanes;
	/* Successors of a step: the owners of dependencies on it, the next step at its end of the
	 * lane and, for a send, its receive. */
	uint32_t *succ_first; /* [n + 1] */
	uint32_t *succ;
};

/* Build the graph of @scheds[0..size). False, with the reason in @why (GRAPH_TEXT bytes), if a step
 * or dependency is malformed or if a send and its receive do not match. */
bool graph_init(struct graph *g, struct sched *const *scheds, int size, char *why);
void graph_release(struct graph *g);

static inline const struct sched_step *graph_step(const struct graph *g, uint32_t id)
{
	const int r = g->rank[id];

	return &g->scheds[r]->steps[id - g->first[r]];
}

static inline bool step_receives(const struct sched_step *st)
{
	return st->op == SCHED_RECV || st->op == SCHED_RECV_REDUCE;
}

/* "rank 3 step 7 (recv-reduce 5 elements, peer 2)" */
const char *graph_step_words(const struct graph *g, uint32_t id, char text[96]);

/* Which of several possible steps runs next. */
enum graph_policy {
	GRAPH_LIST,          /* the first in the list, rank by rank */
	GRAPH_READERS_FIRST, /* sends and writes as early as possible; then the last in the list */
	GRAPH_READERS_LAST,  /* sends and writes if no other step can run; then the last in the list
	                      */
	GRAPH_POLICIES
};
/* An order of all steps that dependencies and lanes allow, where each step runs completely before
 * the next. 0; -1: no memory; 1: deadlock: *@stuck is one of the steps that wait for each other. */
int graph_order(const struct graph *g, enum graph_policy policy, uint32_t *order, uint32_t *stuck);

#endif
