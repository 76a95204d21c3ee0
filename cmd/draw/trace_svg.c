#include "cmd/draw/trace_svg.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/draw/heat_svg.h"
#include "cmd/draw/spacetime_svg.h"
#include "lib/base/clock.h"
#include "lib/base/units.h"

#define EVENTS_MOST (2 * SPACETIME_MESSAGES) /* a message has two */

void trace_picture_release(struct trace_picture *p)
{
	free(p->events.v);
	*p = (struct trace_picture){0};
}

static bool is_drawn(const struct trace_event *e)
{
	return trace_is_message(e) || e->kind == TRACE_COPY || e->kind == TRACE_REDUCE;
}

/* Keep the lower half of the windows. */
static void halve(struct trace_picture *p)
{
	size_t n = 0;

	p->windows /= 2;
	for (size_t i = 0; i < p->events.n; i++)
		if (p->events.v[i].e.window < p->windows)
			p->events.v[n++] = p->events.v[i];
	p->events.n = n;
}

void trace_picture_add(struct trace_picture *p, const struct coll_traced *t)
{
	if (!p->all)
		p->windows = UINT32_MAX;
	for (size_t i = 0; i < t->n; i++) {
		const struct trace_event *e = &t->events[i];
		struct trace_ranked *to;
		if (!is_drawn(e) || e->window == TRACE_NONE)
			continue;
		if (e->window >= p->all)
			p->all = e->window + 1;
		if (e->window >= p->windows)
			continue;
		to = vec_push(&p->events);
		p->lacks |= !to;
		if (!to)
			return;
		*to = (struct trace_ranked){t->rank, *e};
		if (p->events.n > EVENTS_MOST && p->windows > p->all)
			p->windows = p->all;
		while (p->events.n > EVENTS_MOST && p->windows > 1)
			halve(p);
	}
}

/* ---- messages: a send and its receive ---- */

static bool receives(const struct trace_event *e)
{
	return e->kind == TRACE_RECV || e->kind == TRACE_ADD;
}

static int compare(uint64_t a, uint64_t b)
{
	return (a > b) - (a < b);
}

/* By lane and number, the send before its receive; local steps last. */
static int by_message(const void *a, const void *b)
{
	const struct trace_ranked *x = a, *y = b;
	const bool local = x->e.peer < 0, other = y->e.peer < 0;
	int d;

	if (local || other)
		return local - other;
	const int from = receives(&x->e) ? x->e.peer : x->rank,
	          from2 = receives(&y->e) ? y->e.peer : y->rank,
	          to = receives(&x->e) ? x->rank : x->e.peer,
	          to2 = receives(&y->e) ? y->rank : y->e.peer;
	if ((d = compare((uint64_t)from, (uint64_t)from2)) ||
	    (d = compare((uint64_t)to, (uint64_t)to2)) || (d = compare(x->e.stream, y->e.stream)) ||
	    (d = compare(x->e.number, y->e.number)))
		return d;
	return receives(&x->e) - receives(&y->e);
}

static bool is_pair(const struct trace_ranked *send, const struct trace_ranked *recv)
{
	return send->e.kind == TRACE_SEND && receives(&recv->e) && recv->rank == send->e.peer &&
	       recv->e.peer == send->rank && recv->e.stream == send->e.stream &&
	       recv->e.number == send->e.number;
}

static double since(int64_t zero, int64_t ns)
{
	return (double)(ns - zero) / NS_PER_SEC;
}

static struct spacetime_event message_of(const struct trace_ranked *send,
                                         const struct trace_ranked *recv, int64_t zero)
{
	const int64_t end = recv->e.end > send->e.start ? recv->e.end : send->e.start;
	return (struct spacetime_event){.rank = send->rank,
	                                .peer = recv->rank,
	                                .start = since(zero, send->e.start),
	                                .end = since(zero, end),
	                                .bytes = send->e.bytes,
	                                .kind = recv->e.kind == TRACE_ADD ? SPACETIME_ADDED
	                                                                  : SPACETIME_MESSAGE};
}

static struct spacetime_event step_of(const struct trace_ranked *r, int64_t zero)
{
	return (struct spacetime_event){.rank = r->rank,
	                                .peer = -1,
	                                .start = since(zero, r->e.start),
	                                .end = since(zero, r->e.end),
	                                .bytes = r->e.bytes,
	                                .kind = r->e.kind == TRACE_REDUCE ? SPACETIME_REDUCE
	                                                                  : SPACETIME_COPY};
}

/* The list is sorted. Fills @out; returns how many. */
static size_t pair_up(const struct trace_picture *p, int64_t zero, struct spacetime_event *out)
{
	const struct trace_ranked *v = p->events.v;
	size_t n = 0;

	for (size_t i = 0; i < p->events.n; i++) {
		if (v[i].e.peer < 0)
			out[n++] = step_of(&v[i], zero);
		else if (i + 1 < p->events.n && is_pair(&v[i], &v[i + 1]))
			out[n++] = message_of(&v[i], &v[i + 1], zero);
	}
	return n;
}

/* ---- the pictures ---- */

struct messages {
	const struct spacetime_event *v;
	size_t n;
};

static void each_message(const void *ctx, heat_add *add, void *cells)
{
	const struct messages *m = ctx;

	for (size_t i = 0; i < m->n; i++)
		if (m->v[i].peer >= 0)
			add(cells, m->v[i].rank, m->v[i].peer, m->v[i].bytes);
}

static void note_of(const struct trace_picture *p, const struct messages *m, char *text, size_t cap)
{
	char time[UNITS_TEXT];
	double last = 0;
	size_t at;

	for (size_t i = 0; i < m->n; i++)
		if (m->v[i].end > last)
			last = m->v[i].end;
	at = (size_t)snprintf(text, cap, "measured: %s", duration_text(last, time));
	if (p->windows < p->all)
		snprintf(text + at, cap - at, "; windows 0 to %" PRIu32 " of %" PRIu32,
		         p->windows - 1, p->all);
}

char *trace_picture_draw(struct trace_picture *p, const char *title, int size, const int *host,
                         size_t *len)
{
	struct spacetime_event *events = calloc(p->events.n + 1, sizeof *events);
	const bool many = p->events.n > EVENTS_MOST; /* of one window */
	int64_t zero = INT64_MAX;
	char note[200], *svg;

	if (!events || p->lacks) {
		free(events);
		return NULL;
	}
	for (size_t i = 0; i < p->events.n; i++)
		if (p->events.v[i].e.start < zero)
			zero = p->events.v[i].e.start;
	qsort(p->events.v, p->events.n, sizeof *p->events.v, by_message);
	const struct messages m = {events, pair_up(p, zero, events)};
	note_of(p, &m, note, sizeof note);
	if (many && size <= SPACETIME_RANKS)
		snprintf(note + strlen(note), sizeof note - strlen(note),
		         "; the messages are too many to draw one by one");
	if (many || size > SPACETIME_RANKS) {
		svg = heat_svg(
		        &(struct heat_view){
		                .title = title, .note = note, .size = size, .host = host},
		        each_message, &m, len);
	} else {
		const struct spacetime_view view = {.title = title,
		                                    .note = note,
		                                    .size = size,
		                                    .host = host,
		                                    .events = events,
		                                    .nevents = m.n};
		svg = spacetime_svg(&view, len);
	}
	free(events);
	return svg;
}
