#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/private.h"
#include "lib/job/coordinator/coord_internal.h"
#include "lib/job/ranks.h"

#define EVIDENCE_WAIT (250 * NS_PER_MS) /* the culprit's own message may still arrive */
#define DRAIN_WAIT    (2 * NS_PER_SEC)
#define LATE          (1 * NS_PER_SEC) /* even a busy machine delays a timer by less */
#define IN(stage)     (1u << (stage))
#define ANY_STAGE     (~0u)
#define CLOCKS_MOST   256 /* questions of a rank for the clock: far more than it has */

/* ---- sending ---- */

void coord_send(struct member *m, uint8_t type, const struct buf *body)
{
	if (m->rank == m->coord->self)
		m->coord->conf.deliver(m->coord->conf.ctx, type,
		                       body ? view_of(body->data, body->len) : view_of("", 0));
	else if (ctl_open(&m->ctl))
		ctl_send(&m->ctl, type, body);
}

static void send_all(struct coord *c, uint8_t type, const struct buf *body)
{
	for (int r = 0; r < c->conf.size; r++)
		if (c->members[r].joined)
			coord_send(&c->members[r], type, body);
}

void coord_err_message(const struct err *e, enum phase phase, struct buf *b,
                       uint8_t memory[ERR_MESSAGE])
{
	buf_init_fixed(b, memory, ERR_MESSAGE);
	err_encode(e, phase, b);
}

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
	bool nobody_comes = c->stage == STAGE_RUN;
	if (c->stage >= STAGE_COMMIT)
		return;
	if (c->comparison.on && e->code != ERR_INTEGRITY) { /* the job has already failed */
		e = &c->comparison.disagreement.err;
		phase = c->comparison.phase;
	}
	coord_stop_comparing(c);
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

int64_t coord_beat_interval(const struct coord *c)
{
	int64_t t = c->conf.settings->timeout / 4;
	return t > NS_PER_SEC ? NS_PER_SEC : t;
}

/* Evidence that is neither the culprit's own message nor the loss of its control link waits for one
 * of them. */
static void suspect(struct coord *c, int reporter, const struct err *e, enum phase phase,
                    struct view *v)
{
	struct evidence report = {EVIDENCE_REPORT, *e, phase, reporter, false, 0};
	report.unanswered = view_u8(v);
	report.still_ms = view_u64(v);
	if (c->stage != STAGE_RUN)
		return;
	/* All ranks notice within one beat that nothing moves; the rank that knows the cause may be
	 * the last to report. */
	bool vague = e->code == ERR_STALLED && !report.unanswered;
	int64_t at = clock_ns() + EVIDENCE_WAIT + (vague ? coord_beat_interval(c) : 0);
	if (!c->evidence.kind || at < c->timers[TIMER_EVIDENCE].at)
		coord_set_timer(c, TIMER_EVIDENCE, at);
	c->evidence = *blame(&c->evidence, &report);
}

static int64_t silence(const struct coord *c, const struct member *m, int64_t now)
{
	int64_t heard = m->ctl.heard > c->roster_at ? m->ctl.heard : c->roster_at;
	return now - heard;
}

/* How much longer than @limit a member may be silent: as long as its messages may take. */
static int64_t allowance(const struct member *m)
{
	return ctl_open(&m->ctl) ? conn_round_trip(m->ctl.conn) : 0;
}

/* The rank's phase, as far as its messages show. */
static enum phase phase_of(const struct coord *c, const struct member *m)
{
	if (c->stage == STAGE_JOIN)
		return PHASE_JOIN;
	if (m->voted)
		return PHASE_COMMIT;
	return m->beat.phase > PHASE_CONNECT ? m->beat.phase : PHASE_CONNECT;
}

static struct evidence silence_of(const struct coord *c, const struct member *m, int64_t now)
{
	struct evidence e = {.kind = EVIDENCE_SILENCE,
	                     .err = {.code = ERR_STALLED, .rank = m->rank},
	                     .phase = phase_of(c, m)};
	snprintf(e.err.text, sizeof e.err.text, "no message for %.1f s %s: stopped or unreachable",
	         (double)silence(c, m, now) / 1e9, phase_words(e.phase));
	return e;
}

/* The rank that has been silent for the longest time, and longer than @limit; NULL: none. */
static struct member *most_silent(const struct coord *c, int64_t limit, int64_t now)
{
	struct member *most = NULL;
	for (int r = 0; r < c->conf.size; r++) {
		struct member *m = &c->members[r];
		if (!ctl_open(&m->ctl) || m->lost || silence(c, m, now) <= limit ||
		    silence(c, m, now) <= limit + allowance(m))
			continue;
		limit = silence(c, m, now);
		most = m;
	}
	return most;
}

/* No rank has reported its own failure and none is lost: blame a rank that has become silent, else
 * the link. */
static void evidence_over(void *ctx)
{
	struct coord *c = ctx;
	int64_t now = clock_ns();
	const struct member *m = most_silent(c, 2 * coord_beat_interval(c) + EVIDENCE_WAIT, now);
	struct evidence e = c->evidence, silent = {0};
	if (m)
		silent = silence_of(c, m, now);
	e = *blame(&e, &silent);
	/* What a rank has given, such as a name, has nothing to do with its link. */
	if (e.kind == EVIDENCE_REPORT && e.err.code != ERR_STALLED && e.err.code != ERR_DISAGREE) {
		e.err.subject = 0;
		snprintf(e.err.text, sizeof e.err.text, "its link with rank %d: %.560s", e.reporter,
		         c->evidence.err.text);
	}
	coord_fail(c, &e.err, e.phase);
}

/* ---- monitoring ---- */

static void finish_commit(struct coord *c);

/* @how: "lost". The job does not end as if this rank had its new output, unless the rank reported
 * so. */
static void lose_after_verdict(struct member *m, const char *how)
{
	m->lost = true;
	if (m->done)
		return;
	m->outcome = (struct err){.code = ERR_PEER_LOST, .rank = m->rank};
	snprintf(m->outcome.text, sizeof m->outcome.text,
	         "%s after the verdict: its output may be the old one", how);
	finish_commit(m->coord);
}

void coord_member_lost(struct member *m, const struct err *why)
{
	struct coord *c = m->coord;
	struct err e = {.code = why->code ? why->code : ERR_PEER_LOST, .rank = m->rank};
	enum phase phase = phase_of(c, m);
	if (c->stage == STAGE_COMMIT) {
		lose_after_verdict(m, "lost");
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
		coord_fail(c, &e, phase);
	}
}

static void drain_over(void *ctx)
{
	struct coord *c = ctx;
	c->drain = DRAINED;
}

/* How long ranks that have the outcome may take to disconnect. If a link is closed while bytes
 * arrive, it is reset, and a VERDICT or FINAL on its way is lost. A live rank therefore gets as
 * much time as for any answer. */
static int64_t drain_wait(const struct coord *c)
{
	bool after_verdict = c->stage == STAGE_COMMIT || c->stage == STAGE_FINAL;
	int64_t most =
	        c->conf.settings->timeout > DRAIN_WAIT ? c->conf.settings->timeout : DRAIN_WAIT;
	for (int r = c->upto.closed; after_verdict && r < c->conf.size; r++) {
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
	coord_set_timer(c, TIMER_DRAIN, c->drain_from + drain_wait(c));
	if (c->upto.closed < c->conf.size)
		return;
	if (!coord_has_open_guests(c))
		c->drain = DRAINED;
}

static void on_lost(void *ctx, const struct err *err)
{
	struct member *m = ctx;
	struct coord *c = m->coord;
	coord_look_at_deadline(c);
	/* The rank's WELCOME arrived corrupt, or the rank waited too long for it and closed the
	 * link in order: the rank may join again. A rank that fails reports why before it
	 * closes. */
	if (c->stage == STAGE_JOIN && !m->has_intent && (m->ctl.alerted || !err->code)) {
		c->seats.njoined -= m->joined;
		m->joined = m->present = false;
		c->upto.present = 0;
		c->seats.complete = false;
		coord_seats_changed(c);
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
	coord_fail(m->coord, &e, phase_of(m->coord, m));
}

/* The fraction of its bytes that @m has moved; 1: all, or their number is not known. */
static double fraction(const struct member *m)
{
	const struct beat *b = &m->beat;
	if (b->phase < PHASE_RUN)
		return 0;
	return b->phase == PHASE_RUN && b->moved < b->total ? (double)b->moved / (double)b->total
	                                                    : 1;
}

/* The slowest rank: in the earliest phase, with the smallest fraction of its bytes moved. Rank -1
 * if all known work is done. */
static struct pace slowest(const struct coord *c)
{
	struct pace p = {.rank = -1, .phase = PHASE_RUN};
	double least = 1;
	for (int r = 0; r < c->conf.size; r++) {
		const struct member *m = &c->members[r];
		double done = fraction(m);
		if (m->beat.phase < p.phase || (m->beat.phase == p.phase && done < least)) {
			p = (struct pace){.rank = r, .phase = m->beat.phase};
			least = done;
		}
	}
	p.done = (uint32_t)(least * PACE_DONE);
	p.moved = c->moved;
	return p;
}

static uint64_t progress_of(const struct member *m)
{
	return m->beat.moved + m->beat.acknowledged;
}

/* Take what the ranks have moved, if that counts as progress of the job. */
static void look_at_progress(struct coord *c)
{
	int ranks = 0, rank = -1;
	for (int r = 0; r < c->conf.size; r++)
		if (progress_of(&c->members[r]) != c->members[r].counted) {
			ranks++;
			rank = r;
		}
	if (!advance_counts(&c->advance, ranks, rank, clock_ns(), c->conf.settings->timeout))
		return;
	c->moved = 0;
	for (int r = 0; r < c->conf.size; r++) {
		c->members[r].counted = progress_of(&c->members[r]);
		c->moved += c->members[r].counted;
	}
}

static void send_pace(struct coord *c)
{
	look_at_progress(c);
	struct pace p = slowest(c);
	struct buf b;
	uint8_t memory[64];
	buf_init_fixed(&b, memory, sizeof memory);
	pace_encode(&p, &b);
	send_all(c, MSG_BEAT, &b);
	buf_release(&b);
}

static void watch_beats(void *ctx)
{
	struct coord *c = ctx;
	int64_t now = clock_ns();
	struct member *silent;
	while ((silent = most_silent(c, c->conf.settings->timeout, now))) {
		char how[64];
		if (c->stage == STAGE_RUN) {
			struct evidence e = silence_of(c, silent, now);
			coord_fail(c, &e.err, e.phase);
			return;
		}
		/* The link stays open: a rank that continues learns the outcome. */
		snprintf(how, sizeof how, "no message for %.1f s",
		         (double)silence(c, silent, now) / 1e9);
		lose_after_verdict(silent, how);
	}
	if (c->stage == STAGE_FINAL)
		return;
	send_pace(c);
	coord_set_timer(c, TIMER_BEAT, now + coord_beat_interval(c));
}

/* ---- joining ---- */

/* Name the ranks that are missing at the end of the time to join. False: none is missing. */
static bool describe_missing(const struct coord *c, struct err *e)
{
	struct joined j;
	coord_who_joined(c, &j);
	const char *refusal = c->gate ? gate_last_refusal(c->gate) : c->refusal;
	char refused[GATE_REFUSAL + 40] = "", text[400];
	if (c->note[0])
		snprintf(refused, sizeof refused, " (%s)", c->note);
	else if (refusal[0])
		snprintf(refused, sizeof refused, " (a connection was refused: %s)", refusal);
	if (j.here == j.size)
		return false;
	if (j.by_host) {
		joined_missing(&j, text, sizeof text);
		snprintf(e->text, sizeof e->text, "%s%.230s", text, refused);
		return true;
	}
	for (e->rank = 0; c->members[e->rank].joined;)
		e->rank++;
	bool several = strpbrk(j.names, ",-") != NULL;
	snprintf(e->text, sizeof e->text, "%s%s%sdid not join within %g s (--join-timeout)%s",
	         several ? "ranks " : "", several ? j.names : "", several ? " " : "",
	         (double)c->conf.settings->join_timeout / 1e9, refused);
	return true;
}

/* If this process sees the end of the time to join long after it, the process did not run: add that
 * to the error. Then only this rank and the missing ones are to blame. False: it saw the end in
 * time. */
static bool describe_late(const struct coord *c, struct err *e)
{
	int64_t late = clock_ns() - c->conf.join_deadline;
	size_t len = strlen(e->text);
	char self[COORD_SELF_TEXT];
	if (late < LATE)
		return false;
	if (!len)
		e->rank = c->self;
	bool named = !len && c->self >= 0;
	snprintf(e->text + len, sizeof e->text - len,
	         "%s%s%sdid not run until %.1f s after the end of --join-timeout", len ? "; " : "",
	         named ? "" : coord_self_text(c, self), named ? "" : " ", (double)late / 1e9);
	return true;
}

static void join_over(void *ctx)
{
	struct coord *c = ctx;
	struct err e = {.code = ERR_RENDEZVOUS, .rank = ERR_RANK_SELF};
	if (c->stage ==
	    STAGE_FAILED) { /* ranks that have not joined by now do not get the failure */
		for (int r = 0; r < c->conf.size; r++)
			c->members[r].lost |= !c->members[r].joined;
		coord_maybe_drained(c);
		return;
	}
	bool missing = describe_missing(c, &e);
	if (!describe_late(c, &e) && !missing) {
		for (e.rank = 0; e.rank < c->conf.size - 1 && c->members[e.rank].has_intent;)
			e.rank++;
		snprintf(e.text, sizeof e.text,
		         "joined, but did not send its request before the end of --join-timeout");
	}
	coord_fail(c, &e, PHASE_JOIN);
}

void coord_look_at_deadline(struct coord *c)
{
	/* While tables are compared all have joined; coord_compare_over has the same deadline. */
	if (c->stage == STAGE_JOIN && !c->comparison.on && clock_ns() >= c->conf.join_deadline)
		join_over(c);
}

static void maybe_complete(struct coord *c)
{
	if (c->stage != STAGE_JOIN)
		return;
	for (int *r = &c->upto.has_intent; *r < c->conf.size; ++*r)
		if (!c->members[*r].has_intent)
			return;
	coord_look_at_ages(c);
	if (agree_on_facts(c->intents, c->conf.size, &c->comparison.disagreement))
		coord_send_rosters(c);
	else
		coord_disagree(c, PHASE_JOIN);
}

/* ---- votes ---- */

/* The part of its threads' time that a rank worked. */
static double busy_share(const struct workload *w)
{
	return w->total ? (double)w->busy / (double)w->total : 0;
}

/* The workload of the rank that worked longest: ranks run for about the same time. */
static struct workload busiest(const struct coord *c)
{
	struct workload most = {.rank = -1};
	for (int r = 0; r < c->conf.size; r++)
		if (busy_share(&c->votes[r].work) > busy_share(&most)) {
			most = c->votes[r].work;
			most.rank = r;
		}
	return most;
}

static void give_verdict(struct coord *c)
{
	uint8_t memory[64];
	struct buf b;
	for (int *r = &c->upto.voted; *r < c->conf.size; ++*r)
		if (!c->members[*r].voted)
			return;
	if (c->links.n) {
		coord_fail_links(c);
		return;
	}
	if (!agree_on_results(c->votes, c->conf.size, &c->comparison.disagreement)) {
		coord_disagree(c, PHASE_COMMIT);
		return;
	}
	coord_enter(c, STAGE_COMMIT);
	const struct workload work = busiest(c);
	buf_init_fixed(&b, memory, sizeof memory);
	workload_encode(&work, &b);
	send_all(c, MSG_VERDICT, &b);
	buf_release(&b);
}

static bool failed_too(const struct member *m)
{
	return m->done && m->outcome.code;
}

static bool lost_too(const struct member *m)
{
	return !m->done;
}

static bool has_new(const struct member *m)
{
	return m->done && m->fate == FATE_NEW;
}

/* Append the ranks other than @but for which @is holds. False: there are none. */
static bool say_ranks(const struct coord *c, bool (*is)(const struct member *), int but,
                      const char *one, const char *several, char *words, size_t cap)
{
	char list[128];
	struct rank_list ranks;
	int n = 0;
	rank_list_init(&ranks, list, sizeof list);
	for (int r = 0; r < c->conf.size; r++)
		if (r != but && is(&c->members[r])) {
			rank_list_add(&ranks, r);
			n++;
		}
	const size_t len = strlen(words);
	if (n)
		snprintf(words + len, cap - len, "; rank%s %s %s", n > 1 ? "s" : "",
		         rank_list_end(&ranks), n > 1 ? several : one);
	return n > 0;
}

static bool all_are_old(const struct coord *c)
{
	for (int r = 0; r < c->conf.size; r++) {
		const struct member *m = &c->members[r];
		if (!m->done || m->fate == FATE_NEW || m->fate == FATE_MIXED)
			return false;
	}
	return true;
}

/* The outcome of the commit: the best evidence, the other ranks that failed or were lost, and those
 * that have new outputs. */
static struct err outcome_of(const struct coord *c)
{
	struct evidence best = {.err = ERR_INIT};
	for (int r = 0; r < c->conf.size; r++) {
		const struct member *m = &c->members[r];
		struct evidence e = {m->done ? EVIDENCE_OWN_WORD : EVIDENCE_LOST,
		                     m->outcome,
		                     PHASE_COMMIT,
		                     r,
		                     false,
		                     0};
		e.err.rank = r;
		if (e.err.code)
			best = *blame(&best, &e);
	}
	if (!best.err.code)
		return best.err;
	char words[512] = "";
	say_ranks(c, failed_too, best.err.rank, "failed after the verdict too",
	          "failed after the verdict too", words, sizeof words);
	say_ranks(c, lost_too, best.err.rank, "was lost after the verdict too",
	          "were lost after the verdict too", words, sizeof words);
	if (!say_ranks(c, has_new, best.err.rank, "has its new output", "have their new outputs",
	               words, sizeof words) &&
	    all_are_old(c))
		snprintf(words + strlen(words), sizeof words - strlen(words),
		         "; no rank has a new output");
	struct err told = {.rank = best.err.rank};
	err_rank(&told, best.err.code, best.err.rank, "%.*s%s", (int)sizeof best.err.text,
	         best.err.text, words);
	told.subject = best.err.subject;
	return told;
}

/* Send the outcome once each rank has committed, has failed, or was lost after the verdict. */
static void finish_commit(struct coord *c)
{
	struct buf b;
	uint8_t memory[ERR_MESSAGE];
	for (int *r = &c->upto.ended; *r < c->conf.size; ++*r)
		if (!c->members[*r].done && !c->members[*r].lost)
			return;
	struct err e = outcome_of(c);
	coord_name_host(c, &e);
	coord_enter(c, STAGE_FINAL);
	coord_err_message(&e, PHASE_COMMIT, &b, memory);
	send_all(c, MSG_FINAL, &b);
	buf_release(&b);
}

/* ---- messages ---- */

/* An intent outlives its message. */
static int keep_details(struct member *m, struct err *e)
{
	size_t len = view_left(&m->intent.details);
	if (!len)
		return 0;
	if (!(m->details = err_malloc(len, "the request of a rank", e)))
		return -1;
	memcpy(m->details, m->intent.details.p, len);
	m->intent.details = view_of(m->details, len);
	return 0;
}

/* A message that cannot be processed fails the job and blames the sender; a lack of memory blames
 * this rank. */
static void fail_of(struct member *m, struct err *e, enum phase phase)
{
	struct coord *c = m->coord;
	e->rank = e->code == ERR_RESOURCE ? c->self : m->rank;
	coord_fail(c, e, phase);
}

static bool take_intent(struct member *m, struct view v)
{
	struct err e = {0};
	if (m->has_intent)
		return false;
	if (intent_decode(&m->intent, v, &e) < 0 || keep_details(m, &e) < 0) {
		fail_of(m, &e, PHASE_JOIN);
		return true;
	}
	m->has_intent = true;
	maybe_complete(m->coord);
	return true;
}

static bool take_presence(struct member *m, struct view v)
{
	struct err e = {0};
	if (m->present || m->has_intent)
		return false;
	if (coord_take_presence(m, v, &e) < 0) {
		e.rank = m->rank;
		coord_fail(m->coord, &e, PHASE_JOIN);
	}
	return true;
}

/* When all ranks are connected, none asks for a place any more. */
static void forget_keys(struct coord *c)
{
	for (int *r = &c->upto.connected; *r < c->conf.size; ++*r)
		if (c->members[*r].beat.phase <= PHASE_CONNECT)
			return;
	coord_forget_keys(c);
}

static bool take_beat(struct member *m, struct view v)
{
	struct err e = {0};
	struct beat beat;
	if (beat_decode(&beat, v, &e) < 0)
		return false;
	m->beat = beat;
	if (m->coord->pair_keys)
		forget_keys(m->coord);
	return true;
}

/* The exit code that a failure of a rank gives the others. Its own exit status shows its signal. */
static int code_of(int code)
{
	return code > 128                                  ? ERR_PEER_LOST
	       : code >= ERR_OTHER && code <= ERR_RESOURCE ? code
	                                                   : ERR_OTHER;
}

/* A rank's own report takes precedence over all other evidence. */
static bool take_abort(struct member *m, struct view v)
{
	struct err e = {0};
	enum phase phase;
	if (err_decode(&e, &phase, &v) < 0)
		return false;
	e.rank = m->rank;
	e.code = code_of(e.code);
	coord_fail(m->coord, &e, phase);
	return true;
}

static bool take_report(struct member *m, struct view v)
{
	struct err e = {0};
	enum phase phase;
	if (err_decode(&e, &phase, &v) < 0 || !e.code || e.rank < 0 ||
	    e.rank >= m->coord->conf.size || e.rank == m->rank)
		return false;
	e.code = code_of(e.code);
	suspect(m->coord, m->rank, &e, phase, &v);
	return true;
}

/* Answer every rank when the parts of all have come. */
static void end_round(struct coord *c)
{
	const struct job_callbacks *callbacks = c->conf.callbacks;
	struct buf b;
	for (int *r = &c->upto.in_round; *r < c->conf.size; ++*r)
		if (!c->members[*r].in_round)
			return;
	c->upto.in_round = 0;
	for (int r = 0; r < c->conf.size; r++)
		c->members[r].in_round = false;
	for (int i = 1; i <= c->conf.size && c->stage == STAGE_RUN; i++) {
		struct err e = {.rank = c->self};
		int r = (c->self + i) % c->conf.size;
		buf_init(&b, JOB_ROUND_MAX);
		callbacks->answer(callbacks->ctx, r, &b);
		if (b.failed) {
			err_nomem(&e, "the answer to a round", JOB_ROUND_MAX);
			coord_fail(c, &e, PHASE_RUN);
		} else {
			coord_send(&c->members[r], MSG_ANSWER, &b);
		}
		buf_release(&b);
	}
}

static bool take_round(struct member *m, struct view v)
{
	const struct job_callbacks *callbacks = m->coord->conf.callbacks;
	struct err e = {0};
	if (m->in_round || m->voted || !callbacks->collect)
		return false;
	if (callbacks->collect(callbacks->ctx, m->rank, v, &e) < 0) {
		fail_of(m, &e, PHASE_RUN);
		return true;
	}
	m->in_round = true;
	end_round(m->coord);
	return true;
}

static bool take_clock(struct member *m, struct view v)
{
	uint8_t memory[8];
	struct buf b;
	if (m->voted || view_left(&v) || m->clocks++ == CLOCKS_MOST)
		return false;
	buf_init_fixed(&b, memory, sizeof memory);
	buf_put_u64(&b, (uint64_t)clock_ns());
	coord_send(m, MSG_CLOCK, &b);
	buf_release(&b);
	return true;
}

static bool take_vote(struct member *m, struct view v)
{
	struct err e = {0};
	if (m->voted || vote_decode(&m->coord->votes[m->rank], v, &e) < 0)
		return false;
	m->voted = true;
	give_verdict(m->coord);
	return true;
}

static bool take_links(struct member *m, struct view v)
{
	struct coord *c = m->coord;
	struct err e = {0};
	if (m->voted || m->has_links)
		return false;
	m->has_links = true;
	if (links_decode(&c->links, m->rank, c->conf.size, v, &e) < 0)
		fail_of(m, &e, PHASE_CONNECT);
	return true;
}

static bool take_page(struct member *m, struct view v)
{
	uint32_t page = view_u32(&v);
	if (!m->coord->comparison.on || v.failed)
		return false;
	coord_take_page(m->coord, m->rank, page, v);
	return true;
}

static bool take_done(struct member *m, struct view v)
{
	enum phase phase;
	if (m->done)
		return false;
	const bool whole = err_decode(&m->outcome, &phase, &v) == 0;
	const unsigned fate = view_u8(&v);
	if (!whole || v.failed || view_left(&v) || fate >= FATES) {
		m->outcome = ERR_INIT;
		err_set(&m->outcome, ERR_INTEGRITY, "a malformed DONE message");
	} else {
		m->fate = (enum fate)fate;
		if (m->outcome.code)
			m->outcome.code = code_of(m->outcome.code);
	}
	m->done = true;
	finish_commit(m->coord);
	return true;
}

/* The messages of the ranks, and the stages in which they are valid. take: false if the message is
 * malformed or repeated. */
static const struct {
	unsigned stages;
	bool (*take)(struct member *m, struct view v);
} messages[] = {
        [MSG_INTENT] = {IN(STAGE_JOIN), take_intent},
        [MSG_PRESENT] = {IN(STAGE_JOIN), take_presence},
        [MSG_BEAT] = {ANY_STAGE, take_beat},
        [MSG_ABORT] = {ANY_STAGE, take_abort},
        [MSG_REPORT] = {ANY_STAGE, take_report},
        [MSG_VOTE] = {IN(STAGE_RUN), take_vote},
        [MSG_LINKS] = {IN(STAGE_RUN), take_links},
        [MSG_ROUND] = {IN(STAGE_RUN), take_round},
        [MSG_CLOCK] = {IN(STAGE_RUN), take_clock},
        [MSG_PEERS] = {IN(STAGE_RUN), coord_send_places},
        [MSG_PAGE] = {ANY_STAGE, take_page},
        [MSG_DONE] = {IN(STAGE_COMMIT), take_done},
};

static void receive(struct member *m, uint8_t type, struct view v)
{
	struct coord *c = m->coord;
	struct err e = {.code = ERR_INTEGRITY, .rank = m->rank};
	coord_look_at_deadline(c);
	if (type < sizeof messages / sizeof *messages && messages[type].stages & IN(c->stage) &&
	    messages[type].take(m, v))
		return;
	/* After a failure, messages that were already on their way may arrive; any other is an
	 * error. */
	if (c->stage != STAGE_JOIN && c->stage != STAGE_RUN)
		return;
	snprintf(e.text, sizeof e.text, "an unexpected control message of type %u", type);
	coord_fail(c, &e, PHASE_RUN);
}

static void on_message(void *ctx, uint8_t type, struct view body)
{
	receive(ctx, type, body);
}

/* The coordinator's own rank fails before it has a number. */
static void leave_unseated(struct coord *c, struct view v)
{
	struct err e = {0}, why = ERR_INIT;
	char self[COORD_SELF_TEXT];
	enum phase phase;
	if (err_decode(&e, &phase, &v) < 0)
		return;
	err_set(&why, code_of(e.code), "%s: %.500s", coord_self_text(c, self), e.text);
	coord_fail(c, &why, PHASE_JOIN);
}

void coord_receive(struct coord *c, uint8_t type, struct view body)
{
	if (c->self >= 0)
		receive(&c->members[c->self], type, body);
	else if (type == MSG_ABORT)
		leave_unseated(c, body);
}

/* ---- timers ---- */

/* What each timer does, and the stages in which it may run. */
static const struct {
	void (*due)(void *coord);
	unsigned stages;
} timers[COORD_TIMERS] = {
        [TIMER_JOIN] = {join_over, IN(STAGE_JOIN) | IN(STAGE_FAILED)},
        [TIMER_SEATS] = {coord_look_at_seats, IN(STAGE_JOIN)},
        [TIMER_JOINED] = {coord_tell_joined, IN(STAGE_JOIN)},
        [TIMER_DOUBT] = {coord_expect_fewest, IN(STAGE_JOIN) | IN(STAGE_FAILED)},
        [TIMER_BEAT] = {watch_beats, IN(STAGE_RUN) | IN(STAGE_COMMIT)},
        [TIMER_EVIDENCE] = {evidence_over, IN(STAGE_RUN)},
        [TIMER_COMPARE] = {coord_compare_over, IN(STAGE_JOIN) | IN(STAGE_RUN)},
        [TIMER_DRAIN] = {drain_over, ANY_STAGE},
};

void coord_set_timer(struct coord *c, enum coord_timer t, int64_t at)
{
	if (at == COORD_NEVER)
		loop_timer_stop(&c->timers[t]);
	else
		loop_timer_set(c->conf.loop, &c->timers[t], at);
}

void coord_enter(struct coord *c, enum stage stage)
{
	c->stage = stage;
	for (int t = 0; t < COORD_TIMERS; t++)
		if (!(timers[t].stages & IN(stage)))
			coord_set_timer(c, (enum coord_timer)t, COORD_NEVER);
}

/* ---- life ---- */

static int find_key(void *ctx, const uint8_t *identity, size_t len, uint8_t key[TLS_KEY_BYTES])
{
	struct coord *c = ctx;
	return c->conf.find(c->conf.find_ctx, identity, len, key);
}

static void gate_lacking(void *ctx, const struct err *err)
{
	struct coord *c = ctx;
	struct err e = *err;
	e.rank = c->self;
	coord_fail(c, &e, PHASE_JOIN);
}

static void coord_free(struct coord *c)
{
	if (!c)
		return;
	free(c->members);
	free(c->intents);
	free(c->votes);
	free(c->host);
	free(c);
}

struct coord *coord_open(const struct coord_conf *conf, int listen_fd, struct err *err)
{
	struct coord *c = err_calloc(1, sizeof *c, "the ranks of the job", err);
	struct gate_conf gate = {
	        .loop = conf->loop,
	        .fd = listen_fd,
	        .tls = conf->tls,
	        .find = find_key,
	        .slots = COORD_PLACES(conf->size),
	        .per_source = conf->size + 32,
	        .admit = coord_admit,
	        .lacking = gate_lacking,
	        .spare = coord_spare_guest,
	        .ctx = c,
	};
	size_t n = (size_t)conf->size;
	if (c) {
		c->conf = *conf;
		c->members = err_calloc(n, sizeof *c->members, "the ranks of the job", err);
		c->intents = err_calloc(n, sizeof *c->intents, "the ranks of the job", err);
		c->votes = err_calloc(n, sizeof *c->votes, "the ranks of the job", err);
	}
	if (!c || !c->members || !c->intents || !c->votes) {
		close(listen_fd);
		coord_free(c);
		return NULL;
	}
	for (int r = 0; r < conf->size; r++) {
		struct member *m = &c->members[r];
		c->intents[r] = &m->intent;
		m->coord = c;
		m->rank = r;
		m->ctl.on_message = on_message;
		m->ctl.on_lost = on_lost;
		m->ctl.on_lacking = coord_lacking;
		m->ctl.ctx = m;
	}
	for (int t = 0; t < COORD_TIMERS; t++)
		c->timers[t] = (struct loop_timer){.fn = timers[t].due, .ctx = c};
	coord_set_timer(c, TIMER_JOIN, conf->join_deadline);
	c->gate = gate_open(&gate, err);
	if (c->gate && coord_init_seats(c) == 0)
		return c;
	err_nomem(err, "the ranks of the job", sizeof(struct guest));
	coord_close(c);
	return NULL;
}

void coord_drain(struct coord *c)
{
	if (c->drain)
		return;
	c->drain = DRAINING;
	for (int r = 0; r < c->conf.size; r++)
		ctl_end(&c->members[r].ctl);
	coord_end_guests(c);
	coord_maybe_drained(c);
}

int64_t coord_allowance(const struct coord *c)
{
	int64_t most = 0;
	for (int r = 0; r < c->conf.size; r++)
		if (allowance(&c->members[r]) > most)
			most = allowance(&c->members[r]);
	return most;
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

int coord_local_addr(const struct coord *c, struct addr *out, struct err *err)
{
	return gate_local_addr(c->gate, out, err);
}

void coord_close(struct coord *c)
{
	if (!c)
		return;
	for (int t = 0; t < COORD_TIMERS; t++)
		coord_set_timer(c, (enum coord_timer)t, COORD_NEVER);
	gate_close(c->gate);
	for (int r = 0; r < c->conf.size; r++) {
		ctl_release(&c->members[r].ctl);
		free(c->members[r].details);
	}
	coord_free_guests(c);
	tables_release(&c->comparison.tables);
	links_release(&c->links);
	coord_forget_keys(c);
	coord_free(c);
}
