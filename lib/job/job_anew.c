/* With --min-ranks: a rank was lost before the verdict, and the others form the job anew, without
 * it (coord_anew.c). */
#include <string.h>

#include "lib/base/clock.h"
#include "lib/job/job_internal.h"

/* May the job go on without some ranks? */
static bool can_miss(const struct job *j)
{
	const int fewest = j->conf.settings->min_ranks;
	return j->callbacks.forms_anew && fewest > 0 && fewest < j->size;
}

/* Wait for what the coordinator makes of *err, which is not this rank's own failure: ANEW, or the
 * failure of the job, which replaces *err. */
static void ask(struct job *j, struct err *err)
{
	job_report(j, err, REPORT_WAITS);
	job_caller_watches(j, true);
	while (!job_goes_back(j) && job_turn(j, err) == 0)
		continue;
	job_caller_watches(j, false);
}

bool job_forms_anew(struct job *j, struct err *err)
{
	const bool others = err->rank >= 0 && err->rank != j->rank;
	if (!j->anew.asked && others && can_miss(j) && j->state == JOB_RUNNING &&
	    !job_goes_back(j) && !j->own.code)
		ask(j, err);
	if (!j->anew.asked || job_rules_of(j)->failed)
		return false;
	err_clear(err);
	/* A signal, or a failure of this rank, may have come after ANEW ended the call. */
	return !(j->own.code || j->signal) || job_check(j, err) == 0;
}

void job_form_anew(struct job *j)
{
	j->anew.asked = false;
	j->said.question = ASKS_NOTHING;
	j->said.pages = 0;
	j->said.busiest.rank = j->work.rank = -1;
	j->back = (struct job_back){.times = j->back.times};
	j->links.failed.len = 0;
	job_stop_links(j);
	job_phase(j, PHASE_JOIN);
	job_moved(j, 0, 0);
}

int job_take_anew(struct job *j, struct view v, struct err *err)
{
	struct err why;
	enum phase phase;
	(void)err;
	if (!can_miss(j) || j->anew.times == j->size || err_decode(&why, &phase, &v) < 0 ||
	    !why.code || why.rank < 0 || why.rank >= j->size || why.rank == j->rank)
		return -1;
	const char *host = why.host;
	if (!j->coord) /* which says so to every user */
		job_log(j, 1,
		        "rank %d%s%s%s takes no part in the job any more: %s; the others begin "
		        "again without it",
		        why.rank, *host ? " (" : "", host, *host ? ")" : "", why.text);
	j->anew.asked = true;
	j->anew.times++;
	j->anew.why = why;
	j->join.deadline = clock_ns() + j->conf.settings->join_timeout;
	job_move(j, JOB_JOINED);
	return 0;
}
