#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/private.h"
#include "lib/job/coordinator/coord_internal.h"
#include "lib/job/ranks.h"

#define LATE        (1 * NS_PER_SEC) /* even a busy machine delays a timer by less */
#define IN(stage)   (1u << (stage))
#define ANY_STAGE   (~0u)
#define CLOCKS_MOST 256 /* questions of a rank for the clock: far more than it has */

/* ---- sending ---- */

void coord_send(struct member *m, uint8_t type, const struct buf *body)
{
	if (m->missing)
		return;
	if (m->rank == m->coord->self)
		m->coord->conf.deliver(m->coord->conf.ctx, type,
		                       body ? view_of(body->data, body->len) : view_of("", 0));
	else if (ctl_open(&m->ctl))
		ctl_send(&m->ctl, type, body);
}

void coord_send_all(struct coord *c, uint8_t type, const struct buf *body)
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

bool coord_all_have(const struct coord *c, int *upto, size_t flag)
{
	while (*upto < c->conf.size) {
		const struct member *m = &c->members[*upto];
		if (!m->missing && !*(const bool *)((const char *)m + flag))
			return false;
		++*upto;
	}
	return true;
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
	if (j.here == 1 && coord_waits_to_the_end(c)) {
		snprintf(e->text, sizeof e->text,
		         "none of the other %u ranks joined within %g s (--join-timeout)%s",
		         j.size - 1, (double)c->conf.settings->join_timeout / 1e9, refused);
		e->rank = c->self;
		return true;
	}
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
	if (coord_begins_late(c) || coord_drops_silent(c))
		return;
	bool missing = describe_missing(c, &e);
	if (!describe_late(c, &e) && !missing) {
		for (e.rank = 0; e.rank < c->conf.size - 1 &&
		                 (c->members[e.rank].has_intent || c->members[e.rank].missing);)
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

void coord_maybe_complete(struct coord *c)
{
	if (c->stage != STAGE_JOIN || c->comparison.on)
		return;
	if (!coord_all_have(c, &c->upto.has_intent, offsetof(struct member, has_intent)))
		return;
	coord_settle_seats(c); /* a roster must not be the first to name the coordinator */
	if (c->stage != STAGE_JOIN)
		return;
	if (!c->anew)
		coord_look_at_ages(c);
	if (agree_on_facts(c->intents, c->conf.size, &c->comparison.disagreement))
		coord_send_rosters(c);
	else
		coord_disagree(c, PHASE_JOIN);
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
	coord_maybe_complete(m->coord);
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
		if (c->members[*r].beat.phase <= PHASE_CONNECT && !c->members[*r].missing)
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
	if (!coord_does_without(m, &e, phase))
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
	const bool missing = m->coord->members[e.rank].missing;
	if (missing && m->rank != m->coord->self)
		return false;
	e.code = code_of(e.code);
	if (missing) /* the coordinator's rank says so: there is no doubt */
		coord_fail(m->coord, &e, phase);
	else
		coord_suspect(m, &e, phase, &v);
	return true;
}

/* Answer every rank when the parts of all have come. */
static void end_round(struct coord *c)
{
	const struct job_callbacks *callbacks = c->conf.callbacks;
	struct buf b;
	if (!coord_all_have(c, &c->upto.in_round, offsetof(struct member, in_round)))
		return;
	c->upto.in_round = 0;
	for (int r = 0; r < c->conf.size; r++)
		c->members[r].in_round = false;
	for (int i = 1; i <= c->conf.size && c->stage == STAGE_RUN; i++) {
		struct err e = {.rank = c->self};
		int r = (c->self + i) % c->conf.size;
		if (c->members[r].missing)
			continue;
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
	struct err e = ERR_INIT;
	if (m->in_round || m->voted || !callbacks->collect)
		return false;
	if (callbacks->collect(callbacks->ctx, m->rank, v, &e) < 0) {
		if (e.rank == ERR_RANK_SELF) /* else it names another rank */
			fail_of(m, &e, PHASE_RUN);
		else
			coord_fail(m->coord, &e, PHASE_RUN);
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
	/* What goes back has no vote: the outputs are sealed once all have moved their data. */
	if (m->coord->conf.callbacks->goes_back && m->coord->upto.moved < m->coord->conf.size)
		return false;
	if (m->voted || vote_decode(&m->coord->votes[m->rank], v, &e) < 0)
		return false;
	m->voted = true;
	if (m->rank == m->coord->self)
		coord_open_inquiries(m->coord);
	coord_give_verdict(m->coord);
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
	coord_finish_commit(m->coord);
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
        [MSG_MOVED] = {IN(STAGE_RUN), coord_take_moved},
        [MSG_STOPPED] = {IN(STAGE_RUN), coord_take_stopped},
        [MSG_PAGE] = {ANY_STAGE, take_page},
        [MSG_DONE] = {IN(STAGE_COMMIT), take_done},
};

static void receive(struct member *m, uint8_t type, struct view v)
{
	struct coord *c = m->coord;
	struct err e = {.code = ERR_INTEGRITY, .rank = m->rank};
	coord_look_at_deadline(c);
	if (m->missing || !m->joined || coord_is_stale(m, type))
		return;
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
        [TIMER_GRACE] = {coord_grace_over, IN(STAGE_JOIN)},
        [TIMER_SEATS] = {coord_look_at_seats, IN(STAGE_JOIN)},
        [TIMER_JOINED] = {coord_tell_joined, IN(STAGE_JOIN)},
        [TIMER_DOUBT] = {coord_expect_fewest, IN(STAGE_JOIN) | IN(STAGE_FAILED)},
        [TIMER_BEAT] = {coord_watch_beats, IN(STAGE_JOIN) | IN(STAGE_RUN) | IN(STAGE_COMMIT)},
        [TIMER_EVIDENCE] = {coord_evidence_over, IN(STAGE_RUN)},
        [TIMER_COMPARE] = {coord_compare_over, IN(STAGE_JOIN) | IN(STAGE_RUN)},
        [TIMER_BACK] = {coord_back_over, IN(STAGE_RUN)},
        [TIMER_AWAY] = {coord_look_for_away, IN(STAGE_COMMIT)},
        [TIMER_DRAIN] = {coord_drain_over, ANY_STAGE},
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
	free(c->came);
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
	        .congestion = conf->settings->congestion,
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
		c->inquiries.fd = -1;
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
		m->ctl.on_lost = coord_on_lost;
		m->ctl.on_lacking = coord_lacking;
		m->ctl.ctx = m;
	}
	for (int t = 0; t < COORD_TIMERS; t++)
		c->timers[t] = (struct loop_timer){.fn = timers[t].due, .ctx = c};
	coord_set_timer(c, TIMER_JOIN, conf->join_deadline);
	if (coord_can_miss(c))
		coord_set_timer(c, TIMER_GRACE, clock_ns() + conf->settings->grace);
	c->gate = gate_open(&gate, err);
	if (c->gate && coord_init_seats(c) == 0)
		return c;
	err_nomem(err, "the ranks of the job", sizeof(struct guest));
	coord_close(c);
	return NULL;
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
	coord_close_inquiries(c);
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
