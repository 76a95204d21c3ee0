/*
 * --trace: every rank records what it does (lib/exec/trace.h). Before the vote the ranks send their
 * records to the coordinator, in rounds, with times of the coordinator's clock. plan.trace says
 * whether a job is traced. One thread: the job's.
 *
 * A rank's part of a round (job_round):
 *
 *         u64 ns: the largest error of the rank's times; u64 number of events that were not kept;
 *     u8 1 if another part follows; events (trace_event_put) to the end
 *
 * The answer: u8 1 if a rank has another part, so that there is another round.
 */
#ifndef COLLCTL_COLL_TRACING_H
#define COLLCTL_COLL_TRACING_H

#include "lib/base/buf.h"
#include "lib/exec/trace.h"
#include "lib/job/job.h"

struct coll;

struct tracing {
	struct trace trace;
	struct clock_offset first, last; /* measured before and after data move */
	size_t sent;                     /* number of this rank's events that were sent */
	/* on the coordinator */
	size_t *taken;  /* [size] number of events of each rank so far */
	bool more;      /* a rank has another part */
	struct err why; /* the error of the observer, if it has failed */
};

/* A decoded part. */
struct trace_part {
	uint64_t error, missed;
	bool more;
	struct view events; /* of a whole number of events; points into the message */
};
/* -1: malformed. */
int trace_part_decode(struct trace_part *, struct view, struct err *err);

/* The most events that each of @size ranks keeps. */
size_t tracing_capacity(int size);

/* Called in a traced job: before connections are opened; before data move; when the output is
 * complete. tracing_collect adds the events of the stages, and sends the records. */
int tracing_begin(struct coll *, struct err *err);
int tracing_sync(struct coll *, struct err *err);
int tracing_collect(struct coll *, struct err *err);
void tracing_release(struct coll *);

/* job_collect and job_answer; @ctx is the struct coll. */
int tracing_take_part(void *ctx, int rank, struct view part, struct err *err);
void tracing_answer(void *ctx, int rank, struct buf *out);

#endif
