/* The coordinator's messages, and the loss of the coordinator. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/job/job_internal.h"
#include "lib/net/credentials.h"

static void abort_with(struct job *j, const struct err *e)
{
	if (j->aborted || j->final)
		return;
	j->aborted = true;
	j->failure = *e;
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

/* Places of ranks, to the end of @v. */
static int read_places(struct job *j, struct view v, struct err *err)
{
	struct addr coordinator = {.len = sizeof coordinator.sa};
	if (j->ctl.conn)
		getpeername(j->ctl.conn->fd, (struct sockaddr *)&coordinator.sa, &coordinator.len);
	while (view_left(&v)) {
		struct rank_place p;
		if (rank_place_get(&p, &v, (uint32_t)j->size, err) < 0) {
			err->rank = err->code == ERR_DISAGREE ? j->coordinator : err->rank;
			return -1;
		}
		memcpy(j->hosts[p.rank], p.host, sizeof p.host);
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
	if ((j->size && r.size != (uint32_t)j->size) || (uint32_t)j->rank >= r.size)
		return err_set(err, ERR_INTEGRITY, "a roster of %u ranks", r.size);
	j->size = (int)r.size;
	j->addrs = calloc(r.size, sizeof *j->addrs);
	j->hosts = calloc(r.size, sizeof *j->hosts);
	if (!j->addrs || !j->hosts)
		return err_nomem(err, "the addresses",
		                 r.size * (sizeof *j->addrs + sizeof *j->hosts));
	return read_places(j, v, err);
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
	j->details = malloc(len);
	if (!j->details)
		return err_nomem(err, "the plan from rank 0", len);
	memcpy(j->details, j->plan.details.p, len);
	j->plan.details = view_of(j->details, len);
	return 0;
}

/* Send a page of this rank's table. The coordinator asks for it while this rank waits in job_agree
 * or job_vote; a later question gets no answer. */
static void take_ask(struct job *j, struct view v)
{
	uint32_t number = view_u32(&v);
	struct buf page, b;
	if (v.failed || !j->callbacks.table || j->failing || j->verdict)
		return;
	buf_init(&page, TABLE_PAGE_MAX);
	buf_init(&b, CTL_BODY_MAX);
	j->callbacks.table(j->callbacks.ctx, number, &page);
	buf_put_u32(&b, number);
	buf_put(&b, page.data, page.len);
	if (page.failed || b.failed) {
		struct err e = {.rank = ERR_RANK_SELF};
		err_nomem(&e, "a page of the table", TABLE_PAGE);
		job_send_err(j, MSG_ABORT, &e);
	} else {
		job_send(j, MSG_PAGE, &b);
	}
	buf_release(&page);
	buf_release(&b);
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

/* WELCOME comes again when more is known. */
static void take_welcome(struct job *j, struct view v)
{
	struct welcome w;
	struct err e = {.rank = ERR_RANK_SELF};
	if (welcome_decode(&w, v, &e) < 0) {
		e.rank = e.code == ERR_DISAGREE ? w.coordinator : e.rank;
		abort_with(j, &e);
		return;
	}
	j->rank = w.rank;
	j->coordinator = w.coordinator;
	if (w.root >= 0)
		j->root = w.root;
	if (strcmp(w.host, j->conf.present.host) != 0)
		memcpy(j->coordinator_host, w.host, sizeof j->coordinator_host);
	j->welcomed = true;
}

/* ABORT follows. */
static void take_other_job(struct job *j, struct view v)
{
	(void)v;
	j->other_job = true;
}

static void take_joined(struct job *j, struct view v)
{
	struct err e = {.rank = ERR_RANK_SELF};
	struct joined joined;
	if (joined_decode(&joined, v, &e) == 0)
		j->joined = joined;
}

static void take_roster(struct job *j, struct view v)
{
	struct err e = {.rank = ERR_RANK_SELF};
	if (j->have_roster)
		return;
	if (plan_decode(&j->plan, &v, &e) < 0 || keep_details(j, &e) < 0 ||
	    read_roster(j, v, &e) < 0)
		job_fail_later(j, &e);
	else
		j->have_roster = true;
	settle(j);
}

static void take_places(struct job *j, struct view v)
{
	struct err e = {.rank = ERR_RANK_SELF};
	if (!j->have_roster || read_places(j, v, &e) < 0)
		job_fail_later(j, &e);
}

static void take_abort(struct job *j, struct view v)
{
	struct err e = {.rank = ERR_RANK_SELF};
	enum phase phase;
	if (err_decode(&e, &phase, &v) == 0 && e.code)
		abort_with(j, &e);
}

static void take_verdict(struct job *j, struct view v)
{
	struct err ignored = {0}; /* nothing stops the commit */
	j->verdict = true;
	if (workload_decode(&j->busiest, &v, j->size, &ignored) < 0)
		j->busiest.rank = -1;
}

static void take_final(struct job *j, struct view v)
{
	enum phase phase;
	if (err_decode(&j->outcome, &phase, &v) == 0)
		j->final = true;
}

static void take_answer(struct job *j, struct view v)
{
	j->answer.len = 0;
	buf_put(&j->answer, v.p, view_left(&v));
	j->have_answer = true;
	if (j->answer.failed) {
		struct err e = {.rank = ERR_RANK_SELF};
		err_nomem(&e, "the answer to a round", view_left(&v));
		job_fail_later(j, &e);
	}
}

#define CLOCK_MOST (INT64_MAX / 4) /* ns: 73 years after the host's start; sums do not overflow */

static void take_clock(struct job *j, struct view v)
{
	j->clock_theirs = (int64_t)view_u64(&v);
	j->clock_came = clock_ns();
	if (v.failed || view_left(&v) || j->clock_theirs < 0 || j->clock_theirs > CLOCK_MOST) {
		struct err e = {.rank = ERR_RANK_SELF};
		err_set(&e, ERR_INTEGRITY, "a malformed CLOCK message");
		job_fail_later(j, &e);
	}
}

/* ctl.heard has the time of the message. */
static void take_beat(struct job *j, struct view v)
{
	struct err e = {.rank = ERR_RANK_SELF};
	struct pace pace;
	if (pace_decode(&pace, v, &e) < 0)
		return;
	if (pace.moved != j->slowest.moved)
		j->others_moved_at = clock_ns();
	j->slowest = pace;
}

static void (*const takes[])(struct job *j, struct view v) = {
        [MSG_OTHER_JOB] = take_other_job, [MSG_WELCOME] = take_welcome,
        [MSG_JOINED] = take_joined,       [MSG_ROSTER] = take_roster,
        [MSG_PLACES] = take_places,       [MSG_ABORT] = take_abort,
        [MSG_VERDICT] = take_verdict,     [MSG_FINAL] = take_final,
        [MSG_BEAT] = take_beat,           [MSG_ASK] = take_ask,
        [MSG_ANSWER] = take_answer,       [MSG_CLOCK] = take_clock,
};

void job_handle_message(void *ctx, uint8_t type, struct view v)
{
	struct job *j = ctx;
	j->answered |= type != MSG_OTHER_JOB;
	if (type < sizeof takes / sizeof *takes && takes[type])
		takes[type](j, v);
}

static enum phase phase_of(const struct job *j)
{
	return j->have_roster && j->phase == PHASE_JOIN ? PHASE_CONNECT : j->phase;
}

void job_lose_coordinator(struct job *j, int code, const char *how, const char *tail)
{
	struct err e = {.code = code, .rank = j->coordinator};
	/* If the coordinator had given a verdict, it would have arrived before the alert that the
	 * coordinator received corrupt bytes. */
	bool in_doubt = j->voted && !j->ctl.alerted;
	j->in_doubt |= in_doubt;
	if (j->verdict || in_doubt)
		e.code = ERR_PEER_LOST;
	if (j->verdict)
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
