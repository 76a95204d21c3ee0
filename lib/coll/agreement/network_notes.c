/* What rank 0 has found out about the network, for the user: with -v and --explain. */
#include <stdio.h>

#include "lib/base/units.h"
#include "lib/coll/collective.h"
#include "lib/data/kernels/reduce.h"
#include "lib/job/ranks.h"
#include "lib/sched/placement.h"

#define GROUPS 8 /* of hosts with equal links that are listed */

static bool same(const struct network_found *a, const struct network_found *b)
{
	return a->from == b->from && a->up == b->up && a->down == b->down && a->limit == b->limit;
}

/* "sends 400 Mbit/s, receives 200 Mbit/s (--link-rate)" */
static void rates_text(const struct network_found *f, bool any, char *text, size_t cap)
{
	char up[UNITS_TEXT], down[UNITS_TEXT], limit[UNITS_TEXT], more[64] = "";

	if (f->limit)
		snprintf(more, sizeof more, ", sends at most %s (--limit-rate)",
		         bit_rate_text((double)f->limit, limit));
	if (f->from)
		snprintf(text, cap, "sends %s, receives %s (%s)%s",
		         bit_rate_text((double)f->up, up), bit_rate_text((double)f->down, down),
		         network_from_name(f->from), more);
	else
		snprintf(text, cap, "not known; %s%s",
		         any ? "counts as the slowest that is known" : "the default rates count",
		         more);
}

/* The ranks on hosts whose links are as that of host @h. */
static void note_group(const struct collective *c, int level, int h, bool any)
{
	const struct network_host *host = c->planner.network.host;
	char ranks[160], rates[256];
	struct rank_list list;
	int n = 0;

	rank_list_init(&list, ranks, sizeof ranks);
	for (int r = 0; r < c->agreed.size; r++)
		if (agreement_number(&c->agreed, r) >= 0 &&
		    same(&host[host_of_rank(c->agreed.host, r)].found, &host[h].found)) {
			rank_list_add(&list, r);
			n++;
		}
	rank_list_end(&list);
	rates_text(&host[h].found, any, rates, sizeof rates);
	coll_note(c->life, level, "the link of the host%s of rank%s %s: %s", n == 1 ? "" : "s",
	          n == 1 ? "" : "s", ranks, rates);
}

static void note_links(const struct collective *c, int level)
{
	const struct network *n = &c->planner.network;
	bool any = false;
	int groups = 0;

	for (int h = 0; h < n->n; h++)
		any |= n->host[h].found.from != NETWORK_UNKNOWN;
	for (int h = 0; h < n->n && groups < GROUPS; h++) {
		int first = 0;
		while (!same(&n->host[first].found, &n->host[h].found))
			first++;
		if (first < h)
			continue;
		note_group(c, level, h, any);
		groups++;
	}
}

static void note_round_trips(const struct collective *c, int level)
{
	const struct network *n = &c->planner.network;
	char text[UNITS_TEXT], counts[UNITS_TEXT];
	double farthest = 0;

	for (int h = 0; h < n->n; h++)
		if (n->host[h].round_trip > farthest)
			farthest = n->host[h].round_trip;
	if (farthest > 0 && n->round_trip > 0)
		coll_note(c->life, level, "the longest round trip is %s, which counts as %s",
		          latency_text(farthest, text), latency_text(n->round_trip, counts));
	else if (farthest > 0)
		coll_note(c->life, level, "the longest round trip is %s: the hosts are near",
		          latency_text(farthest, text));
	else if (n->round_trip > 0)
		coll_note(c->life, level, "the longest round trip is %s (--tuning)",
		          latency_text(n->round_trip, text));
}

/* Another class of round trips may mean another order of addition. */
static void note_choice(const struct collective *c, int i)
{
	const struct vector *v = &c->agreed.vectors[i];
	const struct coll_algorithm *far, *near = planner_near_choice(&c->planner, i, &far);

	if (!near)
		return;
	coll_note(c->life, 1, "%s: the round trips decide for %s; for near hosts it is %s%s",
	          coll_name(v->kind), far->name, near->name,
	          reduce_order_matters(v->op, v->dtype) && coll_reduces(v->kind) &&
	                          !c->request->ordered
	                  ? "; the last bits of sums of floats depend on the algorithm, unless "
	                    "--order rank is given"
	                  : "");
}

/* The streams of the job, if a far link needs more than usual, and what decides their number. */
static void note_streams(const struct collective *c, const struct plan *plan, int level)
{
	const struct planner *p = &c->planner;
	const uint64_t carried = plan->streams * budget_socket(&p->far);
	char bdp[UNITS_TEXT], socket[UNITS_TEXT];

	if (!p->far_streams)
		return;
	coll_note(c->life, level,
	          "the longest link holds %s (rate times round trip), one connection %s of it: %u "
	          "stream%s%s",
	          size_text(p->far.bdp, bdp), size_text(budget_socket(&p->far), socket),
	          plan->streams, plan->streams == 1 ? "" : "s",
	          p->streams                       ? " (--streams)"
	          : plan->streams < p->far_streams ? ", one for each window"
	          : carried < p->far.bdp           ? ", the most that this job may have"
	                                           : "");
}

void network_notes(const struct collective *c, const struct plan *plan)
{
	const int level = c->request->explain ? 0 : 1;

	if (c->planner.network.n < 2)
		return;
	note_links(c, level);
	note_round_trips(c, level);
	note_streams(c, plan, level);
	for (int i = 0; i < c->agreed.nvectors; i++)
		note_choice(c, i);
}
