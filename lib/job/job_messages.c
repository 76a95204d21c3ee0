/* The coordinator's messages, and the loss of the coordinator. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/private.h"
#include "lib/crypto/credentials.h"
#include "lib/job/job_internal.h"

/* The job ends in @state, because of @e, unless it has ended. */
static void fail_in(struct job *j, enum job_state state, const struct err *e)
{
	if (job_move(j, state))
		j->end.failure = *e;
}

/* The coordinator has sent what no coordinator sends, @what: this rank stops believing it, and
 * does not wait for its answer. */
static void distrust(struct job *j, const char *what)
{
	const enum job_state then = job_rules_of(j)->lost;
	struct err e = {.code = ERR_INTEGRITY, .rank = ERR_RANK_SELF};
	snprintf(e.text, sizeof e.text, "the coordinator sent %.400s%s", what,
	         then == JOB_IN_DOUBT
	                 ? " before it gave the verdict: nothing was changed here, but "
	                   "other ranks may have committed"
	         : then == JOB_ORPHANED ? " after the verdict"
	                                : "");
	job_send_abort(j, &e);
	fail_in(j, then, &e);
}

/* The plan outlives its message. */
static int keep_details(struct job *j, struct err *err)
{
	size_t len = view_left(&j->said.plan.details);
	free(j->said.details);
	j->said.details = NULL;
	if (!len)
		return 0;
	j->said.details = err_malloc(len, "the plan from rank 0", err);
	if (!j->said.details)
		return -1;
	memcpy(j->said.details, j->said.plan.details.p, len);
	j->said.plan.details = view_of(j->said.details, len);
	return 0;
}

/* Send a page of this rank's table. The coordinator asks for the pages in order, while this rank
 * waits for ROSTER or VERDICT. */
static int take_ask(struct job *j, struct view v, struct err *err)
{
	uint32_t number = view_u32(&v);
	struct buf page, b;
	if (v.failed || view_left(&v) || number != j->said.pages || !j->callbacks.table)
		return -1;
	j->said.pages++;
	buf_init(&page, TABLE_PAGE_MAX);
	buf_init(&b, CTL_BODY_MAX);
	j->callbacks.table(j->callbacks.ctx, number, &page);
	buf_put_u32(&b, number);
	buf_put(&b, page.data, page.len);
	int ret = page.failed || b.failed ? err_nomem(err, "a page of the table", TABLE_PAGE) : 0;
	if (ret == 0)
		job_send(j, MSG_PAGE, &b);
	buf_release(&page);
	buf_release(&b);
	return ret;
}

void job_settle(struct job *j)
{
	if (j->conf.secret)
		secret_wipe(j->conf.secret);
	if (j->conf.credentials)
		credentials_forget_key(j->conf.credentials);
	rendezvous_settle(j->rendezvous);
}

/* Is @now, from -1 on, never another number than @known once that is one, and a rank? */
static bool settles(const struct job *j, int known, int now)
{
	return (known < 0 || now == known) && (!j->size || now < j->size);
}

/* WELCOME comes again when more is known; what it has said it cannot change. */
static int take_welcome(struct job *j, struct view v, struct err *err)
{
	struct welcome w;
	const bool again = j->state >= JOB_JOINED;
	if (welcome_decode(&w, v, err) < 0) {
		err->rank = err->code == ERR_DISAGREE ? w.coordinator : err->rank;
		return -1;
	}
	if (!settles(j, j->rank, w.rank) ||
	    !settles(j, again ? j->coordinator : -1, w.coordinator) ||
	    !settles(j, j->root, w.root) || (w.root >= 0 && !j->conf.present.finds_root))
		return err_set(err, ERR_INTEGRITY,
		               "a WELCOME message with rank %d, coordinator %d and root %d", w.rank,
		               w.coordinator, w.root);
	j->rank = w.rank;
	j->coordinator = w.coordinator;
	j->root = w.root;
	if (strcmp(w.host, j->conf.present.host) != 0)
		memcpy(j->said.coordinator_host, w.host, sizeof j->said.coordinator_host);
	job_move(j, JOB_JOINED);
	if (j->join.intent)
		job_move(j, JOB_AGREEING);
	return 0;
}

/* ABORT follows. */
static int take_other_job(struct job *j, struct view v, struct err *err)
{
	(void)err;
	if (j->join.answer == ANSWER_OTHER_JOB || view_left(&v))
		return -1;
	job_join_answered(j, ANSWER_OTHER_JOB);
	return 0;
}

static int take_joined(struct job *j, struct view v, struct err *err)
{
	struct joined joined;
	if (joined_decode(&joined, v, err) < 0 || joined.here > joined.size ||
	    (j->size && joined.size != (uint32_t)j->size))
		return -1;
	j->said.joined = joined;
	return 0;
}

static int take_roster(struct job *j, struct view v, struct err *err)
{
	if (!j->coord || !coord_door_is_open(j->coord))
		job_settle(j);
	if (plan_decode(&j->said.plan, &v, err) < 0 || keep_details(j, err) < 0 ||
	    job_read_roster(j, v, err) < 0)
		return -1;
	j->said.plan.came = j->places.came;
	j->said.plan.ncame = j->places.ncame;
	j->said.plan.host = j->places.host;
	j->said.plan.hosts = j->places.hosts;
	memcpy(j->back.session, j->said.plan.session, sizeof j->back.session);
	j->join.intent = NULL;
	job_move(j, JOB_RUNNING);
	return 0;
}

static int take_places(struct job *j, struct view v, struct err *err)
{
	return j->places.awaited ? job_read_places(j, v, err) : -1;
}

static int take_abort(struct job *j, struct view v, struct err *err)
{
	struct err e;
	enum phase phase;
	(void)err;
	if (err_decode(&e, &phase, &v) < 0 || !e.code ||
	    (j->state >= JOB_RUNNING && e.rank >= j->size))
		return -1;
	fail_in(j, JOB_ABORTED, &e);
	return 0;
}

static int take_verdict(struct job *j, struct view v, struct err *err)
{
	struct workload busiest;
	if (workload_decode(&busiest, v, err) < 0 || busiest.rank >= j->size)
		return -1;
	j->said.busiest = busiest;
	job_move(j, JOB_COMMITTING);
	return 0;
}

/* The outcome may come before this rank's DONE only if nobody waits for that any more. */
static int take_final(struct job *j, struct view v, struct err *err)
{
	struct err outcome;
	enum phase phase;
	(void)err;
	if (err_decode(&outcome, &phase, &v) < 0 || outcome.rank >= j->size ||
	    (!outcome.code && j->state != JOB_DONE))
		return -1;
	j->end.outcome = outcome;
	job_move(j, JOB_FINAL);
	return 0;
}

int job_ask(struct job *j, enum job_question question, uint8_t type, const struct buf *b,
            struct err *err)
{
	j->said.question = question;
	job_send(j, type, b);
	while (j->said.question == question)
		if (job_turn(j, err) < 0)
			return -1;
	return 0;
}

static int take_answer(struct job *j, struct view v, struct err *err)
{
	if (j->said.question != ASKS_ROUND)
		return -1;
	j->said.question = ASKS_NOTHING;
	j->said.answer.len = 0;
	buf_put(&j->said.answer, v.p, view_left(&v));
	return j->said.answer.failed ? err_nomem(err, "the answer to a round", view_left(&v)) : 0;
}

#define CLOCK_MOST (INT64_MAX / 4) /* ns: 73 years after the host's start; sums do not overflow */

static int take_clock(struct job *j, struct view v, struct err *err)
{
	int64_t theirs = (int64_t)view_u64(&v);
	(void)err;
	if (j->said.question != ASKS_CLOCK || v.failed || view_left(&v) || theirs < 0 ||
	    theirs > CLOCK_MOST)
		return -1;
	j->said.question = ASKS_NOTHING;
	j->said.clock_theirs = theirs;
	j->said.clock_came = clock_ns();
	return 0;
}

/* ctl.heard has the time of the message. */
static int take_beat(struct job *j, struct view v, struct err *err)
{
	struct pace pace;
	if (pace_decode(&pace, v, err) < 0 || (j->size && pace.rank >= j->size))
		return -1;
	job_take_pace(j, &pace);
	return 0;
}

#define IN(state)   (1u << (state))
#define UPTO(state) (IN((state) + 1) - 1)

/* The messages of the coordinator, and the states in which they are valid. take: -1 if the message
 * is malformed or must not come now, or memory ran out; *err says so, unless it is empty. */
static const struct {
	unsigned states;
	int (*take)(struct job *j, struct view v, struct err *err);
} messages[] = {
        [MSG_OTHER_JOB] = {IN(JOB_SEEKING), take_other_job},
        [MSG_WELCOME] = {UPTO(JOB_AGREEING), take_welcome},
        [MSG_JOINED] = {UPTO(JOB_AGREEING), take_joined},
        [MSG_BEAT] = {UPTO(JOB_DONE), take_beat},
        [MSG_ABORT] = {UPTO(JOB_VOTED), take_abort},
        [MSG_ROSTER] = {IN(JOB_AGREEING), take_roster},
        [MSG_ASK] = {IN(JOB_AGREEING) | IN(JOB_VOTED), take_ask},
        [MSG_PLACES] = {IN(JOB_RUNNING), take_places},
        [MSG_ANSWER] = {IN(JOB_RUNNING), take_answer},
        [MSG_CLOCK] = {IN(JOB_RUNNING), take_clock},
        [MSG_MOVED] = {IN(JOB_RUNNING), job_take_moved},
        [MSG_BACK] = {IN(JOB_RUNNING), job_take_back},
        [MSG_AGAIN] = {IN(JOB_RUNNING), job_take_again},
        [MSG_ANEW] = {IN(JOB_RUNNING) | IN(JOB_VOTED), job_take_anew},
        [MSG_VERDICT] = {IN(JOB_VOTED), take_verdict},
        [MSG_FINAL] = {IN(JOB_COMMITTING) | IN(JOB_DONE), take_final},
};

/* This rank has failed, so it waits only for ABORT. Once it has voted it cannot decide alone. */
static bool has_failed(const struct job *j)
{
	return (j->own.code || j->failing) && j->state < JOB_VOTED;
}

void job_handle_message(void *ctx, uint8_t type, struct view v)
{
	struct job *j = ctx;
	struct err e = {0};
	char what[64];
	const bool known = type < sizeof messages / sizeof *messages && messages[type].take;
	if (type != MSG_OTHER_JOB)
		job_join_answered(j, ANSWER_SOME);
	job_inquiry_answered(j);
	if (job_rules_of(j)->ended || (has_failed(j) && type != MSG_ABORT))
		return;
	if (known && messages[type].states & IN(j->state) && messages[type].take(j, v, &e) == 0)
		return;
	snprintf(what, sizeof what, "an unexpected control message of type %u (%s)", type,
	         msg_name(type));
	if (e.code && e.code != ERR_INTEGRITY)
		job_fail_later(j, &e);
	else
		distrust(j, e.code ? e.text : what);
}

static enum phase phase_of(const struct job *j)
{
	return j->state >= JOB_RUNNING && j->beats.phase == PHASE_JOIN ? PHASE_CONNECT
	                                                               : j->beats.phase;
}

/* Is the end of the link an abort? If the coordinator had given a verdict, it would have arrived
 * before the alert that the coordinator received corrupt bytes. An alert on a link that has not
 * been answered yet says nothing: the coordinator may not know whose link it was. */
static bool is_told(const struct job *j)
{
	return j->state == JOB_VOTED && j->ctl.alerted && !j->inquiry.asking;
}

void job_lose_coordinator(struct job *j, int code, const char *how, const char *tail)
{
	struct err e = {.code = code, .rank = j->coordinator};
	enum job_state then = job_rules_of(j)->lost;
	if (job_rules_of(j)->ended)
		return;
	if (then == JOB_IN_DOUBT && is_told(j))
		then = JOB_ABORTED;
	if (then != JOB_ABORTED)
		e.code = ERR_PEER_LOST;
	if (then == JOB_ORPHANED)
		snprintf(e.text, sizeof e.text,
		         "%s after the verdict: its output, and that of any rank which did not "
		         "learn of the verdict, may be the old one",
		         how);
	else if (then == JOB_IN_DOUBT)
		snprintf(e.text, sizeof e.text,
		         "%s before it gave the verdict: nothing was changed here, but other "
		         "ranks may have committed",
		         how);
	else
		snprintf(e.text, sizeof e.text, "%s%s %s%s",
		         j->coordinator < 0 ? "the coordinator was " : "", how,
		         phase_words(phase_of(j)), tail);
	fail_in(j, then, &e);
}

void job_coordinator_lost(void *ctx, const struct err *err)
{
	struct job *j = ctx;
	char tail[256] = "";
	if (err->code == ERR_RESOURCE) /* this rank lacks memory, and the link is gone */
		job_fail_later(j, err);
	if (j->state == JOB_SEEKING) {
		job_join_lost(j, err);
		return;
	}
	if (!is_told(j) && job_inquire(j, "lost"))
		return;
	/* A dead peer's link may be reset or cut, which differs by rank; the cause is the same. */
	if (err->code && err->code != ERR_PEER_LOST)
		snprintf(tail, sizeof tail, ": %.200s", err->text);
	job_lose_coordinator(j, err->code ? err->code : ERR_PEER_LOST, "lost", tail);
}

void job_coordinator_lacking(void *ctx, const struct err *err)
{
	job_fail_later(ctx, err);
}
