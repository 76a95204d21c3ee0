/* Who comes: members take their places, guests wait for one, others are turned away. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/job/coord_internal.h"

#define LATECOMERS_WAIT (5 * NS_PER_SEC) /* for ranks that come after sizes have differed */

static void guest_lost(void *ctx, const struct err *err)
{
	struct guest *g = ctx;
	(void)err;
	g->wants_rank = false;
	coord_maybe_drained(g->coord);
}

static void guest_message(void *ctx, uint8_t type, struct view body)
{
	(void)ctx;
	(void)type;
	(void)body;
}

/* Those who have gone make room. Not called from a guest's own link. */
static void forget_guests(struct coord *c)
{
	for (struct guest **p = &c->guests; *p;) {
		struct guest *g = *p;
		if (ctl_open(&g->ctl)) {
			p = &g->next;
			continue;
		}
		*p = g->next;
		free(g);
	}
}

static struct guest *add_guest(struct coord *c, struct conn *conn, const struct addr *from)
{
	forget_guests(c);
	struct guest *g = calloc(1, sizeof *g);
	struct err e = {0};
	if (!g) {
		conn_free(conn);
		return NULL;
	}
	g->coord = c;
	g->from = *from;
	g->ctl.on_lost = guest_lost;
	g->ctl.on_message = guest_message;
	g->ctl.ctx = g;
	g->next = c->guests;
	c->guests = g;
	if (ctl_start(&g->ctl, conn, c->conf.loop, &e) < 0)
		ctl_release(&g->ctl);
	return g;
}

/* Tell one connection why it can't join, without touching the job. */
static void turn_away(struct coord *c, struct conn *conn, const struct addr *from,
                      const struct err *e)
{
	struct guest *g = add_guest(c, conn, from);
	struct buf b;
	if (!g || !ctl_open(&g->ctl))
		return;
	coord_err_message(e, PHASE_JOIN, &b);
	ctl_send(&g->ctl, MSG_ABORT, &b);
	ctl_end(&g->ctl);
	buf_release(&b);
}

static void seat(struct coord *c, int rank, struct conn *conn, const struct addr *from)
{
	struct member *m = &c->members[rank];
	struct buf b;
	struct err e = {0};
	m->from = *from;
	m->joined = true;
	if (ctl_start(&m->ctl, conn, c->conf.loop, &e) < 0) {
		ctl_release(&m->ctl);
		coord_member_lost(m, &e);
		return;
	}
	buf_init(&b, 64);
	buf_put_u32(&b, (uint32_t)rank);
	ctl_send(&m->ctl, MSG_WELCOME, &b);
	buf_release(&b);
	if (c->stage == STAGE_FAILED) {
		coord_tell_failure(c, m);
		if (c->draining)
			ctl_end(&m->ctl);
		coord_maybe_drained(c);
	}
}

/* Those who asked for any rank get what is left once everybody is there. */
static void seat_guests(struct coord *c)
{
	int seated = 0, waiting = 0, rank = 0;
	for (int r = 0; r < c->conf.size; r++)
		seated += c->members[r].joined;
	for (struct guest *g = c->guests; g; g = g->next)
		waiting += g->wants_rank && ctl_open(&g->ctl);
	if (!waiting || seated + waiting < c->conf.size)
		return;
	/* The list is newest first; the ranks go to the oldest first. */
	for (; waiting; waiting--) {
		struct guest *oldest = NULL;
		for (struct guest *g = c->guests; g; g = g->next)
			if (g->wants_rank && ctl_open(&g->ctl))
				oldest = g;
		while (rank < c->conf.size && c->members[rank].joined)
			rank++;
		if (rank == c->conf.size)
			return;
		struct conn *conn = oldest->ctl.conn;
		oldest->ctl.conn = NULL;
		oldest->wants_rank = false;
		ctl_release(&oldest->ctl);
		seat(c, rank, conn, &oldest->from);
	}
}

/* Was it started by another call of a launcher? Not where a user has named the job (--job). */
static bool other_launch(const struct coord *c, const struct hello *h)
{
	static const uint8_t none[sizeof h->launch];
	const uint8_t *own = c->conf.launch ? c->conf.launch : none;
	return memcmp(own, none, sizeof none) != 0 && memcmp(h->launch, none, sizeof none) != 0 &&
	       memcmp(own, h->launch, sizeof none) != 0;
}

static bool refuse(struct coord *c, const struct hello *h, struct err *e)
{
	char from[ADDR_TEXT];
	*e = (struct err){.code = ERR_DISAGREE, .rank = ERR_RANK_SELF};
	if (h->version != PROTO_VERSION) {
		snprintf(e->text, sizeof e->text,
		         "protocol version %u differs from %u on rank 0: install the same collctl "
		         "everywhere",
		         h->version, PROTO_VERSION);
		return true;
	}
	if (memcmp(h->jobtag, c->conf.jobtag, sizeof h->jobtag) != 0) {
		e->code = ERR_AUTH;
		snprintf(e->text, sizeof e->text,
		         "rank 0 here belongs to another job: give every rank the same --job");
		return true;
	}
	if (other_launch(c, h)) {
		e->code = ERR_AUTH;
		snprintf(e->text, sizeof e->text,
		         "rank 0 here belongs to another launch, whose job has the same name: give "
		         "each launch a --job of its own, or all ranks of one job the same");
		return true;
	}
	if (h->rank == PROTO_RANK_AUTO || h->rank >= (uint32_t)c->conf.size)
		return false;
	struct member *m = &c->members[h->rank];
	if (m->joined && !m->has_intent && ctl_open(&m->ctl))
		ctl_look(&m->ctl); /* it may have given its link up */
	if (!m->joined)
		return false;
	if (h->rank == 0 && c->conf.elected) {
		snprintf(e->text, sizeof e->text,
		         "rank 0 was taken by a rank with --rank auto: give all ranks auto, or all "
		         "a "
		         "number");
		return true;
	}
	snprintf(e->text, sizeof e->text, "rank %u has joined already%s%s: is it started twice?",
	         h->rank, m->from.len ? ", from " : "",
	         m->from.len ? addr_text(&m->from, true, from) : "");
	return true;
}

/* The ranks don't agree how many they are: @h's has been told so. Nobody knows who is still to
 * come: wait for as many as the smallest size says, for a short time. */
static void expect_fewer(struct coord *c, const struct hello *h)
{
	int64_t until = clock_ns() + LATECOMERS_WAIT;
	for (int r = 0; r < c->conf.size; r++) {
		struct member *m = &c->members[r];
		m->lost |= h->size && (uint32_t)r >= h->size && !m->joined;
		m->told |= (uint32_t)r == h->rank && !m->joined;
	}
	if (c->stage == STAGE_JOIN && until < c->conf.join_deadline) {
		c->conf.join_deadline = until;
		loop_timer_set(c->conf.loop, &c->join_timer, until);
	}
}

void coord_admit(void *ctx, struct conn *conn, const uint8_t opening[GATE_OPENING],
                 const struct addr *from)
{
	struct coord *c = ctx;
	struct hello h;
	struct err e;
	if (hello_decode(&h, opening) < 0) {
		conn_free(conn);
		return;
	}
	/* Who was told that this job has failed comes for the next one of the same name: it is to
	 * try again until that one's coordinator listens. */
	if (c->stage == STAGE_FAILED && h.rank < (uint32_t)c->conf.size &&
	    c->members[h.rank].joined) {
		conn_free(conn);
		return;
	}
	if (refuse(c, &h, &e)) {
		turn_away(c, conn, from, &e);
		return;
	}
	/* An authenticated rank of this job that sees the job differently: nobody can go on. */
	e = (struct err){.code = ERR_DISAGREE,
	                 .rank = h.rank == PROTO_RANK_AUTO ? ERR_RANK_SELF : (int)h.rank};
	if (h.size && h.size != (uint32_t)c->conf.size)
		snprintf(e.text, sizeof e.text, "--size %u differs from %d on rank 0", h.size,
		         c->conf.size);
	else if (h.rank != PROTO_RANK_AUTO && h.rank >= (uint32_t)c->conf.size)
		snprintf(e.text, sizeof e.text, "there is no such rank: the size is %d on rank 0",
		         c->conf.size);
	if (e.text[0]) {
		turn_away(c, conn, from, &e);
		expect_fewer(c, &h);
		coord_fail(c, &e, PHASE_JOIN);
		coord_maybe_drained(c);
		return;
	}
	if (h.rank != PROTO_RANK_AUTO) {
		seat(c, (int)h.rank, conn, from);
	} else {
		struct guest *g = add_guest(c, conn, from);
		if (g)
			g->wants_rank = true;
	}
	seat_guests(c);
}
