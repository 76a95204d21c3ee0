/* The states of a job, and what may happen in each. */
#include "lib/job/job_internal.h"

#define TO(state) (1u << (state))

/* From JOB_ABORTED the search goes on, if a coordinator has refused this rank for a reason that
 * passes. */
const struct job_rules job_rules[JOB_STATES] = {
        [JOB_SEEKING] = {.next = TO(JOB_JOINED) | TO(JOB_ABORTED), .lost = JOB_ABORTED},
        [JOB_JOINED] = {.next = TO(JOB_AGREEING) | TO(JOB_ABORTED), .lost = JOB_ABORTED},
        [JOB_AGREEING] = {.next = TO(JOB_RUNNING) | TO(JOB_ABORTED), .lost = JOB_ABORTED},
        [JOB_RUNNING] = {.next = TO(JOB_VOTED) | TO(JOB_JOINED) | TO(JOB_ABORTED),
                         .lost = JOB_ABORTED,
                         .watches = true},
        [JOB_VOTED] = {.next = TO(JOB_COMMITTING) | TO(JOB_JOINED) | TO(JOB_ABORTED) |
                               TO(JOB_IN_DOUBT),
                       .lost = JOB_IN_DOUBT,
                       .watches = true},
        [JOB_COMMITTING] = {.next = TO(JOB_DONE) | TO(JOB_FINAL) | TO(JOB_ORPHANED),
                            .lost = JOB_ORPHANED,
                            .watches = true,
                            .verdict = true,
                            .decided = true},
        [JOB_DONE] = {.next = TO(JOB_FINAL) | TO(JOB_ORPHANED),
                      .lost = JOB_ORPHANED,
                      .watches = true,
                      .verdict = true,
                      .decided = true},
        [JOB_FINAL] = {.verdict = true, .decided = true, .ended = true},
        [JOB_ABORTED] = {.next = TO(JOB_SEEKING), .failed = true, .ended = true},
        [JOB_IN_DOUBT] = {.decided = true, .failed = true, .ended = true},
        [JOB_ORPHANED] = {.verdict = true, .decided = true, .failed = true, .ended = true},
};

bool job_move(struct job *j, enum job_state state)
{
	if (!(job_rules_of(j)->next & TO(state)))
		return false;
	j->state = state;
	return true;
}
