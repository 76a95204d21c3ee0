/* Which connections may join: members take their ranks, guests wait for one, others are refused. */
#include <stdio.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/job/coordinator/coord_internal.h"

#define LATECOMERS_WAIT (5 * NS_PER_SEC) /* for ranks that join after sizes have differed */
#define DOUBTED_WAIT    (1 * NS_PER_SEC) /* for ranks that exist only with the larger size */

/* Tell one connection why it cannot join. The job is not affected. */
static void turn_away(struct coord *c, struct conn *conn, const struct addr *from, bool misrouted,
                      const struct err *e)
{
	struct guest *g = coord_add_guest(c, conn, from);
	struct buf b;
	uint8_t memory[ERR_MESSAGE];
	if (!g || !ctl_open(&g->ctl))
		return;
	if (misrouted)
		ctl_send(&g->ctl, MSG_OTHER_JOB, NULL);
	coord_err_message(e, PHASE_JOIN, &b, memory);
	ctl_send(&g->ctl, MSG_ABORT, &b);
	ctl_end(&g->ctl);
	buf_release(&b);
}

/* A guest gets its rank later; until then it must know that a coordinator is alive here. */
static void greet_guest(struct guest *g)
{
	const struct pace none = {.rank = -1};
	struct buf b;
	buf_init(&b, 32);
	pace_encode(&none, &b);
	if (ctl_open(&g->ctl))
		ctl_send(&g->ctl, MSG_BEAT, &b);
	buf_release(&b);
}

/* Did another call of a launcher start it? False if the user has named the job (--job). */
static bool other_launch(const struct coord *c, const struct hello *h)
{
	static const uint8_t none[sizeof h->launch];
	const uint8_t *own = c->conf.launch ? c->conf.launch : none;
	return memcmp(own, none, sizeof none) != 0 && memcmp(h->launch, none, sizeof none) != 0 &&
	       memcmp(own, h->launch, sizeof none) != 0;
}

static bool other_job(const struct coord *c, const struct hello *h)
{
	return memcmp(h->jobtag, c->conf.jobtag, sizeof h->jobtag) != 0;
}

/* The ranks that wait in vain for this one get this note. Without TLS nothing proves that the
 * sender is a rank. */
static void note_other_version(struct coord *c, const struct hello *h, const struct addr *a)
{
	char from[ADDR_TEXT], who[32] = "a peer";
	if (c->conf.tls && h->rank < (uint32_t)c->conf.size)
		snprintf(who, sizeof who, "rank %u", h->rank);
	else if (c->conf.tls)
		snprintf(who, sizeof who, "a rank");
	snprintf(c->note, sizeof c->note,
	         "%s at %s has protocol version %u, not %u: install the same version of collctl on "
	         "every host",
	         who, addr_text(a, true, from), h->version, PROTO_VERSION);
}

/* Is this the rank that it says it is? The ranks that wait for that one get a note. */
static bool proves_another(struct coord *c, const struct conn *conn, const struct hello *h,
                           const struct addr *at, struct err *e)
{
	struct err why = ERR_INIT;
	char from[ADDR_TEXT];
	if (!c->conf.vouch ||
	    c->conf.vouch(c->conf.find_ctx, conn, h->rank == PROTO_RANK_AUTO ? -1 : (int)h->rank,
	                  &why) == 0)
		return false;
	e->code = why.code;
	if (e->code == ERR_RESOURCE)
		e->rank = c->self;
	snprintf(e->text, sizeof e->text, "%.600s", why.text);
	snprintf(c->note, sizeof c->note, "a connection from %s was refused: %.180s",
	         addr_text(at, true, from), why.text);
	return true;
}

static bool refuse(struct coord *c, const struct conn *conn, const struct hello *h,
                   const struct addr *at, struct err *e)
{
	char from[ADDR_TEXT], self[COORD_SELF_TEXT];
	*e = (struct err){.code = ERR_DISAGREE, .rank = ERR_RANK_SELF};
	if (h->version != PROTO_VERSION) {
		note_other_version(c, h, at);
		snprintf(e->text, sizeof e->text,
		         "protocol version %u differs from %u on %s: install the same version of "
		         "collctl on every host",
		         h->version, PROTO_VERSION, coord_self_text(c, self));
		return true;
	}
	if (other_job(c, h)) {
		e->code = ERR_AUTH;
		snprintf(e->text, sizeof e->text,
		         "%s at this address belongs to another job: give all ranks the same "
		         "--job (-j), and jobs at the same time different ports in the hostfile",
		         coord_self_text(c, self));
		return true;
	}
	if (other_launch(c, h)) {
		e->code = ERR_AUTH;
		snprintf(e->text, sizeof e->text,
		         "%s at this address belongs to another launch, whose job has the same "
		         "name: give "
		         "each launch its own --job (-j), and all ranks of a job the same",
		         coord_self_text(c, self));
		return true;
	}
	if (proves_another(c, conn, h, at, e))
		return true;
	if (coord_is_late(c, h, e))
		return true;
	if (h->rank == PROTO_RANK_AUTO || h->rank >= (uint32_t)c->conf.size)
		return false;
	struct member *m = &c->members[h->rank];
	if (m->joined && !m->has_intent && ctl_open(&m->ctl))
		ctl_look(&m->ctl); /* it may have ended its link */
	if (!m->joined)
		return false;
	snprintf(e->text, sizeof e->text, "rank %u has joined already%s%s: was it started twice?",
	         h->rank, m->from.len ? ", from " : "",
	         m->from.len ? addr_text(&m->from, true, from) : "");
	return true;
}

void coord_expect_fewest(void *ctx)
{
	struct coord *c = ctx;
	for (int r = (int)c->seats.fewest; r < c->conf.size; r++)
		c->members[r].lost |= !c->members[r].joined;
	coord_maybe_drained(c);
}

/* The ranks disagree about the number of ranks; @h's rank has got the failure. How many ranks are
 * still to join is not known: wait a short time for as many as the smallest size, and a shorter
 * time for the others. */
static void expect_fewer(struct coord *c, const struct hello *h)
{
	int64_t now = clock_ns(), until = now + LATECOMERS_WAIT;
	if (h->rank == PROTO_RANK_AUTO)
		c->seats.told_failure++;
	else if (h->rank < (uint32_t)c->conf.size)
		c->members[h->rank].has_failure |= !c->members[h->rank].joined;
	if (!c->seats.fewest) {
		c->seats.fewest = (uint32_t)c->conf.size;
		coord_set_timer(c, TIMER_DOUBT, now + DOUBTED_WAIT);
	}
	if (h->size && h->size < c->seats.fewest)
		c->seats.fewest = h->size;
	if (c->stage == STAGE_JOIN && until < c->conf.join_deadline) {
		c->conf.join_deadline = until;
		coord_set_timer(c, TIMER_JOIN, until);
	}
}

void coord_admit(void *ctx, struct conn *conn, const uint8_t opening[GATE_OPENING],
                 const struct addr *from)
{
	struct coord *c = ctx;
	struct hello h;
	struct err e;
	char self[COORD_SELF_TEXT];
	if (hello_decode(&h, opening) < 0) {
		conn_free(conn);
		return;
	}
	if (c->conf.met)
		c->conf.met(c->conf.ctx, from, h.rank < (uint32_t)c->conf.size ? (int)h.rank : -1);
	coord_look_at_deadline(c);
	/* A rank that has got the failure, or that is lost, joins again for the next job of the
	 * same name: it must try again until the next coordinator listens. */
	if ((c->stage != STAGE_JOIN || c->anew) && h.rank < (uint32_t)c->conf.size &&
	    c->members[h.rank].joined && !c->members[h.rank].missing) {
		conn_free(conn);
		return;
	}
	if (refuse(c, conn, &h, from, &e)) {
		turn_away(c, conn, from, other_job(c, &h), &e);
		if (e.code == ERR_RESOURCE)
			coord_fail(c, &e, PHASE_JOIN);
		return;
	}
	/* An authenticated rank of this job with other settings: no rank can continue. */
	e = (struct err){.code = ERR_DISAGREE,
	                 .rank = h.rank < JOB_MAX_SIZE ? (int)h.rank : ERR_RANK_SELF};
	if (h.size && h.size != (uint32_t)c->conf.size)
		snprintf(e.text, sizeof e.text, "--size %u differs from %d on %s", h.size,
		         c->conf.size, coord_self_text(c, self));
	else if (h.rank != PROTO_RANK_AUTO && h.rank >= (uint32_t)c->conf.size)
		snprintf(e.text, sizeof e.text, "there is no such rank: the size is %d on %s",
		         c->conf.size, coord_self_text(c, self));
	if (e.text[0]) {
		turn_away(c, conn, from, false, &e);
		expect_fewer(c, &h);
		coord_fail(c, &e, PHASE_JOIN);
		coord_maybe_drained(c);
		return;
	}
	if (h.rank != PROTO_RANK_AUTO) {
		coord_seat(c, (int)h.rank, conn, from);
		return;
	}
	if (c->stage == STAGE_FAILED) {
		c->seats.told_failure++;
		turn_away(c, conn, from, false, &c->failure);
		coord_maybe_drained(c);
		return;
	}
	struct guest *g = coord_add_guest(c, conn, from);
	if (g) {
		g->wants_rank = true;
		greet_guest(g);
	}
	coord_seats_changed(c);
}
