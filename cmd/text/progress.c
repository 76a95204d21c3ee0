#include "cmd/text/progress.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/text/bar.h"
#include "cmd/text/report.h"
#include "lib/base/clock.h"
#include "lib/base/io.h"
#include "lib/base/json.h"

/* The time of the first output, and the interval. */
static const struct {
	int64_t first, every; /* ns */
} pace[] = {
        [PROGRESS_BAR] = {500 * NS_PER_MS, 200 * NS_PER_MS},
        [PROGRESS_LINES] = {5 * NS_PER_SEC, 5 * NS_PER_SEC},
        [PROGRESS_JSON] = {NS_PER_SEC, NS_PER_SEC},
};

static enum progress_mode mode_of(const struct options *o)
{
	const char *when = o->progress;

	if (strcmp(when, "json") == 0)
		return PROGRESS_JSON;
	if (strcmp(when, "always") == 0)
		return bar_possible() ? PROGRESS_BAR : PROGRESS_LINES;
	if (strcmp(when, "auto") == 0 && o->verbose >= 0 && bar_possible())
		return PROGRESS_BAR;
	return PROGRESS_NONE;
}

/* ---- showing ---- */

static void show_json(const struct progress_now *now, double rate)
{
	json_t *object = progress_json(now, rate);
	char *text = json_text(object, JSON_COMPACT);

	json_decref(object);
	if (!text)
		return;
	size_t len = strlen(text);
	text[len++] =
	        '\n'; /* replaces the terminating NUL, so that one write includes the newline */
	write_all(STDERR_FILENO, text, len);
	free(text);
}

static void show_line(const struct progress *p, const struct progress_now *now, double rate)
{
	char text[BAR_MAX];

	progress_line(text, sizeof text, 0, p->what, now, rate);
	if (now->rank >= 0)
		report_note("rank %d: %s", now->rank, text);
	else
		report_note("%s", text);
}

static void show(struct progress *p, bool last)
{
	struct progress_now now = {.rank = -1, .slowest = -1, .phase = "run", .doing = "run"};
	char text[BAR_MAX];

	p->look(p->ctx, &now);
	meter_add(&p->meter, clock_ns(), now.moved);
	double rate = meter_rate(&p->meter);
	if (p->mode == PROGRESS_BAR)
		bar_draw(progress_line(text, sizeof text, bar_width(), p->what, &now, rate));
	else if (!last && !bar_writable())
		return; /* the reader is slow: skip this one */
	else if (p->mode == PROGRESS_JSON)
		show_json(&now, rate);
	else
		show_line(p, &now, rate);
}

static void tick(void *ctx)
{
	struct progress *p = ctx;

	show(p, false);
	p->due = clock_ns() + pace[p->mode].every;
	if (p->loop)
		loop_timer_set(p->loop, &p->timer, p->due);
}

#define BEATS_OLD 2.0 /* seconds: the maximum age of a heartbeat */

/* ---- public functions ---- */

bool progress_has_bar(const struct options *o)
{
	return mode_of(o) == PROGRESS_BAR;
}

void progress_start(struct progress *p, const struct options *o, const char *what,
                    struct loop *loop, progress_look *look, void *ctx)
{
	*p = (struct progress){.mode = mode_of(o),
	                       .what = what,
	                       .look = look,
	                       .ctx = ctx,
	                       .loop = loop,
	                       .timer = {.fn = tick, .ctx = p}};
	if (p->mode == PROGRESS_NONE)
		return;
	int64_t now = clock_ns();
	meter_add(&p->meter, now, 0);
	p->due = now + pace[p->mode].first;
	if (loop)
		loop_timer_set(loop, &p->timer, p->due);
}

/* The remaining seconds of the slowest rank, from its rate and its last heartbeat; 0: unknown. */
static double slowest_left(struct progress *p, const struct job_progress *now)
{
	const uint64_t done = (uint64_t)(now->slowest_done * METER_WHOLE);

	if (now->slowest < 0 || now->slowest == job_rank(p->job) ||
	    now->slowest_phase != PHASE_RUN || now->slowest_done >= 1)
		return 0;
	if (now->slowest != p->slowest_rank)
		p->slowest = (struct meter){0};
	p->slowest_rank = now->slowest;
	if (done != p->slowest.moved)
		meter_add(&p->slowest, clock_ns(), done);
	const double age = (double)(clock_ns() - p->slowest.at) / (double)NS_PER_SEC;
	return fmax(meter_left(&p->slowest) - age - BEATS_OLD, 0);
}

static void look_at_files(struct progress *p, struct progress_now *now)
{
	coll_progress(p->coll, &p->files);
	now->files = &p->files;
	now->comparing = p->comparing;
	if (p->comparing)
		return;
	const uint64_t moved = (uint64_t)(pipeline_done(&p->files.pipeline) * (double)p->bytes);

	if (moved > p->moved)
		p->moved = moved;
	now->moved = p->moved;
	now->total = p->bytes;
	now->files_left = files_left(&p->meters, &p->files, clock_ns());
}

static void look_at_job(void *ctx, struct progress_now *now)
{
	static const char *const doing[] = {
	        [PHASE_JOIN] = "waiting for ranks",
	        [PHASE_CONNECT] = "connecting",
	        [PHASE_RUN] = "run",
	        [PHASE_COMMIT] = "storing",
	};
	struct progress *p = ctx;
	struct job_progress j;

	job_progress(p->job, &j);
	*now = (struct progress_now){.counts = p->counts,
	                             .rank = job_rank(p->job),
	                             .phase = phase_name(j.phase),
	                             .doing = doing[j.phase],
	                             .moved = j.moved,
	                             .total = j.total,
	                             .slowest = j.slowest,
	                             .slowest_done = j.slowest_done};
	if (j.phase == PHASE_JOIN && j.joined.size) {
		p->joined = j.joined;
		now->joined = &p->joined;
	}
	if (!p->coll)
		return;
	look_at_files(p, now);
	if (p->comparing)
		return;
	now->slowest_left = slowest_left(p, &j);
	if (j.slowest == now->rank)
		now->slowest_done = pipeline_done(&p->files.pipeline);
}

void progress_start_job(struct progress *p, const struct options *o, const char *what,
                        struct job *job)
{
	progress_start(p, o, what, job_loop(job), look_at_job, p);
	p->job = job;
}

void progress_compares(struct progress *p, const struct coll *coll)
{
	p->coll = coll;
	p->comparing = true;
}

void progress_files(struct progress *p, uint64_t bytes, const struct coll *coll)
{
	p->bytes = bytes;
	p->moved = 0;
	p->coll = coll;
	p->comparing = false;
	meter_start(&p->meter, clock_ns());
	meter_start(&p->meters.early, clock_ns());
}

void progress_step(struct progress *p)
{
	if (p->mode != PROGRESS_NONE && clock_ns() >= p->due)
		tick(p);
}

void progress_stop(struct progress *p)
{
	if (p->mode == PROGRESS_NONE)
		return;
	if (p->loop)
		loop_timer_stop(&p->timer);
	if (p->mode == PROGRESS_BAR)
		bar_clear();
	else
		show(p, true);
	p->mode = PROGRESS_NONE;
}
