/*
 * The slowest lanes: runs the schedules element by element, by the frontier rule alone. See
 * verifier_internal.h.
 */
#include <inttypes.h>
#include <stdlib.h>

#include "lib/proof/verifier_internal.h"

struct flow {
	const struct graph *g;
	bool lent;         /* a send is done when the peer has taken the elements: all of them may
	                    * be on the lane. Else when the lane has accepted them */
	uint64_t *done;    /* [step] */
	uint64_t *offered; /* [step]: elements that a send has put on its lane */
	uint64_t *in;      /* [lane]: elements on it */
	uint32_t *sends;   /* [lane]: the send at its head */
	uint32_t *queue;   /* [step], a ring without duplicates */
	bool *queued;
	uint32_t head, n;
	uint64_t capacity;
};

static void enqueue(struct flow *f, uint32_t id)
{
	uint32_t at;

	if (id == GRAPH_NONE || f->queued[id])
		return;
	at = f->head + f->n++;
	f->queue[at < f->g->n ? at : at - f->g->n] = id;
	f->queued[id] = true;
}

static inline bool complete(const struct flow *f, uint32_t id)
{
	return id == GRAPH_NONE || f->done[id] == graph_step(f->g, id)->len;
}

static inline bool sends(const struct flow *f, uint32_t id)
{
	return f->g->lane[id] != GRAPH_NONE && !step_receives(graph_step(f->g, id));
}

static inline bool all_offered(const struct flow *f, uint32_t id)
{
	return id == GRAPH_NONE || f->offered[id] == graph_step(f->g, id)->len;
}

/* The limit that the lane sets to a step. */
static uint64_t lane_limit(const struct flow *f, uint32_t id)
{
	if (f->g->lane[id] == GRAPH_NONE)
		return UINT64_MAX;
	if (sends(f, id) && !all_offered(f, f->g->prev[id]))
		return 0;
	if (sends(f, id))
		return f->lent ? UINT64_MAX
		               : f->offered[id] + (f->capacity - f->in[f->g->lane[id]]);
	return complete(f, f->g->prev[id]) ? f->offered[f->g->match[id]] : 0;
}

static uint64_t deps_limit(const struct flow *f, uint32_t id)
{
	const int r = f->g->rank[id];
	const uint32_t first = f->g->first[r];

	return sched_limit(f->g->scheds[r], id - first, f->done + first);
}

static void wake_successors(struct flow *f, uint32_t id)
{
	for (uint32_t e = f->g->succ_first[id]; e < f->g->succ_first[id + 1]; e++)
		enqueue(f, f->g->succ[e]);
}

static void advance_send(struct flow *f, uint32_t id, uint64_t to)
{
	const uint32_t lane = f->g->lane[id];

	if (to <= f->offered[id])
		return;
	f->in[lane] += to - f->offered[id];
	f->offered[id] = to;
	if (!f->lent)
		f->done[id] = to;
	if (all_offered(f, id)) {
		f->sends[lane] = f->g->next[id];
		enqueue(f, f->g->next[id]);
	}
	wake_successors(f, id);
}

static void advance(struct flow *f, uint32_t id)
{
	const uint64_t lane_may = lane_limit(f, id), deps_may = deps_limit(f, id);
	const uint64_t to = lane_may < deps_may ? lane_may : deps_may;
	const uint32_t lane = f->g->lane[id];

	if (sends(f, id)) {
		advance_send(f, id, to);
		return;
	}
	if (to <= f->done[id])
		return;
	if (lane != GRAPH_NONE) {
		f->in[lane] -= to - f->done[id];
		enqueue(f, f->sends[lane]);
	}
	f->done[id] = to;
	if (lane != GRAPH_NONE && f->lent) {
		f->done[f->g->match[id]] = to;
		wake_successors(f, f->g->match[id]);
	}
	wake_successors(f, id);
}

static void flow_run(struct flow *f)
{
	for (uint32_t id = 0; id < f->g->n; id++) {
		if (sends(f, id) && f->g->prev[id] == GRAPH_NONE)
			f->sends[f->g->lane[id]] = id;
		enqueue(f, id);
	}
	while (f->n) {
		const uint32_t id = f->queue[f->head];

		f->head = f->head + 1 < f->g->n ? f->head + 1 : 0;
		f->n--;
		f->queued[id] = false;
		advance(f, id);
	}
}

/* One element, unless moving them all one by one would take too long. */
static uint64_t lane_capacity(const struct graph *g)
{
	uint64_t moves = 0;

	for (uint32_t id = 0; id < g->n; id++)
		if (g->lane[id] != GRAPH_NONE && moves < UINT64_MAX / 2)
			moves += graph_step(g, id)->len;
	return moves / VERIFY_LANE_MOVES + 1;
}

bool verify_lanes(struct verify *v, bool lent)
{
	const struct graph *g = &v->g;
	const size_t n = (size_t)g->n + 1, lanes = (size_t)g->nlanes + 1;
	struct flow f = {.g = g, .lent = lent, .capacity = lane_capacity(g)};
	char text[96];

	f.offered = calloc(n, sizeof(*f.offered));
	f.done = calloc(n, sizeof(*f.done));
	f.in = calloc(lanes, sizeof(*f.in));
	f.sends = calloc(lanes, sizeof(*f.sends));
	f.queue = calloc(n, sizeof(*f.queue));
	f.queued = calloc(n, sizeof(*f.queued));
	if (f.done && f.offered && f.in && f.sends && f.queue && f.queued)
		flow_run(&f);
	else
		verify_nomem(v);
	for (uint32_t id = 0; id < g->n && !v->failed; id++)
		if (!complete(&f, id))
			verify_defect(
			        v, "%s stops at element %" PRIu64 ": with %s all wait in a cycle",
			        graph_step_words(g, id, text), f.done[id],
			        lent ? "lanes that lend" : "lanes of one element");
	free(f.done);
	free(f.offered);
	free(f.in);
	free(f.sends);
	free(f.queue);
	free(f.queued);
	return !v->failed;
}
