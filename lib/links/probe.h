/*
 * Tests links: connects every edge of a mesh, and sends PROBE_BYTES, more than a packet, over it.
 * If an edge fails, the others continue; the rank reports its failed edges to the coordinator,
 * which names those of all ranks at the vote. One thread: the job's.
 */
#ifndef COLLCTL_LINKS_PROBE_H
#define COLLCTL_LINKS_PROBE_H

#include "lib/job/job.h"

#define PROBE_BYTES (64u << 10) /* on each edge */

struct probe_stats {
	uint64_t bytes_sent, bytes_received, messages;
	int failed; /* edges of this rank */
};

/* Test the edges to @out[nout] and from @in[nin], both ascending. An edge that makes no progress
 * for --timeout fails. Returns the mesh, stopped (mesh_stop), with open connections on the edges
 * that work; the job owns it. NULL: the job has failed for another reason. */
struct mesh *probe_links(struct job *, const int *out, int nout, const int *in, int nin,
                         struct probe_stats *stats, struct err *err);

#endif
