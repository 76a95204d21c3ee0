#include "lib/coll/tracing.h"

#include <stdlib.h>

#include "lib/coll/task.h"

#define EVENTS_MOST 262144     /* of a rank: 12 MiB */
#define EVENTS_ALL  (4u << 20) /* of all ranks: about what a viewer of traces can open */
#define PART_HEAD   (8 + 8 + 1)

size_t tracing_capacity(int size)
{
	size_t share = EVENTS_ALL / (size_t)size;
	return share < EVENTS_MOST ? share : EVENTS_MOST;
}

int tracing_begin(struct coll *c, struct err *err)
{
	if (!(c->tracing = err_calloc(1, sizeof *c->tracing, "the trace", err)))
		return -1;
	c->tracing->why.rank = ERR_RANK_SELF;
	const struct coll_traced none = {.rank = c->rank, .size = c->size, .host = ""};
	const struct coll_observer *o = c->observer;
	if (c->rank == job_coordinator(c->job)) {
		if (!(c->tracing->taken = err_calloc((size_t)c->size, sizeof *c->tracing->taken,
		                                     "the trace", err)))
			return -1;
		if (o->traced && o->traced(o->ctx, &none, err) < 0)
			return -1;
	}
	return trace_init(&c->tracing->trace, tracing_capacity(c->size), err);
}

void tracing_release(struct coll *c)
{
	if (c->tracing) {
		trace_release(&c->tracing->trace);
		free(c->tracing->taken);
	}
	free(c->tracing);
	c->tracing = NULL;
}

int tracing_sync(struct coll *c, struct err *err)
{
	return job_clock(c->job, &c->tracing->first, err);
}

/* ---- this rank's parts ---- */

static struct trace_event stage(enum trace_kind kind, int64_t start, int64_t end)
{
	return (struct trace_event){.start = start,
	                            .end = end,
	                            .window = TRACE_NONE,
	                            .step = TRACE_NONE,
	                            .peer = -1,
	                            .kind = (uint8_t)kind};
}

static void add_stages(struct coll *c)
{
	const struct coll_times *t = &c->times;
	const struct trace_event stages[] = {
	        stage(TRACE_JOIN, t->start, t->join), stage(TRACE_CONNECT, t->join, t->connect),
	        stage(TRACE_RUN, t->connect, t->run), stage(TRACE_SEAL, t->run, t->seal)};
	trace_add_last(&c->tracing->trace, stages, sizeof stages / sizeof *stages);
}

/* On the coordinator's clock, which counts from its machine's start. */
static int64_t on_axis(const struct tracing *t, int64_t ns)
{
	const int64_t there = clock_offset_apply(&t->first, &t->last, ns);
	return there < 0 ? 0 : there;
}

/* The next part of this rank. Times become the coordinator's. */
static void put_part(struct tracing *t, struct buf *out)
{
	const size_t kept = trace_kept(&t->trace), left = kept - t->sent;
	const size_t fit = (JOB_ROUND_MAX - PART_HEAD) / TRACE_EVENT_BYTES;
	const size_t n = left < fit ? left : fit;
	const int64_t error = t->first.error > t->last.error ? t->first.error : t->last.error;
	buf_put_u64(out, (uint64_t)error);
	buf_put_u64(out, atomic_load(&t->trace.added) - kept);
	buf_put_u8(out, left > fit);
	for (size_t i = 0; i < n; i++) {
		struct trace_event e = t->trace.events[t->sent++];
		e.start = on_axis(t, e.start);
		e.end = on_axis(t, e.end);
		if (e.end < e.start) /* the coordinator's clock stood still */
			e.end = e.start;
		trace_event_put(out, &e);
	}
}

/* On the coordinator: all parts of all ranks have come. */
static int tell_all(const struct coll *c, struct err *err)
{
	const struct coll_observer *o = c->observer;
	struct coll_result r = {
	        .rank = c->rank, .size = c->size, .hosts = c->plan.hosts, .host = c->plan.host};
	if (c->rank != job_coordinator(c->job) || !o->traced_all)
		return 0;
	c->task->describe(c, &r);
	return o->traced_all(o->ctx, &r, err);
}

int tracing_collect(struct coll *c, struct err *err)
{
	struct tracing *t = c->tracing;
	bool more = true;
	if (job_clock(c->job, &t->last, err) < 0)
		return -1;
	add_stages(c);
	while (more) {
		struct view answer;
		struct buf b;
		buf_init(&b, JOB_ROUND_MAX);
		put_part(t, &b);
		if (coll_round(c, &b, "the trace", &answer, err) < 0)
			return -1;
		more = view_u8(&answer);
	}
	if (t->why.code)
		*err = t->why;
	return t->why.code ? -1 : tell_all(c, err);
}

/* ---- the coordinator ---- */

int trace_part_decode(struct trace_part *p, struct view v, struct err *err)
{
	p->error = view_u64(&v);
	p->missed = view_u64(&v);
	p->more = view_u8(&v);
	p->events = v;
	return v.failed || view_left(&v) % TRACE_EVENT_BYTES
	               ? err_set(err, ERR_INTEGRITY, "a malformed part of the trace")
	               : 0;
}

int tracing_take_part(void *ctx, int rank, struct view part, struct err *err)
{
	struct coll *c = ctx;
	const struct coll_observer *o = c->observer;
	struct trace_part p;
	if (!c->tracing)
		return err_set(err, ERR_INTEGRITY, "a part of a trace that was not requested");
	if (trace_part_decode(&p, part, err) < 0)
		return -1;
	struct coll_traced traced = {.rank = rank,
	                             .size = c->size,
	                             .host = job_host(c->job, rank),
	                             .error = (double)p.error / 1e9,
	                             .missed = p.missed,
	                             .n = view_left(&p.events) / TRACE_EVENT_BYTES,
	                             .last = !p.more};
	c->tracing->taken[rank] += traced.n;
	if (c->tracing->taken[rank] > tracing_capacity(c->size) || (p.more && !traced.n))
		return err_set(err, ERR_INTEGRITY, "more events of the trace than a rank keeps");
	struct trace_event *events = err_calloc(traced.n + 1, sizeof *events, "the trace", err);
	if (!events)
		return -1;
	int ret = 0;
	for (size_t i = 0; ret == 0 && i < traced.n; i++)
		if (trace_event_get(&events[i], &p.events, c->size) < 0)
			ret = err_set(err, ERR_INTEGRITY, "a malformed event of the trace");
	traced.events = events;
	if (ret == 0 && o->traced && !c->tracing->why.code)
		(void)o->traced(o->ctx, &traced, &c->tracing->why);
	free(events);
	c->tracing->more |= p.more;
	return ret;
}

void tracing_answer(void *ctx, int rank, struct buf *out)
{
	struct coll *c = ctx;
	buf_put_u8(out, c->tracing->more);
	if (rank == c->rank) /* its own is the last answer of a round */
		c->tracing->more = false;
}
