/*
 * plan --svg: up to SPACETIME_RANKS ranks the messages in space and time, of more ranks who sends
 * how much to whom.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cmd/draw/heat_svg.h"
#include "cmd/draw/spacetime_svg.h"
#include "cmd/draw/svg.h"
#include "cmd/plan/plan.h"
#include "lib/base/units.h"
#include "lib/base/vec.h"

struct events {
	VEC(struct spacetime_event) list;
};

static bool on_event(void *ctx, const struct simulated_event *e)
{
	struct events *events = ctx;
	struct spacetime_event *to;
	const bool adds = e->op == SCHED_RECV_REDUCE || e->op == SCHED_REDUCE ||
	                  e->op == SCHED_LOCAL_REDUCE || e->op == SCHED_JOINT;

	if (e->op == SCHED_READ || e->op == SCHED_WRITE) /* files */
		return true;
	to = vec_push(&events->list);
	if (!to)
		return false;
	*to = (struct spacetime_event){.rank = e->rank,
	                               .peer = e->peer,
	                               .start = e->start,
	                               .end = e->end,
	                               .bytes = e->bytes};
	if (e->kind == SIMULATED_MESSAGE)
		to->kind = adds ? SPACETIME_ADDED : SPACETIME_MESSAGE;
	else
		to->kind = adds ? SPACETIME_REDUCE : SPACETIME_COPY;
	return true;
}

#define HOSTS_MOST 24 /* bytes of --hosts in a title */

char *plan_hosts_words(const struct planned *p, char *text, size_t cap)
{
	if (!p->host)
		*text = '\0';
	else if (strlen(p->o->hosts) <= HOSTS_MOST)
		snprintf(text, cap, " on hosts %s", p->o->hosts);
	else
		snprintf(text, cap, " on %d hosts", p->host[p->args.size - 1] + 1);
	return text;
}

static void title_of(const struct planned *p, char *text, size_t cap)
{
	char size[UNITS_TEXT], hosts[PLAN_HOSTS];

	snprintf(text, cap, "%s %s, %d rank%s%s, %s of %s%s%s", coll_name(p->kind), p->alg->name,
	         p->args.size, p->args.size == 1 ? "" : "s",
	         plan_hosts_words(p, hosts, sizeof hosts),
	         size_text(coll_count(&p->args) * p->item, size), dtype_name(p->select.dtype),
	         p->runs != p->alg ? ", falls back to " : "",
	         p->runs != p->alg ? p->runs->name : "");
}

static void note_of(const struct planned *p, char *text, size_t cap)
{
	char rates[256];

	snprintf(text, cap, "predicted: %.3f ms; %s", p->simulated.seconds * 1e3,
	         plan_rates_words(p, rates, sizeof rates));
}

static char *draw_spacetime(const struct planned *p, const char *title, const char *note,
                            size_t *len)
{
	struct events events = {0};
	const struct simulate_observer observer = {.event = on_event, .ctx = &events};
	struct spacetime_view view = {
	        .title = title, .note = note, .size = p->args.size, .host = p->host};
	struct simulation again;
	char why[SIMULATE_TEXT], *svg = NULL;

	if (simulate_observed(&p->model, p->scheds, p->args.size, p->args.host,
	                      (unsigned)dtype_size(p->wire), &observer, &again, why)) {
		view.events = events.list.v;
		view.nevents = events.list.n;
		svg = spacetime_svg(&view, len);
	}
	free(events.list.v);
	return svg;
}

/* ---- the heat map ---- */

static void each_send(const void *ctx, heat_add *add, void *cells)
{
	const struct planned *p = ctx;

	for (int r = 0; r < p->args.size; r++)
		for (uint32_t i = 0; i < p->scheds[r]->nsteps; i++) {
			const struct sched_step *st = &p->scheds[r]->steps[i];
			if (st->op == SCHED_SEND)
				add(cells, r, st->peer, st->len * dtype_size(p->wire));
		}
}

static char *draw_heat(const struct planned *p, const char *title, const char *note, size_t *len)
{
	const struct heat_view v = {
	        .title = title, .note = note, .size = p->args.size, .host = p->host};

	return heat_svg(&v, each_send, p, len);
}

static uint64_t messages_of(const struct planned *p)
{
	uint64_t n = 0;

	for (int r = 0; r < p->args.size; r++)
		for (uint32_t i = 0; i < p->scheds[r]->nsteps; i++)
			n += p->scheds[r]->steps[i].op == SCHED_SEND;
	return n;
}

int plan_svg(const struct planned *p, struct err *err)
{
	const uint64_t messages = messages_of(p);
	const bool many = messages > SPACETIME_MESSAGES;
	char title[256], note[400], *svg;
	size_t len;
	int ret;

	title_of(p, title, sizeof title);
	note_of(p, note, sizeof note);
	if (many && p->args.size <= SPACETIME_RANKS)
		snprintf(note + strlen(note), sizeof note - strlen(note),
		         "; %" PRIu64 " messages are too many to draw one by one", messages);
	svg = many || p->args.size > SPACETIME_RANKS ? draw_heat(p, title, note, &len)
	                                             : draw_spacetime(p, title, note, &len);
	if (!svg)
		return err_nomem(err, "the picture of the plan", 0);
	ret = svg_write(p->o->svg, svg, len, err);
	free(svg);
	return ret;
}
