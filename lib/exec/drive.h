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
	struct exec_conf conf; /* conn, conn_ctx and edges are filled here */
	uint64_t memory;       /* bytes that the connections' buffers may take */
	uint64_t lane_bytes;   /* no connection has more to carry: a larger buffer is no use */
	/* results */
	struct mesh *mesh; /* the job's; NULL: no edges */
	int npeers;
	struct exec *exec; /* the caller's to free, before the job is closed */
	struct exec_stats stats;
	struct loop_watch files;
	uint8_t *edges; /* from drive_connect to the executor's making: found once */
};

/* Connect the edges of conf's schedules. drive_run or drive_begin must follow. */
int drive_connect(struct drive *, struct err *err);
/* Connect @used (exec_edges) of conf.parts[0].args.size ranks and conf.streams streams: of several
 * schedules that follow one another. */
int drive_connect_edges(struct drive *, const uint8_t *used, struct err *err);

/* Make conf's executor, run it to its end, and let go of the job's loop. */
int drive_run(struct drive *, struct err *err);
/* The same in steps: drive_go runs to the end, also after exec_repeat. */
int drive_begin(struct drive *, struct err *err);
int drive_go(struct drive *, struct err *err);
void drive_end(struct drive *);

#endif
