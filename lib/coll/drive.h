/*
 * Connects the edges that schedules use, and runs the executor over them on the job's loop, so that
 * heartbeats, aborts and the detection of stalls continue. An edge is a pair of ranks and a
 * direction (mesh.h); it has one connection per stream.
 *
 * Order of calls: [drive_lanes ->] drive_connect or drive_connect_edges -> drive_run, or
 * drive_begin -> drive_go ... -> drive_end. The caller calls drive_end also if drive_begin failed,
 * then exec_free(d->exec), both before the job closes. One thread: the job's. Errors: those of
 * job_connect, job_turn and the executor; err->rank is the culprit.
 */
#ifndef COLLCTL_COLL_DRIVE_H
#define COLLCTL_COLL_DRIVE_H

#include "lib/coll/pipeline.h"
#include "lib/exec/device.h"
#include "lib/exec/exec.h"
#include "lib/exec/shared_space.h"
#include "lib/exec/team.h"
#include "lib/job/job.h"

struct drive {
	struct job *job;
	struct exec_conf conf;   /* drive sets conn, conn_ctx, edges, host and devices */
	struct devices *devices; /* the first of a set for each thread; NULL: none */
	int threads;     /* number of threads that run the streams (team.h); 0, 1: the job's */
	uint64_t memory; /* --memory, bytes, of which connections have a share (budget.h) */
	uint64_t window_bytes; /* bytes of the arena for windows' buffers (mesh.h); 0: none */
	uint64_t lane_bytes;   /* the most bytes that a connection carries; limits its buffer */
	/* A lane that breaks takes all ranks back (job_go_back): `back` makes this rank ready to
	 * run once more the windows from conf.first on. NULL: the job does not go back. stays: this
	 * rank cannot go back, so that the job fails; whole: only to the first window. */
	void (*back)(void *ctx);
	void *back_ctx;
	bool stays, whole;
	/* What all runs move, for the job's progress; PIPELINE_STORE is the caller's. The caller
	 * may set the weights, by pipeline_weigh. */
	struct pipeline pipeline;
	/* results */
	struct team *team;          /* with threads, instead of exec; drive_end frees it */
	struct mesh *mesh;          /* owned by the job; NULL: there are no edges */
	struct shared_space shared; /* over the mesh's arena */
	int npeers;                 /* number of ranks with an edge */
	struct exec *exec;          /* the caller frees it */
	struct exec_stats stats;
	struct exec_stats before; /* what an earlier run has moved, or a session that is over */
	bool again;               /* another run follows */
	bool broke;               /* a lane broke, and nothing else */
	uint64_t complete;        /* windows before this one are, as in exec_complete */
	struct exec_times times;  /* with conf.timed, once finished; the caller sets its peers */
	struct loop_watch files;
	uint8_t *edges; /* [size], as exec_edges; malloced; the caller frees it */
};

/* Find the edges of conf's schedules, and store them in d->edges. Returns the number of
 * connections; -1: error. */
int drive_lanes(struct drive *, struct err *err);
/* Connect the edges of conf's schedules, and wait until all are ready, or the job goes back. */
int drive_connect(struct drive *, struct err *err);
/* Connect the edges @used (exec_edges) of exec_ranks ranks, by conf.streams
 * connections each: for a caller that runs several schedules over one mesh. */
int drive_connect_edges(struct drive *, const uint8_t *used, struct err *err);

/* drive_begin, drive_go, drive_end; with d->back as often as the job goes back, until the data of
 * all ranks have moved. */
int drive_run(struct drive *, struct err *err);
/* The same for the first of two runs: leaves the connections to the second, drive_run, whose
 * results include what the first has moved; untimed. Frees the executor. */
int drive_run_first(struct drive *, struct err *err);
/* Create conf's executor or team. */
int drive_begin(struct drive *, struct err *err);
/* Run the executor until it has finished; may be called again after exec_repeat. */
int drive_go(struct drive *, struct err *err);
/* Detach the executor from the job's loop, and free the team. */
void drive_end(struct drive *);

/* For a caller that moves data on the job's loop without a drive: make the loop yield before it
 * sleeps (loop.h), as between drive_begin and drive_end, near @devices (or NULL); @on false: sleep
 * at once again. */
void drive_hurry(struct job *, const struct devices *devices, bool on);

#endif
