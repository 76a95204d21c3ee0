/* Heartbeats, the progress of this rank and of the others, and stalls. */
#include <stdio.h>

#include "lib/base/clock.h"
#include "lib/job/job_internal.h"

/* Data count as moved again when the peer's machine acknowledges them. In a long queue that may be
 * long after the socket took them. */
static void look_at_acknowledged(struct job *j)
{
	uint64_t now = j->links.mesh ? mesh_acknowledged(j->links.mesh) : 0;
	if (now == j->beats.acknowledged)
		return;
	j->beats.acknowledged = now;
	j->beats.moved_at = clock_ns();
}

/* How much longer than --timeout the messages of other ranks may take. */
static int64_t allowance(const struct job *j)
{
	return j->coord ? coord_allowance(j->coord) : conn_round_trip(j->ctl.conn);
}

static void send_beat(struct job *j)
{
	const struct beat beat = {.phase = j->beats.phase,
	                          .moved = j->beats.moved,
	                          .total = j->beats.total,
	                          .acknowledged = j->beats.acknowledged};
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
	int64_t now = clock_ns(), interval = j->conf.settings->timeout / 4,
	        silence = now - j->ctl.heard;
	char how[64];
	if (interval > NS_PER_SEC)
		interval = NS_PER_SEC;
	look_at_acknowledged(j);
	send_beat(j);
	loop_timer_set(&j->loop, &j->beats.timer, now + interval);
	if (j->coord || (!job_rules_of(j)->watches && !j->anew.times) ||
	    silence <= j->conf.settings->timeout || !ctl_open(&j->ctl) ||
	    silence <= j->conf.settings->timeout + allowance(j))
		return;
	ctl_look(&j->ctl); /* this process may have been stopped since it looked */
	if (!ctl_open(&j->ctl) || j->ctl.heard >= now)
		return;
	/* Not the time that this rank has measured: all ranks say the same. */
	snprintf(how, sizeof how, "no message for more than %g s (--timeout)",
	         (double)j->conf.settings->timeout / 1e9);
	if (job_inquire(j, how))
		return;
	job_lose_coordinator(j, j->state >= JOB_VOTED ? ERR_PEER_LOST : ERR_STALLED, how,
	                     ": stopped or unreachable");
}

/* The coordinator learns of a new phase at once, because its messages name the phase in which a
 * rank is lost. */
void job_phase(struct job *j, enum phase phase)
{
	bool entered = phase != j->beats.phase;
	j->beats.phase = phase;
	j->beats.moved_at = clock_ns();
	if (entered) {
		job_log(j, 1, "phase %s", phase_name(phase));
		send_beat(j);
	}
}

void job_moved(struct job *j, uint64_t moved, uint64_t total)
{
	if (moved != j->beats.moved)
		j->beats.moved_at = clock_ns();
	j->beats.moved = moved;
	j->beats.total = total;
}

void job_progress(const struct job *j, struct job_progress *out)
{
	*out = (struct job_progress){
	        .phase = j->beats.phase,
	        .moved = j->beats.moved,
	        .total = j->beats.total,
	        .slowest = j->beats.slowest.rank,
	        .slowest_phase = j->beats.slowest.phase,
	        .slowest_done = (double)j->beats.slowest.done / PACE_DONE,
	        .joined = j->said.joined,
	};
}

void job_advances(struct job *j)
{
	j->beats.moved_at = clock_ns();
}

void job_caller_watches(struct job *j, bool yes)
{
	j->beats.caller_watches = yes;
	j->beats.moved_at = clock_ns();
}

void job_take_pace(struct job *j, const struct pace *pace)
{
	if (pace->moved != j->beats.slowest.moved)
		j->beats.others_moved_at = clock_ns();
	j->beats.slowest = *pace;
}

void job_waits(struct job *j, job_waits_fn *fn, void *ctx)
{
	j->beats.waits = fn;
	j->beats.waits_ctx = ctx;
}

static bool may_stall(const struct job *j)
{
	return j->state >= JOB_RUNNING && !j->beats.caller_watches &&
	       (j->beats.phase == PHASE_CONNECT || j->beats.phase == PHASE_RUN);
}

static int stalled(struct job *j, struct err *err)
{
	char device[200] = "";
	int peers[8], n = 0;
	if (j->beats.waits)
		n = j->beats.waits(j->beats.waits_ctx, peers, 8, device, sizeof device);
	double s = (double)(clock_ns() - j->beats.moved_at) / 1e9;
	int silent = j->links.mesh ? mesh_unanswered(j->links.mesh) : -1;
	j->beats.unanswered = silent >= 0;
	if (j->beats.unanswered)
		return err_rank(
		        err, ERR_STALLED, silent,
		        "no progress for %.1f s %s: it does not acknowledge the bytes from rank "
		        "%d",
		        s, phase_words(j->beats.phase), j->rank);
	if (*device)
		return err_set(err, ERR_STALLED, "no progress for %.1f s %s: %s", s,
		               phase_words(j->beats.phase), device);
	if (n == 0 && j->links.mesh) {
		struct err broke = {0};
		peers[0] = mesh_missing(j->links.mesh, &broke);
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
		               phase_words(j->beats.phase));
	return err_rank(err, ERR_STALLED, peers[0],
	                "no progress for %.1f s %s: rank %d waits for it", s,
	                phase_words(j->beats.phase), j->rank);
}

/* When the job counts as stalled: nothing has moved on this rank or any other for --timeout. The
 * data that this rank waits for may be queued behind those of other ranks. */
static int64_t stall_at(const struct job *j, int64_t now)
{
	int64_t at = j->beats.moved_at + j->conf.settings->timeout;
	if (now < at)
		return at;
	if (j->beats.others_moved_at > j->beats.moved_at)
		at = j->beats.others_moved_at + j->conf.settings->timeout;
	return (j->coord || ctl_open(&j->ctl)) ? at + allowance(j) : at;
}

int job_watch_stall(struct job *j, int64_t *until, struct err *err)
{
	if (!may_stall(j))
		return 0;
	int64_t now = clock_ns(), at = stall_at(j, now);
	if (now >= at) { /* look at the connections once more before deciding */
		if (loop_turn(&j->loop, 0, err) < 0 || job_check(j, err) < 0)
			return -1;
		look_at_acknowledged(j);
		at = stall_at(j, now);
		if (now >= at)
			return stalled(j, err);
	}
	if (at < *until)
		*until = at;
	return 0;
}
