/*
 * Trying links: every edge of a mesh is connected and carries more bytes than any packet holds. One
 * that fails does not end the job: the others go on, and all that failed on this rank go to the
 * coordinator, which names those of all ranks when they vote.
 */
#ifndef COLLCTL_JOB_PROBE_H
#define COLLCTL_JOB_PROBE_H

#include "lib/job/job.h"

#define PROBE_BYTES (64u << 10) /* on each edge */

struct probe_stats {
	uint64_t bytes_sent, bytes_received, messages;
	int failed; /* edges of this rank */
};

/* Try the edges to @out and from @in (ascending). What does not move for --timeout has failed. -1:
 * the job has ended otherwise. */
int probe_links(struct job *, const int *out, int nout, const int *in, int nin,
                struct probe_stats *stats, struct err *err);

#endif
