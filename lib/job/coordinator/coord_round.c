/* --min-ranks: which ranks take part in the job. Once --grace is over, as many as are enough begin,
 * and the others are missing: they get an answer that says so, and have no other part in it. */
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
	        "the round is closed: it begins without this rank, with %d of %d ranks (%s)",
	        count_here(c), c->conf.size, when);
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
static void send_end(struct member *m, const struct err *why)
{
	struct buf b;
	uint8_t memory[ERR_MESSAGE];
	coord_err_message(why, PHASE_JOIN, &b, memory);
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
			send_end(m, &e);
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

static void warn(const struct member *m, const char *why)
{
	char text[400];
	snprintf(text, sizeof text, "rank %d takes no part in the job: %.300s", m->rank, why);
	if (m->coord->conf.warn)
		m->coord->conf.warn(m->coord->conf.ctx, text);
}

bool coord_does_without(struct member *m, const struct err *why)
{
	struct coord *c = m->coord;
	if (!coord_can_miss(c) || c->stage != STAGE_JOIN || c->comparison.on || m->rank == c->self)
		return false;
	if (c->seats.closed && (m->rank == 0 || m->rank == c->conf.root ||
	                        c->conf.size - c->seats.nmissing <= c->conf.settings->min_ranks))
		return false;
	warn(m, why->text);
	if (ctl_open(&m->ctl))
		send_end(m, why);
	if (!c->seats.closed) {
		coord_unseat(m);
		return true;
	}
	leave_out(m);
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
		if (!m->has_intent && !m->missing && !coord_does_without(m, &silent))
			return false;
	}
	return true;
}

bool coord_door_is_open(const struct coord *c)
{
	return c->seats.nmissing && c->gate;
}
