/*
 * Which progress of ranks is progress of the job, so that --timeout starts again. Progress of
 * several ranks counts, because bytes that are sent are progress at both ends. Progress of one rank
 * alone, for instance while it reads or writes files and the others wait, counts only for a bounded
 * time, because nothing but the rank's own report shows it. After this time the other ranks report
 * the rank for which they wait. Pure.
 */
#ifndef COLLCTL_JOB_COORDINATOR_ADVANCE_H
#define COLLCTL_JOB_COORDINATOR_ADVANCE_H

#include <stdbool.h>
#include <stdint.h>

#define ADVANCE_ALONE 10 /* the progress of one rank alone counts for this many times --timeout */

struct advance {
	int alone;     /* the only rank with progress since `since`; -1: none */
	int64_t since; /* clock_ns() */
};

void advance_init(struct advance *, int64_t now);
/* Since this function last returned true, @ranks ranks have reported progress; @rank is one of
 * them. Does it count? @timeout: --timeout, ns. */
bool advance_counts(struct advance *, int ranks, int rank, int64_t now, int64_t timeout);

#endif
