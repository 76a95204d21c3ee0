/* The heartbeats: who is silent, who is slowest, and does the job advance? */
#include <stdio.h>

#include "lib/base/clock.h"
#include "lib/job/coordinator/coord_internal.h"

int64_t coord_beat_interval(const struct coord *c)
{
	int64_t t = c->conf.settings->timeout / 4;
	return t > NS_PER_SEC ? NS_PER_SEC : t;
}

static int64_t silence(const struct coord *c, const struct member *m, int64_t now)
{
	int64_t heard = m->ctl.heard > c->roster_at ? m->ctl.heard : c->roster_at;
	return now - heard;
}

const char *coord_silent_text(const struct member *m, int64_t now, char text[COORD_SILENT_TEXT])
{
	snprintf(text, COORD_SILENT_TEXT, "no message for %.1f s",
	         (double)silence(m->coord, m, now) / 1e9);
	return text;
}

/* How much longer than @limit a member may be silent: as long as its messages may take. */
static int64_t allowance(const struct member *m)
{
	return ctl_open(&m->ctl) ? conn_round_trip(m->ctl.conn) : 0;
}

/* The rank's phase, as far as its messages show. */
enum phase coord_phase_of(const struct coord *c, const struct member *m)
{
	if (c->stage == STAGE_JOIN)
		return PHASE_JOIN;
	if (m->voted)
		return PHASE_COMMIT;
	return m->beat.phase > PHASE_CONNECT ? m->beat.phase : PHASE_CONNECT;
}

struct evidence coord_silence_of(const struct coord *c, const struct member *m, int64_t now)
{
	struct evidence e = {.kind = EVIDENCE_SILENCE,
	                     .err = {.code = ERR_STALLED, .rank = m->rank},
	                     .phase = coord_phase_of(c, m)};
	snprintf(e.err.text, sizeof e.err.text, "no message for %.1f s %s: stopped or unreachable",
	         (double)silence(c, m, now) / 1e9, phase_words(e.phase));
	return e;
}

/* The rank that has been silent for the longest time, and longer than @limit; NULL: none. */
struct member *coord_most_silent(const struct coord *c, int64_t limit, int64_t now)
{
	struct member *most = NULL;
	for (int r = 0; r < c->conf.size; r++) {
		struct member *m = &c->members[r];
		if (!ctl_open(&m->ctl) || m->lost || silence(c, m, now) <= limit ||
		    silence(c, m, now) <= limit + allowance(m))
			continue;
		limit = silence(c, m, now);
		most = m;
	}
	return most;
}

/* The fraction of its bytes that @m has moved; 1: all, or their number is not known. */
static double fraction(const struct member *m)
{
	const struct beat *b = &m->beat;
	if (b->phase < PHASE_RUN)
		return 0;
	return b->phase == PHASE_RUN && b->moved < b->total ? (double)b->moved / (double)b->total
	                                                    : 1;
}

/* The slowest rank: in the earliest phase, with the smallest fraction of its bytes moved. Rank -1
 * if all known work is done. */
static struct pace slowest(const struct coord *c)
{
	struct pace p = {.rank = -1, .phase = PHASE_RUN};
	double least = 1;
	for (int r = 0; r < c->conf.size; r++) {
		const struct member *m = &c->members[r];
		double done = fraction(m);
		if (m->missing)
			continue;
		if (m->beat.phase < p.phase || (m->beat.phase == p.phase && done < least)) {
			p = (struct pace){.rank = r, .phase = m->beat.phase};
			least = done;
		}
	}
	p.done = (uint32_t)(least * PACE_DONE);
	p.moved = c->moved;
	return p;
}

static uint64_t progress_of(const struct member *m)
{
	return m->beat.moved + m->beat.acknowledged;
}

/* Take what the ranks have moved, if that counts as progress of the job. */
static void look_at_progress(struct coord *c)
{
	int ranks = 0, rank = -1;
	for (int r = 0; r < c->conf.size; r++)
		if (progress_of(&c->members[r]) != c->members[r].counted) {
			ranks++;
			rank = r;
		}
	if (!advance_counts(&c->advance, ranks, rank, clock_ns(), c->conf.settings->timeout))
		return;
	c->moved = 0;
	for (int r = 0; r < c->conf.size; r++) {
		c->members[r].counted = progress_of(&c->members[r]);
		c->moved += c->members[r].counted;
	}
}

static void send_pace(struct coord *c)
{
	look_at_progress(c);
	struct pace p = slowest(c);
	struct buf b;
	uint8_t memory[64];
	buf_init_fixed(&b, memory, sizeof memory);
	pace_encode(&p, &b);
	coord_send_all(c, MSG_BEAT, &b);
	buf_release(&b);
}

void coord_watch_beats(void *ctx)
{
	struct coord *c = ctx;
	int64_t now = clock_ns();
	struct member *silent;
	while (c->stage != STAGE_FINAL && c->stage != STAGE_FAILED &&
	       (silent = coord_most_silent(c, c->conf.settings->timeout, now))) {
		char how[COORD_SILENT_TEXT];
		if (c->stage == STAGE_JOIN || c->stage == STAGE_RUN) {
			struct evidence e = coord_silence_of(c, silent, now);
			if (coord_does_without(silent, &e.err, e.phase))
				continue;
			coord_fail(c, &e.err, e.phase);
			return;
		}
		/* This process may have been stopped since it looked. */
		ctl_look(&silent->ctl);
		if (!ctl_open(&silent->ctl) || silence(c, silent, now) <= 0)
			continue;
		/* Its link may be broken unseen. It notices that the link has ended, and asks. */
		if (c->inquiries.open && coord_leaves(silent, now - silence(c, silent, now)))
			ctl_release(&silent->ctl);
		else /* the link stays open: a rank that continues learns the outcome */
			coord_lose_after_verdict(silent, coord_silent_text(silent, now, how));
	}
	if (c->stage == STAGE_FINAL || c->stage == STAGE_FAILED)
		return;
	send_pace(c);
	coord_set_timer(c, TIMER_BEAT, now + coord_beat_interval(c));
}

int64_t coord_allowance(const struct coord *c)
{
	int64_t most = 0;
	for (int r = 0; r < c->conf.size; r++)
		if (allowance(&c->members[r]) > most)
			most = allowance(&c->members[r]);
	return most;
}
