/*
 * Connects the edges that a schedule uses and runs the executor over them on the job's loop, where
 * heartbeats, aborts and stall detection continue.
 */
#ifndef COLLCTL_COLL_DRIVE_H
#define COLLCTL_COLL_DRIVE_H

#include "lib/exec/device.h"
#include "lib/exec/exec.h"
#include "lib/exec/shared_space.h"
#include "lib/exec/team.h"
#include "lib/job/job.h"

struct drive {
	struct job *job;
	struct exec_conf
	        conf; /* drive sets conn, conn_ctx, edges and, with devices, their spaces */
	struct devices *devices; /* NULL: none */
	int threads;             /* that run the streams; 0, 1: the caller's */
	uint64_t memory;         /* bytes for the connections' buffers */
	uint64_t window_bytes;   /* the most that the windows' buffers need; 0: share none */
	uint64_t lane_bytes;     /* the most that a connection carries; limits its buffer */
	/* results */
	struct team *team;          /* with threads, in place of exec; ended by drive_end */
	struct mesh *mesh;          /* the job's; NULL: no edges */
	struct shared_space shared; /* over its arena */
	int npeers;
	struct exec *exec; /* the caller frees it before the job closes */
	struct exec_stats stats;
	struct exec_times times; /* with conf.timed; the caller sets its peers */
	struct loop_watch files;
	uint8_t *edges; /* found by drive_lanes, used until the executor exists */
};

/* The number of connections that conf's schedules use, or -1. drive_connect reuses d->edges; a
 * caller that does not call it frees d->edges. */
int drive_lanes(struct drive *, struct err *err);
/* Connect the edges of conf's schedules. The caller must call drive_run or drive_begin next. */
int drive_connect(struct drive *, struct err *err);
/* Connect the edges @used (exec_edges) for conf.vectors[0].args.size ranks and conf.streams
 * streams. Used to run several schedules in turn. */
int drive_connect_edges(struct drive *, const uint8_t *used, struct err *err);

/* Create conf's executor, run it to its end and detach it from the job's loop. */
int drive_run(struct drive *, struct err *err);
/* The same in steps: drive_go runs to the end, also after exec_repeat. */
int drive_begin(struct drive *, struct err *err);
int drive_go(struct drive *, struct err *err);
void drive_end(struct drive *);

/* While the caller moves data on the job's loop by other means: the loop yields before it sleeps,
 * as in drive_go. */
void drive_hurry(struct job *, bool on);

#endif
