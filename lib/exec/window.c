/* Windows: the schedule of one, its buffers, and the file jobs that feed and empty it. See
 * exec_internal.h. */
#include "lib/exec/exec_internal.h"

#include <stdlib.h>
#include <string.h>

#include "lib/exec/space.h"

#define WRITE_QUANTUM (512u << 10) /* bytes: the writer is told of no less but a step's end */

/* ---- files ---- */

/* Take over what the file threads have done, and tell the writer how far it may go. */
int exec_run_files(struct exec *x, struct stream *s)
{
	int moved = 0;
	uint64_t least = WRITE_QUANTUM / x->esize;
	for (uint32_t k = 0; k < s->njobs; k++) {
		struct fileio_job *job = &s->jobs[k];
		uint32_t i = s->job_steps[k];
		if (s->progress[i] == job->count)
			continue;
		if (job->write && job->limit < job->count) {
			uint64_t limit = exec_limit(s, i);
			if (limit == job->count || limit - job->limit >= least)
				fileio_raise(&x->io, job, limit);
		}
		uint64_t done = atomic_load_explicit(&job->done, memory_order_acquire);
		if (done != s->progress[i]) {
			x->stats.bytes_moved += (done - s->progress[i]) * x->esize;
			set_progress(s, i, done);
			moved = 1;
		}
	}
	return moved;
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

/* Hand every step of the new window to its lane, its file thread or the list of local steps. */
static int distribute(struct exec *x, struct stream *s, struct err *err)
{
	const struct sched *sched = s->sched;
	uint32_t n = sched->nsteps;
	free(s->lane_steps);
	free(s->locals);
	free(s->jobs);
	free(s->job_steps);
	s->lane_steps = calloc(n + 1, sizeof *s->lane_steps);
	s->locals = calloc(n + 1, sizeof *s->locals);
	s->jobs = calloc(n + 1, sizeof *s->jobs);
	s->job_steps = calloc(n + 1, sizeof *s->job_steps);
	if (!s->lane_steps || !s->locals || !s->jobs || !s->job_steps)
		return err_nomem(err, "the window's steps", n * sizeof *s->jobs);
	s->nlocals = s->first_local = s->njobs = 0;
	for (int k = 0; k < x->nlanes; k++)
		s->lanes[k].nsteps = s->lanes[k].head = 0;
	/* Count, then place: a counting sort by lane that keeps the order. */
	for (int pass = 0; pass < 2; pass++) {
		uint32_t pos = 0;
		for (int k = 0; pass && k < x->nlanes; k++) {
			s->lanes[k].steps = s->lane_steps + pos;
			pos += s->lanes[k].nsteps;
			s->lanes[k].nsteps = 0;
		}
		for (uint32_t i = 0; i < n; i++) {
			const struct sched_step *step = &sched->steps[i];
			if (step->peer < 0)
				continue;
			bool out = step->op == SCHED_SEND;
			int k = (out ? x->lane_out : x->lane_in)[step->peer];
			if (k < 0)
				return err_set(err, ERR_OTHER,
				               "a window uses an edge to rank %d that is not "
				               "connected",
				               step->peer);
			if (pass)
				s->lanes[k].steps[s->lanes[k].nsteps] = i;
			s->lanes[k].nsteps++;
		}
	}
	for (uint32_t i = 0; i < n; i++) {
		const struct sched_step *step = &sched->steps[i];
		if (step->op == SCHED_READ || step->op == SCHED_WRITE)
			s->job_steps[s->njobs++] = i;
		else if (step->peer < 0)
			s->locals[s->nlocals++] = i;
	}
	return 0;
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

int exec_start_window(struct exec *x, struct stream *s, uint32_t w, struct err *err)
{
	enum sched_error e = SCHED_OK;
	s->window = w;
	s->done = w >= x->conf.windows;
	if (s->done)
		return 0;
	lay_out_window(x, s, w);
	sched_free(s->sched);
	s->sched = sched_build(x->conf.algorithm, &s->args, &e);
	if (!s->sched)
		return err_set(err, e == SCHED_NOMEM ? ERR_RESOURCE : ERR_OTHER,
		               "the schedule of %s can't be built: %s", x->conf.algorithm->name,
		               sched_strerror(e));
	free(s->progress);
	free(s->bufs);
	s->progress = calloc(s->sched->nsteps + 1, sizeof *s->progress);
	s->bufs = calloc(s->sched->nbufs + 1, sizeof *s->bufs);
	if (!s->progress || !s->bufs)
		return err_nomem(err, "the window's progress",
		                 s->sched->nsteps * sizeof *s->progress);
	if (place_buffers(x, s, err) < 0 || distribute(x, s, err) < 0)
		return -1;
	s->left = s->sched->nsteps;
	submit_jobs(x, s);
	return 0;
}

void exec_restart_window(struct exec *x, struct stream *s)
{
	memset(s->progress, 0, s->sched->nsteps * sizeof *s->progress);
	s->left = s->sched->nsteps;
	s->first_local = 0;
	s->done = false;
	for (int k = 0; k < x->nlanes; k++) {
		s->lanes[k].head = 0;
		s->lanes[k].ended = false;
	}
	for (uint32_t k = 0; k < s->njobs; k++)
		atomic_store_explicit(&s->jobs[k].done, 0, memory_order_relaxed);
	submit_jobs(x, s);
}
