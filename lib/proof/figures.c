/*
 * The figures of a collective. See verifier.h.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/proof/graph.h"
#include "lib/proof/verifier.h"

static void raise_to(uint64_t *most, uint64_t x)
{
	if (x > *most)
		*most = x;
}

static void count_rank(const struct sched *s, bool *peer_seen, struct sched_figures *out)
{
	struct sched_figures f = {0};

	memset(peer_seen, 0, (size_t)s->size * sizeof(*peer_seen));
	for (uint32_t i = 0; i < s->nsteps; i++) {
		const struct sched_step *st = &s->steps[i];

		if (st->op == SCHED_SEND) {
			f.messages++;
			f.elements += st->len;
		}
		if (step_receives(st))
			f.received += st->len;
		if (st->op == SCHED_RECV_REDUCE || st->op == SCHED_REDUCE)
			f.reduced += st->len;
		if (st->op == SCHED_JOINT)
			f.reduced += st->len * (s->njoint - 1);
		if (st->peer >= 0 && !peer_seen[st->peer]) {
			peer_seen[st->peer] = true;
			f.peers++;
		}
	}
	for (uint32_t i = sched_scratch_from(s); i < s->nbufs; i++)
		f.scratch += s->bufs[i].len;
	raise_to(&out->messages, f.messages);
	raise_to(&out->elements, f.elements);
	raise_to(&out->received, f.received);
	raise_to(&out->reduced, f.reduced);
	raise_to(&out->peers, f.peers);
	raise_to(&out->scratch, f.scratch);
}

/*
 * The longest chain of rounds, along @order. A send is one round after the steps that it waits for;
 * its receive is in the same round or later. @level[i] is the round in which step i is done. A step
 * that waits for a send, because that reads the elements that it overwrites, waits for its
 * beginning only: what has been handed to a lane may be overwritten.
 */
static uint64_t longest_chain(const struct graph *g, const uint32_t *order, uint64_t *level)
{
	uint64_t longest = 0;

	for (uint32_t i = 0; i < g->n; i++) {
		const uint32_t id = order[i], first = g->first[g->rank[id]];
		const struct sched *s = g->scheds[g->rank[id]];
		const struct sched_step *st = graph_step(g, id);

		level[id] = step_receives(st) ? level[g->match[id]] : 0;
		for (uint32_t k = 0; k < st->ndep; k++) {
			const uint32_t on = s->deps[st->dep + k].step;
			const uint64_t l = level[first + on] - (s->steps[on].op == SCHED_SEND);

			level[id] = l > level[id] ? l : level[id];
		}
		level[id] += st->op == SCHED_SEND;
		longest = level[id] > longest ? level[id] : longest;
	}
	return longest;
}

bool sched_figures(struct sched *const *scheds, int size, struct sched_figures *out, char *why)
{
	struct graph g;
	uint32_t *order = NULL, stuck;
	uint64_t *level = NULL;
	bool *peers = NULL, ok = false;
	int e = -1;

	*out = (struct sched_figures){0};
	if (!graph_init(&g, scheds, size, why))
		return false;
	order = calloc((size_t)g.n + 1, sizeof(*order));
	level = calloc((size_t)g.n + 1, sizeof(*level));
	peers = calloc((size_t)size, sizeof(*peers));
	if (order && level && peers)
		e = graph_order(&g, GRAPH_LIST, order, &stuck);
	if (!e) {
		out->rounds = longest_chain(&g, order, level);
		for (int r = 0; r < size; r++)
			count_rank(scheds[r], peers, out);
		ok = true;
	} else {
		snprintf(why, VERIFY_TEXT, "%s",
		         e < 0 ? "out of memory" : "steps wait for each other in a cycle");
	}
	free(order);
	free(level);
	free(peers);
	graph_release(&g);
	return ok;
}
