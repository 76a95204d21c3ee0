/* A stream's window: its steps, its buffers, and the file jobs that feed and empty it. See
 * exec_internal.h. */
#include "lib/exec/exec_internal.h"

#include <stdlib.h>
#include <string.h>

#include "lib/exec/space.h"

#define WRITE_QUANTUM \
	(512u << 10) /* smallest update sent to the writer, except at the end of a step */

/* ---- files ---- */

void exec_raise_file(struct exec *x, struct stream *s, uint32_t k)
{
	struct fileio_job *job = &s->jobs[k];
	if (!job->write || job->limit == job->count)
		return;
	uint64_t limit = exec_limit(s, s->job_steps[k]);
	if (limit == job->count || limit - job->limit >= WRITE_QUANTUM / job->esize)
		fileio_raise(&x->io, job, limit);
}

void exec_take_files(struct exec *x, struct stream *s)
{
	for (uint32_t n = 0; n < s->nopen;) {
		uint32_t k = s->open_jobs[n], i = s->job_steps[k];
		uint64_t done = atomic_load_explicit(&s->jobs[k].done, memory_order_acquire);
		if (done != s->progress[i]) {
			x->stats.bytes_moved += (done - s->progress[i]) * s->jobs[k].esize;
			exec_progress(s, i, done);
		}
		if (done == s->jobs[k].count)
			s->open_jobs[n] = s->open_jobs[--s->nopen];
		else
			n++;
	}
}

typedef uint64_t block_at(enum coll_kind, const struct coll_args *, int j);

/* The blocks [lo, hi) of the window, and of the file. One window is the whole file. */
static void map_blocks(const struct stream *s, block_at *begin, int lo, int hi,
                       struct fileio_map *m)
{
	const struct exec_part *p = s->part->conf;
	enum coll_kind kind = p->algorithm->kind;
	uint32_t k = (uint32_t)(s->number - s->part->first);
	m->nblocks = hi - lo;
	for (int j = lo; j < hi; j++) {
		uint64_t from = begin(kind, &p->args, j);
		uint64_t len = begin(kind, &p->args, j + 1) - from;
		m->at[j - lo] = begin(kind, &s->window.args, j);
		m->file[j - lo] = from + exec_share(len, k, p->windows);
	}
	m->at[hi - lo] = begin(kind, &s->window.args, hi);
	if (p->windows == 1 && hi > lo) {
		m->at[1] = m->at[hi - lo];
		m->nblocks = 1;
	}
}

static void map_files(struct stream *s)
{
	const struct coll_layout *l = &s->part->layout;
	map_blocks(s, coll_in_at, l->in_lo, l->in_hi, &s->in);
	map_blocks(s, coll_out_at, l->out_lo, l->out_hi, &s->out);
}

static size_t buffer_bytes(const struct stream *s, uint32_t b)
{
	return (s->sched->bufs[b].len * buf_esize(s, b) + 63) & ~(size_t)63;
}

static int place_buffers(struct stream *s, struct err *err)
{
	size_t total = 0, pos = 0;
	for (uint32_t b = 0; b < s->sched->nbufs; b++)
		total += buffer_bytes(s, b);
	if (total > s->memory_size) {
		space_host_free(s->memory, s->memory_size);
		/* Windows differ by an element a block: room for that, not to grow again. */
		s->memory_size = total + (size_t)s->window.args.size * ELEMENT_MAX + 4096;
		s->memory = space_host_alloc(s->memory_size, err);
		if (!s->memory) {
			s->memory_size = 0;
			return -1;
		}
	}
	for (uint32_t b = 0; b < s->sched->nbufs; b++) {
		s->bufs[b] = s->memory + pos;
		pos += buffer_bytes(s, b);
	}
	return 0;
}

static int grow(struct stream *s, struct err *err)
{
	size_t n = (size_t)s->sched->nsteps + 1, deps = (size_t)s->sched->ndeps + 1;
	void **const arrays[] = {
	        (void **)&s->progress,  (void **)&s->lane_steps,    (void **)&s->owner,
	        (void **)&s->todo,      (void **)&s->first_waiting, (void **)&s->waiting,
	        (void **)&s->in_todo,   (void **)&s->jobs,          (void **)&s->job_steps,
	        (void **)&s->open_jobs, (void **)&s->bufs};
	const size_t sizes[] = {n * sizeof *s->progress,
	                        n * sizeof *s->lane_steps,
	                        n * sizeof *s->owner,
	                        n * sizeof *s->todo,
	                        (n + 1) * sizeof *s->first_waiting,
	                        deps * sizeof *s->waiting,
	                        n * sizeof *s->in_todo,
	                        n * sizeof *s->jobs,
	                        n * sizeof *s->job_steps,
	                        n * sizeof *s->open_jobs,
	                        ((size_t)s->sched->nbufs + 1) * sizeof *s->bufs};
	for (size_t k = 0; k < sizeof arrays / sizeof *arrays; k++) {
		free(*arrays[k]);
		*arrays[k] = calloc(1, sizes[k]);
		if (!*arrays[k])
			return err_nomem(err, "the window's steps", sizes[k]);
	}
	return 0;
}

/* Whose is every step: a lane's, a file's, or local? */
static int own_steps(struct exec *x, struct stream *s, struct err *err)
{
	s->njobs = 0;
	for (int k = 0; k < x->nlanes; k++)
		s->lanes[k].nsteps = s->lanes[k].head = 0;
	for (uint32_t i = 0; i < s->sched->nsteps; i++) {
		const struct sched_step *step = &s->sched->steps[i];
		s->owner[i] = OWNER_LOCAL;
		if (step->op == SCHED_READ || step->op == SCHED_WRITE) {
			s->owner[i] = OWNER_FILE - (int32_t)s->njobs;
			s->job_steps[s->njobs++] = i;
		} else if (step->peer >= 0) {
			s->owner[i] =
			        (step->op == SCHED_SEND ? x->lane_out : x->lane_in)[step->peer];
			if (s->owner[i] < 0)
				return err_set(err, ERR_OTHER,
				               "a window uses an edge to rank %d that is not "
				               "connected",
				               step->peer);
			s->lanes[s->owner[i]].nsteps++;
		}
	}
	return 0;
}

/* Every lane's steps in their order, and for every step those that wait for it: two counting
 * sorts. */
static void sort_steps(struct exec *x, struct stream *s)
{
	const struct sched *sched = s->sched;
	uint32_t pos = 0, *at = s->todo; /* free so far */
	for (int k = 0; k < x->nlanes; k++) {
		s->lanes[k].steps = s->lane_steps + pos;
		pos += s->lanes[k].nsteps;
		s->lanes[k].nsteps = 0;
	}
	for (uint32_t i = 0; i < sched->nsteps; i++) {
		if (s->owner[i] >= 0) {
			struct lane *l = &s->lanes[s->owner[i]];
			l->steps[l->nsteps++] = i;
		}
		for (uint32_t d = 0; d < sched->steps[i].ndep; d++)
			s->first_waiting[sched->deps[sched->steps[i].dep + d].step + 1]++;
	}
	for (uint32_t i = 0; i < sched->nsteps; i++) {
		at[i] = s->first_waiting[i];
		s->first_waiting[i + 1] += s->first_waiting[i];
	}
	for (uint32_t i = 0; i < sched->nsteps; i++)
		for (uint32_t d = 0; d < sched->steps[i].ndep; d++)
			s->waiting[at[sched->deps[sched->steps[i].dep + d].step]++] = i;
}

static void submit_jobs(struct exec *x, struct stream *s)
{
	for (uint32_t k = 0; k < s->njobs; k++) {
		const struct sched_step *step = &s->sched->steps[s->job_steps[k]];
		struct fileio_job *job = &s->jobs[k];
		job->write = step->op == SCHED_WRITE;
		job->final = !s->sched->final || s->part->conf->late;
		job->count = step->len;
		struct sched_span file = job->write ? step->dst : step->src;
		struct sched_span mem = job->write ? step->src : step->dst;
		job->part = (int)(s->part - x->parts);
		job->esize = s->part->esize;
		job->input = job->write ? 0 : (int)file.buf;
		job->buf = at(s, mem);
		job->map = job->write ? &s->out : &s->in;
		job->pos = file.off;
		job->limit = job->write ? 0 : exec_limit(s, s->job_steps[k]);
		atomic_store_explicit(&job->done, 0, memory_order_relaxed);
		fileio_submit(&x->io, job);
	}
}

/* From the beginning: every lane and every local step has its turn. */
static void begin(struct exec *x, struct stream *s)
{
	memset(s->progress, 0, s->sched->nsteps * sizeof *s->progress);
	s->left = s->sched->nsteps;
	s->todo_head = s->todo_len = 0;
	s->nopen = s->njobs;
	for (uint32_t k = 0; k < s->njobs; k++)
		s->open_jobs[k] = k;
	for (uint32_t i = 0; i < s->sched->nsteps; i++)
		if (s->owner[i] == OWNER_LOCAL)
			exec_wake_step(s, i);
	for (int k = 0; k < x->nlanes; k++) {
		s->lanes[k].head = 0;
		exec_wake_lane(&s->lanes[k]);
	}
	submit_jobs(x, s);
}

/* The schedule of the window, and whose its steps are. */
static int plan_steps(struct exec *x, struct stream *s, struct err *err)
{
	sched_free(s->sched);
	s->sched = window_sched(&s->window, err);
	if (!s->sched || grow(s, err) < 0 || own_steps(x, s, err) < 0)
		return -1;
	sort_steps(x, s);
	return 0;
}

int exec_start_window(struct exec *x, struct stream *s, uint64_t number, struct err *err)
{
	s->number = number;
	if (number >= x->windows) {
		s->done = true;
		x->open_streams--;
		for (int k = 0; k < x->nlanes; k++)
			exec_wake_lane(&s->lanes[k]);
		return 0;
	}
	while (number - s->part->first >= s->part->conf->windows)
		s->part++;
	if (window_set(&s->window, s->part->conf, (uint32_t)(number - s->part->first)) &&
	    plan_steps(x, s, err) < 0)
		return -1;
	if (place_buffers(s, err) < 0)
		return -1;
	map_files(s);
	begin(x, s);
	return 0;
}

void exec_restart_window(struct exec *x, struct stream *s)
{
	s->done = false;
	x->open_streams++;
	for (int k = 0; k < x->nlanes; k++) {
		x->open_lanes += s->lanes[k].ended;
		s->lanes[k].ended = false;
	}
	begin(x, s);
}
