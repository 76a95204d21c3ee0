/*
 * --trace: every rank records what it does (lib/exec/trace.h), and the coordinator gets the records
 * of all ranks, on its own time axis, before the vote. plan.trace says whether a job is traced.
 *
 * A part of a round (job_round):
 *
 *     u64 ns by which the rank's times may be wrong; u64 events that it did not keep;
 *     u8 1 if another part follows; events (trace_event_put) to the end
 *
 * The answer: u8 1 if a rank has another part.
 */
#ifndef COLLCTL_COLL_TRACING_H
#define COLLCTL_COLL_TRACING_H

#include "lib/base/buf.h"
#include "lib/exec/trace.h"
#include "lib/job/job.h"

struct coll;

struct tracing {
	struct trace trace;
	struct clock_offset first, last;
	size_t sent; /* events of this rank's that have been sent */
	/* the coordinator's */
	size_t *taken;  /* [size] events of each rank */
	bool more;      /* a rank has another part */
	struct err why; /* the observer has failed */
};

/* A decoded part. */
struct trace_part {
	uint64_t error, missed;
	bool more;
	struct view events; /* whole ones */
};
/* -1: malformed. */
int trace_part_decode(struct trace_part *, struct view, struct err *err);

/* The events that a rank of @size keeps at most. */
size_t tracing_capacity(int size);

/* The stages of a traced job (c->plan.trace): before connections are opened; before data move; the
 * output is complete. tracing_collect also adds the events of the stages. */
int tracing_begin(struct coll *, struct err *err);
int tracing_sync(struct coll *, struct err *err);
int tracing_collect(struct coll *, struct err *err);
void tracing_release(struct coll *);

/* job_collect and job_answer, with the struct coll. */
int tracing_take_part(void *ctx, int rank, struct view part, struct err *err);
void tracing_answer(void *ctx, int rank, struct buf *out);

#endif
