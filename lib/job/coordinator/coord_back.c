/*
 * A lane broke, and both its ranks live: all ranks go back to the last window that is complete on
 * all of them, and connect anew, as the next session. In two steps, so that nobody sees the end of
 * a connection of the session that is over as a failure:
 *
 *     BACK     every rank stops, leaves its connections as they are, and answers STOPPED
 *     AGAIN    once all have stopped: they close them and connect, with new keys
 *
 * Possible until each rank has said MOVED: its data have moved. No rank seals its output before all
 * have said so.
 */
#include <stdio.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/crypto/crypto.h"
#include "lib/job/coordinator/coord_internal.h"
#include "lib/job/pair_keys.h"

bool coord_can_go_back(const struct coord *c, const struct member *reporter)
{
	return c->conf.callbacks->goes_back && !reporter->moved;
}

bool coord_goes_back(const struct coord *c, struct evidence *e)
{
	const size_t len = strlen(e->err.text);
	if (e->kind != EVIDENCE_REPORT || !e->lane || c->back.on)
		return false;
	if (c->back.times == JOB_RECONNECTS_MOST)
		snprintf(e->err.text + len, sizeof e->err.text - len,
		         "; the job has gone back %d times", c->back.times);
	return c->back.times < JOB_RECONNECTS_MOST;
}

void coord_go_back(struct coord *c, const struct evidence *why)
{
	struct buf b;
	uint8_t memory[ERR_MESSAGE];
	c->back.on = true;
	c->back.times++;
	c->back.why = *why;
	c->back.window = UINT64_MAX;
	c->evidence = (struct evidence){0};
	c->upto.stopped = c->upto.moved = 0;
	coord_name_host(c, &c->back.why.err);
	for (int r = 0; r < c->conf.size; r++)
		c->members[r].stopped = c->members[r].moved = c->members[r].broke = false;
	coord_set_timer(c, TIMER_BACK, clock_ns() + c->conf.settings->timeout);
	coord_err_message(&c->back.why.err, why->phase, &b, memory);
	coord_send_all(c, MSG_BACK, &b);
	buf_release(&b);
}

static void give_up(struct coord *c)
{
	coord_fail(c, &c->back.why.err, c->back.why.phase);
}

/* Some have not stopped: blame the one that is silent, else the first of them. */
void coord_back_over(void *ctx)
{
	struct coord *c = ctx;
	const int64_t now = clock_ns();
	int r = 0;
	while (r < c->conf.size - 1 && (c->members[r].stopped || c->members[r].missing))
		r++;
	const struct member *silent = coord_most_silent(c, 2 * coord_beat_interval(c), now);
	struct evidence e = coord_silence_of(c, silent ? silent : &c->members[r], now);
	if (!silent)
		snprintf(e.err.text, sizeof e.err.text,
		         "did not stop within --timeout, %g s, when a connection between ranks had "
		         "broken",
		         (double)c->conf.settings->timeout / NS_PER_SEC);
	if (!silent || !coord_does_without(&c->members[e.err.rank], &e.err, e.phase))
		coord_fail(c, &e.err, e.phase);
}

static int send_again(struct coord *c, struct member *m, const struct again *again, struct err *err)
{
	struct buf b;
	buf_init_secret(&b, CTL_BODY_MAX);
	again_encode(again, &b);
	int ret = coord_put_places(c, m->rank, &b, err);
	if (ret == 0 && b.failed)
		ret = err_nomem(err, "the next session", CTL_BODY_MAX);
	if (ret == 0)
		coord_send(m, MSG_AGAIN, &b);
	buf_release(&b);
	return ret;
}

/* All have stopped. The own rank gets AGAIN last, as it gets ROSTER. */
static void begin_again(struct coord *c)
{
	struct again again = {.window = c->back.window};
	struct err e = ERR_INIT;
	int ret = crypto_random(again.session, sizeof again.session, &e);
	coord_forget_keys(c);
	if (ret == 0 && !(c->pair_keys = pair_keys_new(&e)))
		ret = -1;
	for (int r = 0; r < c->conf.size; r++)
		c->members[r].has_peers = false;
	c->upto.connected = 0;
	c->back.on = false;
	coord_set_timer(c, TIMER_BACK, COORD_NEVER);
	for (int i = 1; ret == 0 && i <= c->conf.size; i++)
		ret = send_again(c, &c->members[(c->self + i) % c->conf.size], &again, &e);
	if (c->conf.size <= PROTO_PLACES)
		coord_forget_keys(c);
	if (ret < 0) {
		e.rank = c->self;
		coord_fail(c, &e, PHASE_CONNECT);
	}
}

bool coord_take_stopped(struct member *m, struct view v)
{
	struct coord *c = m->coord;
	struct err e = ERR_INIT;
	struct stopped s;
	if (!c->back.on || m->stopped || stopped_decode(&s, v, &e) < 0)
		return false;
	m->stopped = true;
	if (s.window < c->back.window)
		c->back.window = s.window;
	if (!s.can) {
		give_up(c);
		return true;
	}
	if (coord_all_have(c, &c->upto.stopped, offsetof(struct member, stopped)))
		begin_again(c);
	return true;
}

bool coord_take_moved(struct member *m, struct view v)
{
	struct coord *c = m->coord;
	if (view_left(&v) || m->moved || m->broke || m->voted || !c->conf.callbacks->goes_back ||
	    (c->back.on && m->stopped))
		return false;
	if (c->back.on) /* sent before BACK came */
		return true;
	m->moved = true;
	if (!coord_all_have(c, &c->upto.moved, offsetof(struct member, moved)))
		return true;
	for (int i = 1; i <= c->conf.size; i++)
		coord_send(&c->members[(c->self + i) % c->conf.size], MSG_MOVED, NULL);
	return true;
}
