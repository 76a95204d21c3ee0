/* --min-ranks: which ranks take part in the job. Once --grace is over, as many as are enough begin,
 * and the others are missing: they get an answer that says so, and have no other part in it. A rank
 * that fails or is lost later, before the verdict, is missing from then on. */
#include <stdio.h>

#include "lib/base/clock.h"
#include "lib/job/coordinator/coord_internal.h"
#include "lib/job/ranks.h"

bool coord_can_miss(const struct coord *c)
{
	const int fewest = c->conf.settings->min_ranks;
	return fewest > 0 && fewest < c->conf.size;
}

/* Has it joined, and said who it is? */
static bool has_come(const struct member *m)
{
	return m->joined && m->present && !m->missing;
}

static int count_here(const struct coord *c)
{
	int n = 0;
	for (int r = 0; r < c->conf.size; r++)
		n += has_come(&c->members[r]);
	return n;
}

/* Is the root here, or will it be once @guests have the lowest free numbers? */
static bool has_root(const struct coord *c, int guests)
{
	const int root = c->conf.root;
	int below = 0;
	if (root < 0 || root >= c->conf.size || has_come(&c->members[root]))
		return true;
	for (int r = 0; r < root; r++)
		below += !c->members[r].joined;
	return !c->members[root].joined && below < guests;
}

bool coord_may_begin(const struct coord *c, int guests)
{
	return c->seats.grace_over && has_root(c, guests) &&
	       count_here(c) + guests >= c->conf.settings->min_ranks;
}

void coord_grace_over(void *ctx)
{
	struct coord *c = ctx;
	c->seats.grace_over = true;
	coord_look_at_seats(c);
}

bool coord_waits_to_the_end(const struct coord *c)
{
	const struct job_settings *s = c->conf.settings;
	return coord_can_miss(c) && s->grace >= s->join_timeout;
}

bool coord_begins_late(struct coord *c)
{
	if (!coord_waits_to_the_end(c) || c->seats.grace_over)
		return false;
	c->seats.grace_over = true;
	if (!coord_may_begin(c, coord_present_guests(c)))
		return false;
	c->conf.join_deadline = clock_ns() + c->conf.settings->timeout;
	coord_set_timer(c, TIMER_JOIN, c->conf.join_deadline);
	coord_look_at_seats(c);
	return true;
}

/* ---- missing ranks ---- */

static struct err closed(const struct coord *c)
{
	struct err e = ERR_INIT;
	const struct job_settings *s = c->conf.settings;
	char when[64];
	if (coord_waits_to_the_end(c))
		snprintf(when, sizeof when, "--join-timeout %g s",
		         (double)s->join_timeout / NS_PER_SEC);
	else
		snprintf(when, sizeof when, "--min-ranks %d, --grace %g s", s->min_ranks,
		         (double)s->grace / NS_PER_SEC);
	err_set(&e, ERR_RENDEZVOUS,
	        "the round is closed: it %s without this rank, with %d of %d ranks (%s)",
	        c->anew ? "goes on" : "begins", count_here(c), c->conf.size, when);
	return e;
}

static void leave_out(struct member *m)
{
	struct coord *c = m->coord;
	m->missing = m->lost = true;
	m->presence = (struct presence){0};
	c->intents[m->rank] = NULL;
	c->seats.nmissing++;
}

/* Tell it why it takes no part. */
static void send_end(struct member *m, const struct err *why, enum phase phase)
{
	struct buf b;
	uint8_t memory[ERR_MESSAGE];
	coord_err_message(why, phase, &b, memory);
	coord_send(m, MSG_ABORT, &b);
	ctl_end(&m->ctl);
	buf_release(&b);
}

/* Whoever has waited for them to the end names them with the result. */
static void say_closed(const struct coord *c)
{
	char list[128], text[240];
	struct rank_list missing;
	rank_list_init(&missing, list, sizeof list);
	for (int r = 0; r < c->conf.size; r++)
		if (c->members[r].missing)
			rank_list_add(&missing, r);
	snprintf(text, sizeof text,
	         "the round is closed: %d of %d ranks take part; missing: rank%s %s", count_here(c),
	         c->conf.size, c->seats.nmissing == 1 ? "" : "s", rank_list_end(&missing));
	if (c->conf.warn && c->seats.nmissing && !coord_waits_to_the_end(c))
		c->conf.warn(c->conf.ctx, text);
}

void coord_close_round(struct coord *c)
{
	if (!coord_can_miss(c))
		return;
	c->seats.closed = true;
	const struct err e = closed(c);
	for (int r = 0; r < c->conf.size; r++) {
		struct member *m = &c->members[r];
		if (has_come(m))
			continue;
		if (m->joined) /* but it has not said who it is */
			send_end(m, &e, PHASE_JOIN);
		leave_out(m);
	}
	say_closed(c);
}

bool coord_is_late(const struct coord *c, const struct hello *h, struct err *e)
{
	const struct member *m = h->rank < (uint32_t)c->conf.size ? &c->members[h->rank] : NULL;
	if (!c->seats.closed || (m && !m->missing))
		return false;
	*e = closed(c);
	return true;
}

static void warn(const struct member *m, const struct err *why)
{
	const struct coord *c = m->coord;
	char host[PRESENT_HOST + 4] = "", text[480];
	if (why->host[0])
		snprintf(host, sizeof host, " (%s)", why->host);
	snprintf(text, sizeof text, "rank %d%s takes no part in the job%s: %.300s%s", m->rank, host,
	         c->stage == STAGE_RUN ? " any more" : "", why->text,
	         c->stage == STAGE_RUN ? "; the others begin again without it" : "");
	if (c->conf.warn)
		c->conf.warn(c->conf.ctx, text);
}

/* May the job go on after the failure *why of a rank? Wrong bytes, or a difference between the
 * ranks, are of another kind than a rank that is no longer there. */
static bool is_bearable(const struct coord *c, const struct err *why)
{
	return c->stage == STAGE_JOIN || (c->stage == STAGE_RUN && coord_may_lose(c) &&
	                                  why->code != ERR_INTEGRITY && why->code != ERR_DISAGREE);
}

bool coord_may_lose(const struct coord *c)
{
	return coord_can_miss(c) && c->conf.callbacks->forms_anew;
}

bool coord_does_without(struct member *m, const struct err *why, enum phase phase)
{
	struct coord *c = m->coord;
	struct err e = *why;
	if (!coord_can_miss(c) || !is_bearable(c, why) || c->comparison.on || m->rank == c->self)
		return false;
	if (c->seats.closed && (m->rank == 0 || m->rank == c->conf.root ||
	                        c->conf.size - c->seats.nmissing <= c->conf.settings->min_ranks))
		return false;
	coord_name_host(c, &e);
	warn(m, &e);
	if (ctl_open(&m->ctl))
		send_end(m, &e, phase);
	if (!c->seats.closed) {
		coord_unseat(m);
		return true;
	}
	coord_came_back(m); /* nobody waits for it to ask for the verdict */
	leave_out(m);
	if (c->stage == STAGE_RUN)
		coord_form_anew(c, &e, phase);
	else
		coord_maybe_complete(c);
	return true;
}

bool coord_drops_silent(struct coord *c)
{
	static const struct err silent = {
	        .code = ERR_RENDEZVOUS,
	        .rank = ERR_RANK_SELF,
	        .text = "joined, but did not send its request before the end of --join-timeout"};
	int asking = 0, all = c->conf.size - c->seats.nmissing;
	for (int r = 0; r < c->conf.size; r++)
		asking += c->members[r].has_intent && !c->members[r].missing;
	if (!c->seats.closed || c->comparison.on || asking == all ||
	    asking < c->conf.settings->min_ranks)
		return false;
	for (int r = 0; r < c->conf.size; r++) {
		struct member *m = &c->members[r];
		if (!m->has_intent && !m->missing && !coord_does_without(m, &silent, PHASE_JOIN))
			return false;
	}
	return true;
}

bool coord_door_is_open(const struct coord *c)
{
	return c->gate;
}
