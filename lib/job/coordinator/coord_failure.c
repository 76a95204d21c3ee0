/* How a job fails: the evidence, the culprit, and the time that the ranks get to disconnect. */
#include <stdio.h>

#include "lib/base/clock.h"
#include "lib/job/coordinator/coord_internal.h"

#define EVIDENCE_WAIT (250 * NS_PER_MS) /* the culprit's own message may still arrive */
#define DRAIN_WAIT    (2 * NS_PER_SEC)

void coord_send_failure(struct coord *c, struct member *m)
{
	struct buf b;
	uint8_t memory[ERR_MESSAGE];
	coord_err_message(&c->failure, c->failed_in, &b, memory);
	coord_send(m, MSG_ABORT, &b);
	m->has_failure = true;
	buf_release(&b);
}

static bool has_failure(const struct coord *c, int rank)
{
	return c->members[rank].has_failure || c->members[rank].lost;
}

static bool all_have_failure(struct coord *c)
{
	int open = 0;
	while (c->upto.has_failure < c->conf.size && has_failure(c, c->upto.has_failure))
		c->upto.has_failure++;
	for (int r = c->upto.has_failure; r < c->conf.size && open <= c->seats.told_failure; r++)
		open += !has_failure(c, r);
	return open <= c->seats.told_failure;
}

void coord_fail(struct coord *c, const struct err *e, enum phase phase)
{
	bool nobody_comes = c->stage == STAGE_RUN || c->anew;
	if (c->stage >= STAGE_COMMIT)
		return;
	if (c->comparison.on && e->code != ERR_INTEGRITY) { /* the job has already failed */
		e = &c->comparison.disagreement.err;
		phase = c->comparison.phase;
	}
	coord_stop_comparing(c);
	if (nobody_comes)
		coord_close_door(c);
	coord_enter(c, STAGE_FAILED);
	c->failure = *e;
	if (e->code == ERR_RESOURCE && e->rank == ERR_RANK_SELF) /* this rank lacks the resource */
		c->failure.rank = c->self;
	c->failed_in = phase;
	coord_name_host(c, &c->failure);
	for (int r = c->conf.size - 1; r >= 0; r--) {
		struct member *m = &c->members[r];
		if (m->joined)
			coord_send_failure(c, m);
		else if (nobody_comes || clock_ns() >= c->conf.join_deadline)
			m->lost = true;
	}
	coord_send_guests_failure(c);
}

/* Evidence that is neither the culprit's own message nor the loss of its control link waits for one
 * of them. */
void coord_suspect(struct member *m, const struct err *e, enum phase phase, struct view *v)
{
	struct coord *c = m->coord;
	struct evidence report = {
	        .kind = EVIDENCE_REPORT, .err = *e, .phase = phase, .reporter = m->rank};
	report.unanswered = view_u8(v);
	report.still_ms = view_u64(v);
	report.lane =
	        view_u8(v) == REPORT_LANE && e->code == ERR_PEER_LOST && coord_can_go_back(c, m);
	if (c->stage != STAGE_RUN)
		return;
	if (report.lane && c->back.on && !m->stopped) /* sent before BACK came */
		return;
	m->broke |= report.lane;
	/* All ranks notice within one beat that nothing moves; the rank that knows the cause may be
	 * the last to report. */
	bool vague = e->code == ERR_STALLED && !report.unanswered;
	int64_t at = clock_ns() + EVIDENCE_WAIT + (vague ? coord_beat_interval(c) : 0);
	if (!c->evidence.kind || at < c->timers[TIMER_EVIDENCE].at)
		coord_set_timer(c, TIMER_EVIDENCE, at);
	c->evidence = *blame(&c->evidence, &report);
}

/* No rank has reported its own failure and none is lost: blame a rank that has become silent, else
 * the link. */
void coord_evidence_over(void *ctx)
{
	struct coord *c = ctx;
	int64_t now = clock_ns();
	const struct member *m =
	        coord_most_silent(c, 2 * coord_beat_interval(c) + EVIDENCE_WAIT, now);
	struct evidence e = c->evidence, silent = {0};
	if (m)
		silent = coord_silence_of(c, m, now);
	e = *blame(&e, &silent);
	/* What a rank has given, such as a name, has nothing to do with its link. */
	if (e.kind == EVIDENCE_REPORT && e.err.code != ERR_STALLED && e.err.code != ERR_DISAGREE) {
		e.err.subject = 0;
		snprintf(e.err.text, sizeof e.err.text, "its link with rank %d: %.560s", e.reporter,
		         c->evidence.err.text);
	}
	if (coord_goes_back(c, &e))
		coord_go_back(c, &e);
	else if (e.kind != EVIDENCE_SILENCE ||
	         !coord_does_without(&c->members[e.err.rank], &e.err, e.phase))
		coord_fail(c, &e.err, e.phase);
}

void coord_member_lost(struct member *m, const struct err *why)
{
	struct coord *c = m->coord;
	struct err e = {.code = why->code ? why->code : ERR_PEER_LOST, .rank = m->rank};
	enum phase phase = coord_phase_of(c, m);
	if (m->missing || (c->stage == STAGE_JOIN && !m->joined))
		return;
	/* A rank that ends in order announces it. */
	const bool may_ask = m->voted && why->code && coord_leaves(m, clock_ns());
	if (may_ask && coord_gave_verdict(c))
		return;
	if (c->stage == STAGE_COMMIT) {
		coord_lose_after_verdict(m, "lost");
		return;
	}
	m->lost = true;
	if (why->code == ERR_RESOURCE) {
		coord_lacking(m, why);
		return;
	}
	if (c->stage == STAGE_JOIN || c->stage == STAGE_RUN) {
		snprintf(e.text, sizeof e.text, "lost %s: %.200s", phase_words(phase),
		         why->code ? why->text : "connection closed");
		if (!coord_does_without(m, &e, phase))
			coord_fail(c, &e, phase);
	}
}

void coord_drain_over(void *ctx)
{
	struct coord *c = ctx;
	c->drain = DRAINED;
}

/* How long ranks that have the outcome may take to disconnect. If a link is closed while bytes
 * arrive, it is reset, and a VERDICT or FINAL on its way is lost. A live rank therefore gets as
 * much time as for any answer. */
static int64_t drain_wait(const struct coord *c)
{
	int64_t most = coord_verdict_kept(c) > DRAIN_WAIT ? coord_verdict_kept(c) : DRAIN_WAIT;
	for (int r = c->upto.closed; coord_gave_verdict(c) && r < c->conf.size; r++) {
		const struct member *m = &c->members[r];
		if (ctl_open(&m->ctl) && !m->lost)
			return most;
	}
	return DRAIN_WAIT;
}

void coord_maybe_drained(struct coord *c)
{
	if (c->drain != DRAINING || coord_timer_runs(c, TIMER_DOUBT))
		return;
	if (c->stage == STAGE_FAILED && !all_have_failure(c))
		return;
	if (!coord_timer_runs(c, TIMER_DRAIN))
		c->drain_from = clock_ns();
	if (c->stage == STAGE_FAILED) /* a rank may have joined since */
		c->upto.closed = 0;
	while (c->upto.closed < c->conf.size && !ctl_open(&c->members[c->upto.closed].ctl))
		c->upto.closed++;
	int64_t until = c->drain_from + drain_wait(c);
	const int64_t away_until = coord_away_until(c);
	if (c->stage == STAGE_FINAL && away_until > until)
		until = away_until;
	coord_set_timer(c, TIMER_DRAIN, until);
	if (c->upto.closed < c->conf.size || away_until)
		return;
	if (!coord_has_open_guests(c))
		c->drain = DRAINED;
}

void coord_on_lost(void *ctx, const struct err *err)
{
	struct member *m = ctx;
	struct coord *c = m->coord;
	coord_look_at_deadline(c);
	/* The rank's WELCOME arrived corrupt, or the rank waited too long for it and closed the
	 * link in order: the rank may join again. A rank that fails reports why before it
	 * closes. */
	if (c->stage == STAGE_JOIN && !m->has_intent && !c->seats.nmissing &&
	    (m->ctl.alerted || !err->code)) {
		coord_unseat(m);
	} else {
		coord_member_lost(m, err);
	}
	coord_maybe_drained(c);
}

/* The coordinator lacks memory, not the member. */
void coord_lacking(void *ctx, const struct err *err)
{
	struct member *m = ctx;
	struct err e = *err;
	e.rank = m->coord->self;
	coord_fail(m->coord, &e, coord_phase_of(m->coord, m));
}

void coord_drain(struct coord *c)
{
	if (c->drain)
		return;
	c->drain = DRAINING;
	coord_open_inquiries(c);
	for (int r = 0; r < c->conf.size; r++)
		ctl_end(&c->members[r].ctl);
	coord_end_guests(c);
	coord_maybe_drained(c);
}

bool coord_drained(const struct coord *c)
{
	return c->drain == DRAINED;
}

bool coord_has_sent(const struct coord *c)
{
	for (int r = 0; r < c->conf.size; r++)
		if (ctl_open(&c->members[r].ctl) && !c->members[r].ctl.ended)
			return false;
	return coord_guests_have_sent(c);
}
