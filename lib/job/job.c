#include "lib/job/job.h"

#include <errno.h>
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
#include "lib/job/coord.h"
#include "lib/job/ctl.h"
#include "lib/job/dial.h"
#include "lib/job/links.h"
#include "lib/job/rendezvous.h"
#include "lib/net/crypto.h"

#define BACKOFF_MAX   (250 * NS_PER_MS)
#define DIAL_PATIENCE (5 * NS_PER_SEC)
#define OUTCOME_WAIT  (2 * NS_PER_SEC) /* for the coordinator's word on a failure */

struct job {
	struct job_conf conf;
	struct loop loop;
	struct tls *tls;
	struct rendezvous *rendezvous;
	struct coord *coord; /* of the rank that coordinates */
	struct ctl ctl;      /* the others' link to it */
	struct mesh *mesh;
	int rank, size;
	int coordinator;                     /* its rank; -1: not known yet */
	char coordinator_host[PRESENT_HOST]; /* "": not known, or this rank's own */
	int root;                            /* -1: not known */
	char (*hosts)[PRESENT_HOST];         /* of the ranks; NULL: all are on one, or not known */
	struct joined joined;
	uint8_t jobtag[8];
	int64_t join_deadline;
	int data_fd; /* the data listener, until the mesh takes it */

	struct loop_watch signal_watch;
	int signal;

	/* what the coordinator has said */
	bool answered, other_job, welcomed, closed, have_roster, verdict, final, aborted;
	bool voted;         /* this rank */
	struct err parting; /* with closed */
	struct err failure; /* with aborted */
	struct err own;     /* what failed here while a message was taken or sent */
	struct err outcome; /* with final */
	struct plan plan;
	uint8_t *details; /* where the plan's are */
	struct addr *addrs;
	job_decide *decide;
	void *decide_ctx;
	job_details *tells;
	void *tells_ctx;
	const char *noun; /* of what shows shows */
	job_table *shows; /* NULL: this rank has no table */
	void *shows_ctx;

	/* heartbeat */
	struct loop_timer beat;
	enum phase phase;
	uint64_t moved, total;
	int64_t moved_at;
	struct pace slowest;     /* as the coordinator has said */
	int64_t others_moved_at; /* when that last said that some rank has moved */
	int64_t corrupt_at;      /* when a WELCOME arrived corrupt; 0: none did */
	bool unanswered;         /* a peer does not acknowledge what is sent to it */
	uint64_t acknowledged;   /* by the peers' machines, at the last beat */
	int (*waits)(void *ctx, int *peers, int cap);
	void *waits_ctx;
	bool caller_watches; /* for edges that do not move (job_connect_each) */
	struct buf links;    /* the body of LINKS */
	bool failing;
};

/* What messages call the coordinator before it can be said by its rank. */
#define COORDINATOR(j) ((j)->conf.rank == JOB_RANK_AUTO ? "the coordinator" : "rank 0")

__attribute__((format(printf, 3, 4))) static void note(const struct job *j, int level,
                                                       const char *fmt, ...)
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

/* ---- what it is told ---- */

/* Something failed here while a message was taken or sent: the next call returns it, and job_fail
 * tells the others. */
static void fail_here(struct job *j, const struct err *e)
{
	if (!j->own.code)
		j->own = *e;
	j->own.rank = ERR_RANK_SELF;
}

static void say(struct job *j, uint8_t type, const struct buf *b)
{
	struct err e = {0};
	if (b && b->nomem) {
		err_nomem(&e, "a control message", b->len);
		fail_here(j, &e);
		return;
	}
	if (j->coord)
		coord_receive(j->coord, type, b ? view_of(b->data, b->len) : view_of("", 0));
	else
		ctl_send(&j->ctl, type, b);
}

static void say_err(struct job *j, uint8_t type, const struct err *e)
{
	struct buf b;
	uint8_t memory[1024];
	buf_init_fixed(&b, memory, sizeof memory);
	err_encode(e, j->phase, &b);
	say(j, type, &b);
	buf_release(&b);
}

/* ---- what the coordinator says ---- */

static void abort_with(struct job *j, const struct err *e)
{
	if (j->aborted || j->final)
		return;
	j->aborted = true;
	j->failure = *e;
}

/* The addresses of the data listeners; one that only has a port is the coordinator's host. */
static int read_addrs(struct job *j, struct view *v, struct err *err)
{
	char text[ADDR_TEXT], host[ADDR_TEXT];
	int port;
	struct addr coordinator = {.len = sizeof coordinator.sa};
	uint32_t n = view_u32(v);
	if (v->failed || n == 0 || n > PROTO_MAX_SIZE || (j->size && n != (uint32_t)j->size))
		return err_set(err, ERR_INTEGRITY, "a roster of %u ranks", n);
	j->size = (int)n;
	j->addrs = calloc(n, sizeof *j->addrs);
	if (!j->addrs)
		return err_nomem(err, "the addresses", n * sizeof *j->addrs);
	if (j->ctl.conn)
		getpeername(j->ctl.conn->fd, (struct sockaddr *)&coordinator.sa, &coordinator.len);
	for (uint32_t r = 0; r < n; r++) {
		view_str(v, text, sizeof text);
		if (v->failed)
			return err_set(err, ERR_INTEGRITY, "a malformed ROSTER message");
		if (!text[0])
			continue;
		if (addr_split(text, host, sizeof host, &port, err) < 0)
			return -1;
		if (!host[0]) {
			j->addrs[r] = coordinator;
			addr_set_port(&j->addrs[r], port);
		} else if (addr_resolve(&j->addrs[r], host, port, false, err) < 0) {
			return -1;
		}
	}
	return 0;
}

/* The hosts of the ranks: an empty name is that of the rank before. */
static int read_hosts(struct job *j, struct view *v, struct err *err)
{
	bool several = false;
	size_t n = (size_t)j->size;
	j->hosts = calloc(n, sizeof *j->hosts);
	if (!j->hosts)
		return err_nomem(err, "the hosts", n * sizeof *j->hosts);
	for (size_t r = 0; r < n; r++) {
		view_str(v, j->hosts[r], sizeof *j->hosts);
		several |= r && j->hosts[r][0];
		if (r && !j->hosts[r][0])
			memcpy(j->hosts[r], j->hosts[r - 1], sizeof *j->hosts);
	}
	if (v->failed || view_left(v))
		return err_set(err, ERR_INTEGRITY, "a malformed ROSTER message");
	if (!several) {
		free(j->hosts);
		j->hosts = NULL;
	}
	return 0;
}

const char *job_host(const struct job *j, int rank)
{
	if (rank >= 0 && rank == j->coordinator && j->coordinator_host[0])
		return j->coordinator_host;
	if (rank >= 0 && rank == j->rank && (j->coordinator_host[0] || j->hosts))
		return j->conf.present.host;
	return j->hosts && rank >= 0 && rank < j->size ? j->hosts[rank] : "";
}

/* The plan outlives its message. */
static int keep_details(struct job *j, struct err *err)
{
	size_t len = view_left(&j->plan.details);
	if (!len)
		return 0;
	j->details = malloc(len);
	if (!j->details)
		return err_nomem(err, "what rank 0 tells", len);
	memcpy(j->details, j->plan.details.p, len);
	j->plan.details = view_of(j->details, len);
	return 0;
}

/* Show a page of this rank's table, for which it is asked while it waits for the others, in
 * job_agree or job_vote; a question that comes when that is over has no answer. */
static void show(struct job *j, struct view v)
{
	uint32_t number = view_u32(&v);
	struct buf page, b;
	if (v.failed || !j->shows || j->failing || j->verdict)
		return;
	buf_init(&page, TABLE_PAGE_MAX);
	buf_init(&b, CTL_BODY_MAX);
	j->shows(j->shows_ctx, number, &page);
	buf_put_u32(&b, number);
	buf_put(&b, page.data, page.len);
	if (page.failed || b.failed) {
		struct err e = {.rank = ERR_RANK_SELF};
		err_nomem(&e, "a page of the table", TABLE_PAGE);
		say_err(j, MSG_ABORT, &e);
	} else {
		say(j, MSG_PAGE, &b);
	}
	buf_release(&page);
	buf_release(&b);
}

/* All have joined: what served to find and to trust one another is not needed any more. */
static void settle(struct job *j)
{
	if (j->conf.secret)
		secret_wipe(j->conf.secret);
	rendezvous_settle(j->rendezvous);
}

/* It comes again where more is known. */
static void take_welcome(struct job *j, struct view v)
{
	struct welcome w;
	struct err e = {.rank = ERR_RANK_SELF};
	if (welcome_decode(&w, v, &e) < 0) {
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

static void hear(struct job *j, uint8_t type, struct view v)
{
	struct err e = {.rank = ERR_RANK_SELF};
	struct pace pace;
	struct joined joined;
	enum phase phase;
	j->answered |= type != MSG_OTHER_JOB;
	switch (type) {
	case MSG_OTHER_JOB: /* ABORT follows */
		j->other_job = true;
		return;
	case MSG_WELCOME:
		take_welcome(j, v);
		return;
	case MSG_JOINED:
		if (joined_decode(&joined, v, &e) == 0)
			j->joined = joined;
		return;
	case MSG_ROSTER:
		if (j->have_roster)
			return;
		if (plan_decode(&j->plan, &v, &e) < 0 || keep_details(j, &e) < 0 ||
		    read_addrs(j, &v, &e) < 0 || read_hosts(j, &v, &e) < 0)
			fail_here(j, &e);
		else
			j->have_roster = true;
		settle(j);
		return;
	case MSG_ABORT:
		if (err_decode(&e, &phase, &v) == 0 && e.code)
			abort_with(j, &e);
		return;
	case MSG_VERDICT:
		j->verdict = true;
		return;
	case MSG_FINAL:
		if (err_decode(&j->outcome, &phase, &v) == 0)
			j->final = true;
		return;
	case MSG_BEAT: /* a sign of life is noted in ctl.heard */
		if (pace_decode(&pace, v, &e) < 0)
			return;
		if (pace.moved != j->slowest.moved)
			j->others_moved_at = clock_ns();
		j->slowest = pace;
		return;
	case MSG_ASK:
		show(j, v);
		return;
	default:
		return;
	}
}

static void hear_local(void *ctx, uint8_t type, struct view v)
{
	hear(ctx, type, v);
}

static enum phase phase_of(const struct job *j)
{
	return j->have_roster && j->phase == PHASE_JOIN ? PHASE_CONNECT : j->phase;
}

/* Nothing more comes from the coordinator. @how: "lost"; @tail: ": " and the cause, or "". Who has
 * voted and knows no verdict is in doubt. */
static void lose_coordinator(struct job *j, int code, const char *how, const char *tail)
{
	struct err e = {.code = code, .rank = j->coordinator};
	/* A verdict would have come before the alert that the coordinator received corrupt bytes.
	 */
	bool in_doubt = j->voted && !j->ctl.alerted;
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

static void on_lost(void *ctx, const struct err *err)
{
	struct job *j = ctx;
	char tail[256] = "";
	if (err->code == ERR_RESOURCE) /* lacking here, and nothing can be told any more */
		fail_here(j, err);
	if (!j->welcomed) { /* nobody has promised anything */
		j->closed = true;
		j->parting = *err;
		if (err->code == ERR_INTEGRITY)
			j->corrupt_at = clock_ns();
		return;
	}
	/* How a dead peer's link breaks (reset or cut) differs by rank: the cause is the same. */
	if (err->code && err->code != ERR_PEER_LOST)
		snprintf(tail, sizeof tail, ": %.200s", err->text);
	lose_coordinator(j, err->code ? err->code : ERR_PEER_LOST, "lost", tail);
}

static void on_lacking(void *ctx, const struct err *err)
{
	fail_here(ctx, err);
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

static int take_signals(struct job *j, struct err *err)
{
	sigset_t set;
	if (j->signal_watch.fd >= 0)
		return 0;
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

/* What was sent counts as moved once more when the peer's machine has it: behind a long queue that
 * may be long after the socket took it. */
static void look_at_acknowledged(struct job *j)
{
	uint64_t now = j->mesh ? mesh_acknowledged(j->mesh) : 0;
	if (now == j->acknowledged)
		return;
	j->acknowledged = now;
	j->moved_at = clock_ns();
}

/* How much longer than --timeout what others say may take. */
static int64_t allowance(const struct job *j)
{
	return j->coord ? coord_allowance(j->coord) : conn_round_trip(j->ctl.conn);
}

static void say_beat(struct job *j)
{
	const struct beat beat = {.phase = j->phase,
	                          .moved = j->moved,
	                          .total = j->total,
	                          .acknowledged = j->acknowledged};
	struct buf b;
	uint8_t memory[64];
	buf_init_fixed(&b, memory, sizeof memory);
	beat_encode(&beat, &b);
	say(j, MSG_BEAT, &b);
	buf_release(&b);
}

static void on_beat(void *ctx)
{
	struct job *j = ctx;
	int64_t now = clock_ns(), interval = j->conf.timeout / 4, silence = now - j->ctl.heard;
	char how[64];
	if (interval > NS_PER_SEC)
		interval = NS_PER_SEC;
	look_at_acknowledged(j);
	say_beat(j);
	loop_timer_set(&j->loop, &j->beat, now + interval);
	if (j->coord || !j->have_roster || j->final || silence <= j->conf.timeout ||
	    !ctl_open(&j->ctl) || silence <= j->conf.timeout + allowance(j))
		return;
	snprintf(how, sizeof how, "no sign of life for %.1f s", (double)silence / 1e9);
	lose_coordinator(j, j->voted ? ERR_PEER_LOST : ERR_STALLED, how, ": stopped, or cut off");
}

/* The coordinator learns of a new phase at once: a rank that is lost is lost in it. */
void job_phase(struct job *j, enum phase phase)
{
	bool entered = phase != j->phase;
	j->phase = phase;
	j->moved_at = clock_ns();
	if (entered) {
		note(j, 1, "phase %s", phase_name(phase));
		say_beat(j);
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
	        .slowest_done = j->slowest.done,
	        .joined = j->joined,
	};
}

void job_waits(struct job *j, int (*fn)(void *ctx, int *peers, int cap), void *ctx)
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
	int peers[8], n = j->waits ? j->waits(j->waits_ctx, peers, 8) : 0;
	double s = (double)(clock_ns() - j->moved_at) / 1e9;
	int silent = j->mesh ? mesh_unanswered(j->mesh) : -1;
	j->unanswered = silent >= 0;
	if (j->unanswered)
		return err_rank(err, ERR_STALLED, silent,
		                "no progress for %.1f s %s: what rank %d sends to it is not "
		                "acknowledged",
		                s, phase_words(j->phase), j->rank);
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

static int check_signal(struct job *j, struct err *err)
{
	if (j->signal)
		return err_set(err, 128 + j->signal, "ended by SIG%s", sigabbrev_np(j->signal));
	return 0;
}

/* For calls that block: has a signal come? While the coordinator is looked for timers run, so that
 * waiting can be shown. */
static bool interrupted(void *ctx)
{
	struct job *j = ctx;
	struct err ignored = {0};
	if (!j->coord && !j->ctl.conn)
		(void)loop_turn(&j->loop, 0, &ignored);
	on_signal(j, 0);
	return j->signal != 0;
}

/* Has the job ended otherwise? */
static int check(struct job *j, struct err *err)
{
	if (j->aborted) {
		*err = j->failure;
		return -1;
	}
	if (j->own.code) {
		*err = j->own;
		return -1;
	}
	return check_signal(j, err);
}

/* When the job will have stalled: nothing has moved here, nor anywhere else, for --timeout. What
 * this rank waits for may stand in a queue behind what others get. */
static int64_t stall_at(const struct job *j, int64_t now)
{
	int64_t at = j->moved_at + j->conf.timeout;
	if (now < at)
		return at;
	if (j->others_moved_at > j->moved_at)
		at = j->others_moved_at + j->conf.timeout;
	return (j->coord || ctl_open(&j->ctl)) ? at + allowance(j) : at;
}

static int turn(struct job *j, int64_t until, struct err *err)
{
	if (check(j, err) < 0)
		return -1;
	if (j->have_roster && may_stall(j)) {
		int64_t now = clock_ns(), at = stall_at(j, now);
		if (now >= at) { /* look at the connections once more before judging */
			if (loop_turn(&j->loop, 0, err) < 0 || check(j, err) < 0)
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
	return check(j, err);
}

int job_turn(struct job *j, struct err *err)
{
	return turn(j, INT64_MAX, err);
}

int job_turn_until(struct job *j, int64_t until, struct err *err)
{
	return turn(j, until, err);
}

int job_poll(struct job *j, struct err *err)
{
	return turn(j, 0, err);
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

int job_aside(struct job *j, int (*fn)(void *ctx, struct err *err), void *ctx, struct err *err)
{
	struct offload o;
	struct err ended = {.rank = ERR_RANK_SELF};
	if (offload_start(&o, fn, ctx, err) < 0)
		return -1;
	if (job_await(j, o.eventfd, &ended) == 0)
		return offload_finish(&o, err);
	offload_stop(&o);
	offload_finish(&o, NULL);
	*err = ended;
	return -1;
}

/* ---- opening ---- */

/* The key of a control link: the identity must be of this job. */
static int find_key(void *ctx, const uint8_t *identity, size_t len, uint8_t key[TLS_KEY_BYTES])
{
	struct job *j = ctx;
	char prefix[TLS_IDENTITY_MAX + 1];
	struct err err = {0};
	int n = dial_identity(j->jobtag, "", prefix, sizeof prefix);
	if (len <= (size_t)n || memcmp(identity, prefix, (size_t)n) != 0)
		return -1;
	return secret_derive(j->conf.secret->key, SECRET_BYTES, identity, len, key, TLS_KEY_BYTES,
	                     &err);
}

struct job *job_open(const struct job_conf *conf, struct err *err)
{
	struct job *j = calloc(1, sizeof *j);
	uint8_t sum[32];
	if (!j) {
		err_nomem(err, "the job", sizeof *j);
		return NULL;
	}
	j->conf = *conf;
	j->rank = conf->rank >= 0 ? conf->rank : -1;
	j->size = conf->size;
	j->data_fd = j->signal_watch.fd = j->loop.epfd = -1;
	j->slowest.rank = j->root = -1;
	j->coordinator = conf->rank == JOB_RANK_AUTO ? -1 : 0;
	j->ctl.on_lost = on_lost;
	j->ctl.on_lacking = on_lacking;
	j->ctl.on_message = hear_local;
	j->ctl.ctx = j;
	j->join_deadline = clock_ns() + conf->join_timeout;
	j->beat = (struct loop_timer){.fn = on_beat, .ctx = j};
	buf_init(&j->links, CTL_BODY_MAX);
	if (crypto_begin(err) < 0 || crypto_sha256(conf->name, strlen(conf->name), sum, err) < 0)
		goto fail;
	memcpy(j->jobtag, sum, sizeof j->jobtag);
	/* A control link; curl has a socket and what wakes it. */
	if (loop_init(&j->loop, err) < 0 ||
	    (conf->rendezvous && need_descriptors(6, "the store", err) < 0))
		goto fail;
	if (conf->secret) {
		j->tls = tls_new(err);
		if (!j->tls)
			goto fail;
	}
	struct rendezvous_conf r = {
	        .job = conf->name,
	        .secret = conf->secret,
	        .url = conf->rendezvous,
	        .token = conf->store_token,
	        .hosts = conf->hosts,
	        .coordinator = conf->coordinator,
	        .listen_fd = conf->listen_fd,
	        .listen = conf->listen,
	        .advertise = conf->advertise,
	        .iface = conf->iface,
	        .port_lo = conf->port_lo,
	        .port_hi = conf->port_hi,
	        .interrupted = interrupted,
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

/* ---- the coordinator ---- */

static int decide(void *ctx, const struct intent *const *intents, struct plan *plan,
                  struct err *err)
{
	struct job *j = ctx;
	if (j->decide)
		return j->decide(j->decide_ctx, intents, plan, err);
	plan->windows = plan->streams = 1;
	return 0;
}

static void details(void *ctx, int rank, struct buf *out)
{
	struct job *j = ctx;
	if (j->tells)
		j->tells(j->tells_ctx, rank, out);
}

static void table(void *ctx, uint32_t page, struct buf *out)
{
	struct job *j = ctx;
	if (j->shows)
		j->shows(j->shows_ctx, page, out);
}

static const char *noun(void *ctx)
{
	struct job *j = ctx;
	return j->noun ? j->noun : "table entry";
}

void job_tells(struct job *j, job_details *fn, void *ctx)
{
	j->tells = fn;
	j->tells_ctx = ctx;
}

void job_shows(struct job *j, const char *noun, job_table *fn, void *ctx)
{
	j->noun = noun;
	j->shows = fn;
	j->shows_ctx = ctx;
}

/* The store may have died since: the job goes on without it. */
static void withdraw(void *ctx)
{
	struct job *j = ctx;
	struct err ignored = {0};
	rendezvous_withdraw(j->rendezvous, clock_ns() + NS_PER_SEC, &ignored);
}

/* The address that tells ranks on hosts of one name from each other, the same whoever coordinates.
 */
static void find_own_address(struct job *j)
{
	char text[ADDR_TEXT];
	struct addr a;
	struct err ignored = {0};
	const char *given = j->conf.advertise ? j->conf.advertise : j->conf.listen;
	if (!given && j->conf.iface && addr_of_iface(&a, j->conf.iface, &ignored) == 0)
		given = addr_text(&a, false, text);
	if (!given)
		given = rendezvous_local_address(j->rendezvous, text, sizeof text);
	presence_set(j->conf.present.addr, sizeof j->conf.present.addr, given);
}

/* The hosts of ranks that are missing: where a hostfile names several. */
static const char *host_by_file(void *ctx, int rank)
{
	const struct hostfile *h = ((struct job *)ctx)->conf.hosts;
	bool several = false;
	const char *name = NULL;
	for (int i = 0; h && i < h->nhosts; i++) {
		several |= strcmp(h->hosts[i].name, h->hosts[0].name) != 0;
		if (rank >= h->hosts[i].first && rank < h->hosts[i].first + h->hosts[i].slots)
			name = h->hosts[i].name;
	}
	return several ? name : NULL;
}

static int coordinate(struct job *j, int listen_fd, struct err *err)
{
	find_own_address(j);
	struct coord_conf c = {
	        .loop = &j->loop,
	        .tls = j->tls,
	        .size = j->size,
	        .rank = j->conf.rank == JOB_RANK_AUTO ? -1 : j->conf.rank,
	        .present = &j->conf.present,
	        .host_of = host_by_file,
	        .jobtag = j->jobtag,
	        .launch = j->conf.launch_tag,
	        .find = find_key,
	        .find_ctx = j,
	        .join_deadline = j->join_deadline,
	        .timeout = j->conf.timeout,
	        .deliver = hear_local,
	        .decide = decide,
	        .details = details,
	        .table = table,
	        .noun = noun,
	        .complete = withdraw,
	        .ctx = j,
	};
	char links[64];
	snprintf(links, sizeof links, "the control links of %d ranks", j->size);
	/* And the listener for data, a connection that is not yet known, a file. */
	if (need_descriptors(j->size + 2, links, err) < 0) {
		close(listen_fd);
		return -1;
	}
	j->coord = coord_open(&c, listen_fd, err);
	if (!j->coord)
		return -1;
	note(j, 2, "listening for the other ranks");
	rendezvous_keep(j->rendezvous);
	return 0;
}

/* ---- the others ---- */

/* What was met without TLS, where only answers tell. */
static enum met judge_answer(const struct job *j)
{
	if (j->other_job)
		return MET_STRANGER;
	if (j->answered)
		return MET_LIFE;
	if (!j->closed)
		return MET_SILENCE;
	return j->parting.code == ERR_AUTH || j->parting.code == ERR_INTEGRITY ? MET_STRANGER
	                                                                       : MET_CLOSE;
}

/* Wait for the WELCOME on the link that stands. 1: welcomed, or told why not (j->aborted); 0:
 * closed without a word, silent (@until, if nothing has come by then), or at a store another job's
 * coordinator; -1: error. */
static int await_welcome(struct job *j, int64_t until, struct err *err)
{
	while (!j->welcomed && !j->aborted && !j->closed) {
		int64_t end = j->answered ? j->join_deadline : until;
		if (clock_ns() >= end)
			break;
		if (loop_turn(&j->loop, end, err) < 0 || check_signal(j, err) < 0)
			return -1;
	}
	if (j->own.code) {
		*err = j->own;
		return -1;
	}
	if (j->welcomed || (j->aborted && !j->other_job))
		return 1;
	if (j->aborted && !rendezvous_has_store(j->rendezvous))
		return 1;
	j->aborted = false;
	if (j->other_job)
		return err_set(err, ERR_AUTH, "it coordinates another job");
	if (!j->closed)
		err_set(err, ERR_PEER_LOST, "no answer");
	else if (j->parting.code == ERR_AUTH)
		return err_set(err, ERR_AUTH, "%s", j->parting.text);
	else if (j->parting.code == ERR_INTEGRITY)
		err_set(err, ERR_PEER_LOST, "no coordinator of collctl: %.300s", j->parting.text);
	else
		err_set(err, ERR_PEER_LOST, "it closed the connection without an answer");
	return 0;
}

/* Where the job's name is the launcher's id, ranks that were started otherwise have another. */
static const char *name_hint(const struct job *j, char *text, size_t cap)
{
	text[0] = '\0';
	if (j->conf.name_from)
		snprintf(text, cap,
		         "; this job's name is %.64s, from %s: give every rank the same --job",
		         j->conf.name, j->conf.name_from);
	return text;
}

static void say_present(struct job *j)
{
	struct buf b;
	uint8_t memory[2048];
	find_own_address(j);
	buf_init_fixed(&b, memory, sizeof memory);
	presence_encode(&j->conf.present, &b);
	say(j, MSG_PRESENT, &b);
	buf_release(&b);
}

/* One try to join at @to. 1: welcomed, or told why not; 0: nobody there, *why says how it looks and
 * *met what it says of whoever has written the record; -1: an error for good, in *why. */
static int try_join(struct job *j, const struct addr *to, enum met *met, struct err *why)
{
	struct dial_conf dial = {
	        .loop = &j->loop,
	        .tls = j->tls,
	        .secret = j->conf.secret,
	        .hello = {.version = PROTO_VERSION,
	                  .rank = j->conf.rank == JOB_RANK_AUTO ? PROTO_RANK_AUTO
	                                                        : (uint32_t)j->conf.rank,
	                  .size = (uint32_t)j->size},
	        .until = clock_ns() + DIAL_PATIENCE,
	        .interrupted = interrupted,
	        .ctx = j,
	};
	struct err e = {.rank = ERR_RANK_SELF};
	char text[ADDR_TEXT], source[320], hint[192];
	bool store = rendezvous_has_store(j->rendezvous);
	int ret = 0;
	j->answered = j->other_job = j->welcomed = j->closed = false;
	memcpy(dial.hello.jobtag, j->jobtag, sizeof j->jobtag);
	memcpy(dial.hello.launch, j->conf.launch_tag, sizeof dial.hello.launch);
	if (dial.until > j->join_deadline)
		dial.until = j->join_deadline;
	note(j, 2, "connecting to %s at %s", COORDINATOR(j), addr_text(to, true, text));
	struct conn *conn = dial_coordinator(&dial, to, met, &e);
	if (conn && ctl_start(&j->ctl, conn, &j->loop, &e) == 0) {
		say_present(j);
		/* Without TLS anything may have taken the connection; only a record that may be
		 * stale gives reason to doubt. */
		bool doubt = store && !j->tls;
		ret = await_welcome(j, doubt ? dial.until : j->join_deadline, &e);
		if (!j->tls)
			*met = judge_answer(j);
	}
	if (ret > 0)
		return 1;
	if (*met == MET_SILENCE && dial.until == j->join_deadline)
		*met = MET_NOTHING; /* too short to judge by */
	ctl_release(&j->ctl);
	/* Refused, reset, silent: somebody may come. Corrupt bytes: the next may arrive well. A
	 * wrong secret or job will not mend itself. */
	bool hopeless = e.code != ERR_PEER_LOST && e.code != ERR_STALLED && e.code != ERR_INTEGRITY;
	if (check_signal(j, why) < 0)
		return -1;
	err_set(why, e.code, "%s at %s (%s): %s%s", COORDINATOR(j), addr_text(to, true, text),
	        rendezvous_source(j->rendezvous, source, sizeof source), e.text,
	        e.code == ERR_AUTH ? name_hint(j, hint, sizeof hint) : "");
	note(j, 2, "%s", why->text);
	/* What a record's writer was is known by its MAC: who answers there now is somebody else.
	 */
	if (store && e.code == ERR_AUTH)
		return 0;
	return hopeless ? -1 : 0;
}

static void expired(void *ctx)
{
	*(bool *)ctx = true;
}

/* A refused connect is tried again after a bounded back-off. */
static int back_off(struct job *j, int64_t *wait, struct err *err)
{
	bool over = false;
	struct loop_timer t = {.fn = expired, .ctx = &over};
	loop_timer_set(&j->loop, &t, clock_ns() + *wait);
	while (!over)
		if (loop_turn(&j->loop, INT64_MAX, err) < 0 || check_signal(j, err) < 0) {
			loop_timer_stop(&t);
			return -1;
		}
	*wait = *wait * 2 > BACKOFF_MAX ? BACKOFF_MAX : *wait * 2;
	return 0;
}

static int nobody_there(struct job *j, const char *last, struct err *err)
{
	const char *trouble = rendezvous_trouble(j->rendezvous);
	const char *what = j->conf.rank == 0    ? "the place is not free: not taken"
	                   : j->coordinator < 0 ? "the coordinator was not found"
	                                        : "not found";
	char hint[192], text[400];
	err_clear(err);
	if (j->joined.size && j->joined.by_host)
		return err_set(err, ERR_RENDEZVOUS, "%s",
		               joined_missing(&j->joined, text, sizeof text));
	return err_rank(err, ERR_RENDEZVOUS, j->coordinator,
	                "%s within %g s (--join-timeout): %s%s%s%s", what,
	                (double)j->conf.join_timeout / 1e9, trouble,
	                trouble[0] && last[0] ? "; " : "", last, name_hint(j, hint, sizeof hint));
}

/* The WELCOME arrived corrupt, and the coordinator does not know yet that this rank has given up
 * that link: it takes the next one for a second rank of the same number. */
static bool seat_is_going(struct job *j)
{
	if (!j->aborted || j->failure.code != ERR_DISAGREE || !j->corrupt_at ||
	    clock_ns() - j->corrupt_at > NS_PER_SEC)
		return false;
	j->aborted = false;
	j->failure = (struct err){0};
	ctl_release(&j->ctl);
	return true;
}

/* Find the coordinator and join it. Rank 0 and, at a store, any rank with --rank auto becomes it
 * unless there is one already. */
static int join(struct job *j, struct err *err)
{
	bool may_coordinate =
	        j->conf.rank == 0 || j->conf.listen_fd >= 0 ||
	        (j->conf.rank == JOB_RANK_AUTO && rendezvous_has_store(j->rendezvous));
	bool tried = false; /* an address, and it did not answer: somebody may come yet */
	int64_t wait = NS_PER_MS;
	char last[sizeof err->text] = "";
	for (bool first = true; clock_ns() < j->join_deadline; first = false) {
		struct addr at;
		struct err why = {.rank = ERR_RANK_SELF};
		enum met met = MET_NOTHING;
		int found;
		if (may_coordinate) {
			int fd = rendezvous_publish(j->rendezvous, &at, j->join_deadline, err);
			if (fd >= 0)
				return coordinate(j, fd, err);
			if (fd == -1)
				return -1;
			found = 1;
		} else {
			int64_t until = tried ? clock_ns() + wait : j->join_deadline;
			found = rendezvous_locate(
			        j->rendezvous, &at,
			        until < j->join_deadline ? until : j->join_deadline, err);
			/* So short a time may be too short for a store that is busy; and when the
			 * time to join is over, what it said before tells more. */
			if (found < 0 && !first && err->code == ERR_RENDEZVOUS) {
				snprintf(last, sizeof last, "%.300s", err->text);
				err_clear(err);
				found = 0;
			}
		}
		if (found < 0)
			return -1;
		tried = found;
		if (found) {
			int ret = try_join(j, &at, &met, &why);
			if (ret > 0 && seat_is_going(j))
				ret = 0;
			if (ret > 0)
				return j->aborted ? check(j, err) : 0;
			/* One flipped bit can make a handshake fail as a wrong secret does: two in
			 * a row must say the same. */
			bool doubted =
			        ret < 0 && why.code == ERR_AUTH && strcmp(last, why.text) != 0;
			if (ret < 0 && !doubted) {
				*err = why;
				return -1;
			}
			rendezvous_met(j->rendezvous, met);
			snprintf(last, sizeof last, "%.600s", why.text);
		}
		if (back_off(j, &wait, err) < 0)
			return -1;
	}
	return nobody_there(j, last, err);
}

/* Wait until this rank's number and the root, where it is asked for, are known. */
static int await_rank(struct job *j, struct err *err)
{
	int64_t until = j->join_deadline + j->conf.timeout; /* the coordinator's is the deadline */
	while (j->rank < 0 || (j->conf.present.finds_root && j->root < 0)) {
		if (clock_ns() >= until)
			return err_rank(err, ERR_RENDEZVOUS, j->coordinator,
			                "gave no rank before the end of --join-timeout");
		if (turn(j, until, err) < 0)
			return -1;
	}
	return 0;
}

int job_enter(struct job *j, struct err *err)
{
	if (take_signals(j, err) < 0)
		return -1;
	if (join(j, err) < 0 || await_rank(j, err) < 0) {
		if (j->signal) { /* whatever call it interrupted */
			err_clear(err);
			check_signal(j, err);
		}
		return -1;
	}
	const char *host = j->coordinator_host;
	if (!j->coord)
		note(j, 1, "joined as rank %d of %d; the coordinator is rank %d%s%s%s", j->rank,
		     j->size, j->coordinator, *host ? " (" : "", host, *host ? ")" : "");
	else
		note(j, 1, "coordinates the job as rank %d of %d", j->rank, j->size);
	on_beat(j);
	return 0;
}

/* ---- agreeing ---- */

/* A data listener beside the control link: at the same local address, or where --listen, --iface
 * and --port-range say. */
static int listen_for_data(struct job *j, struct intent *in, struct err *err)
{
	struct addr a = {.len = sizeof a.sa};
	char text[ADDR_TEXT], host[ADDR_TEXT] = "";
	int port = 0;
	if (j->conf.listen) {
		if (addr_split(j->conf.listen, host, sizeof host, &port, err) < 0)
			return -1;
		/* The port that --listen names is the coordinator's control listener's. */
		if (port < 0 || j->coord)
			port = 0;
		if (addr_resolve(&a, host, port, true, err) < 0)
			return -1;
	} else if (j->conf.iface) {
		if (addr_of_iface(&a, j->conf.iface, err) < 0)
			return -1;
	} else if (j->coord) {
		if (coord_local_addr(j->coord, &a, err) < 0)
			return -1;
		addr_set_port(&a, 0);
	} else {
		if (getsockname(j->ctl.conn->fd, (struct sockaddr *)&a.sa, &a.len) < 0)
			return err_errno(err, ERR_OTHER, "getsockname");
		addr_set_port(&a, 0);
	}
	j->data_fd = addr_listen(&a, j->conf.port_lo, j->conf.port_hi, 512, err);
	if (j->data_fd < 0)
		return -1;
	port = addr_port(&a);
	if (j->conf.advertise) {
		int given;
		if (addr_split(j->conf.advertise, host, sizeof host, &given, err) < 0)
			return -1;
		/* As with --listen: the coordinator's is its control listener's. */
		if (given >= 0 && !j->coord)
			port = given;
		snprintf(in->data_addr, sizeof in->data_addr,
		         strchr(host, ':') ? "[%.100s]:%d" : "%.100s:%d", host, port);
	} else if (j->coord) {
		snprintf(in->data_addr, sizeof in->data_addr, ":%d", port);
	} else {
		/* Where any address is listened on, the one that reaches the coordinator is told.
		 */
		struct addr here = {.len = sizeof here.sa};
		if (addr_is_any(&a) &&
		    getsockname(j->ctl.conn->fd, (struct sockaddr *)&here.sa, &here.len) == 0) {
			addr_set_port(&here, port);
			a = here;
		}
		snprintf(in->data_addr, sizeof in->data_addr, "%s", addr_text(&a, true, text));
	}
	return 0;
}

int job_agree(struct job *j, struct intent *in, bool mesh, job_decide *decide_fn, void *ctx,
              struct plan *plan, struct err *err)
{
	struct buf b;
	j->decide = decide_fn;
	j->decide_ctx = ctx;
	if (in->crowded)
		return err_set(err, ERR_OTHER, "more than %d facts to agree on", FACTS_MAX);
	if (mesh && listen_for_data(j, in, err) < 0)
		return -1;
	buf_init(&b, CTL_BODY_MAX);
	intent_encode(in, &b);
	say(j, MSG_INTENT, &b);
	buf_release(&b);
	/* The coordinator keeps the deadline of the join; a little later its silence is a loss. */
	int64_t until = j->join_deadline + j->conf.timeout;
	while (!j->have_roster) {
		if (clock_ns() >= until)
			return err_rank(err, ERR_RENDEZVOUS, j->coordinator, "it told no roster");
		if (turn(j, until, err) < 0)
			return -1;
	}
	*plan = j->plan;
	note(j, 1, "all %d ranks have joined and agree", j->size);
	wipe(plan->key, sizeof plan->key);
	return 0;
}

/* ---- connecting ---- */

static void mesh_ready(void *ctx)
{
	struct job *j = ctx;
	j->moved_at = clock_ns();
}

static void note_peer(const struct job *j, const char *what, int peer)
{
	char text[ADDR_TEXT];
	const char *host = job_host(j, peer);
	note(j, 2, "%s rank %d%s%s%s at %s", what, peer, *host ? " (" : "", host, *host ? ")" : "",
	     addr_text(&j->addrs[peer], true, text));
}

static int open_mesh(struct job *j, struct mesh_conf *m, struct err *err)
{
	int lanes = (m->nout + m->nin) * m->streams;
	char what[64];
	job_phase(j, PHASE_CONNECT);
	snprintf(what, sizeof what, "the %d connections to other ranks", lanes);
	if (need_descriptors(lanes, what, err) < 0)
		return -1;
	m->loop = &j->loop;
	m->tls = j->tls;
	m->rank = j->rank;
	m->size = j->size;
	m->addrs = j->addrs;
	m->listen_fd = j->data_fd;
	m->on_ready = mesh_ready;
	m->ctx = j;
	memcpy(m->session, j->plan.session, sizeof m->session);
	memcpy(m->key, j->plan.key, sizeof m->key);
	j->data_fd = -1;
	for (int i = 0; i < m->nout; i++)
		note_peer(j, "sending to", m->out[i]);
	for (int i = 0; i < m->nin; i++)
		note_peer(j, "receiving from", m->in[i]);
	if (j->tls)
		tls_carry_data(j->tls);
	j->mesh = mesh_open(m, err);
	wipe(m->key, sizeof m->key);
	wipe(j->plan.key, sizeof j->plan.key);
	return j->mesh ? 0 : -1;
}

struct mesh *job_connect(struct job *j, const int *out, int nout, const int *in, int nin,
                         int streams, size_t buffer, struct err *err)
{
	struct mesh_conf m = {
	        .out = out,
	        .in = in,
	        .nout = nout,
	        .nin = nin,
	        .streams = streams,
	        .buffer = buffer,
	};
	int state;
	if (open_mesh(j, &m, err) < 0)
		return NULL;
	while ((state = mesh_state(j->mesh, err)) == 0)
		if (job_turn(j, err) < 0)
			return NULL;
	return state > 0 ? j->mesh : NULL;
}

struct mesh *job_connect_each(struct job *j, const int *out, int nout, const int *in, int nin,
                              size_t buffer, job_edge *fn, void *ctx, struct err *err)
{
	struct mesh_conf m = {
	        .out = out,
	        .in = in,
	        .nout = nout,
	        .nin = nin,
	        .streams = 1,
	        .buffer = buffer,
	        .on_edge = fn,
	        .edge_ctx = ctx,
	};
	j->caller_watches = true;
	return open_mesh(j, &m, err) < 0 ? NULL : j->mesh;
}

void job_connect_end(struct job *j)
{
	j->caller_watches = false;
	if (j->mesh)
		mesh_stop(j->mesh);
}

void job_link_failed(struct job *j, int from, int to, const char *why)
{
	if (j->links.len < CTL_BODY_MAX - LINK_WHY - 64)
		link_encode(from, to, why, &j->links);
}

int64_t job_timeout(const struct job *j)
{
	return j->conf.timeout;
}

int job_local_index(const struct job *j)
{
	int index = 0;
	for (int r = 0; j->addrs && r < j->rank; r++)
		index += addr_same_ip(&j->addrs[r], &j->addrs[j->rank]);
	return index;
}

/* ---- the commit ---- */

int job_vote(struct job *j, const uint8_t digest[VOTE_DIGEST], struct err *err)
{
	struct vote vote = {.has_digest = digest, .shows = digest && j->shows};
	struct buf b;
	uint8_t memory[32];
	if (digest)
		memcpy(vote.digest, digest, sizeof vote.digest);
	buf_init_fixed(&b, memory, sizeof memory);
	vote_encode(&vote, &b);
	if (j->links.len)
		say(j, MSG_LINKS, &j->links);
	job_phase(j, PHASE_COMMIT);
	say(j, MSG_VOTE, &b);
	buf_release(&b);
	j->voted = true;
	/* Who has voted no longer decides alone: a signal asks for an abort, but a verdict that was
	 * on its way holds for all. */
	struct err own = {.rank = j->rank};
	while (!j->verdict && !j->aborted) {
		if (j->signal && !own.code) {
			check_signal(j, &own);
			say_err(j, MSG_ABORT, &own);
		} else if (j->own.code && !own.code) {
			own = j->own;
			own.rank = j->rank;
			say_err(j, MSG_ABORT, &own);
		} else if (loop_turn(&j->loop, INT64_MAX, err) < 0) {
			return -1;
		}
	}
	if (j->verdict)
		return 0;
	*err = own.code ? own : j->own.code ? j->own : j->failure;
	return -1;
}

int job_finish(struct job *j, const struct err *mine, struct err *err)
{
	struct err ok = {.rank = ERR_RANK_SELF};
	say_err(j, MSG_DONE, mine ? mine : &ok);
	/* From the verdict on nothing stops the commit: signals wait. */
	while (!j->final && !j->aborted)
		if (loop_turn(&j->loop, INT64_MAX, err) < 0)
			return -1;
	if (mine && mine->code) {
		*err = *mine;
		return -1;
	}
	const struct err *outcome = j->final ? &j->outcome : &j->failure;
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

/* REPORT: a peer is to blame, as seen from here. */
static void report_peer(struct job *j, const struct err *e)
{
	struct buf b;
	buf_init(&b, 4096);
	err_encode(e, j->phase, &b);
	buf_put_u8(&b, j->unanswered);
	buf_put_u64(&b, (uint64_t)((clock_ns() - j->moved_at) / NS_PER_MS));
	say(j, MSG_REPORT, &b);
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
			say_err(j, MSG_ABORT, &e);
		else
			report_peer(j, &e);
		while (!j->aborted && linked(j) && clock_ns() < until)
			if (loop_turn(&j->loop, until, &ignored) < 0)
				break;
		/* A coordinator that lives answers a report at once. */
		if (!own && !j->aborted && !j->coord)
			*err = (struct err){.code = ERR_STALLED,
			                    .rank = j->coordinator,
			                    .text = "no answer to a report: stopped, or cut off"};
	}
	if (j->aborted && !own)
		*err = j->failure;
	if (err->rank == ERR_RANK_SELF)
		err->rank = j->rank;
	if (!err->host[0])
		presence_set(err->host, sizeof err->host, job_host(j, err->rank));
}

/* Rank 0 stays until everybody knows the outcome, the others say goodbye and go. */
static void part(struct job *j)
{
	struct err ignored = {0};
	loop_timer_stop(&j->beat);
	if (j->coord) {
		coord_drain(j->coord);
		while (!coord_drained(j->coord) && (!j->signal || j->final))
			if (loop_turn(&j->loop, INT64_MAX, &ignored) < 0)
				break;
		withdraw(j);
	}
	ctl_end(&j->ctl);
}

void job_close(struct job *j)
{
	if (!j)
		return;
	mesh_close(j->mesh);
	if (j->loop.epfd >= 0)
		part(j);
	coord_close(j->coord);
	ctl_release(&j->ctl);
	rendezvous_free(j->rendezvous);
	tls_free(j->tls);
	if (j->data_fd >= 0)
		close(j->data_fd);
	if (j->signal_watch.fd >= 0)
		close(j->signal_watch.fd);
	loop_release(&j->loop);
	wipe(j->plan.key, sizeof j->plan.key);
	free(j->addrs);
	free(j->hosts);
	free(j->details);
	buf_release(&j->links);
	free(j);
}
