/*
 * The schedules of all ranks as one graph: the steps of all ranks numbered through, each receive
 * with the send whose message it takes, and what must come before what.
 */
#ifndef COLLCTL_ALGORITHMS_GRAPH_H
#define COLLCTL_ALGORITHMS_GRAPH_H

#include "algorithms/sched.h"

#define GRAPH_NONE UINT32_MAX
#define GRAPH_TEXT 256

struct graph {
	struct sched *const *scheds; /* the caller's */
	int size;
	uint32_t n;      /* steps of all ranks */
	uint32_t *first; /* [size + 1]: number of the rank's step 0 */
	int *rank;       /* [n] */
	uint32_t *match; /* [n]: of a send its receive and of a receive its send; else GRAPH_NONE */
	uint32_t *lane;  /* [n]: lanes numbered through; GRAPH_NONE for local steps */
	uint32_t *prev, *next; /* [n]: neighbours at the same end of the lane, or GRAPH_NONE */
	uint32_t nlanes;
	/* What waits for a step: the owners of dependencies on it, the next at its end of the lane
	 * and, of a send, its receive. */
	uint32_t *succ_first; /* [n + 1] */
	uint32_t *succ;
};

/* Join @scheds[0..size). False with words in @why (GRAPH_TEXT bytes) when a step or dependency is
 * malformed or when sends and receives do not match, message for message. */
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

/* Which of several steps that may run is run. */
enum graph_policy {
	GRAPH_LIST,          /* the first in the list, rank by rank */
	GRAPH_READERS_FIRST, /* sends and writes as soon as they may; then the last in the list */
	GRAPH_READERS_LAST,  /* sends and writes when nothing else may; then the last in the list */
	GRAPH_POLICIES
};
/* An order of all steps, whole step after whole step, that dependencies and lanes allow. 0; -1: no
 * memory; 1: some wait for one another in a circle, of which *@stuck is one. */
int graph_order(const struct graph *g, enum graph_policy policy, uint32_t *order, uint32_t *stuck);

#endif
