/* Find the coordinator, or become it. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/crypto/certificate.h"
#include "lib/job/dial.h"
#include "lib/job/job_internal.h"

#define BACKOFF_MAX    (250 * NS_PER_MS)
#define DIAL_PATIENCE  (5 * NS_PER_SEC)
#define STALE_PATIENCE (3 * NS_PER_SEC)
#define SHORT_WAIT     (1 * NS_PER_SEC) /* in which a busy store may not answer */
#define CONFIRM_TIME   (5 * NS_PER_SEC) /* in which a store must confirm the round */

/* ---- the coordinator ---- */

/* The key of a control link: the identity must belong to this job. */
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

/* With certificates: is the other end @rank? */
static int vouch(void *ctx, const struct conn *conn, int rank, struct err *err)
{
	const struct job *j = ctx;
	const struct hostfile *hosts = j->conf.hosts;
	if (!j->conf.credentials)
		return 0;
	if (rank < 0)
		return err_set(err, ERR_AUTH, "a rank with a certificate cannot take any number");
	return certificate_check(tls_certificate(conn), rank,
	                         hosts ? hostfile_host(hosts, rank) : NULL, err);
}

static void met(void *ctx, const struct addr *from, int rank)
{
	char text[ADDR_TEXT], who[32] = "a rank that takes any number";
	if (rank >= 0)
		snprintf(who, sizeof who, "rank %d", rank);
	job_log(ctx, 2, "a connection from %s: %s", addr_text(from, true, text), who);
}

static void warn(void *ctx, const char *text)
{
	job_log(ctx, 0, "%s", text);
}

/* The store may have failed since: the job continues without it. */
void job_withdraw(struct job *j)
{
	struct err ignored = {0};
	rendezvous_withdraw(j->rendezvous, clock_ns() + NS_PER_SEC, &ignored);
}

static int is_the_only_round(void *ctx, struct err *err)
{
	struct job *j = ctx;
	const int64_t most = j->conf.settings->timeout / 2; /* the others hear nothing meanwhile */
	return rendezvous_confirm(j->rendezvous,
	                          clock_ns() + (most < CONFIRM_TIME ? most : CONFIRM_TIME), err);
}

static void nobody_joins(void *ctx)
{
	struct job *j = ctx;
	job_withdraw(j);
	if (j->state >= JOB_RUNNING)
		job_settle(j);
}

/* The address that distinguishes ranks on hosts of the same name, whichever rank coordinates; and
 * the age. */
static void complete_presence(struct job *j)
{
	char text[ADDR_TEXT];
	struct addr a;
	struct err ignored = {0};
	const char *given = j->conf.settings->addresses.advertise
	                            ? j->conf.settings->addresses.advertise
	                            : j->conf.settings->addresses.listen;
	if (!given && j->conf.settings->addresses.iface &&
	    addr_of_iface(&a, j->conf.settings->addresses.iface, &ignored) == 0)
		given = addr_text(&a, false, text);
	if (!given)
		given = rendezvous_local_address(j->rendezvous, text, sizeof text);
	presence_set(j->conf.present.addr, sizeof j->conf.present.addr, given);
	j->conf.present.age = (uint32_t)((clock_ns() - j->conf.present.started) / NS_PER_SEC);
}

/* The hosts of missing ranks, if a hostfile names several. */
static const char *host_by_file(void *ctx, int rank)
{
	const struct hostfile *h = ((struct job *)ctx)->conf.hosts;
	for (int i = 1; h && i < h->nhosts; i++)
		if (strcmp(h->hosts[i].name, h->hosts[0].name) != 0)
			return hostfile_host(h, rank);
	return NULL;
}

static int coordinate(struct job *j, int listen_fd, struct err *err)
{
	complete_presence(j);
	struct coord_conf c = {
	        .settings = j->conf.settings,
	        .loop = &j->loop,
	        .tls = j->control,
	        .size = j->size,
	        .rank = j->conf.rank == JOB_RANK_AUTO ? -1 : j->conf.rank,
	        .root = j->conf.root,
	        .present = &j->conf.present,
	        .host_of = host_by_file,
	        .jobtag = j->jobtag,
	        .launch = j->conf.launch_tag,
	        .find = find_key,
	        .vouch = vouch,
	        .find_ctx = j,
	        .join_deadline = j->join.deadline,
	        .deliver = job_handle_message,
	        .callbacks = &j->callbacks,
	        .met = met,
	        .warn = warn,
	        .confirm = is_the_only_round,
	        .complete = nobody_joins,
	        .ctx = j,
	};
	char links[64];
	snprintf(links, sizeof links, "the control links of %d ranks", j->size);
	/* Also the listener for data, a connection that is not yet known, and a file. */
	if (need_descriptors(j->size + 2, links, err) < 0) {
		close(listen_fd);
		return -1;
	}
	j->coord = coord_open(&c, listen_fd, err);
	if (!j->coord)
		return -1;
	job_move(j, JOB_JOINED);
	job_log(j, 2, "listening for the other ranks");
	rendezvous_keep(j->rendezvous);
	return 0;
}

/* ---- the other ranks ---- */

void job_join_answered(struct job *j, enum job_answer answer)
{
	if (answer > j->join.answer)
		j->join.answer = answer;
}

void job_join_lost(struct job *j, const struct err *err)
{
	j->join.parting = *err;
	j->join.unwelcome_at = clock_ns();
}

/* What the peer is, without TLS, judged by its answers alone. */
static enum met judge_answer(const struct job *j)
{
	if (j->join.answer != ANSWER_NONE)
		return j->join.answer == ANSWER_OTHER_JOB ? MET_STRANGER : MET_LIFE;
	if (ctl_open(&j->ctl))
		return MET_SILENCE;
	return j->join.parting.code == ERR_AUTH || j->join.parting.code == ERR_INTEGRITY
	               ? MET_STRANGER
	               : MET_CLOSE;
}

/* What comes of a try to join. */
enum try {
	TRY_ANSWERED, /* welcomed, or refused with a reason: the state says which */
	TRY_NOBODY,   /* no coordinator of this job: one may still come */
	TRY_HOPELESS, /* a cause that does not pass */
};

/* Wait for the WELCOME. TRY_HOPELESS: it arrived corrupt, after this rank's offer. TRY_NOBODY:
 * closed without an answer, silent until @until, or, with a store, the coordinator of another job;
 * *err has the cause. */
static enum try await_welcome(struct job *j, int64_t until, struct err *err)
{
	bool over = false; /* an offer may have taken long: look at what has come meanwhile */
	while (j->state == JOB_SEEKING && ctl_open(&j->ctl) && !over) {
		int64_t end = j->join.answer == ANSWER_SOME ? j->join.deadline : until;
		over = clock_ns() >= end;
		if (loop_turn(&j->loop, end, err) < 0)
			return TRY_NOBODY;
		/* A rank that is welcome ends as one that has joined: it tells the others. */
		if (j->state == JOB_SEEKING && job_check_signal(j, err) < 0)
			return TRY_NOBODY;
	}
	if (j->own.code) {
		*err = j->own;
		return TRY_NOBODY;
	}
	/* A store may have the record of this job's coordinator later. */
	const bool misrouted = j->join.answer == ANSWER_OTHER_JOB;
	if (j->state != JOB_SEEKING && !(misrouted && rendezvous_has_store(j->rendezvous)))
		return TRY_ANSWERED;
	job_move(j, JOB_SEEKING);
	/* The coordinator counts a rank that has offered as lost. If it has sent an alert, it has
	 * not read the HELLO: WELCOME comes before anything else is read. */
	if (j->join.intent && !ctl_open(&j->ctl) && j->join.parting.code == ERR_INTEGRITY &&
	    !j->ctl.alerted) {
		err_set(err, ERR_INTEGRITY, "its answer arrived corrupt");
		return TRY_HOPELESS;
	}
	if (misrouted)
		err_set(err, ERR_AUTH, "it coordinates another job");
	else if (ctl_open(&j->ctl))
		err_set(err, ERR_PEER_LOST, "no answer");
	else if (j->join.parting.code == ERR_AUTH)
		err_set(err, ERR_AUTH, "%s", j->join.parting.text);
	else if (j->join.parting.code == ERR_INTEGRITY)
		err_set(err, ERR_PEER_LOST, "not a coordinator of collctl: %.300s",
		        j->join.parting.text);
	else
		err_set(err, ERR_PEER_LOST, "it closed the connection without an answer");
	return TRY_NOBODY;
}

/* If the job's name is the launcher's id, ranks that were started differently have another name. */
static const char *name_hint(const struct job *j, char *text, size_t cap)
{
	text[0] = '\0';
	if (j->conf.name_from)
		snprintf(text, cap,
		         "; this job's name is %.64s, from %s: give every rank the same --job (-j)",
		         j->conf.name, j->conf.name_from);
	return text;
}

static void send_present(struct job *j)
{
	struct buf b;
	uint8_t memory[2048];
	complete_presence(j);
	buf_init_fixed(&b, memory, sizeof memory);
	presence_encode(&j->conf.present, &b);
	job_send(j, MSG_PRESENT, &b);
	buf_release(&b);
}

/* Offer before WELCOME comes. If that fails, the rank joins nevertheless, so that all hear
 * why. */
static void offer(struct job *j)
{
	struct err *err = &j->join.failed;
	job_early_offer *early = j->join.early;
	if (err->code)
		return;
	if (j->join.intent)
		job_offer_again(j, err);
	else if (early)
		early(j->join.early_ctx, err);
	j->join.early = NULL;
}

/* Nothing that an earlier coordinator has said counts. */
static void forget_last_try(struct job *j)
{
	j->join.answer = ANSWER_NONE;
	j->rank = j->conf.rank >= 0 ? j->conf.rank : -1;
	j->coordinator = j->conf.rank == JOB_RANK_AUTO ? -1 : 0;
	j->root = -1;
}

/* Connect to @to, say HELLO, and wait for the answer. *err has the cause if there is none, *met
 * what that shows about the record's writer. */
static enum try say_hello(struct job *j, const struct addr *to, enum met *met, struct err *err)
{
	struct dial_conf dial = {
	        .loop = &j->loop,
	        .tls = j->control,
	        .secret = j->conf.secret,
	        .congestion = j->conf.settings->congestion,
	        .hello = {.version = PROTO_VERSION,
	                  .rank = j->conf.rank == JOB_RANK_AUTO ? PROTO_RANK_AUTO
	                                                        : (uint32_t)j->conf.rank,
	                  .size = (uint32_t)j->size},
	        .until = clock_ns() + DIAL_PATIENCE,
	        .interrupted = job_interrupted,
	        .ctx = j,
	};
	char text[ADDR_TEXT];
	enum try ret = TRY_NOBODY;
	memcpy(dial.hello.jobtag, j->jobtag, sizeof j->jobtag);
	memcpy(dial.hello.launch, j->conf.launch_tag, sizeof dial.hello.launch);
	if (dial.until > j->join.deadline)
		dial.until = j->join.deadline;
	job_log(j, 2, "connecting to %s at %s", COORDINATOR(j), addr_text(to, true, text));
	struct conn *conn = dial_coordinator(&dial, to, met, err);
	if (conn && vouch(j, conn, 0, err) < 0) { /* with certificates rank 0 coordinates */
		conn_free(conn);
		conn = NULL;
	}
	if (conn && ctl_start(&j->ctl, conn, &j->loop, err) == 0) {
		send_present(j);
		/* Without TLS any program may have accepted the connection; only a record that may
		 * be stale is a reason for doubt. */
		bool doubt = rendezvous_has_store(j->rendezvous) && !j->tls;
		if (j->tls)
			offer(j);
		ret = await_welcome(j, doubt ? dial.until : j->join.deadline, err);
		if (!j->tls)
			*met = judge_answer(j);
	}
	if (*met == MET_SILENCE && dial.until == j->join.deadline)
		*met = MET_NOTHING; /* too short to judge */
	return ret;
}

/* May a try end otherwise after one that has ended with @code? Refused, reset, silent: a
 * coordinator may still come. Corrupt bytes: the next try may succeed. A wrong secret or job stays
 * wrong. */
static bool may_pass(const struct job *j, int code)
{
	if (code == ERR_PEER_LOST || code == ERR_STALLED || code == ERR_INTEGRITY)
		return true;
	/* The MAC identifies the record's writer: the process that answers there now is a different
	 * one. With certificates there is no MAC, so rank 0 takes the record for a stale one, and
	 * the others believe it. */
	return code == ERR_AUTH && rendezvous_has_store(j->rendezvous) &&
	       (!j->conf.credentials || j->conf.rank == 0);
}

/* Try once to join at @to. Unless TRY_ANSWERED, *why is the cause and *met what it shows about the
 * record's writer. */
static enum try try_join(struct job *j, const struct addr *to, enum met *met, struct err *why)
{
	struct err e = ERR_INIT;
	char text[ADDR_TEXT], source[320], hint[192];
	forget_last_try(j);
	const enum try try = say_hello(j, to, met, &e);
	if (try == TRY_ANSWERED)
		return TRY_ANSWERED;
	ctl_end(&j->ctl); /* a coordinator that reads HELLO later frees the rank */
	ctl_release(&j->ctl);
	if (job_check_signal(j, why) < 0)
		return TRY_HOPELESS;
	err_set(why, e.code, "%s at %s (%s): %s%s", COORDINATOR(j), addr_text(to, true, text),
	        rendezvous_source(j->rendezvous, source, sizeof source), e.text,
	        e.code == ERR_AUTH ? name_hint(j, hint, sizeof hint) : "");
	job_log(j, 2, "%s", why->text);
	return try == TRY_NOBODY && may_pass(j, e.code) ? TRY_NOBODY : TRY_HOPELESS;
}

static void expired(void *ctx)
{
	*(bool *)ctx = true;
}

/* Wait, for a bounded time, before the next try. */
static int back_off(struct job *j, int64_t *wait, struct err *err)
{
	bool over = false;
	struct loop_timer t = {.fn = expired, .ctx = &over};
	loop_timer_set(&j->loop, &t, clock_ns() + *wait);
	while (!over)
		if (loop_turn(&j->loop, INT64_MAX, err) < 0 || job_check_signal(j, err) < 0) {
			loop_timer_stop(&t);
			return -1;
		}
	*wait = *wait * 2 > BACKOFF_MAX ? BACKOFF_MAX : *wait * 2;
	return 0;
}

static int nobody_there(struct job *j, const char *last, struct err *err)
{
	const char *trouble = rendezvous_trouble(j->rendezvous);
	const char *what = j->conf.rank == 0    ? "could not become the coordinator"
	                   : j->coordinator < 0 ? "the coordinator was not found"
	                                        : "not found";
	char hint[192], text[400];
	err_clear(err);
	if (j->said.joined.size && j->said.joined.by_host)
		return err_set(err, ERR_RENDEZVOUS, "%s",
		               joined_missing(&j->said.joined, text, sizeof text));
	return err_rank(err, ERR_RENDEZVOUS, j->coordinator,
	                "%s within %g s (--join-timeout)%s%s%s%s%s", what,
	                (double)j->conf.settings->join_timeout / 1e9,
	                trouble[0] || last[0] ? ": " : "", trouble,
	                trouble[0] && last[0] ? "; " : "", last, name_hint(j, hint, sizeof hint));
}

/* Is the refusal only due to this rank's last link? That link ended before its WELCOME, or WELCOME
 * arrived corrupt, and the coordinator does not know yet that it is gone: it takes the next link
 * for a second rank of the same number. */
static bool seat_is_going(struct job *j)
{
	/* A refusal of this rank alone; a disagreement that fails the job names a rank. */
	bool refused = j->state == JOB_ABORTED && j->end.failure.code == ERR_DISAGREE &&
	               j->end.failure.rank == ERR_RANK_SELF;
	if (!refused || j->join.failed.code || !j->join.unwelcome_at ||
	    clock_ns() - j->join.unwelcome_at > NS_PER_SEC)
		return false;
	job_move(j, JOB_SEEKING);
	j->end.failure = (struct err){0};
	ctl_release(&j->ctl);
	return true;
}

/* ---- the search ---- */

/* What the tries so far have shown. */
struct search {
	int64_t wait;       /* before the next try */
	bool asked;         /* locate has been called */
	bool dialled;       /* the last try was at an address: a coordinator may still come there */
	char last[640];     /* what came of the last dial; "": none has been made */
	int64_t same_since; /* since when dials have ended as the last one */
	char store[320]; /* and what has come since of asking the store; "": nothing, or answers */
	int unanswered;  /* how often in a row it has not answered */
};

/* What follows from a part of a try. */
enum step {
	STEP_JOINED, /* this rank has joined, or coordinates */
	STEP_DIAL,   /* there may be a coordinator at the address */
	STEP_AGAIN,  /* there is none yet: wait, then try again */
	STEP_OVER,   /* the time to join has ended */
	STEP_FAILED, /* *err says why */
};

/* Become the coordinator, unless another one is found at *at. */
static enum step publish(struct job *j, const struct search *s, struct addr *at, struct err *err)
{
	int fd;
	switch (rendezvous_publish(j->rendezvous, at, &fd, j->join.deadline, err)) {
	case PUBLISH_DONE:
		return coordinate(j, fd, err) < 0 ? STEP_FAILED : STEP_JOINED;
	case PUBLISH_TAKEN:
		return STEP_DIAL;
	case PUBLISH_FAILED:
		break;
	}
	/* The result at the record's address is more useful than the error of a store that does not
	 * answer at the end of the time to join. */
	if (s->last[0] && err->code == ERR_RENDEZVOUS && clock_ns() >= j->join.deadline)
		return STEP_OVER;
	return STEP_FAILED;
}

/* Find the address of the coordinator. */
static enum step locate(struct job *j, struct search *s, struct addr *at, struct err *err)
{
	const int64_t now = clock_ns();
	int64_t until = s->dialled ? now + s->wait : j->join.deadline;
	const bool first = !s->asked;
	if (until > j->join.deadline)
		until = j->join.deadline;
	const int found = rendezvous_locate(j->rendezvous, at, until, err);
	s->asked = true;
	s->dialled = found > 0;
	s->unanswered = found < 0 ? s->unanswered + 1 : 0;
	if (found >= 0)
		return found ? STEP_DIAL : STEP_AGAIN;
	if (first || err->code != ERR_RENDEZVOUS)
		return STEP_FAILED;
	/* The wait may be too short for a busy store; and at the end of the time to join, the
	 * store's earlier answer is more useful. */
	if (s->unanswered > 1 || clock_ns() - now >= SHORT_WAIT)
		snprintf(s->store, sizeof s->store, "%.300s", err->text);
	err_clear(err);
	return STEP_AGAIN;
}

/* May @why, by which a try has ended for good, be wrong? One flipped bit can look like a wrong
 * secret: two tries in a row must give the same error. With certificates nothing shows that the
 * record is stale: rank 0 has a short time to replace it. */
static bool is_doubted(const struct job *j, const struct search *s, bool same,
                       const struct err *why)
{
	bool stale = j->conf.credentials && rendezvous_has_store(j->rendezvous) &&
	             clock_ns() < s->same_since + STALE_PATIENCE;
	return why->code == ERR_AUTH && (!same || stale);
}

/* Try to join at @at, and judge what came of it. */
static enum step judge(struct job *j, struct search *s, const struct addr *at, struct err *err)
{
	struct err why = ERR_INIT;
	enum met met = MET_NOTHING;
	const enum try try = try_join(j, at, &met, &why);
	if (try == TRY_ANSWERED && j->state >= JOB_JOINED && !job_rules_of(j)->failed)
		return STEP_JOINED;
	if (try == TRY_ANSWERED && !seat_is_going(j)) {
		job_check(j, err);
		return STEP_FAILED;
	}
	const bool same = strcmp(s->last, why.text) == 0;
	if (!same)
		s->same_since = clock_ns();
	if (try == TRY_HOPELESS && !is_doubted(j, s, same, &why)) {
		*err = why;
		return STEP_FAILED;
	}
	rendezvous_met(j->rendezvous, met);
	snprintf(s->last, sizeof s->last, "%.600s", why.text);
	s->store[0] = '\0';
	return STEP_AGAIN;
}

/* The time to join is over. */
static int not_found(struct job *j, struct search *s, struct err *err)
{
	const size_t len = strlen(s->last);
	if (s->store[0] && !len) { /* as a rank says that has never had an answer of the store */
		err_clear(err);
		return err_set(err, ERR_RENDEZVOUS, "%s", s->store);
	}
	snprintf(s->last + len, sizeof s->last - len, "%s%s", s->store[0] ? "; then " : "",
	         s->store);
	return nobody_there(j, s->last, err);
}

/* Find the coordinator and join it. If there is none, rank 0 and, with a store, any rank with
 * --rank auto becomes the coordinator. */
static int join(struct job *j, struct err *err)
{
	const bool may_coordinate =
	        j->conf.rank == 0 || j->conf.listen_fd >= 0 ||
	        (j->conf.rank == JOB_RANK_AUTO && rendezvous_has_store(j->rendezvous));
	struct search s = {.wait = NS_PER_MS};
	enum step step = STEP_AGAIN;
	while (step == STEP_AGAIN && clock_ns() < j->join.deadline) {
		struct addr at;
		step = may_coordinate ? publish(j, &s, &at, err) : locate(j, &s, &at, err);
		if (step == STEP_DIAL)
			step = judge(j, &s, &at, err);
		if (step == STEP_AGAIN && back_off(j, &s.wait, err) < 0)
			step = STEP_FAILED;
	}
	if (step == STEP_JOINED)
		return 0;
	return step == STEP_FAILED ? -1 : not_found(j, &s, err);
}

int job_await_rank(struct job *j, struct err *err)
{
	/* The coordinator enforces the deadline; this wait only ends later. */
	int64_t until = j->join.deadline + j->conf.settings->timeout;
	while (j->rank < 0 || (j->conf.present.finds_root && j->root < 0)) {
		if (clock_ns() >= until)
			return err_rank(
			        err, ERR_RENDEZVOUS, j->coordinator,
			        "assigned no number to this rank before the end of --join-timeout");
		if (job_turn_before(j, until, err) < 0)
			return -1;
	}
	return 0;
}

int job_enter(struct job *j, job_early_offer *early, void *ctx, struct err *err)
{
	j->join.early = early;
	j->join.early_ctx = ctx;
	j->join.failed = ERR_INIT;
	if (job_take_signals(j, err) < 0)
		return -1;
	if (join(j, err) < 0 || job_await_rank(j, err) < 0) {
		if (j->signal) { /* whichever call the signal interrupted */
			err_clear(err);
			job_check_signal(j, err);
		}
		return -1;
	}
	const char *host = j->said.coordinator_host;
	if (!j->coord)
		job_log(j, 1, "joined as rank %d of %d; the coordinator is rank %d%s%s%s", j->rank,
		        j->size, j->coordinator, *host ? " (" : "", host, *host ? ")" : "");
	else
		job_log(j, 1, "coordinates the job as rank %d of %d", j->rank, j->size);
	job_beat(j);
	if (j->coord && j->join.intent) /* it was for a coordinator that has gone */
		job_offer_again(j, &j->join.failed);
	if (j->join.failed.code)
		*err = j->join.failed;
	return j->join.failed.code ? -1 : 0;
}
