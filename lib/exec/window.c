/* A stream's window: its steps, its buffers, and the file jobs that feed and empty it. See
 * exec_internal.h. */
#include "algorithms/table.h"
#include "lib/exec/exec_internal.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"

#define WRITE_QUANTUM \
	(512u << 10) /* smallest update sent to the writer, except at the end of a step */

/* ---- files ---- */

/* Without file threads, the transfer of @job has been made in the call. */
static void spend_on_file(struct exec *x, const struct fileio_job *job)
{
	if (x->io.eventfd < 0)
		exec_spend(x, job->write ? SPENT_WRITE : SPENT_READ);
}

static void raise_limit(struct exec *x, struct fileio_job *job, uint64_t limit)
{
	exec_spend(x, SPENT_OTHER);
	fileio_raise(&x->io, job, limit);
	spend_on_file(x, job);
}

/* The elements to write are on the stage: raise the writer's limit. */
static void staged_for_file(struct stream *s, uint32_t i)
{
	raise_limit(s->exec, &s->jobs[s->owner[i].index], s->pending[i].to);
	exec_wake_step(s, i);
}

void exec_raise_file(struct exec *x, struct stream *s, uint32_t k)
{
	struct fileio_job *job = &s->jobs[k];
	uint32_t i = s->job_steps[k];
	if (!job->write || job->limit == job->count || s->pending[i].busy)
		return;
	uint64_t limit = exec_limit(s, i);
	if (limit < job->count && limit - job->limit < WRITE_QUANTUM / job->esize)
		return;
	if (!is_far(s, k) || limit == job->limit) {
		raise_limit(x, job, limit);
		return;
	}
	struct sched_span from = s->sched->steps[i].src;
	size_t first = job->limit * job->esize, bytes = limit * job->esize - first;
	if (exec_copy(s, i, buf_place(s, from.buf), job->buf + first, at(s, from) + first, bytes,
	              limit, staged_for_file))
		raise_limit(x, job, limit);
}

static void file_came_to(struct stream *s, uint32_t i, uint64_t done)
{
	const struct fileio_job *job = &s->jobs[s->owner[i].index];
	exec_waited(s->exec, job->write ? SPENT_WRITE : SPENT_READ, -1);
	s->exec->stats.moved[job->write ? EXEC_WRITE : EXEC_READ] +=
	        (done - s->progress[i]) * job->esize;
	exec_progress(s, i, done);
}

static void take_file(struct stream *s, uint32_t i);

/* The elements read are in the window's memory. */
static void unstaged(struct stream *s, uint32_t i)
{
	file_came_to(s, i, s->pending[i].to);
	take_file(s, i);
}

static void take_file(struct stream *s, uint32_t i)
{
	uint32_t k = s->owner[i].index;
	struct fileio_job *job = &s->jobs[k];
	uint64_t done = atomic_load_explicit(&job->done, memory_order_acquire),
	         now = s->progress[i];
	if (done == now)
		return;
	if (job->write || !is_far(s, k)) {
		file_came_to(s, i, done);
		return;
	}
	if (s->pending[i].busy || (done < job->count && done - now < DEVICE_TASK / job->esize))
		return;
	struct sched_span to = s->sched->steps[i].dst;
	size_t first = now * job->esize, bytes = done * job->esize - first;
	if (exec_copy(s, i, buf_place(s, to.buf), at(s, to) + first, job->buf + first, bytes, done,
	              unstaged))
		file_came_to(s, i, done);
}

void exec_take_files(struct stream *s)
{
	for (uint32_t n = 0; n < s->nopen;) {
		uint32_t k = s->open_jobs[n], i = s->job_steps[k];
		take_file(s, i);
		if (s->progress[i] == s->jobs[k].count)
			s->open_jobs[n] = s->open_jobs[--s->nopen];
		else
			n++;
	}
}

typedef uint64_t block_at(enum coll_kind, const struct coll_args *, int j);

/* Map the blocks [lo, hi) of the window to the file. A single window covers the whole file. */
static void map_blocks(const struct stream *s, block_at *begin, int lo, int hi,
                       struct fileio_map *m)
{
	const struct exec_vector *p = s->vector->conf;
	enum coll_kind kind = p->algorithm->kind;
	uint32_t k = (uint32_t)(s->number - s->vector->first);
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
	const struct coll_layout *l = &s->vector->layout;
	map_blocks(s, coll_in_at, l->in_lo, l->in_hi, &s->in);
	map_blocks(s, coll_out_at, l->out_lo, l->out_hi, &s->out);
}

static size_t buffer_bytes(const struct stream *s, uint32_t b)
{
	return (s->sched->bufs[b].len * buf_esize(s, b) + 63) & ~(size_t)63;
}

/* Grow @m to at least @total bytes. */
static int reserve(const struct memory_space *space, const struct stream *s,
                   struct stream_memory *m, size_t total, struct err *err)
{
	if (total <= m->size)
		return 0;
	space->free(space, m->p, m->size);
	/* Windows differ by one element per block: reserve space for that to avoid growing again.
	 */
	m->size = total + (size_t)s->window.args.size * ELEMENT_MAX + 4096;
	m->p = space->alloc(space, m->size, err);
	if (!m->p)
		m->size = 0;
	return m->p ? 0 : -1;
}

/*
 * File data of buffers in device memory pass through a stage in host memory, which has a place for
 * each of these buffers. An element is there while a file step uses it in the buffer, so the steps
 * of the inputs and of the output never use it at once.
 */
static int place_stages(struct stream *s, struct err *err)
{
	size_t total = 0;
	for (uint32_t b = 0; b < s->sched->nbufs; b++)
		s->stage_at[b] = SIZE_MAX;
	for (uint32_t k = 0; k < s->njobs; k++) {
		const uint32_t b = file_span(&s->sched->steps[s->job_steps[k]]).buf;
		if (is_far(s, k) && s->stage_at[b] == SIZE_MAX) {
			s->stage_at[b] = total;
			total += buffer_bytes(s, b);
		}
	}
	if (reserve(s->exec->spaces[0], s, &s->stage, total, err) < 0)
		return -1;
	for (uint32_t k = 0; k < s->njobs; k++) {
		const struct sched_span span = file_span(&s->sched->steps[s->job_steps[k]]);
		s->jobs[k].buf = !is_far(s, k) ? at(s, span)
		                               : s->stage.p + s->stage_at[span.buf] +
		                                         span.off * s->vector->esize;
	}
	return 0;
}

static int place_buffers(struct stream *s, struct err *err)
{
	for (unsigned place = 0; place <= (unsigned)s->exec->conf.ndevices; place++) {
		size_t total = 0, pos = 0;
		for (uint32_t b = 0; b < s->sched->nbufs; b++)
			total += buf_place(s, b) == place ? buffer_bytes(s, b) : 0;
		if (reserve(s->exec->spaces[place], s, &s->memory[place], total, err) < 0)
			return -1;
		for (uint32_t b = 0; b < s->sched->nbufs; b++) {
			if (buf_place(s, b) != place)
				continue;
			s->bufs[b] = s->memory[place].p + pos;
			pos += buffer_bytes(s, b);
		}
	}
	return place_stages(s, err);
}

/* Make room for the schedule's steps. */
static int grow(struct stream *s, struct err *err)
{
	const size_t n = (size_t)s->sched->nsteps + 1, deps = (size_t)s->sched->ndeps + 1;
	const size_t nbufs = (size_t)s->sched->nbufs + 1;
#define ARRAY(member, length)                                     \
	{                                                         \
		(void **)&s->member, (length) * sizeof *s->member \
	}
	const struct {
		void **array;
		size_t bytes;
	} arrays[] = {
	        ARRAY(progress, n),     ARRAY(lane_steps, n),    ARRAY(owner, n),
	        ARRAY(todo, n),         ARRAY(first_waiting, n), ARRAY(waiting, deps),
	        ARRAY(in_todo, n),      ARRAY(jobs, n),          ARRAY(job_steps, n),
	        ARRAY(open_jobs, n),    ARRAY(bufs, nbufs),      ARRAY(pending, n),
	        ARRAY(stage_at, nbufs),
	};
#undef ARRAY
	for (size_t k = 0; k < sizeof arrays / sizeof *arrays; k++) {
		free(*arrays[k].array);
		*arrays[k].array = err_calloc(1, arrays[k].bytes, "the window's steps", err);
		if (!*arrays[k].array)
			return -1;
	}
	return 0;
}

/* The lane of a SEND or RECV. */
static int find_lane(const struct exec *x, const struct sched_step *step, uint32_t *lane,
                     struct err *err)
{
	const int k = (step->op == SCHED_SEND ? x->lane_out : x->lane_in)[step->peer];
	if (k < 0)
		return err_set(err, ERR_OTHER,
		               "a window uses an edge to rank %d that is not connected",
		               step->peer);
	*lane = (uint32_t)k;
	return 0;
}

/* Set the owner of every step, and list the steps of the file jobs. */
static int own_steps(const struct exec *x, struct stream *s, struct err *err)
{
	s->njobs = 0;
	for (uint32_t i = 0; i < s->sched->nsteps; i++) {
		const struct sched_step *step = &s->sched->steps[i];
		struct owner *owner = &s->owner[i];
		if (step->op == SCHED_READ || step->op == SCHED_WRITE) {
			*owner = (struct owner){OWNER_FILE, s->njobs};
			s->job_steps[s->njobs++] = i;
		} else if (step->peer >= 0) {
			owner->kind = OWNER_LANE;
			if (find_lane(x, step, &owner->index, err) < 0)
				return -1;
		} else {
			owner->kind = OWNER_LOCAL;
		}
	}
	return 0;
}

/* List the steps of every lane, in order: a counting sort by lane. */
static void list_lane_steps(const struct exec *x, struct stream *s)
{
	uint32_t *next = s->lane_steps;
	for (int k = 0; k < x->nlanes; k++)
		s->lanes[k].nsteps = s->lanes[k].head = 0;
	for (uint32_t i = 0; i < s->sched->nsteps; i++)
		if (s->owner[i].kind == OWNER_LANE)
			s->lanes[s->owner[i].index].nsteps++;
	for (int k = 0; k < x->nlanes; k++) {
		s->lanes[k].steps = next;
		next += s->lanes[k].nsteps;
		s->lanes[k].nsteps = 0;
	}
	for (uint32_t i = 0; i < s->sched->nsteps; i++)
		if (s->owner[i].kind == OWNER_LANE) {
			struct lane *l = &s->lanes[s->owner[i].index];
			l->steps[l->nsteps++] = i;
		}
}

/* List, for every step, the steps that wait for it, in order: a counting sort by the step that is
 * waited for. */
static void list_waiting(struct stream *s)
{
	const struct sched *sched = s->sched;
	uint32_t *first = s->first_waiting, end = 0;
	for (uint32_t d = 0; d < sched->ndeps; d++)
		first[sched->deps[d].step]++;
	for (uint32_t i = 0; i <= sched->nsteps; i++) {
		end += first[i];
		first[i] = end;
	}
	/* Now first[i] is the end of step i's list. Filled from the last step back, it becomes the
	 * beginning. */
	for (uint32_t i = sched->nsteps; i-- > 0;) {
		const struct sched_step *step = &sched->steps[i];
		for (uint32_t d = 0; d < step->ndep; d++)
			s->waiting[--first[sched->deps[step->dep + d].step]] = i;
	}
}

static void submit_jobs(struct exec *x, struct stream *s)
{
	for (uint32_t k = 0; k < s->njobs; k++) {
		const struct sched_step *step = &s->sched->steps[s->job_steps[k]];
		struct fileio_job *job = &s->jobs[k];
		job->write = step->op == SCHED_WRITE;
		job->final = !s->sched->final || s->vector->conf->defer_final;
		job->count = step->len;
		struct sched_span file = job->write ? step->dst : step->src;
		job->vector = (int)(s->vector - x->vectors);
		job->window = (uint32_t)s->number;
		job->step = s->job_steps[k];
		job->stream = (uint16_t)stream_number(x, s);
		job->esize = s->vector->esize;
		job->input = job->write ? 0 : (int)file.buf;
		job->map = job->write ? &s->out : &s->in;
		job->pos = file.off;
		job->limit = job->write ? 0 : exec_limit(s, s->job_steps[k]);
		atomic_store_explicit(&job->done, 0, memory_order_relaxed);
		exec_spend(x, SPENT_OTHER);
		fileio_submit(&x->io, job);
		spend_on_file(x, job);
	}
}

/* Start from the beginning: queue every lane and every local step. */
static void begin(struct exec *x, struct stream *s)
{
	s->began = x->conf.trace ? clock_ns() : 0;
	memset(s->progress, 0, s->sched->nsteps * sizeof *s->progress);
	s->left = s->sched->nsteps;
	s->todo_head = s->todo_len = 0;
	s->nopen = s->njobs;
	for (uint32_t k = 0; k < s->njobs; k++)
		s->open_jobs[k] = k;
	for (uint32_t i = 0; i < s->sched->nsteps; i++)
		if (s->owner[i].kind == OWNER_LOCAL)
			exec_wake_step(s, i);
	for (int k = 0; k < x->nlanes; k++) {
		s->lanes[k].head = s->lanes[k].tail = 0;
		s->lanes[k].tail_at = conn_wire_out(s->lanes[k].conn);
		exec_wake_lane(&s->lanes[k]);
	}
	submit_jobs(x, s);
}

/* Make the window's schedule and set the owners of its steps. */
static int plan_steps(struct exec *x, struct stream *s, struct err *err)
{
	sched_free(s->sched);
	s->copies = coll_resolve(s->window.algorithm, &s->window.args)->flags & COLL_COPIES;
	s->sched = window_sched(&s->window, err);
	if (!s->sched || grow(s, err) < 0 || own_steps(x, s, err) < 0)
		return -1;
	list_lane_steps(x, s);
	list_waiting(s);
	return 0;
}

/* Make the stream's current window @number: its schedule, and memory for it. */
static int set_window(struct exec *x, struct stream *s, uint64_t number, struct err *err)
{
	s->number = number;
	while (number - s->vector->first >= s->vector->conf->windows)
		s->vector++;
	if (window_set(&s->window, s->vector->conf, (uint32_t)(number - s->vector->first)) &&
	    plan_steps(x, s, err) < 0)
		return -1;
	return place_buffers(s, err);
}

int exec_reserve(struct exec *x, struct stream *s, uint64_t number, struct err *err)
{
	const uint64_t n = (uint64_t)x->conf.streams;
	while (number < x->windows) {
		if (set_window(x, s, number, err) < 0)
			return -1;
		const uint64_t end = s->vector->first + s->vector->conf->windows;
		number += (end - number + n - 1) / n * n;
	}
	s->vector = x->vectors;
	return 0;
}

int exec_start_window(struct exec *x, struct stream *s, uint64_t number, struct err *err)
{
	if (number >= x->windows) {
		s->number = number;
		s->done = true;
		x->open_streams--;
		for (int k = 0; k < x->nlanes; k++)
			exec_wake_lane(&s->lanes[k]);
		return 0;
	}
	if (set_window(x, s, number, err) < 0)
		return -1;
	map_files(s);
	for (int k = 0; k < x->nlanes; k++)
		exec_lane_begin(&s->lanes[k]);
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
