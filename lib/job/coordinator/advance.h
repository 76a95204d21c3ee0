/*
 * Which progress of the ranks counts as progress of the job and holds off --timeout. Progress of
 * several ranks counts: bytes that move over a lane show at both of its ends. A rank alone may read
 * or write its files while the others wait for it, but only for a bounded time, because nothing but
 * its word shows it. Then it counts no longer, and the others report the rank for which they wait.
 * Pure.
 */
#ifndef COLLCTL_JOB_COORDINATOR_ADVANCE_H
#define COLLCTL_JOB_COORDINATOR_ADVANCE_H

#include <stdbool.h>
#include <stdint.h>

#define ADVANCE_ALONE 10 /* times --timeout: how long a rank's progress counts alone */

struct advance {
	int alone;     /* the rank that alone has had progress since; -1: none */
	int64_t since; /* clock_ns() */
};

void advance_init(struct advance *, int64_t now);
/* @ranks ranks have had progress since this function last returned true, among them @rank. Does it
 * count? @timeout: --timeout, ns. */
bool advance_counts(struct advance *, int ranks, int rank, int64_t now, int64_t timeout);

#endif
