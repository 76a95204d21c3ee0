#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/offload.h"
#include "lib/base/private.h"
#include "lib/crypto/crypto.h"
#include "lib/job/dial.h"
#include "lib/job/job_internal.h"

#define OUTCOME_WAIT \
	(2 * NS_PER_SEC) /* for the coordinator's answer to a failure, and to send it */

void job_log(const struct job *j, int level, const char *fmt, ...)
{
	char text[512];
	va_list ap;
	if (!j->conf.note)
		return;
	va_start(ap, fmt);
	vsnprintf(text, sizeof text, fmt, ap);
	va_end(ap);
	j->conf.note(j->conf.note_ctx, level, j->rank, text);
}
/* ---- sending ---- */

void job_fail_later(struct job *j, const struct err *e)
{
	if (!j->own.code)
		j->own = *e;
	j->own.rank = ERR_RANK_SELF;
}

void job_send(struct job *j, uint8_t type, const struct buf *b)
{
	struct err e = {0};
	if (b && b->nomem) {
		err_nomem(&e, "a control message", b->len);
		job_fail_later(j, &e);
		return;
	}
	if (j->coord)
		coord_receive(j->coord, type, b ? view_of(b->data, b->len) : view_of("", 0));
	else
		ctl_send(&j->ctl, type, b);
}

void job_send_abort(struct job *j, const struct err *e)
{
	struct buf b;
	uint8_t memory[1024];
	buf_init_fixed(&b, memory, sizeof memory);
	err_encode(e, j->beats.phase, &b);
	job_send(j, MSG_ABORT, &b);
	buf_release(&b);
}

/* ---- signals, turns of the loop ---- */

static void on_signal(void *ctx, uint32_t events)
{
	struct job *j = ctx;
	struct signalfd_siginfo info;
	(void)events;
	if (io_retry(read(j->signal_watch.fd, &info, sizeof info)) == sizeof info && !j->signal)
		j->signal = (int)info.ssi_signo;
}

static void on_cancel(void *ctx, uint32_t events)
{
	struct job *j = ctx;
	uint64_t times;
	(void)events;
	if (io_retry(read(j->signal_watch.fd, &times, sizeof times)) == sizeof times)
		j->signal = SIGINT;
}

/* In place of a signal, the program ends the job by an eventfd. */
static int watch_cancel(struct job *j, struct err *err)
{
	if (j->conf.settings->cancel_fd < 0)
		return 0;
	j->signal_watch =
	        (struct loop_watch){.fd = fcntl(j->conf.settings->cancel_fd, F_DUPFD_CLOEXEC, 3),
	                            .fn = on_cancel,
	                            .ctx = j};
	if (j->signal_watch.fd < 0)
		return err_errno(err, ERR_RESOURCE, "the eventfd for cancelling");
	return loop_add(&j->loop, &j->signal_watch, EPOLLIN, err);
}

int job_take_signals(struct job *j, struct err *err)
{
	sigset_t set;
	if (j->signal_watch.fd >= 0)
		return 0;
	if (j->conf.settings->embedded)
		return watch_cancel(j, err);
	sigemptyset(&set);
	sigaddset(&set, SIGINT);
	sigaddset(&set, SIGTERM);
	sigaddset(&set, SIGHUP);
	sigprocmask(SIG_BLOCK, &set, NULL);
	j->signal_watch = (struct loop_watch){
	        .fd = signalfd(-1, &set, SFD_CLOEXEC | SFD_NONBLOCK), .fn = on_signal, .ctx = j};
	if (j->signal_watch.fd < 0)
		return err_errno(err, ERR_RESOURCE, "signalfd");
	return loop_add(&j->loop, &j->signal_watch, EPOLLIN, err);
}

int job_check_signal(struct job *j, struct err *err)
{
	if (!j->signal)
		return 0;
	if (j->conf.settings->embedded)
		return err_set(err, 128 + j->signal, "cancelled");
	/* sigabbrev_np came with glibc 2.32. */
	return err_set(err, 128 + j->signal, "ended by SIG%s",
	               j->signal == SIGINT    ? "INT"
	               : j->signal == SIGTERM ? "TERM"
	                                      : "HUP");
}

/* For calls that block: has a signal arrived? During the search for the coordinator timers run, so
 * that the progress display is updated. */
bool job_interrupted(void *ctx)
{
	struct job *j = ctx;
	struct err ignored = {0};
	if (!j->coord && !j->ctl.conn)
		(void)loop_turn(&j->loop, 0, &ignored);
	if (j->signal_watch.fd >= 0)
		j->signal_watch.fn(j, 0);
	return j->signal != 0;
}

/* Said at once, not only when the time is up: it may be a wrong URL or secret. */
static void say_what_delays(void *ctx, const char *why)
{
	const struct job *j = ctx;
	const bool unserved = j->conf.served_by && strstr(why, "cannot connect");
	job_log(j, 0, "%s%s%s%s trying for %.3g s (--join-timeout)", why,
	        unserved ? ": does " : ";", unserved ? j->conf.served_by : "",
	        unserved ? " run there?" : "", (double)j->conf.settings->join_timeout / NS_PER_SEC);
}

int job_check(struct job *j, struct err *err)
{
	if (job_rules_of(j)->failed) {
		*err = j->end.failure;
		return -1;
	}
	if (j->own.code) {
		*err = j->own;
		return -1;
	}
	if (job_check_signal(j, err) < 0)
		return -1;
	if (j->anew.asked)
		*err = j->anew.why;
	return j->anew.asked ? -1 : 0;
}

int job_turn_before(struct job *j, int64_t until, struct err *err)
{
	if (job_check(j, err) < 0 || job_watch_stall(j, &until, err) < 0)
		return -1;
	if (loop_turn(&j->loop, until, err) < 0)
		return -1;
	return job_check(j, err);
}

int job_turn(struct job *j, struct err *err)
{
	return job_turn_before(j, INT64_MAX, err);
}

int job_turn_until(struct job *j, int64_t until, struct err *err)
{
	return job_turn_before(j, until, err);
}

int job_poll(struct job *j, struct err *err)
{
	return job_turn_before(j, 0, err);
}

static void set_flag(void *ctx, uint32_t events)
{
	(void)events;
	*(bool *)ctx = true;
}

int job_await(struct job *j, int fd, struct err *err)
{
	bool readable = false;
	struct loop_watch w = {.fd = fd, .fn = set_flag, .ctx = &readable};
	int ret = 0;
	if (loop_add(&j->loop, &w, EPOLLIN, NULL) < 0)
		return 0;
	while (ret == 0 && !readable)
		ret = job_turn(j, err);
	loop_del(&j->loop, &w);
	return ret;
}

/* Wait until @o has ended, whatever becomes of the job. Heartbeats continue meanwhile. */
static void await_end(struct job *j, const struct offload *o)
{
	struct err ignored = ERR_INIT;
	bool over = false;
	struct loop_watch w = {.fd = o->eventfd, .fn = set_flag, .ctx = &over};
	if (loop_add(&j->loop, &w, EPOLLIN, &ignored) < 0)
		return;
	while (!over && loop_turn(&j->loop, INT64_MAX, &ignored) == 0)
		continue;
	loop_del(&j->loop, &w);
}

int job_run_in_thread(struct job *j, int (*fn)(void *ctx, struct err *err), void *ctx,
                      struct err *err)
{
	struct offload o;
	struct err ended = ERR_INIT;
	if (offload_start(&o, fn, ctx, err) < 0)
		return -1;
	if (job_await(j, o.eventfd, &ended) == 0)
		return offload_finish(&o, err);
	offload_stop(&o);
	await_end(j, &o); /* the job may go on (job_forms_anew) */
	offload_finish(&o, NULL);
	*err = ended;
	return -1;
}

/* Wait until @o has ended. -1: the job, or --timeout, has ended first. */
static int await_answer(struct job *j, const char *who, const struct offload *o, struct err *err)
{
	const int64_t until = clock_ns() + j->conf.settings->timeout;
	bool over = false;
	struct loop_watch w = {.fd = o->eventfd, .fn = set_flag, .ctx = &over};
	int ret = loop_add(&j->loop, &w, EPOLLIN, err);
	while (ret == 0 && !over) {
		ret = job_turn_before(j, until, err);
		if (ret == 0 && !over && clock_ns() >= until)
			ret = err_set(err, ERR_RESOURCE, "%s has not answered for %g s (--timeout)",
			              who, (double)j->conf.settings->timeout / 1e9);
	}
	loop_del(&j->loop, &w);
	return ret;
}

int job_ask_in_thread(struct job *j, const char *who, int (*fn)(void *ctx, struct err *err),
                      void (*drop)(void *ctx), void *ctx, struct err *err)
{
	struct offload *o = err_malloc(sizeof *o, "a thread", err);
	int ret = o ? offload_start(o, fn, ctx, err) : -1;
	if (ret == 0 && await_answer(j, who, o, err) < 0) {
		offload_leave(o, drop);
		return -1;
	}
	if (ret == 0)
		ret = offload_finish(o, err);
	if (ret < 0)
		drop(ctx);
	free(o);
	return ret;
}
/* ---- opening ---- */

struct job *job_open(const struct job_conf *conf, struct err *err)
{
	struct job *j = err_calloc(1, sizeof *j, "the job", err);
	uint8_t sum[32];
	if (!j)
		return NULL;
	j->conf = *conf;
	j->rank = conf->rank >= 0 ? conf->rank : -1;
	j->size = conf->size;
	j->links.data_fd = j->links.lanes_fd = j->signal_watch.fd = j->loop.epfd = -1;
	j->beats.slowest.rank = j->root = j->work.rank = j->said.busiest.rank = -1;
	j->coordinator = conf->rank == JOB_RANK_AUTO ? -1 : 0;
	j->ctl.on_lost = job_coordinator_lost;
	j->ctl.on_lacking = job_coordinator_lacking;
	j->ctl.on_message = job_handle_message;
	j->ctl.ctx = j;
	j->join.deadline = clock_ns() + conf->settings->join_timeout;
	/* A program that uses the library may be much older than its jobs. */
	j->conf.present.started = conf->settings->embedded || !conf->settings->started
	                                  ? clock_ns()
	                                  : conf->settings->started;
	j->beats.timer = (struct loop_timer){.fn = job_beat, .ctx = j};
	buf_init(&j->links.failed, CTL_BODY_MAX);
	buf_init(&j->said.answer, CTL_BODY_MAX);
	buf_init(&j->places.asked, CTL_BODY_MAX);
	if (crypto_begin(err) < 0 || crypto_sha256(conf->name, strlen(conf->name), sum, err) < 0)
		goto fail;
	memcpy(j->jobtag, sum, sizeof j->jobtag);
	/* Descriptors of a control link; curl needs a socket and a wake-up pipe. */
	if (loop_init(&j->loop, err) < 0 ||
	    (conf->rendezvous && need_descriptors(6, "the store", err) < 0))
		goto fail;
	if (conf->secret || conf->credentials) {
		j->tls = tls_new(err);
		/* With min_ranks control links may still come when others carry data. */
		j->control = !j->tls             ? NULL
		             : conf->credentials ? tls_new_mutual(conf->credentials, err)
		             : conf->settings->min_ranks > 0 ? tls_new(err)
		                                             : j->tls;
		if (!j->control)
			goto fail;
	}
	struct rendezvous_conf r = {
	        .job = conf->name,
	        .secret = conf->secret,
	        .store = {.url = conf->rendezvous,
	                  .token = conf->store_token,
	                  .ca_file = conf->settings->store_ca,
	                  .cert_file = conf->settings->store_cert,
	                  .key_file = conf->settings->store_key},
	        .hosts = conf->hosts,
	        .coordinator = conf->coordinator,
	        .listen_fd = conf->listen_fd,
	        .addresses = &conf->settings->addresses,
	        .interrupted = job_interrupted,
	        .tell = say_what_delays,
	        .ctx = j,
	};
	j->rendezvous = rendezvous_new(&r, err);
	wipe_text(j->conf.store_token);
	j->conf.store_token = NULL;
	if (j->rendezvous)
		return j;
fail:
	job_close(j);
	return NULL;
}

int job_rank(const struct job *j)
{
	return j->rank;
}

int job_coordinator(const struct job *j)
{
	return j->coordinator;
}

int job_root(const struct job *j)
{
	return j->root;
}

struct loop *job_loop(struct job *j)
{
	return &j->loop;
}
/* ---- the commit ---- */

void job_worked(struct job *j, const struct workload *w)
{
	j->work = *w;
	j->work.rank = j->rank;
}

const struct workload *job_busiest(const struct job *j)
{
	return &j->said.busiest;
}

int job_vote(struct job *j, const uint8_t digest[VOTE_DIGEST], struct err *err)
{
	struct vote vote = {
	        .has_digest = digest, .has_table = digest && j->callbacks.table, .work = j->work};
	struct buf b;
	uint8_t memory[64];
	if (digest)
		memcpy(vote.digest, digest, sizeof vote.digest);
	buf_init_fixed(&b, memory, sizeof memory);
	vote_encode(&vote, &b);
	if (j->links.failed.len)
		job_send(j, MSG_LINKS, &j->links.failed);
	job_phase(j, PHASE_COMMIT);
	job_move(j, JOB_VOTED);
	job_send(j, MSG_VOTE, &b);
	buf_release(&b);
	/* A rank that has voted can no longer decide alone: a signal requests an abort, but a
	 * verdict that was already on its way is final. */
	struct err own = {.rank = j->rank};
	while (j->state == JOB_VOTED) {
		if (j->inquiry.asking && (j->signal || j->own.code)) {
			job_stop_inquiry(j);
		} else if (j->signal && !own.code) {
			job_check_signal(j, &own);
			job_send_abort(j, &own);
		} else if (j->own.code && !own.code) {
			own = j->own;
			own.rank = j->rank;
			job_send_abort(j, &own);
		} else if (loop_turn(&j->loop, INT64_MAX, err) < 0) {
			return -1;
		}
	}
	if (job_rules_of(j)->verdict)
		return 0;
	*err = own.code ? own : j->own.code ? j->own : j->anew.asked ? j->anew.why : j->end.failure;
	return -1;
}

bool job_decided(const struct job *j)
{
	return job_rules_of(j)->decided;
}

int job_commit_in_thread(struct job *j, int (*fn)(void *ctx, struct err *err), void *ctx,
                         struct err *err)
{
	struct offload o;
	if (offload_start(&o, fn, ctx, NULL) < 0)
		return fn(ctx, err); /* the verdict is final, even if no thread can be created */
	await_end(j, &o);
	return offload_finish(&o, err);
}

/* @e, which came after the verdict, with the state in which this rank's outputs are. */
static struct err with_fate(const struct err *e, enum fate fate)
{
	static const char *const words[FATES] = {
	        [FATE_NOTHING] = "",
	        [FATE_NEW] = ": its output is the new one",
	        [FATE_OLD] = ": its output is the old one",
	        [FATE_MIXED] = ": some of its outputs are old, some new",
	};
	struct err told = ERR_INIT;
	err_set(&told, e->code, "%.*s, after the verdict%s", (int)sizeof e->text, e->text,
	        words[fate]);
	told.subject = e->subject;
	told.system = e->system;
	return told;
}

void job_send_done(struct job *j)
{
	struct buf b;
	uint8_t memory[1024];
	buf_init_fixed(&b, memory, sizeof memory);
	err_encode(&j->end.commit, PHASE_COMMIT, &b);
	buf_put_u8(&b, (uint8_t)j->end.fate);
	job_send(j, MSG_DONE, &b);
	buf_release(&b);
}

int job_finish(struct job *j, const struct err *why, enum fate fate, struct err *err)
{
	struct err mine = ERR_INIT;
	if (why && why->code)
		mine = with_fate(why, fate);
	job_move(j, JOB_DONE);
	j->end.commit = mine;
	j->end.fate = fate;
	job_send_done(j);
	/* From the verdict on nothing stops the commit: a signal ends only waits for lost links. */
	while (!job_rules_of(j)->ended) {
		if (j->signal && j->inquiry.asking)
			job_stop_inquiry(j);
		else if (j->signal && j->coord)
			coord_await_nobody(j->coord);
		if (!job_rules_of(j)->ended && loop_turn(&j->loop, INT64_MAX, err) < 0)
			return -1;
	}
	/* All ranks say the same; only a rank that does not hear of it has its own words alone. */
	const struct err *outcome = j->state == JOB_FINAL && (j->end.outcome.code || !mine.code)
	                                    ? &j->end.outcome
	                            : mine.code ? &mine
	                                        : &j->end.failure;
	if (!outcome->code)
		return 0;
	*err = *outcome;
	return -1;
}
/* ---- failing and closing ---- */

static bool linked(const struct job *j)
{
	return j->coord || ctl_open(&j->ctl);
}

void job_report(struct job *j, const struct err *e, enum report_then then)
{
	struct buf b;
	buf_init(&b, 4096);
	err_encode(e, j->beats.phase, &b);
	buf_put_u8(&b, j->beats.unanswered);
	buf_put_u64(&b, (uint64_t)((clock_ns() - j->beats.moved_at) / NS_PER_MS));
	buf_put_u8(&b, (uint8_t)then);
	job_send(j, MSG_REPORT, &b);
	buf_release(&b);
}

void job_fail(struct job *j, struct err *err)
{
	bool own = err->rank == ERR_RANK_SELF || err->rank == j->rank;
	int64_t until = clock_ns() + OUTCOME_WAIT;
	struct err ignored = {0};
	if (j->failing || j->state == JOB_FINAL)
		return;
	j->failing = true;
	if (!job_rules_of(j)->failed && linked(j)) {
		struct err e = *err;
		if (own)
			e.rank = j->rank;
		if (own)
			job_send_abort(j, &e);
		else
			job_report(j, &e, REPORT_ENDS);
		while (!job_rules_of(j)->failed && linked(j) && clock_ns() < until)
			if (loop_turn(&j->loop, until, &ignored) < 0)
				break;
		/* A live coordinator answers a report at once; while joining it sends nothing until
		 * the time to join is over, and what was missing by then is the cause. */
		if (!own && !job_rules_of(j)->failed && !j->coord && j->state >= JOB_RUNNING)
			*err = (struct err){
			        .code = ERR_STALLED,
			        .rank = j->coordinator,
			        .text = "no answer to a report: stopped or unreachable"};
	}
	const bool failed = job_rules_of(j)->failed;
	if (failed && !own)
		*err = j->end.failure;
	else if (failed && !err->host[0]) /* the others say the same, with the host's name */
		memcpy(err->host, j->end.failure.host, sizeof err->host);
	if (err->rank == ERR_RANK_SELF)
		err->rank = j->rank;
	if (!err->host[0])
		presence_set(err->host, sizeof err->host, job_host(j, err->rank));
}

/* Rank 0 stays until all ranks know the outcome, after a signal only until it has sent it; the
 * others end their links and leave. */
static void leave(struct job *j)
{
	struct err ignored = {0};
	loop_timer_stop(&j->beats.timer);
	if (j->coord) {
		coord_drain(j->coord);
		int64_t until = INT64_MAX;
		while (!coord_drained(j->coord) && clock_ns() < until) {
			const bool hurry = j->signal && j->state != JOB_FINAL;
			if (j->signal)
				coord_await_nobody(j->coord);
			if (hurry && coord_has_sent(j->coord))
				break;
			if (hurry && until == INT64_MAX)
				until = clock_ns() + OUTCOME_WAIT;
			if (loop_turn(&j->loop, until, &ignored) < 0)
				break;
		}
		if (!j->conf.invited)
			job_withdraw(j);
	}
	ctl_end(&j->ctl);
	/* Read what rank 0 still sends, up to its end. A link that is closed with unread bytes is
	 * reset, this rank's end may be lost with it, and rank 0 would wait for an inquiry. */
	int64_t until = clock_ns() + OUTCOME_WAIT;
	while (j->state == JOB_FINAL && ctl_open(&j->ctl) && clock_ns() < until)
		if (loop_turn(&j->loop, until, &ignored) < 0)
			break;
}

void job_close(struct job *j)
{
	if (!j)
		return;
	mesh_close(j->links.mesh);
	if (j->loop.epfd >= 0)
		leave(j);
	coord_close(j->coord);
	ctl_release(&j->ctl);
	rendezvous_free(j->rendezvous);
	if (j->control != j->tls)
		tls_free(j->control);
	tls_free(j->tls);
	job_release_links(j);
	job_release_inquiry(j);
	if (j->signal_watch.fd >= 0)
		close(j->signal_watch.fd);
	loop_release(&j->loop);
	job_release_places(j);
	free(j->said.details);
	buf_release(&j->said.answer);
	free(j);
}
