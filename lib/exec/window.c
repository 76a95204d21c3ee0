/* Windows: the schedule of one, its buffers, and the file jobs that feed and empty it. See
 * exec_internal.h. */
#include "lib/exec/exec_internal.h"

#include <stdlib.h>
#include <string.h>

#include "lib/exec/space.h"

#define WRITE_QUANTUM (512u << 10) /* bytes: the writer is told of no less but a step's end */

/* ---- files ---- */

void exec_raise_file(struct exec *x, struct stream *s, uint32_t k)
{
	struct fileio_job *job = &s->jobs[k];
	if (!job->write || job->limit == job->count)
		return;
	uint64_t limit = exec_limit(s, s->job_steps[k]);
	if (limit == job->count || limit - job->limit >= WRITE_QUANTUM / x->esize)
		fileio_raise(&x->io, job, limit);
}

void exec_take_files(struct exec *x, struct stream *s)
{
	for (uint32_t n = 0; n < s->nopen;) {
		uint32_t k = s->open_jobs[n], i = s->job_steps[k];
		uint64_t done = atomic_load_explicit(&s->jobs[k].done, memory_order_acquire);
		if (done != s->progress[i]) {
			x->stats.bytes_moved += (done - s->progress[i]) * x->esize;
			exec_progress(s, i, done);
		}
		if (done == s->jobs[k].count)
			s->open_jobs[n] = s->open_jobs[--s->nopen];
		else
			n++;
	}
}

/* off of window w: block j gives [len*w/W, len*(w+1)/W) of itself. */
static uint64_t slice(uint64_t len, uint32_t w, uint32_t windows)
{
	return (uint64_t)((unsigned __int128)len * w / windows);
}

static void slice_blocks(const struct exec_conf *conf, uint32_t w, const uint64_t *whole,
                         uint64_t *off)
{
	off[0] = 0;
	for (int j = 0; j < conf->args.size; j++) {
		uint64_t len = whole[j + 1] - whole[j];
		off[j + 1] =
		        off[j] + slice(len, w + 1, conf->windows) - slice(len, w, conf->windows);
	}
}

/* The arguments of window @w: @off and @recv_off become its offsets. */
static struct coll_args window_args(const struct exec_conf *conf, uint32_t w, uint64_t *off,
                                    uint64_t *recv_off)
{
	struct coll_args args = conf->args;
	slice_blocks(conf, w, args.off, off);
	args.off = off;
	if (args.recv_off) {
		slice_blocks(conf, w, args.recv_off, recv_off);
		args.recv_off = recv_off;
	}
	return args;
}

int exec_window_edges(const struct exec_conf *conf, uint8_t *used, struct err *err)
{
	size_t n = (size_t)conf->args.size + 1, bytes = n * sizeof(uint64_t);
	uint64_t *off = calloc(4 * n, sizeof *off), *before = off + 2 * n;
	int ret = 0;
	if (!off)
		return err_nomem(err, "the windows' blocks", 4 * bytes);
	for (uint32_t w = 0; ret == 0 && w < conf->windows; w++) {
		struct coll_args args = window_args(conf, w, off, off + n);
		if (w == 0 || memcmp(off, before, 2 * bytes) != 0)
			ret = exec_edges(conf->algorithm, &args, used, err);
		memcpy(before, off, 2 * bytes);
	}
	free(off);
	return ret;
}

typedef uint64_t block_at(enum coll_kind, const struct coll_args *, int j);

/* The blocks [lo, hi) of the window, and of the file. One window is the whole file. */
static void map_blocks(const struct exec *x, const struct stream *s, block_at *begin, int lo,
                       int hi, struct fileio_map *m)
{
	enum coll_kind kind = x->conf.algorithm->kind;
	m->nblocks = hi - lo;
	for (int j = lo; j < hi; j++) {
		uint64_t from = begin(kind, &x->conf.args, j);
		uint64_t len = begin(kind, &x->conf.args, j + 1) - from;
		m->at[j - lo] = begin(kind, &s->args, j);
		m->file[j - lo] = from + slice(len, s->window, x->conf.windows);
	}
	m->at[hi - lo] = begin(kind, &s->args, hi);
	if (x->conf.windows == 1 && hi > lo) {
		m->at[1] = m->at[hi - lo];
		m->nblocks = 1;
	}
}

static void lay_out_window(struct exec *x, struct stream *s, uint32_t w)
{
	struct coll_layout l = coll_layout(x->conf.algorithm->kind, x->conf.args.rank,
	                                   x->conf.args.size, x->conf.args.root);
	s->args = window_args(&x->conf, w, s->off, s->recv_off);
	map_blocks(x, s, coll_in_at, l.in_lo, l.in_hi, &s->in);
	map_blocks(x, s, coll_out_at, l.out_lo, l.out_hi, &s->out);
}

static int place_buffers(struct exec *x, struct stream *s, struct err *err)
{
	size_t total = 0;
	for (uint32_t b = 0; b < s->sched->nbufs; b++)
		total += (s->sched->bufs[b].len * buf_esize(x, s->sched, b) + 63) & ~(size_t)63;
	if (total > s->memory_size) {
		space_host_free(s->memory, s->memory_size);
		/* Windows differ by an element a block: room for that, not to grow again. */
		s->memory_size = total + (size_t)x->conf.args.size * 16 + 4096;
		s->memory = space_host_alloc(s->memory_size, err);
		if (!s->memory) {
			s->memory_size = 0;
			return -1;
		}
	}
	size_t pos = 0;
	for (uint32_t b = 0; b < s->sched->nbufs; b++) {
		s->bufs[b] = s->memory + pos;
		pos += (s->sched->bufs[b].len * buf_esize(x, s->sched, b) + 63) & ~(size_t)63;
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
		job->final = !s->sched->final;
		job->count = step->len;
		struct sched_span file = job->write ? step->dst : step->src;
		struct sched_span mem = job->write ? step->src : step->dst;
		job->input = job->write ? 0 : (int)file.buf;
		job->buf = at(x, s, mem);
		job->map = job->write ? &s->out : &s->in;
		job->pos = file.off;
		job->limit = job->write ? 0 : exec_limit(s, s->job_steps[k]);
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

int exec_start_window(struct exec *x, struct stream *s, uint32_t w, struct err *err)
{
	enum sched_error e = SCHED_OK;
	s->window = w;
	if (w >= x->conf.windows) {
		s->done = true;
		x->open_streams--;
		for (int k = 0; k < x->nlanes; k++)
			exec_wake_lane(&s->lanes[k]);
		return 0;
	}
	lay_out_window(x, s, w);
	sched_free(s->sched);
	s->sched = sched_build(x->conf.algorithm, &s->args, &e);
	if (!s->sched)
		return err_set(err, e == SCHED_NOMEM ? ERR_RESOURCE : ERR_OTHER,
		               "the schedule of %s can't be built: %s", x->conf.algorithm->name,
		               sched_strerror(e));
	if (grow(s, err) < 0 || place_buffers(x, s, err) < 0 || own_steps(x, s, err) < 0)
		return -1;
	sort_steps(x, s);
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
	for (uint32_t k = 0; k < s->njobs; k++)
		atomic_store_explicit(&s->jobs[k].done, 0, memory_order_relaxed);
	begin(x, s);
}
