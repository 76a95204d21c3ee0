/*
 * The schedules of all ranks as one graph. See graph.h.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/proof/graph.h"
#include "lib/base/vec.h"

const char *graph_step_words(const struct graph *g, uint32_t id, char text[96])
{
	const struct sched_step *st = graph_step(g, id);
	const int r = g->rank[id];
	char peer[24] = "";

	if (st->peer >= 0)
		snprintf(peer, sizeof(peer), ", peer %d", st->peer);
	snprintf(text, 96, "rank %d step %" PRIu32 " (%s %" PRIu64 " elements%s)", r,
	         id - g->first[r], sched_op_name(st->op), st->len, peer);
	return text;
}

/* ---- matching ---- */

/* One end of a message. */
struct end {
	int from, to;
	bool receives;
	uint32_t id;
};

static int cmp_lanes(const struct end *a, const struct end *b)
{
	if (a->from != b->from)
		return a->from < b->from ? -1 : 1;
	return a->to < b->to ? -1 : a->to > b->to;
}

static int cmp_ends(const void *pa, const void *pb)
{
	const struct end *a = pa, *b = pb;
	const int c = cmp_lanes(a, b);

	if (c)
		return c;
	if (a->receives != b->receives)
		return a->receives ? 1 : -1;
	return a->id < b->id ? -1 : a->id > b->id;
}

/* Match the @ns sends at @s with the @nr receives that follow them, all of one lane. */
static bool match_lane(struct graph *g, const struct end *s, size_t ns, size_t nr, char *why)
{
	const struct end *r = s + ns;
	char a[96], b[96];

	if (ns != nr) {
		snprintf(why, GRAPH_TEXT,
		         "rank %d sends %zu messages to rank %d, which receives %zu", s->from, ns,
		         s->to, nr);
		return false;
	}
	for (size_t i = 0; i < ns; i++) {
		if (graph_step(g, s[i].id)->len != graph_step(g, r[i].id)->len) {
			snprintf(why, GRAPH_TEXT, "%s meets %s", graph_step_words(g, s[i].id, a),
			         graph_step_words(g, r[i].id, b));
			return false;
		}
		g->match[s[i].id] = r[i].id;
		g->match[r[i].id] = s[i].id;
		g->lane[s[i].id] = g->lane[r[i].id] = g->nlanes;
		if (i) {
			g->prev[s[i].id] = s[i - 1].id;
			g->prev[r[i].id] = r[i - 1].id;
			g->next[s[i - 1].id] = s[i].id;
			g->next[r[i - 1].id] = r[i].id;
		}
	}
	g->nlanes++;
	return true;
}

static bool match_ends(struct graph *g, const struct end *e, size_t n, char *why)
{
	for (size_t i = 0, j, mid; i < n; i = j) {
		for (mid = i; mid < n && !e[mid].receives && !cmp_lanes(&e[i], &e[mid]); mid++)
			;
		for (j = mid; j < n && !cmp_lanes(&e[i], &e[j]); j++)
			;
		if (!match_lane(g, &e[i], mid - i, j - mid, why))
			return false;
	}
	return true;
}

static bool match_all(struct graph *g, char *why)
{
	VEC(struct end) ends = {0};
	bool ok = true;

	for (uint32_t id = 0; id < g->n && ok; id++) {
		const struct sched_step *st = graph_step(g, id);
		const int r = g->rank[id];
		struct end *e;

		if (st->peer < 0)
			continue;
		e = vec_push(&ends);
		if (!e) {
			snprintf(why, GRAPH_TEXT, "out of memory");
			ok = false;
		} else if (step_receives(st)) {
			*e = (struct end){st->peer, r, true, id};
		} else {
			*e = (struct end){r, st->peer, false, id};
		}
	}
	if (ok && ends.n) {
		qsort(ends.v, ends.n, sizeof(*ends.v), cmp_ends);
		ok = match_ends(g, ends.v, ends.n, why);
	}
	free(ends.v);
	return ok;
}

/* ---- edges ---- */

static bool dep_sound(const struct sched *s, uint32_t step, const struct sched_dep *d)
{
	const int64_t lo = (int64_t)d->lo + d->shift, hi = (int64_t)d->hi + d->shift;

	return d->step < step && d->lo < d->hi && d->hi <= s->steps[step].len && lo >= 0 &&
	       (uint64_t)hi <= s->steps[d->step].len;
}

static bool deps_sound(const struct graph *g, char *why)
{
	char text[96];

	for (uint32_t id = 0; id < g->n; id++) {
		const struct sched *s = g->scheds[g->rank[id]];
		const struct sched_step *st = graph_step(g, id);
		const uint32_t step = id - g->first[g->rank[id]];

		for (uint32_t k = 0; k < st->ndep; k++)
			if (st->dep + k >= s->ndeps || !dep_sound(s, step, &s->deps[st->dep + k])) {
				snprintf(why, GRAPH_TEXT, "%s: dependency %" PRIu32 " is malformed",
				         graph_step_words(g, id, text), k);
				return false;
			}
	}
	return true;
}

/* Count (@succ NULL) or store the edges; @at[i] is the count or the place of the next edge. */
static void edges(const struct graph *g, uint32_t *at, uint32_t *succ)
{
	for (uint32_t id = 0; id < g->n; id++) {
		const int r = g->rank[id];
		const struct sched_step *st = graph_step(g, id);
		uint32_t from[2] = {g->prev[id], step_receives(st) ? g->match[id] : GRAPH_NONE};

		for (uint32_t k = 0; k < st->ndep + 2; k++) {
			const uint32_t f =
			        k < 2 ? from[k]
			              : g->first[r] + g->scheds[r]->deps[st->dep + k - 2].step;

			if (f == GRAPH_NONE)
				continue;
			if (succ)
				succ[at[f]] = id;
			at[f]++;
		}
	}
}

static bool link_steps(struct graph *g)
{
	uint32_t *at = calloc((size_t)g->n + 1, sizeof(*at));
	uint32_t total = 0;

	if (!at)
		return false;
	edges(g, at, NULL);
	for (uint32_t id = 0; id < g->n; id++) {
		g->succ_first[id] = total;
		total += at[id];
		at[id] = g->succ_first[id];
	}
	g->succ_first[g->n] = total;
	g->succ = malloc(((size_t)total + 1) * sizeof(*g->succ));
	if (g->succ)
		edges(g, at, g->succ);
	free(at);
	return g->succ;
}

static bool number_steps(struct graph *g)
{
	uint64_t n = 0, ndeps = 0;

	g->first = calloc((size_t)g->size + 1, sizeof(*g->first));
	if (!g->first)
		return false;
	for (int r = 0; r < g->size; r++) {
		g->first[r] = (uint32_t)n;
		n += g->scheds[r]->nsteps;
		ndeps += g->scheds[r]->ndeps;
		if (n + ndeps > UINT32_MAX / 4)
			return false;
	}
	g->first[g->size] = g->n = (uint32_t)n;
	g->rank = calloc(n + 1, sizeof(*g->rank));
	g->match = malloc((n + 1) * sizeof(*g->match));
	g->lane = malloc((n + 1) * sizeof(*g->lane));
	g->prev = malloc((n + 1) * sizeof(*g->prev));
	g->next = malloc((n + 1) * sizeof(*g->next));
	g->succ_first = malloc((n + 1) * sizeof(*g->succ_first));
	if (!g->rank || !g->match || !g->lane || !g->prev || !g->next || !g->succ_first)
		return false;
	for (int r = 0; r < g->size; r++)
		for (uint32_t id = g->first[r]; id < g->first[r + 1]; id++)
			g->rank[id] = r;
	for (uint32_t id = 0; id < g->n; id++)
		g->match[id] = g->lane[id] = g->prev[id] = g->next[id] = GRAPH_NONE;
	return true;
}

bool graph_init(struct graph *g, struct sched *const *scheds, int size, char *why)
{
	*g = (struct graph){.scheds = scheds, .size = size};
	for (int r = 0; r < size; r++) {
		const enum sched_error e = sched_check(scheds[r]);

		if (e || scheds[r]->rank != r || scheds[r]->size != size) {
			snprintf(why, GRAPH_TEXT, "rank %d: %s", r,
			         e ? sched_strerror(e) : "the schedule is not this rank's");
			return false;
		}
	}
	if (!number_steps(g)) {
		snprintf(why, GRAPH_TEXT, "the schedules do not fit in memory");
		goto fail;
	}
	if (!match_all(g, why) || !deps_sound(g, why))
		goto fail;
	if (!link_steps(g)) {
		snprintf(why, GRAPH_TEXT, "out of memory");
		goto fail;
	}
	return true;
fail:
	graph_release(g);
	return false;
}

void graph_release(struct graph *g)
{
	free(g->first);
	free(g->rank);
	free(g->match);
	free(g->lane);
	free(g->prev);
	free(g->next);
	free(g->succ_first);
	free(g->succ);
	*g = (struct graph){0};
}

/* ---- orders ---- */

struct heap {
	uint64_t *v;
	uint32_t n;
};

static void heap_push(struct heap *h, uint64_t key)
{
	uint32_t i = h->n++;

	for (; i && h->v[(i - 1) / 2] > key; i = (i - 1) / 2)
		h->v[i] = h->v[(i - 1) / 2];
	h->v[i] = key;
}

static uint64_t heap_pop(struct heap *h)
{
	const uint64_t top = h->v[0], last = h->v[--h->n];
	uint32_t i = 0, c;

	while ((c = 2 * i + 1) < h->n) {
		if (c + 1 < h->n && h->v[c + 1] < h->v[c])
			c++;
		if (h->v[c] >= last)
			break;
		h->v[i] = h->v[c];
		i = c;
	}
	h->v[i] = last;
	return top;
}

/* Lower keys run first; the low half is the step. */
static uint64_t key_of(const struct graph *g, enum graph_policy policy, uint32_t id)
{
	const struct sched_step *st = graph_step(g, id);
	const bool reader = st->op == SCHED_SEND || st->op == SCHED_WRITE;

	if (policy == GRAPH_LIST)
		return id;
	return (uint64_t)(reader == (policy == GRAPH_READERS_LAST)) << 32 | (g->n - 1 - id);
}

static uint32_t id_of(const struct graph *g, enum graph_policy policy, uint64_t key)
{
	return policy == GRAPH_LIST ? (uint32_t)key : g->n - 1 - (uint32_t)key;
}

int graph_order(const struct graph *g, enum graph_policy policy, uint32_t *order, uint32_t *stuck)
{
	uint32_t *waits = calloc((size_t)g->n + 1, sizeof(*waits));
	struct heap h = {malloc(((size_t)g->n + 1) * sizeof(*h.v)), 0};
	uint32_t n = 0;
	int ret = -1;

	if (!waits || !h.v)
		goto out;
	for (uint32_t e = 0; e < g->succ_first[g->n]; e++)
		waits[g->succ[e]]++;
	for (uint32_t id = 0; id < g->n; id++)
		if (!waits[id])
			heap_push(&h, key_of(g, policy, id));
	while (h.n) {
		const uint32_t id = id_of(g, policy, heap_pop(&h));

		order[n++] = id;
		for (uint32_t e = g->succ_first[id]; e < g->succ_first[id + 1]; e++)
			if (!--waits[g->succ[e]])
				heap_push(&h, key_of(g, policy, g->succ[e]));
	}
	for (uint32_t id = 0; n < g->n; id++)
		if (waits[id]) {
			*stuck = id;
			break;
		}
	ret = n < g->n;
out:
	free(waits);
	free(h.v);
	return ret;
}
