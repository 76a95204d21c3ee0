/*
 * The schedules of all ranks as one graph: the steps of all ranks have consecutive numbers, each
 * receive is matched with its send, and edges give the order that dependencies and lanes (sched.h)
 * require. One thread.
 */
#ifndef COLLCTL_PROOF_GRAPH_H
#define COLLCTL_PROOF_GRAPH_H

#include "lib/sched/sched.h"

#define GRAPH_NONE UINT32_MAX
#define GRAPH_TEXT 256

struct graph {
	struct sched *const *scheds; /* [size]: the caller's; they must outlive the graph */
	int size;
	uint32_t n;      /* steps of all ranks */
	uint32_t *first; /* [size + 1]: the number of each rank's step 0 */
	int *rank;       /* [n]: the rank of each step */
	uint32_t *match; /* [n]: of a send its receive, of a receive its send; else GRAPH_NONE */
	uint32_t *lane;  /* [n]: number of the step's lane; GRAPH_NONE: a local step */
	uint32_t *prev,
	        *next; /* [n]: the rank's previous and next step on the same lane, or GRAPH_NONE */
	uint32_t nlanes;
	/* The successors of step i, succ[succ_first[i]] .. succ[succ_first[i + 1] - 1]: the steps
	 * that depend on it, next[i] and, of a send, match[i]. */
	uint32_t *succ_first; /* [n + 1] */
	uint32_t *succ;
};

/* Build the graph of @scheds[0..size). False, with the reason in @why[GRAPH_TEXT]: a step or
 * dependency is malformed, a send and its receive do not match, or no memory. On failure there is
 * nothing to release. */
bool graph_init(struct graph *g, struct sched *const *scheds, int size, char *why);
void graph_release(struct graph *g);

/* The step with number @id. */
static inline const struct sched_step *graph_step(const struct graph *g, uint32_t id)
{
	const int r = g->rank[id];

	return &g->scheds[r]->steps[id - g->first[r]];
}

static inline bool step_receives(const struct sched_step *st)
{
	return st->op == SCHED_RECV || st->op == SCHED_RECV_REDUCE;
}

/* "rank 3 step 7 (recv-reduce 5 elements, peer 2)". Returns @text. */
const char *graph_step_words(const struct graph *g, uint32_t id, char text[96]);

/* Which of the steps that are possible runs next. */
enum graph_policy {
	GRAPH_LIST,          /* the one with the lowest number */
	GRAPH_READERS_FIRST, /* a SEND or WRITE if there is one; of several, the highest number */
	GRAPH_READERS_LAST,  /* no SEND or WRITE if there is another; of several, the highest number
	                      */
	GRAPH_POLICIES
};
/* Store in @order[g->n] an order of all steps, one after the other, that dependencies and lanes
 * allow. 0; -1: no memory; 1: deadlock: *@stuck is one of the steps that wait for each other. */
int graph_order(const struct graph *g, enum graph_policy policy, uint32_t *order, uint32_t *stuck);

#endif
