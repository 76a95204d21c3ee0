#include "lib/coll/progress_calls.h"

#include "lib/base/clock.h"
#include "lib/job/proto.h"

#define EVERY (200 * NS_PER_MS)

static void call(struct progress_calls *p)
{
	struct job_progress j;
	struct coll_progress files;
	double left = -1;

	job_progress(p->job, &j);
	if (p->coll) {
		coll_progress(p->coll, &files);
		const double part = pipeline_done(&files.pipeline);
		const uint64_t done = (uint64_t)(part * (double)p->bytes);
		if (done > p->done)
			p->done = done;
		if (part > 0)
			left = coll_seconds(p->since, clock_ns()) * (1 - part) / part;
	}
	p->fn(p->ctx, phase_name(j.phase), p->done, p->bytes, left);
}

static void tick(void *ctx)
{
	struct progress_calls *p = ctx;

	call(p);
	loop_timer_set(job_loop(p->job), &p->timer, clock_ns() + EVERY);
}

void progress_calls_open(struct progress_calls *p, struct job *job)
{
	if (!p->fn)
		return;
	p->job = job;
	p->timer = (struct loop_timer){.fn = tick, .ctx = p};
	tick(p);
}

void progress_calls_move(struct progress_calls *p, uint64_t bytes, const struct coll *coll)
{
	if (!p->job)
		return;
	p->coll = coll;
	p->bytes = bytes;
	p->since = clock_ns();
	call(p);
}

void progress_calls_end(struct progress_calls *p)
{
	if (!p->job)
		return;
	loop_timer_stop(&p->timer);
	call(p);
	p->job = NULL;
}
