/*
 * Driving: connect the edges that a schedule uses and run the executor over them on the job's loop,
 * with heartbeats, abort and the watch for stalls going on.
 */
#ifndef COLLCTL_EXEC_DRIVE_H
#define COLLCTL_EXEC_DRIVE_H

#include "lib/exec/exec.h"
#include "lib/job/job.h"

struct drive {
	struct job *job;
	struct exec_conf conf; /* conn and conn_ctx are filled here */
	uint64_t memory;       /* bytes that the connections' buffers may take */
	uint64_t lane_bytes;   /* no connection has more to carry: a larger buffer is no use */
	/* results */
	struct mesh *mesh; /* the job's; NULL: no edges */
	int npeers;
	struct exec *exec; /* the caller's to free, before the job is closed */
	struct exec_stats stats;
};

int drive_connect(struct drive *, struct err *err);
int drive_run(struct drive *, struct err *err);

#endif
