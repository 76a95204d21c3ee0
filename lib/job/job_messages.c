/* The coordinator's messages, and the loss of the coordinator. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/private.h"
#include "lib/crypto/credentials.h"
#include "lib/job/job_internal.h"

static void abort_with(struct job *j, const struct err *e)
{
	if (j->aborted || j->final)
		return;
	j->aborted = true;
	j->failure = *e;
}

/* The coordinator has sent what no coordinator sends, @what: this rank believes it no longer, and
 * does not wait for its answer. */
static void distrust(struct job *j, const char *what)
{
	struct err e = {.code = ERR_INTEGRITY, .rank = ERR_RANK_SELF};
	snprintf(e.text, sizeof e.text, "the coordinator sent %.400s%s", what,
	         j->stage == JOB_VOTED
	                 ? " before it gave the verdict: nothing was changed here, but "
	                   "other ranks may have committed"
	         : j->stage > JOB_VOTED ? " after the verdict"
	                                : "");
	j->in_doubt |= j->stage == JOB_VOTED;
	job_send_err(j, MSG_ABORT, &e);
	abort_with(j, &e);
}

/* The address of a data listener; a port alone is on the coordinator's host. */
static int read_addr(struct addr *a, const char *text, const struct addr *coordinator,
                     struct err *err)
{
	char host[ADDR_TEXT];
	int port;
	if (addr_split(text, host, sizeof host, &port, err) < 0)
		return -1;
	if (host[0])
		return addr_resolve(a, host, port, false, err);
	*a = *coordinator;
	addr_set_port(a, port);
	return 0;
}

/* The rank whose place comes next: of those in PEERS or, in ROSTER, of all. */
static int next_place(const struct job *j)
{
	return j->asked.len ? (int)get_u32(j->asked.data + j->asked.len - 4 * (size_t)j->awaited)
	                    : j->size - j->awaited;
}

/* Places of ranks, to the end of @v. */
static int read_places(struct job *j, struct view v, struct err *err)
{
	struct addr coordinator = {.len = sizeof coordinator.sa};
	if (j->ctl.conn)
		getpeername(j->ctl.conn->fd, (struct sockaddr *)&coordinator.sa, &coordinator.len);
	while (view_left(&v)) {
		struct rank_place p;
		if (rank_place_decode(&p, &v, err) < 0) {
			err->rank = err->code == ERR_DISAGREE ? j->coordinator : err->rank;
			return -1;
		}
		if (!j->awaited || p.rank != next_place(j)) {
			wipe(p.key, sizeof p.key);
			return err_set(err, ERR_INTEGRITY,
			               "a place that this rank did not ask for");
		}
		memcpy(j->hosts[p.rank], p.host, sizeof p.host);
		memcpy(j->keys[p.rank], p.key, sizeof p.key);
		wipe(p.key, sizeof p.key);
		if (p.addr[0] && read_addr(&j->addrs[p.rank], p.addr, &coordinator, err) < 0)
			return -1;
		j->awaited--;
	}
	return 0;
}

static int read_roster(struct job *j, struct view v, struct err *err)
{
	struct roster r;
	if (roster_decode(&r, &v, err) < 0)
		return -1;
	j->plan.host = j->host = r.host;
	j->plan.hosts = r.hosts;
	if ((j->size && r.size != (uint32_t)j->size) || j->rank >= (int)r.size ||
	    j->root >= (int)r.size || j->coordinator >= (int)r.size ||
	    j->slowest.rank >= (int)r.size)
		return err_set(err, ERR_INTEGRITY, "a roster of %u ranks", r.size);
	j->size = (int)r.size;
	j->addrs = err_calloc(r.size, sizeof *j->addrs, "the addresses", err);
	j->hosts = err_calloc(r.size, sizeof *j->hosts, "the addresses", err);
	j->keys = err_calloc(r.size, sizeof *j->keys, "the keys of the lanes", err);
	if (!j->addrs || !j->hosts || !j->keys)
		return -1;
	j->awaited = r.size <= PROTO_PLACES ? (int)r.size : 0;
	if (read_places(j, v, err) < 0)
		return -1;
	return j->awaited ? err_set(err, ERR_INTEGRITY, "a roster without all places") : 0;
}

const char *job_host(const struct job *j, int rank)
{
	if (rank >= 0 && rank == j->coordinator && j->coordinator_host[0])
		return j->coordinator_host;
	if (j->coord && rank >= 0 && rank < j->size)
		return coord_host(j->coord, rank);
	if (rank >= 0 && rank == j->rank && j->coordinator_host[0])
		return j->conf.present.host;
	return j->hosts && rank >= 0 && rank < j->size ? j->hosts[rank] : "";
}

bool job_shares_host(const struct job *j, int rank)
{
	if (rank == j->rank)
		return true;
	return j->host && rank >= 0 && rank < j->size && j->host[rank] == j->host[j->rank];
}

/* The plan outlives its message. */
static int keep_details(struct job *j, struct err *err)
{
	size_t len = view_left(&j->plan.details);
	if (!len)
		return 0;
	if (!(j->details = err_malloc(len, "the plan from rank 0", err)))
		return -1;
	memcpy(j->details, j->plan.details.p, len);
	j->plan.details = view_of(j->details, len);
	return 0;
}

/* Send a page of this rank's table. The coordinator asks for the pages in order, while this rank
 * waits for ROSTER or VERDICT. */
static int take_ask(struct job *j, struct view v, struct err *err)
{
	uint32_t number = view_u32(&v);
	struct buf page, b;
	if (v.failed || view_left(&v) || number != j->pages || !j->callbacks.table)
		return -1;
	j->pages++;
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

/* All have joined: the secret and the rendezvous are no longer needed. */
static void settle(struct job *j)
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
	const bool again = j->welcomed;
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
		memcpy(j->coordinator_host, w.host, sizeof j->coordinator_host);
	j->welcomed = true;
	return 0;
}

/* ABORT follows. */
static int take_other_job(struct job *j, struct view v, struct err *err)
{
	(void)err;
	if (j->welcomed || j->other_job || view_left(&v))
		return -1;
	j->other_job = true;
	return 0;
}

static int take_joined(struct job *j, struct view v, struct err *err)
{
	struct joined joined;
	if (joined_decode(&joined, v, err) < 0 || joined.here > joined.size ||
	    (j->size && joined.size != (uint32_t)j->size))
		return -1;
	j->joined = joined;
	return 0;
}

static int take_roster(struct job *j, struct view v, struct err *err)
{
	settle(j);
	if (plan_decode(&j->plan, &v, err) < 0 || keep_details(j, err) < 0 ||
	    read_roster(j, v, err) < 0)
		return -1;
	j->stage = JOB_RUNNING;
	return 0;
}

static int take_places(struct job *j, struct view v, struct err *err)
{
	return j->awaited ? read_places(j, v, err) : -1;
}

static int take_abort(struct job *j, struct view v, struct err *err)
{
	struct err e;
	enum phase phase;
	(void)err;
	if (err_decode(&e, &phase, &v) < 0 || !e.code ||
	    (j->stage >= JOB_RUNNING && e.rank >= j->size))
		return -1;
	abort_with(j, &e);
	return 0;
}

static int take_verdict(struct job *j, struct view v, struct err *err)
{
	struct workload busiest;
	if (workload_decode(&busiest, v, err) < 0 || busiest.rank >= j->size)
		return -1;
	j->busiest = busiest;
	j->stage = JOB_COMMITTING;
	return 0;
}

/* The outcome may come before this rank's DONE only if that is waited for no longer. */
static int take_final(struct job *j, struct view v, struct err *err)
{
	struct err outcome;
	enum phase phase;
	(void)err;
	if (err_decode(&outcome, &phase, &v) < 0 || outcome.rank >= j->size ||
	    (!outcome.code && j->stage < JOB_DONE))
		return -1;
	j->outcome = outcome;
	j->final = true;
	return 0;
}

static int take_answer(struct job *j, struct view v, struct err *err)
{
	if (!j->in_round)
		return -1;
	j->in_round = false;
	j->answer.len = 0;
	buf_put(&j->answer, v.p, view_left(&v));
	return j->answer.failed ? err_nomem(err, "the answer to a round", view_left(&v)) : 0;
}

#define CLOCK_MOST (INT64_MAX / 4) /* ns: 73 years after the host's start; sums do not overflow */

static int take_clock(struct job *j, struct view v, struct err *err)
{
	int64_t theirs = (int64_t)view_u64(&v);
	(void)err;
	if (!j->clock_asked || v.failed || view_left(&v) || theirs < 0 || theirs > CLOCK_MOST)
		return -1;
	j->clock_asked = false;
	j->clock_theirs = theirs;
	j->clock_came = clock_ns();
	return 0;
}

/* ctl.heard has the time of the message. */
static int take_beat(struct job *j, struct view v, struct err *err)
{
	struct pace pace;
	if (pace_decode(&pace, v, err) < 0 || (j->size && pace.rank >= j->size))
		return -1;
	if (pace.moved != j->slowest.moved)
		j->others_moved_at = clock_ns();
	j->slowest = pace;
	return 0;
}

#define IN(stage)   (1u << (stage))
#define UPTO(stage) (IN((stage) + 1) - 1)

/* The messages of the coordinator, and the stages in which they are valid. take: -1 if the message
 * is malformed or must not come now, or memory ran out; *err says so, unless it is empty. */
static const struct {
	unsigned stages;
	int (*take)(struct job *j, struct view v, struct err *err);
} messages[] = {
        [MSG_OTHER_JOB] = {IN(JOB_JOINING), take_other_job},
        [MSG_WELCOME] = {UPTO(JOB_AGREEING), take_welcome},
        [MSG_JOINED] = {UPTO(JOB_AGREEING), take_joined},
        [MSG_BEAT] = {UPTO(JOB_DONE), take_beat},
        [MSG_ABORT] = {UPTO(JOB_VOTED), take_abort},
        [MSG_ROSTER] = {IN(JOB_AGREEING), take_roster},
        [MSG_ASK] = {IN(JOB_AGREEING) | IN(JOB_VOTED), take_ask},
        [MSG_PLACES] = {IN(JOB_RUNNING), take_places},
        [MSG_ANSWER] = {IN(JOB_RUNNING), take_answer},
        [MSG_CLOCK] = {IN(JOB_RUNNING), take_clock},
        [MSG_VERDICT] = {IN(JOB_VOTED), take_verdict},
        [MSG_FINAL] = {IN(JOB_COMMITTING) | IN(JOB_DONE), take_final},
};

/* This rank has failed, so it waits only for ABORT. Once it has voted it cannot decide alone. */
static bool has_failed(const struct job *j)
{
	return (j->own.code || j->failing) && j->stage < JOB_VOTED;
}

void job_handle_message(void *ctx, uint8_t type, struct view v)
{
	struct job *j = ctx;
	struct err e = {0};
	char what[64];
	const bool known = type < sizeof messages / sizeof *messages && messages[type].take;
	j->answered |= type != MSG_OTHER_JOB;
	if (j->aborted || j->final || (has_failed(j) && type != MSG_ABORT))
		return;
	if (known && messages[type].stages & IN(j->stage) && messages[type].take(j, v, &e) == 0)
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
	return j->stage >= JOB_RUNNING && j->phase == PHASE_JOIN ? PHASE_CONNECT : j->phase;
}

void job_lose_coordinator(struct job *j, int code, const char *how, const char *tail)
{
	struct err e = {.code = code, .rank = j->coordinator};
	/* If the coordinator had given a verdict, it would have arrived before the alert that the
	 * coordinator received corrupt bytes. */
	const bool verdict = j->stage >= JOB_COMMITTING;
	bool in_doubt = j->stage >= JOB_VOTED && !j->ctl.alerted;
	j->in_doubt |= in_doubt;
	if (verdict || in_doubt)
		e.code = ERR_PEER_LOST;
	if (verdict)
		snprintf(e.text, sizeof e.text,
		         "%s after the verdict: its output, and that of any rank which did not "
		         "learn of the verdict, may be the old one",
		         how);
	else if (in_doubt)
		snprintf(e.text, sizeof e.text,
		         "%s before it gave the verdict: nothing was changed here, but other "
		         "ranks may have committed",
		         how);
	else
		snprintf(e.text, sizeof e.text, "%s%s %s%s",
		         j->coordinator < 0 ? "the coordinator was " : "", how,
		         phase_words(phase_of(j)), tail);
	abort_with(j, &e);
}

void job_coordinator_lost(void *ctx, const struct err *err)
{
	struct job *j = ctx;
	char tail[256] = "";
	if (err->code == ERR_RESOURCE) /* this rank lacks memory, and the link is gone */
		job_fail_later(j, err);
	if (!j->welcomed) { /* no coordinator has accepted this rank yet */
		j->closed = true;
		j->parting = *err;
		if (!j->aborted) /* the link ended without a reason */
			j->unwelcome_at = clock_ns();
		return;
	}
	/* A dead peer's link may be reset or cut, which differs by rank; the cause is the same. */
	if (err->code && err->code != ERR_PEER_LOST)
		snprintf(tail, sizeof tail, ": %.200s", err->text);
	job_lose_coordinator(j, err->code ? err->code : ERR_PEER_LOST, "lost", tail);
}

void job_coordinator_lacking(void *ctx, const struct err *err)
{
	job_fail_later(ctx, err);
}
