#include "lib/exec/exec_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#define SLICE   (16ull << 20)    /* bytes moved before the caller handles other events ... */
#define WINDOWS 256              /* ... or windows begun: those without elements move none */
#define SCRATCH (QUANTUM + 4096) /* at least QUANTUM + ELEMENT_MAX */

/* ---- queues of lanes and steps that may continue ---- */

void exec_wake_lane(struct lane *l)
{
	struct exec *x = l->exec;
	if (l->queued || l->ended)
		return;
	l->queued = true;
	x->ready[(x->ready_head + x->ready_len++) % x->ready_cap] = l;
}

static struct lane *next_lane(struct exec *x)
{
	struct lane *l = x->ready[x->ready_head];
	if (x->ready_len == 0)
		return NULL;
	x->ready_head = (x->ready_head + 1) % x->ready_cap;
	x->ready_len--;
	l->queued = false;
	return l;
}

void exec_wake_step(struct stream *s, uint32_t i)
{
	if (s->in_todo[i])
		return;
	s->in_todo[i] = true;
	s->todo[(s->todo_head + s->todo_len++) % s->sched->nsteps] = i;
}

static void wake(struct stream *s, uint32_t i)
{
	if (s->owner[i].kind != OWNER_LANE) {
		exec_wake_step(s, i);
		return;
	}
	struct lane *l = &s->lanes[s->owner[i].index];
	if (l->head < l->nsteps && l->steps[l->head] == i)
		exec_wake_lane(l);
}

void exec_progress(struct stream *s, uint32_t i, uint64_t done)
{
	s->progress[i] = done;
	if (done == s->sched->steps[i].len)
		s->left--;
	for (uint32_t k = s->first_waiting[i]; k < s->first_waiting[i + 1]; k++)
		wake(s, s->waiting[k]);
}

/* ---- running ---- */

/* Each that waits, once. */
static void run_steps(struct exec *x, struct stream *s)
{
	for (uint32_t n = s->todo_len; n; n--) {
		uint32_t i = s->todo[s->todo_head];
		s->todo_head = (s->todo_head + 1) % s->sched->nsteps;
		s->todo_len--;
		s->in_todo[i] = false;
		if (s->owner[i].kind == OWNER_LOCAL)
			exec_run_local(s, i);
		else
			exec_raise_file(x, s, s->owner[i].index);
	}
}

/* A turn of the local and file steps, in which @most windows have begun at its end. */
static int run_streams(struct exec *x, uint64_t most, struct err *err)
{
	bool again = true;
	while (again && x->begun < most) {
		unsigned moves = atomic_load(&x->io.moves);
		bool files = moves != x->moves;
		x->moves = moves;
		again = false;
		for (int k = 0; k < x->nstreams; k++) {
			struct stream *s = &x->streams[k];
			if (s->done)
				continue;
			if (files)
				exec_take_files(s);
			run_steps(x, s);
			if (s->left)
				continue;
			again = true;
			exec_trace_window(x, s);
			x->begun++;
			if (exec_start_window(x, s, s->number + (uint64_t)x->conf.streams, err) < 0)
				return -1;
		}
		again |= atomic_load(&x->io.moves) != moves;
	}
	if (x->why.code) {
		*err = x->why;
		return -1;
	}
	return fileio_check(&x->io, err);
}

static uint64_t sent_and_received(const struct exec *x)
{
	return x->stats.bytes_sent + x->stats.bytes_received;
}

static uint64_t moved_bytes(const struct exec *x)
{
	return x->stats.moved[EXEC_READ] + x->stats.moved[EXEC_WRITE] + sent_and_received(x);
}

/* Queue the lanes of connections that report no events (memory transport). */
static void wake_silent(struct exec *x)
{
	for (int k = 0; k < x->nstreams; k++)
		for (int l = 0; l < x->nlanes; l++)
			if (!x->streams[k].lanes[l].conn->loop)
				exec_wake_lane(&x->streams[k].lanes[l]);
}

static bool has_steps(const struct exec *x)
{
	for (int k = 0; k < x->nstreams; k++)
		if (x->streams[k].todo_len)
			return true;
	return false;
}

static int advance(struct exec *x, struct err *err)
{
	const uint64_t until = moved_bytes(x) + SLICE, most = x->begun + WINDOWS;
	bool armed = x->io.eventfd < 0;
	if (x->silent)
		wake_silent(x);
	while (moved_bytes(x) < until) {
		if (run_streams(x, most, err) < 0)
			return -1;
		if (x->begun >= most)
			break;
		struct lane *l = next_lane(x);
		if (!l && has_steps(x))
			continue;
		if (!l && armed)
			return x->open_lanes == 0 && x->open_streams == 0;
		if (!l) { /* check for recent file transfers before the caller sleeps */
			fileio_arm(&x->io);
			armed = true;
			continue;
		}
		int moved = exec_run_lane(x, l->stream, l, err);
		if (moved < 0)
			return -1;
		if (moved) {
			exec_waited(x, l->out ? SPENT_SEND : SPENT_RECV, l->peer);
			exec_wake_lane(l);
		}
	}
	return EXEC_AGAIN;
}

int exec_advance(struct exec *x, struct err *err)
{
	exec_watch_wake(x);
	int ret = advance(x, err);
	if (ret == 1)
		exec_watch_end(x);
	else
		exec_watch_pause(x, ret == 0);
	return ret;
}

uint64_t exec_complete(const struct exec *x)
{
	uint64_t least = x->windows;
	for (int k = 0; k < x->nstreams; k++)
		if (x->streams[k].number < least)
			least = x->streams[k].number;
	return least;
}

void exec_repeat(struct exec *x)
{
	for (int k = 0; k < EXEC_MOVES; k++)
		x->stats.total[k] += x->moves_once[k];
	exec_restart_window(x, &x->streams[0]);
}

void exec_watch_lanes(struct exec *x)
{
	for (int k = 0; k < x->nstreams; k++)
		for (int l = 0; l < x->nlanes; l++)
			exec_lane_watch(&x->streams[k].lanes[l]);
}

/* ---- setting up ---- */

static int stream_init(struct exec *x, int k, struct err *err)
{
	struct stream *s = &x->streams[k];
	int size = exec_ranks(&x->conf);
	size_t n = (size_t)size + 1;
	s->exec = x;
	s->vector = x->vectors;
	s->in.at = err_calloc(n, sizeof *s->in.at, "a stream", err);
	s->in.file = err_calloc(n, sizeof *s->in.file, "a stream", err);
	s->out.at = err_calloc(n, sizeof *s->out.at, "a stream", err);
	s->out.file = err_calloc(n, sizeof *s->out.file, "a stream", err);
	s->lanes = err_calloc((size_t)x->nlanes + 1, sizeof *s->lanes, "a stream", err);
	s->memory = err_calloc((size_t)x->conf.ndevices + 1, sizeof *s->memory, "a stream", err);
	if (!s->memory || !s->in.at || !s->in.file || !s->out.at || !s->out.file || !s->lanes)
		return -1;
	if (window_init(&s->window, size, err) < 0)
		return -1;
	for (int p = 0; p < size; p++) {
		int out = x->lane_out[p], in = x->lane_in[p];
		if (out >= 0 && exec_lane_init(x, s, out, p, true, err) < 0)
			return -1;
		if (in >= 0 && exec_lane_init(x, s, in, p, false, err) < 0)
			return -1;
	}
	return 0;
}

static int init_lanes(struct exec *x, struct err *err)
{
	size_t size = (size_t)exec_ranks(&x->conf);
	uint8_t *found = x->conf.edges ? NULL : err_calloc(size, 1, "the lanes", err);
	const uint8_t *used = x->conf.edges ? x->conf.edges : found;
	x->lane_out = err_calloc(size, sizeof *x->lane_out, "the lanes", err);
	x->lane_in = err_calloc(size, sizeof *x->lane_in, "the lanes", err);
	int ret = used && x->lane_out && x->lane_in ? 0 : -1;
	if (ret == 0 && found)
		ret = exec_window_edges(&x->conf, found, err);
	for (size_t p = 0; ret == 0 && p < size; p++) {
		x->lane_out[p] = used[p] & EXEC_OUT ? x->nlanes++ : -1;
		x->lane_in[p] = used[p] & EXEC_IN ? x->nlanes++ : -1;
	}
	free(found);
	x->ready_cap = (uint32_t)(x->nlanes * x->nstreams) + 1;
	if (!(x->ready = err_calloc(x->ready_cap, sizeof *x->ready, "the lanes", err)))
		ret = -1;
	for (int k = 0; ret == 0 && k < x->nstreams; k++)
		ret = stream_init(x, k, err);
	return ret;
}

/* The first window from conf.first on that runs on @s. */
static uint64_t first_window(const struct exec *x, const struct stream *s)
{
	const uint64_t n = (uint64_t)x->conf.streams, first = x->conf.first;
	return first + ((uint64_t)stream_number(x, s) + n - first % n) % n;
}

struct exec *exec_new(const struct exec_conf *conf, struct err *err)
{
	struct exec *x = err_calloc(1, sizeof *x, "the executor", err);
	if (!x)
		return NULL;
	x->conf = *conf;
	x->scratch = memory_host.alloc(&memory_host, SCRATCH, err);
	x->nstreams = conf->members
	                      ? (conf->streams - conf->member + conf->members - 1) / conf->members
	                      : conf->streams;
	x->streams = err_calloc((size_t)x->nstreams + 1, sizeof *x->streams, "the executor", err);
	x->spaces = err_calloc((size_t)conf->ndevices + 1, sizeof *x->spaces, "the executor", err);
	for (int k = 0; x->spaces && k <= conf->ndevices; k++)
		x->spaces[k] = k ? conf->devices[k - 1] : conf->host ? conf->host : &memory_host;
	if (!x->scratch || !x->streams || !x->spaces)
		goto fail;
	if (conf->piece && !(x->coder = coder_new(true, err)))
		goto fail;
	if (exec_init_parts(x, err) < 0 || exec_watch_init(x, err) < 0 ||
	    fileio_init(&x->io, &conf->io, conf->threads, err) < 0)
		goto fail;
	x->io_ready = true;
	x->io.timed = conf->timed;
	x->io.trace = conf->trace;
	x->open_streams = x->nstreams;
	if (init_lanes(x, err) < 0)
		goto fail;
	x->open_lanes = x->nlanes * x->nstreams;
	for (int k = 0; conf->ndevices && k < x->nstreams; k++)
		if (exec_reserve(x, &x->streams[k], first_window(x, &x->streams[k]), err) < 0)
			goto fail;
	for (int k = 0; k < x->nstreams; k++)
		if (exec_start_window(x, &x->streams[k], first_window(x, &x->streams[k]), err) < 0)
			goto fail;
	if (exec_count_moves(x, err) < 0)
		goto fail;
	return x;
fail:
	exec_free(x);
	return NULL;
}

static void stream_release(struct exec *x, struct stream *s)
{
	for (int k = 0; s->lanes && k < x->nlanes; k++)
		exec_lane_release(&s->lanes[k]);
	free(s->lanes);
	free(s->lane_steps);
	window_release(&s->window);
	free(s->in.at);
	free(s->in.file);
	free(s->out.at);
	free(s->out.file);
	free(s->progress);
	free(s->pending);
	free(s->bufs);
	free(s->stage_at);
	free(s->owner);
	free(s->first_waiting);
	free(s->waiting);
	free(s->todo);
	free(s->in_todo);
	free(s->jobs);
	free(s->job_steps);
	free(s->open_jobs);
	sched_free(s->sched);
	x->spaces[0]->free(x->spaces[0], s->stage.p, s->stage.size);
	for (int k = 0; s->memory && k <= x->conf.ndevices; k++)
		x->spaces[k]->free(x->spaces[k], s->memory[k].p, s->memory[k].size);
	free(s->memory);
}

void exec_free(struct exec *x)
{
	if (!x)
		return;
	if (x->io_ready)
		fileio_release(&x->io);
	for (int k = 0; x->spaces && k <= x->conf.ndevices; k++)
		x->spaces[k]->cancel(x->spaces[k], x);
	for (int k = 0; x->streams && x->spaces && k < x->nstreams; k++)
		stream_release(x, &x->streams[k]);
	free(x->streams);
	free(x->spaces);
	free(x->vectors);
	free(x->ready);
	free(x->lane_out);
	free(x->lane_in);
	free(x->watch.peers);
	coder_free(x->coder);
	memory_host.free(&memory_host, x->scratch, SCRATCH);
	free(x);
}

int exec_fd(const struct exec *x)
{
	return x->io.eventfd;
}

void exec_stats_add(struct exec_stats *sum, const struct exec_stats *s)
{
	sum->bytes_sent += s->bytes_sent;
	sum->bytes_received += s->bytes_received;
	for (int k = 0; k < EXEC_MOVES; k++)
		sum->moved[k] += s->moved[k];
	sum->messages += s->messages;
	sum->coded.plain += s->coded.plain;
	sum->coded.coded += s->coded.coded;
}

void exec_stats(const struct exec *x, struct exec_stats *out)
{
	*out = x->stats;
	out->moved[EXEC_WIRE] = sent_and_received(x);
}

int exec_waits_for(const struct exec *x, int *peers, int cap)
{
	int n = 0;
	for (int k = 0; k < x->nstreams; k++) {
		const struct stream *s = &x->streams[k];
		for (int l = 0; l < x->nlanes; l++) {
			const struct lane *lane = &s->lanes[l];
			bool seen = false;
			if (!lane->starved)
				continue;
			for (int i = 0; i < n; i++)
				seen |= peers[i] == lane->peer;
			if (!seen && n < cap)
				peers[n++] = lane->peer;
		}
	}
	return n;
}

void exec_waits_for_device(const struct exec *x, char *text, size_t cap)
{
	*text = '\0';
	for (int k = 0; k < x->nstreams && x->conf.ndevices; k++) {
		const struct stream *s = &x->streams[k];
		for (uint32_t i = 0; !s->done && i < s->sched->nsteps; i++) {
			const struct sched_step *step = &s->sched->steps[i];
			const struct pending *p = &s->pending[i];
			if (!p->busy)
				continue;
			snprintf(text, cap,
			         "device %s has not completed step %" PRIu32
			         " of %s (%s of %" PRIu64 " elements)",
			         p->device, i, s->window.algorithm->name, sched_op_name(step->op),
			         p->to - s->progress[i]);
			return;
		}
	}
}
