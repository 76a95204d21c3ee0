/* The vote, the verdict, and the outcome of the commit. */
#include <stdio.h>
#include <string.h>

#include "lib/job/coordinator/coord_internal.h"
#include "lib/job/ranks.h"

/* @how: "lost". The job does not end as if this rank had its new output, unless the rank reported
 * so. */
void coord_lose_after_verdict(struct member *m, const char *how)
{
	m->lost = true;
	if (m->done)
		return;
	m->outcome = (struct err){.code = ERR_PEER_LOST, .rank = m->rank};
	snprintf(m->outcome.text, sizeof m->outcome.text,
	         "%s after the verdict: its output may be the old one", how);
	coord_finish_commit(m->coord);
}

/* The part of its threads' time that a rank worked. */
static double busy_share(const struct workload *w)
{
	return w->total ? (double)w->busy / (double)w->total : 0;
}

/* The workload of the rank that worked longest: ranks run for about the same time. */
static struct workload busiest(const struct coord *c)
{
	struct workload most = {.rank = -1};
	for (int r = 0; r < c->conf.size; r++)
		if (busy_share(&c->votes[r].work) > busy_share(&most)) {
			most = c->votes[r].work;
			most.rank = r;
		}
	return most;
}

void coord_send_verdict(struct member *m)
{
	uint8_t memory[64];
	struct buf b;
	const struct workload work = busiest(m->coord);
	buf_init_fixed(&b, memory, sizeof memory);
	workload_encode(&work, &b);
	coord_send(m, MSG_VERDICT, &b);
	buf_release(&b);
}

void coord_give_verdict(struct coord *c)
{
	if (!coord_all_have(c, &c->upto.voted, offsetof(struct member, voted)))
		return;
	if (c->links.n) {
		coord_fail_links(c);
		return;
	}
	if (!agree_on_results(c->votes, c->conf.size, &c->comparison.disagreement)) {
		coord_disagree(c, PHASE_COMMIT);
		return;
	}
	struct err e = ERR_INIT;
	if (c->seats.nmissing && c->conf.confirm && c->conf.confirm(c->conf.ctx, &e) < 0) {
		e.rank = c->self;
		coord_fail(c, &e, PHASE_COMMIT);
		return;
	}
	coord_close_door(c);
	coord_enter(c, STAGE_COMMIT);
	for (int r = 0; r < c->conf.size; r++)
		coord_send_verdict(&c->members[r]);
}

static bool failed_too(const struct member *m)
{
	return m->done && m->outcome.code;
}

static bool lost_too(const struct member *m)
{
	return !m->done;
}

static bool has_new(const struct member *m)
{
	return m->done && m->fate == FATE_NEW;
}

/* Append the ranks other than @but for which @is holds. False: there are none. */
static bool say_ranks(const struct coord *c, bool (*is)(const struct member *), int but,
                      const char *one, const char *several, char *words, size_t cap)
{
	char list[128];
	struct rank_list ranks;
	int n = 0;
	rank_list_init(&ranks, list, sizeof list);
	for (int r = 0; r < c->conf.size; r++)
		if (r != but && !c->members[r].missing && is(&c->members[r])) {
			rank_list_add(&ranks, r);
			n++;
		}
	const size_t len = strlen(words);
	if (n)
		snprintf(words + len, cap - len, "; rank%s %s %s", n > 1 ? "s" : "",
		         rank_list_end(&ranks), n > 1 ? several : one);
	return n > 0;
}

static bool all_are_old(const struct coord *c)
{
	for (int r = 0; r < c->conf.size; r++) {
		const struct member *m = &c->members[r];
		if (!m->missing && (!m->done || m->fate == FATE_NEW || m->fate == FATE_MIXED))
			return false;
	}
	return true;
}

/* The outcome of the commit: the best evidence, the other ranks that failed or were lost, and those
 * that have new outputs. */
static struct err outcome_of(const struct coord *c)
{
	struct evidence best = {.err = ERR_INIT};
	for (int r = 0; r < c->conf.size; r++) {
		const struct member *m = &c->members[r];
		struct evidence e = {.kind = m->done ? EVIDENCE_OWN_WORD : EVIDENCE_LOST,
		                     .err = m->outcome,
		                     .phase = PHASE_COMMIT,
		                     .reporter = r};
		e.err.rank = r;
		if (e.err.code)
			best = *blame(&best, &e);
	}
	if (!best.err.code)
		return best.err;
	char words[512] = "";
	say_ranks(c, failed_too, best.err.rank, "failed after the verdict too",
	          "failed after the verdict too", words, sizeof words);
	say_ranks(c, lost_too, best.err.rank, "was lost after the verdict too",
	          "were lost after the verdict too", words, sizeof words);
	if (!say_ranks(c, has_new, best.err.rank, "has its new output", "have their new outputs",
	               words, sizeof words) &&
	    all_are_old(c))
		snprintf(words + strlen(words), sizeof words - strlen(words),
		         "; no rank has a new output");
	struct err told = {.rank = best.err.rank};
	err_rank(&told, best.err.code, best.err.rank, "%.*s%s", (int)sizeof best.err.text,
	         best.err.text, words);
	told.subject = best.err.subject;
	return told;
}

void coord_send_final(struct member *m)
{
	struct buf b;
	uint8_t memory[ERR_MESSAGE];
	coord_err_message(&m->coord->failure, PHASE_COMMIT, &b, memory);
	coord_send(m, MSG_FINAL, &b);
	buf_release(&b);
}

/* Send the outcome once each rank has committed, has failed, or was lost after the verdict. */
void coord_finish_commit(struct coord *c)
{
	for (int *r = &c->upto.ended; *r < c->conf.size; ++*r)
		if (!c->members[*r].done && !c->members[*r].lost)
			return;
	c->failure = outcome_of(c);
	coord_name_host(c, &c->failure);
	coord_enter(c, STAGE_FINAL);
	for (int r = 0; r < c->conf.size; r++)
		coord_send_final(&c->members[r]);
}
