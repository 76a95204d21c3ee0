/* Finding the coordinator, or becoming it. */
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/job/dial.h"
#include "lib/job/job_internal.h"

#define BACKOFF_MAX   (250 * NS_PER_MS)
#define DIAL_PATIENCE (5 * NS_PER_SEC)

/* ---- the coordinator ---- */

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
void job_withdraw(void *ctx)
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
	        .deliver = job_handle_message,
	        .decide = decide,
	        .details = details,
	        .table = table,
	        .noun = noun,
	        .complete = job_withdraw,
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
	job_log(j, 2, "listening for the other ranks");
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
		if (loop_turn(&j->loop, end, err) < 0 || job_check_signal(j, err) < 0)
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
	job_send(j, MSG_PRESENT, &b);
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
	        .interrupted = job_interrupted,
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
	job_log(j, 2, "connecting to %s at %s", COORDINATOR(j), addr_text(to, true, text));
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
	if (job_check_signal(j, why) < 0)
		return -1;
	err_set(why, e.code, "%s at %s (%s): %s%s", COORDINATOR(j), addr_text(to, true, text),
	        rendezvous_source(j->rendezvous, source, sizeof source), e.text,
	        e.code == ERR_AUTH ? name_hint(j, hint, sizeof hint) : "");
	job_log(j, 2, "%s", why->text);
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
				return j->aborted ? job_check(j, err) : 0;
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
		if (job_turn_before(j, until, err) < 0)
			return -1;
	}
	return 0;
}

int job_enter(struct job *j, struct err *err)
{
	if (job_take_signals(j, err) < 0)
		return -1;
	if (join(j, err) < 0 || await_rank(j, err) < 0) {
		if (j->signal) { /* whatever call it interrupted */
			err_clear(err);
			job_check_signal(j, err);
		}
		return -1;
	}
	const char *host = j->coordinator_host;
	if (!j->coord)
		job_log(j, 1, "joined as rank %d of %d; the coordinator is rank %d%s%s%s", j->rank,
		        j->size, j->coordinator, *host ? " (" : "", host, *host ? ")" : "");
	else
		job_log(j, 1, "coordinates the job as rank %d of %d", j->rank, j->size);
	job_beat(j);
	return 0;
}
