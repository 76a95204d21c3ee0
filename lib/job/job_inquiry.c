/* A rank whose link to the coordinator breaks after its vote asks for the verdict, over a new link
 * to the coordinator's data listener. The coordinator continues there as if it were the old one. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/private.h"
#include "lib/job/job_internal.h"

#define WAIT_LEAST   (5 * NS_PER_MS)
#define WAIT_MOST    (250 * NS_PER_MS)
#define TRY_PATIENCE (5 * NS_PER_SEC)
/* The coordinator listens to its end. What refuses for a shorter time may be something on the way
 * that starts again, such as a tunnel. */
#define REFUSED_LONG (1 * NS_PER_SEC)

static void dial(struct job *j);

void job_stop_inquiry(struct job *j)
{
	struct job_inquiry *q = &j->inquiry;
	loop_timer_stop(&q->timer);
	conn_free(q->conn);
	q->conn = NULL;
	ctl_release(&j->ctl);
	job_lose_coordinator(j, ERR_PEER_LOST, q->how, "");
	q->asking = false;
}

static void set_timer(struct job *j, int64_t at)
{
	struct job_inquiry *q = &j->inquiry;
	loop_timer_set(&j->loop, &q->timer, at < q->until ? at : q->until);
}

static void dial_later(struct job *j)
{
	struct job_inquiry *q = &j->inquiry;
	set_timer(j, clock_ns() + q->wait);
	q->wait = q->wait * 2 > WAIT_MOST ? WAIT_MOST : q->wait * 2;
}

/* The try has failed, as @why says; a later one may not. */
static void back_off(struct job *j, const struct err *why)
{
	struct job_inquiry *q = &j->inquiry;
	const int64_t now = clock_ns();
	conn_free(q->conn);
	q->conn = NULL;
	if (why->system != ECONNREFUSED)
		q->refused_at = 0;
	else if (!q->refused_at)
		q->refused_at = now;
	else if (now >= q->refused_at + REFUSED_LONG)
		q->until = now;
	dial_later(j);
}

static void on_timer(void *ctx)
{
	struct job *j = ctx;
	const struct err slow = ERR_INIT;
	if (clock_ns() >= j->inquiry.until)
		job_stop_inquiry(j);
	else if (j->inquiry.conn)
		back_off(j, &slow);
	else if (!ctl_open(&j->ctl))
		dial(j);
}

/* The new link. What was sent on the old one may be lost; the coordinator ignores a second DONE. */
static void resume(struct job *j)
{
	struct job_inquiry *q = &j->inquiry;
	struct conn *conn = q->conn;
	struct err why = ERR_INIT;
	q->conn = NULL;
	set_timer(j, q->until);
	if (ctl_start(&j->ctl, conn, &j->loop, &why) < 0) {
		ctl_release(&j->ctl);
		back_off(j, &why);
	} else if (j->state == JOB_DONE) {
		job_send_done(j);
	}
}

static void advance(void *ctx)
{
	struct job *j = ctx;
	struct err why = ERR_INIT;
	const int ret = greeting_advance(&j->inquiry.greeting, j->inquiry.conn, &why);
	if (ret > 0)
		resume(j);
	else if (ret < 0)
		back_off(j, &why);
}

static void dial(struct job *j)
{
	struct job_inquiry *q = &j->inquiry;
	char identity[TLS_IDENTITY_MAX + 1];
	struct err why = ERR_INIT;
	struct inquiry say = {.rank = (uint32_t)j->rank, .has_verdict = job_rules_of(j)->verdict};
	const struct transport_edge edge = {.tls = q->tls,
	                                    .to = &q->at,
	                                    .identity = identity,
	                                    .key = q->key,
	                                    .congestion = j->conf.settings->congestion};
	memcpy(say.session, j->said.plan.session, sizeof say.session);
	inquiry_identity(&say, identity, sizeof identity);
	memset(&q->greeting, 0, sizeof q->greeting);
	inquiry_encode(&say, q->greeting.opening);
	q->conn = transport_of(&edge)->dial(&edge, &why);
	if (!q->conn || conn_watch(q->conn, &j->loop, advance, j, &why) < 0)
		back_off(j, &why);
	else
		set_timer(j, clock_ns() + TRY_PATIENCE);
}

static bool may_ask(const struct job *j)
{
	const bool waits = j->state >= JOB_VOTED && j->state <= JOB_DONE;
	const bool ends = j->state != JOB_COMMITTING && (j->signal || j->own.code);
	return j->inquiry.possible && waits && !ends && !j->failing;
}

bool job_inquire(struct job *j, const char *how)
{
	struct job_inquiry *q = &j->inquiry;
	struct err ignored = ERR_INIT;
	if (!may_ask(j))
		return false;
	/* Not j->tls, whose connections carry data (tls_carry_data). */
	if (j->tls && !q->tls && !(q->tls = tls_new(&ignored)))
		return false;
	ctl_release(&j->ctl);
	if (!q->asking) {
		q->asking = true;
		snprintf(q->how, sizeof q->how, "%s", how);
		q->until = clock_ns() + j->conf.settings->timeout;
		q->refused_at = 0;
		q->wait = WAIT_LEAST;
		q->timer = (struct loop_timer){.fn = on_timer, .ctx = j};
		job_log(j, 1, "the link to %s broke after the vote: asking it for the verdict",
		        COORDINATOR(j));
	}
	dial_later(j);
	return true;
}

void job_inquiry_answered(struct job *j)
{
	if (!j->inquiry.asking)
		return;
	j->inquiry.asking = false;
	loop_timer_stop(&j->inquiry.timer);
	job_log(j, 1, "%s answers over a new link", COORDINATOR(j));
}

void job_release_inquiry(struct job *j)
{
	loop_timer_stop(&j->inquiry.timer);
	conn_free(j->inquiry.conn);
	tls_free(j->inquiry.tls);
	wipe(j->inquiry.key, sizeof j->inquiry.key);
}
