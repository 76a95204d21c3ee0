/*
 * Testing links: connect every edge of a mesh, and send more bytes over it than any packet holds.
 * An edge that fails does not end the job: the others continue. This rank reports its failed edges
 * to the coordinator, which names those of all ranks when they vote.
 */
#ifndef COLLCTL_LINKS_PROBE_H
#define COLLCTL_LINKS_PROBE_H

#include "lib/job/job.h"

#define PROBE_BYTES (64u << 10) /* on each edge */

struct probe_stats {
	uint64_t bytes_sent, bytes_received, messages;
	int failed; /* edges of this rank */
};

/* Test the edges to @out and from @in (ascending). An edge without progress for --timeout has
 * failed. Returns the mesh, stopped (mesh_stop), which the job owns: the connections of the others
 * stay open. NULL: the job has failed for another reason. */
struct mesh *probe_links(struct job *, const int *out, int nout, const int *in, int nin,
                         struct probe_stats *stats, struct err *err);

#endif
