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

void job_send_err(struct job *j, uint8_t type, const struct err *e)
{
	struct buf b;
	uint8_t memory[1024];
	buf_init_fixed(&b, memory, sizeof memory);
	err_encode(e, j->phase, &b);
	job_send(j, type, &b);
	buf_release(&b);
}
/* ---- signals, heartbeats, stalls ---- */

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
	if (j->conf.cancel_fd < 0)
		return 0;
	j->signal_watch = (struct loop_watch){
	        .fd = fcntl(j->conf.cancel_fd, F_DUPFD_CLOEXEC, 3), .fn = on_cancel, .ctx = j};
	if (j->signal_watch.fd < 0)
		return err_errno(err, ERR_RESOURCE, "the eventfd for cancelling");
	return loop_add(&j->loop, &j->signal_watch, EPOLLIN, err);
}

int job_take_signals(struct job *j, struct err *err)
{
	sigset_t set;
	if (j->signal_watch.fd >= 0)
		return 0;
	if (j->conf.embedded)
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

/* Data count as moved again when the peer's machine acknowledges them. In a long queue that may be
 * long after the socket took them. */
static void look_at_acknowledged(struct job *j)
{
	uint64_t now = j->mesh ? mesh_acknowledged(j->mesh) : 0;
	if (now == j->acknowledged)
		return;
	j->acknowledged = now;
	j->moved_at = clock_ns();
}

/* How much longer than --timeout the messages of other ranks may take. */
static int64_t allowance(const struct job *j)
{
	return j->coord ? coord_allowance(j->coord) : conn_round_trip(j->ctl.conn);
}

static void send_beat(struct job *j)
{
	const struct beat beat = {.phase = j->phase,
	                          .moved = j->moved,
	                          .total = j->total,
	                          .acknowledged = j->acknowledged};
	struct buf b;
	uint8_t memory[64];
	buf_init_fixed(&b, memory, sizeof memory);
	beat_encode(&beat, &b);
	job_send(j, MSG_BEAT, &b);
	buf_release(&b);
}

void job_beat(void *ctx)
{
	struct job *j = ctx;
	int64_t now = clock_ns(), interval = j->conf.timeout / 4, silence = now - j->ctl.heard;
	char how[64];
	if (interval > NS_PER_SEC)
		interval = NS_PER_SEC;
	look_at_acknowledged(j);
	send_beat(j);
	loop_timer_set(&j->loop, &j->beat, now + interval);
	if (j->coord || j->stage < JOB_RUNNING || j->final || silence <= j->conf.timeout ||
	    !ctl_open(&j->ctl) || silence <= j->conf.timeout + allowance(j))
		return;
	/* Not the time that this rank has measured: all ranks say the same. */
	snprintf(how, sizeof how, "no message for more than %g s (--timeout)",
	         (double)j->conf.timeout / 1e9);
	job_lose_coordinator(j, j->stage >= JOB_VOTED ? ERR_PEER_LOST : ERR_STALLED, how,
	                     ": stopped or unreachable");
}

/* The coordinator learns of a new phase at once, because its messages name the phase in which a
 * rank is lost. */
void job_phase(struct job *j, enum phase phase)
{
	bool entered = phase != j->phase;
	j->phase = phase;
	j->moved_at = clock_ns();
	if (entered) {
		job_log(j, 1, "phase %s", phase_name(phase));
		send_beat(j);
	}
}

void job_moved(struct job *j, uint64_t moved, uint64_t total)
{
	if (moved != j->moved)
		j->moved_at = clock_ns();
	j->moved = moved;
	j->total = total;
}

void job_progress(const struct job *j, struct job_progress *out)
{
	*out = (struct job_progress){
	        .phase = j->phase,
	        .moved = j->moved,
	        .total = j->total,
	        .slowest = j->slowest.rank,
	        .slowest_phase = j->slowest.phase,
	        .slowest_done = (double)j->slowest.done / PACE_DONE,
	        .joined = j->joined,
	};
}

void job_waits(struct job *j, job_waits_fn *fn, void *ctx)
{
	j->waits = fn;
	j->waits_ctx = ctx;
}

static bool may_stall(const struct job *j)
{
	return !j->caller_watches && (j->phase == PHASE_CONNECT || j->phase == PHASE_RUN);
}

static int stalled(struct job *j, struct err *err)
{
	char device[200] = "";
	int peers[8], n = 0;
	if (j->waits)
		n = j->waits(j->waits_ctx, peers, 8, device, sizeof device);
	double s = (double)(clock_ns() - j->moved_at) / 1e9;
	int silent = j->mesh ? mesh_unanswered(j->mesh) : -1;
	j->unanswered = silent >= 0;
	if (j->unanswered)
		return err_rank(
		        err, ERR_STALLED, silent,
		        "no progress for %.1f s %s: it does not acknowledge the bytes from rank "
		        "%d",
		        s, phase_words(j->phase), j->rank);
	if (*device)
		return err_set(err, ERR_STALLED, "no progress for %.1f s %s: %s", s,
		               phase_words(j->phase), device);
	if (n == 0 && j->mesh) {
		struct err broke = {0};
		peers[0] = mesh_missing(j->mesh, &broke);
		n = peers[0] >= 0;
		if (broke.code == ERR_INTEGRITY) { /* not silence: wrong bytes, each time */
			*err = broke;
			return -1;
		}
		if (broke.code)
			return err_rank(err, ERR_STALLED, broke.rank, "%.500s, for %.1f s",
			                broke.text, s);
	}
	if (n == 0)
		return err_set(err, ERR_STALLED, "no progress for %.1f s %s", s,
		               phase_words(j->phase));
	return err_rank(err, ERR_STALLED, peers[0],
	                "no progress for %.1f s %s: rank %d waits for it", s, phase_words(j->phase),
	                j->rank);
}

int job_check_signal(struct job *j, struct err *err)
{
	if (!j->signal)
		return 0;
	if (j->conf.embedded)
		return err_set(err, 128 + j->signal, "cancelled");
	return err_set(err, 128 + j->signal, "ended by SIG%s", sigabbrev_np(j->signal));
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

int job_check(struct job *j, struct err *err)
{
	if (j->aborted) {
		*err = j->failure;
		return -1;
	}
	if (j->own.code) {
		*err = j->own;
		return -1;
	}
	return job_check_signal(j, err);
}

/* When the job counts as stalled: nothing has moved on this rank or any other for --timeout. The
 * data that this rank waits for may be queued behind those of other ranks. */
static int64_t stall_at(const struct job *j, int64_t now)
{
	int64_t at = j->moved_at + j->conf.timeout;
	if (now < at)
		return at;
	if (j->others_moved_at > j->moved_at)
		at = j->others_moved_at + j->conf.timeout;
	return (j->coord || ctl_open(&j->ctl)) ? at + allowance(j) : at;
}

int job_turn_before(struct job *j, int64_t until, struct err *err)
{
	if (job_check(j, err) < 0)
		return -1;
	if (j->stage >= JOB_RUNNING && may_stall(j)) {
		int64_t now = clock_ns(), at = stall_at(j, now);
		if (now >= at) { /* look at the connections once more before deciding */
			if (loop_turn(&j->loop, 0, err) < 0 || job_check(j, err) < 0)
				return -1;
			look_at_acknowledged(j);
			at = stall_at(j, now);
			if (now >= at)
				return stalled(j, err);
		}
		if (at < until)
			until = at;
	}
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
	offload_finish(&o, NULL);
	*err = ended;
	return -1;
}

/* Wait until @o has ended. -1: the job, or --timeout, has ended first. */
static int await_answer(struct job *j, const char *who, const struct offload *o, struct err *err)
{
	const int64_t until = clock_ns() + j->conf.timeout;
	bool over = false;
	struct loop_watch w = {.fd = o->eventfd, .fn = set_flag, .ctx = &over};
	int ret = loop_add(&j->loop, &w, EPOLLIN, err);
	while (ret == 0 && !over) {
		ret = job_turn_before(j, until, err);
		if (ret == 0 && !over && clock_ns() >= until)
			ret = err_set(err, ERR_RESOURCE, "%s has not answered for %g s (--timeout)",
			              who, (double)j->conf.timeout / 1e9);
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
	j->data_fd = j->lanes_fd = j->signal_watch.fd = j->loop.epfd = -1;
	j->slowest.rank = j->root = j->work.rank = j->busiest.rank = -1;
	j->coordinator = conf->rank == JOB_RANK_AUTO ? -1 : 0;
	j->ctl.on_lost = job_coordinator_lost;
	j->ctl.on_lacking = job_coordinator_lacking;
	j->ctl.on_message = job_handle_message;
	j->ctl.ctx = j;
	j->join_deadline = clock_ns() + conf->join_timeout;
	if (!j->conf.started)
		j->conf.started = clock_ns();
	j->beat = (struct loop_timer){.fn = job_beat, .ctx = j};
	buf_init(&j->links, CTL_BODY_MAX);
	buf_init(&j->answer, CTL_BODY_MAX);
	buf_init(&j->asked, CTL_BODY_MAX);
	if (crypto_begin(err) < 0 || crypto_sha256(conf->name, strlen(conf->name), sum, err) < 0)
		goto fail;
	memcpy(j->jobtag, sum, sizeof j->jobtag);
	/* Descriptors of a control link; curl needs a socket and a wake-up pipe. */
	if (loop_init(&j->loop, err) < 0 ||
	    (conf->rendezvous && need_descriptors(6, "the store", err) < 0))
		goto fail;
	if (conf->secret || conf->credentials) {
		j->tls = tls_new(err);
		j->control = j->tls && conf->credentials ? tls_new_mutual(conf->credentials, err)
		                                         : j->tls;
		if (!j->control)
			goto fail;
	}
	struct rendezvous_conf r = {
	        .job = conf->name,
	        .secret = conf->secret,
	        .store = {.url = conf->rendezvous,
	                  .token = conf->store_token,
	                  .ca_file = conf->store_ca,
	                  .cert_file = conf->store_cert,
	                  .key_file = conf->store_key},
	        .hosts = conf->hosts,
	        .coordinator = conf->coordinator,
	        .listen_fd = conf->listen_fd,
	        .listen = conf->listen,
	        .advertise = conf->advertise,
	        .iface = conf->iface,
	        .port_lo = conf->port_lo,
	        .port_hi = conf->port_hi,
	        .interrupted = job_interrupted,
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
	return &j->busiest;
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
	if (j->links.len)
		job_send(j, MSG_LINKS, &j->links);
	job_phase(j, PHASE_COMMIT);
	j->stage = JOB_VOTED;
	job_send(j, MSG_VOTE, &b);
	buf_release(&b);
	/* A rank that has voted can no longer decide alone: a signal requests an abort, but a
	 * verdict that was already on its way is final. */
	struct err own = {.rank = j->rank};
	while (j->stage < JOB_COMMITTING && !j->aborted) {
		if (j->signal && !own.code) {
			job_check_signal(j, &own);
			job_send_err(j, MSG_ABORT, &own);
		} else if (j->own.code && !own.code) {
			own = j->own;
			own.rank = j->rank;
			job_send_err(j, MSG_ABORT, &own);
		} else if (loop_turn(&j->loop, INT64_MAX, err) < 0) {
			return -1;
		}
	}
	if (j->stage >= JOB_COMMITTING)
		return 0;
	*err = own.code ? own : j->own.code ? j->own : j->failure;
	return -1;
}

bool job_decided(const struct job *j)
{
	return j->stage >= JOB_COMMITTING || j->in_doubt;
}

int job_commit_in_thread(struct job *j, int (*fn)(void *ctx, struct err *err), void *ctx,
                         struct err *err)
{
	struct offload o;
	struct err ignored = {0};
	bool over = false;
	struct loop_watch w = {.fn = set_flag, .ctx = &over};
	if (offload_start(&o, fn, ctx, NULL) < 0)
		return fn(ctx, err); /* the verdict is final, even if no thread can be created */
	w.fd = o.eventfd;
	if (loop_add(&j->loop, &w, EPOLLIN, &ignored) == 0) {
		while (!over && loop_turn(&j->loop, INT64_MAX, &ignored) == 0)
			continue;
		loop_del(&j->loop, &w);
	}
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

static void send_done(struct job *j, const struct err *mine, enum fate fate)
{
	struct buf b;
	uint8_t memory[1024];
	buf_init_fixed(&b, memory, sizeof memory);
	err_encode(mine, PHASE_COMMIT, &b);
	buf_put_u8(&b, (uint8_t)fate);
	job_send(j, MSG_DONE, &b);
	buf_release(&b);
}

int job_finish(struct job *j, const struct err *why, enum fate fate, struct err *err)
{
	struct err mine = ERR_INIT;
	if (why && why->code)
		mine = with_fate(why, fate);
	j->stage = JOB_DONE;
	send_done(j, &mine, fate);
	/* From the verdict on nothing stops the commit: signals wait. */
	while (!j->final && !j->aborted)
		if (loop_turn(&j->loop, INT64_MAX, err) < 0)
			return -1;
	/* All ranks say the same; only a rank that does not hear of it has its own words alone. */
	const struct err *outcome = j->final && (j->outcome.code || !mine.code) ? &j->outcome
	                            : mine.code                                 ? &mine
	                                                                        : &j->failure;
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

/* REPORT: this rank blames a peer. */
static void report_peer(struct job *j, const struct err *e)
{
	struct buf b;
	buf_init(&b, 4096);
	err_encode(e, j->phase, &b);
	buf_put_u8(&b, j->unanswered);
	buf_put_u64(&b, (uint64_t)((clock_ns() - j->moved_at) / NS_PER_MS));
	job_send(j, MSG_REPORT, &b);
	buf_release(&b);
}

void job_fail(struct job *j, struct err *err)
{
	bool own = err->rank == ERR_RANK_SELF || err->rank == j->rank;
	int64_t until = clock_ns() + OUTCOME_WAIT;
	struct err ignored = {0};
	if (j->failing || j->final)
		return;
	j->failing = true;
	if (!j->aborted && linked(j)) {
		struct err e = *err;
		if (own)
			e.rank = j->rank;
		if (own)
			job_send_err(j, MSG_ABORT, &e);
		else
			report_peer(j, &e);
		while (!j->aborted && linked(j) && clock_ns() < until)
			if (loop_turn(&j->loop, until, &ignored) < 0)
				break;
		/* A live coordinator answers a report at once; while joining it sends nothing until
		 * the time to join is over, and what was missing by then is the cause. */
		if (!own && !j->aborted && !j->coord && j->stage >= JOB_RUNNING)
			*err = (struct err){
			        .code = ERR_STALLED,
			        .rank = j->coordinator,
			        .text = "no answer to a report: stopped or unreachable"};
	}
	if (j->aborted && !own)
		*err = j->failure;
	else if (j->aborted && !err->host[0]) /* the others say the same, with the host's name */
		memcpy(err->host, j->failure.host, sizeof err->host);
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
	loop_timer_stop(&j->beat);
	if (j->coord) {
		coord_drain(j->coord);
		int64_t until = INT64_MAX;
		while (!coord_drained(j->coord) && clock_ns() < until) {
			const bool hurry = j->signal && !j->final;
			if (hurry && coord_has_sent(j->coord))
				break;
			if (hurry && until == INT64_MAX)
				until = clock_ns() + OUTCOME_WAIT;
			if (loop_turn(&j->loop, until, &ignored) < 0)
				break;
		}
		job_withdraw(j);
	}
	ctl_end(&j->ctl);
}

void job_close(struct job *j)
{
	if (!j)
		return;
	mesh_close(j->mesh);
	if (j->loop.epfd >= 0)
		leave(j);
	coord_close(j->coord);
	ctl_release(&j->ctl);
	rendezvous_free(j->rendezvous);
	if (j->control != j->tls)
		tls_free(j->control);
	tls_free(j->tls);
	if (j->data_fd >= 0)
		close(j->data_fd);
	if (j->lanes_fd >= 0)
		close(j->lanes_fd);
	free(j->near);
	if (j->signal_watch.fd >= 0)
		close(j->signal_watch.fd);
	loop_release(&j->loop);
	job_forget_keys(j);
	free(j->keys);
	free(j->addrs);
	free(j->hosts);
	free(j->host);
	free(j->details);
	buf_release(&j->links);
	buf_release(&j->answer);
	buf_release(&j->asked);
	free(j);
}
