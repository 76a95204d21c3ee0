#include "lib/exec/exec.h"

#include <stdlib.h>
#include <string.h>
#include <xxhash.h>
#include <xxh_x86dispatch.h>

#include "lib/base/buf.h"
#include "lib/exec/space.h"

#define QUANTUM       (256u << 10)  /* bytes of one turn of a lane; the scratch stays in L2 */
#define WRITE_QUANTUM (512u << 10)  /* bytes: the writer is told of no less but a step's end */
#define TRAILER       16            /* u64 byte count, u64 XXH3-64 of the lane's bytes (TLS) */
#define CARRY         8             /* the largest element, less one byte, rounded up */
#define SLICE         (16ull << 20) /* bytes moved before the caller sees to other events */
#define PIECE         512           /* elements worked on at a time where types differ */

/* One direction to one peer: the steps of the current window that use it, in order. */
struct lane {
	struct conn *conn;
	int peer;
	bool out;
	uint32_t *steps;
	uint32_t nsteps, head;
	uint64_t bytes;       /* of the head step that the connection has taken or given */
	uint64_t total;       /* of all windows */
	XXH3_state_t *hash;   /* NULL: the connection sums for itself */
	uint8_t carry[CARRY]; /* the beginning of an element that has not all arrived */
	size_t ncarry;
	bool starved; /* the last turn ended because the connection had no more */
	/* the end */
	uint8_t trailer[TRAILER];
	size_t trailer_done;
	bool trailer_made, ended;
};

struct stream {
	uint32_t window; /* the current one */
	bool done;       /* all its windows are */
	struct sched *sched;
	uint64_t *off;      /* the window's block layout */
	uint64_t *progress; /* done of every step */
	uint32_t left;      /* steps not finished */
	uint8_t **bufs;
	uint8_t *memory;
	size_t memory_size;
	struct lane *lanes;
	uint32_t *lane_steps; /* the lanes' steps, lane after lane */
	uint32_t *locals;     /* local steps, in order */
	uint32_t nlocals, first_local;
	struct fileio_job *jobs; /* one a READ or WRITE step */
	uint32_t *job_steps;
	uint32_t njobs;
};

struct exec {
	struct exec_conf conf;
	size_t esize;
	enum dtype acc;
	struct fileio io;
	bool io_ready;
	struct stream *streams;
	int *lane_out, *lane_in; /* peer -> index of its lane in every stream, or -1 */
	int nlanes;
	uint8_t *scratch;                     /* QUANTUM + CARRY */
	reduce_fn *reduce[2], *reduce_acc[2]; /* [operand swapped] */
	struct exec_stats stats;
};

static enum dtype buf_dtype(const struct exec *x, const struct sched *s, uint32_t buf)
{
	return s->bufs[buf].type == SCHED_ACC ? x->acc : x->conf.dtype;
}

static size_t buf_esize(const struct exec *x, const struct sched *s, uint32_t buf)
{
	return dtype_size(buf_dtype(x, s, buf));
}

static uint8_t *at(const struct exec *x, const struct stream *s, struct sched_span span)
{
	return s->bufs[span.buf] + span.off * buf_esize(x, s->sched, span.buf);
}

/* The frontier rule (sched.h). */
static uint64_t limit_of(const struct stream *s, uint32_t i)
{
	const struct sched_step *step = &s->sched->steps[i];
	int64_t limit = (int64_t)step->len;
	for (uint32_t d = step->dep; d < step->dep + step->ndep; d++) {
		const struct sched_dep *dep = &s->sched->deps[d];
		int64_t done = (int64_t)s->progress[dep->step];
		if (done >= (int64_t)dep->hi + dep->shift)
			continue;
		int64_t reach = done - dep->shift;
		if (reach < (int64_t)dep->lo)
			reach = (int64_t)dep->lo;
		if (reach < limit)
			limit = reach;
	}
	return (uint64_t)limit;
}

static void set_progress(struct stream *s, uint32_t i, uint64_t done)
{
	s->progress[i] = done;
	if (done == s->sched->steps[i].len)
		s->left--;
}

/* ---- sending ---- */

static int blame(struct err *err, int peer)
{
	if (err && err->rank == ERR_RANK_SELF)
		err->rank = peer;
	return -1;
}

static int send_step(struct exec *x, struct stream *s, struct lane *l, size_t *budget,
                     struct err *err)
{
	uint32_t i = l->steps[l->head];
	const struct sched_step *step = &s->sched->steps[i];
	uint64_t avail = limit_of(s, i) * x->esize - l->bytes;
	if (avail == 0)
		return 0;
	if (avail > *budget)
		avail = *budget;
	const uint8_t *p = at(x, s, step->src) + l->bytes;
	ssize_t put = conn_write(l->conn, p, avail, err);
	if (put < 0)
		return blame(err, l->peer);
	l->starved = (uint64_t)put < avail;
	if (put == 0)
		return 0;
	if (l->hash)
		XXH3_64bits_update(l->hash, p, (size_t)put);
	*budget -= (size_t)put;
	l->bytes += (uint64_t)put;
	l->total += (uint64_t)put;
	x->stats.bytes_sent += (uint64_t)put;
	set_progress(s, i, l->bytes / x->esize);
	if (l->bytes == step->len * x->esize) {
		l->head++;
		l->bytes = 0;
		x->stats.messages++;
	}
	return 1;
}

/* ---- receiving ---- */

/* dst = left op right (@swapped: right op left) where the types differ or the result is final: in
 * the wider type, rounded once, in pieces that stay in the cache. */
static void combine(struct exec *x, const struct sched *sched, const struct sched_step *step,
                    uint8_t *dst, const uint8_t *left, const uint8_t *right, uint64_t n)
{
	enum dtype to = buf_dtype(x, sched, step->dst.buf);
	enum dtype src = buf_dtype(x, sched, step->src.buf);
	enum dtype of = step->op == SCHED_REDUCE ? to : src;
	enum dtype with = step->op == SCHED_REDUCE ? src : x->conf.dtype;
	bool swapped = step->flags & SCHED_WIRE_LEFT;
	bool final = (step->flags & SCHED_FINAL) && x->conf.op == REDUCE_AVG;
	if (to == of && with == x->conf.dtype && !final) {
		(to == x->acc ? x->reduce_acc : x->reduce)[swapped](dst, left, right, n);
		return;
	}
	double piece[PIECE];
	for (uint64_t i = 0; i < n; i += PIECE) {
		size_t len = n - i < PIECE ? (size_t)(n - i) : PIECE;
		convert_kernel(x->acc, of)(piece, left + i * dtype_size(of), len);
		reduce_kernel(x->conf.op, x->acc, with, swapped)(piece, piece,
		                                                 right + i * dtype_size(with), len);
		if (final)
			final_kernel(to, x->acc)(dst + i * dtype_size(to), piece, x->conf.divisor,
			                         len);
		else
			convert_kernel(to, x->acc)(dst + i * dtype_size(to), piece, len);
	}
}

/* Put @n arrived elements at @wire where the step wants them. */
static void consume(struct exec *x, struct stream *s, const struct sched_step *step, uint64_t pos,
                    const uint8_t *wire, size_t n)
{
	uint8_t *dst = at(x, s, span_add(step->dst, pos));
	if (step->op == SCHED_RECV)
		convert_kernel(buf_dtype(x, s->sched, step->dst.buf), x->conf.dtype)(dst, wire, n);
	else
		combine(x, s->sched, step, dst, at(x, s, span_add(step->src, pos)), wire, n);
}

/* Where the bytes can go straight into the buffer: no arithmetic, no conversion. */
static ssize_t recv_plain(struct exec *x, struct stream *s, struct lane *l, uint32_t i,
                          uint64_t avail, struct err *err)
{
	uint8_t *p = at(x, s, s->sched->steps[i].dst) + l->bytes;
	ssize_t got = conn_read(l->conn, p, avail, err);
	if (got > 0 && l->hash)
		XXH3_64bits_update(l->hash, p, (size_t)got);
	return got;
}

/* Into the scratch, which is hot, and from there through the kernel. An element that has arrived
 * in part waits in the lane's carry. */
static ssize_t recv_reduce(struct exec *x, struct stream *s, struct lane *l, uint32_t i,
                           uint64_t avail, struct err *err)
{
	memcpy(x->scratch, l->carry, l->ncarry);
	ssize_t got = conn_read(l->conn, x->scratch + l->ncarry, avail, err);
	if (got <= 0)
		return got;
	if (l->hash)
		XXH3_64bits_update(l->hash, x->scratch + l->ncarry, (size_t)got);
	size_t have = l->ncarry + (size_t)got, n = have / x->esize;
	consume(x, s, &s->sched->steps[i], l->bytes / x->esize, x->scratch, n);
	l->ncarry = have - n * x->esize;
	memcpy(l->carry, x->scratch + n * x->esize, l->ncarry);
	return got;
}

static int recv_step(struct exec *x, struct stream *s, struct lane *l, size_t *budget,
                     struct err *err)
{
	uint32_t i = l->steps[l->head];
	const struct sched_step *step = &s->sched->steps[i];
	uint64_t avail = limit_of(s, i) * x->esize - l->bytes;
	ssize_t got;
	if (avail == 0)
		return 0;
	if (avail > *budget)
		avail = *budget;
	if (step->op == SCHED_RECV && buf_dtype(x, s->sched, step->dst.buf) == x->conf.dtype)
		got = recv_plain(x, s, l, i, avail, err);
	else
		got = recv_reduce(x, s, l, i, avail, err);
	if (got == CONN_END)
		err_set(err, ERR_INTEGRITY, "rank %d ended its stream before its data", l->peer);
	if (got < 0)
		return blame(err, l->peer);
	l->starved = (uint64_t)got < avail;
	if (got == 0)
		return 0;
	*budget -= (size_t)got;
	l->bytes += (uint64_t)got;
	l->total += (uint64_t)got;
	x->stats.bytes_received += (uint64_t)got;
	set_progress(s, i, l->bytes / x->esize);
	if (l->bytes == step->len * x->esize) {
		l->head++;
		l->bytes = 0;
	}
	return 1;
}

/* ---- the end of a lane ---- */

static void make_trailer(struct lane *l, uint8_t trailer[TRAILER])
{
	put_u64(trailer, l->total);
	put_u64(trailer + 8, l->hash ? XXH3_64bits_digest(l->hash) : 0);
}

static int end_out(struct lane *l, struct err *err)
{
	if (!l->trailer_made) {
		make_trailer(l, l->trailer);
		l->trailer_made = true;
	}
	if (l->trailer_done < TRAILER) {
		ssize_t put = conn_write(l->conn, l->trailer + l->trailer_done,
		                         TRAILER - l->trailer_done, err);
		if (put < 0)
			return blame(err, l->peer);
		l->trailer_done += (size_t)put;
		if (l->trailer_done < TRAILER)
			return put > 0;
	}
	int ended = conn_end(l->conn, err);
	if (ended < 0)
		return blame(err, l->peer);
	l->ended = ended == 1;
	return ended;
}

static int end_in(struct lane *l, struct err *err)
{
	uint8_t want[TRAILER], extra;
	if (l->trailer_done < TRAILER) {
		ssize_t got = conn_read(l->conn, l->trailer + l->trailer_done,
		                        TRAILER - l->trailer_done, err);
		if (got == CONN_END)
			err_set(err, ERR_INTEGRITY, "rank %d's stream has no trailer", l->peer);
		if (got < 0)
			return blame(err, l->peer);
		l->trailer_done += (size_t)got;
		return got > 0;
	}
	make_trailer(l, want);
	if (memcmp(want, l->trailer, TRAILER) != 0) {
		err_set(err, ERR_INTEGRITY,
		        "rank %d's stream is not what was sent: byte count or hash differ",
		        l->peer);
		return blame(err, l->peer);
	}
	ssize_t got = conn_read(l->conn, &extra, 1, err);
	if (got == 0)
		return 0;
	if (got > 0)
		err_set(err, ERR_INTEGRITY, "rank %d sent more than its schedule has", l->peer);
	if (got != CONN_END)
		return blame(err, l->peer);
	l->ended = true;
	return 1;
}

/* Nothing comes back on a lane that sends but the news that it is lost, which a sender with nothing
 * to send would not learn otherwise. */
static int check_out(struct lane *l, struct err *err)
{
	uint8_t byte;
	struct err why = {0};
	ssize_t got = l->conn->readable ? conn_read(l->conn, &byte, 1, &why) : 0;
	if (got == 0)
		return 0;
	if (got > 0)
		err_set(err, ERR_INTEGRITY, "rank %d sends where it has only to receive", l->peer);
	else if (got == CONN_END || l->conn->cut)
		err_set(err, ERR_PEER_LOST, "the connection was closed");
	else
		err_set(err, why.code, "%s", why.text);
	return blame(err, l->peer);
}

/* One turn of a lane, at most QUANTUM bytes. 1: progress; 0: none; -1: error. */
static int run_lane(struct exec *x, struct stream *s, struct lane *l, struct err *err)
{
	size_t budget = QUANTUM;
	int moved = 0;
	l->starved = false;
	if (l->ended)
		return 0;
	if (l->out && check_out(l, err) < 0)
		return -1;
	if (s->done) {
		l->starved = true;
		return l->out ? end_out(l, err) : end_in(l, err);
	}
	while (l->head < l->nsteps && budget) {
		int ret = l->out ? send_step(x, s, l, &budget, err)
		                 : recv_step(x, s, l, &budget, err);
		if (ret < 0)
			return -1;
		if (ret == 0 || l->starved) {
			moved |= ret;
			break;
		}
		moved = 1;
	}
	if (l->out) { /* a flush that goes on is progress: it makes room */
		uint64_t before = l->conn->wire_out;
		if (conn_flush(l->conn, err) < 0)
			return blame(err, l->peer);
		moved |= l->conn->wire_out != before;
	}
	return moved;
}

/* ---- local steps ---- */

/* dst <- IN[0] op ... op IN[N-1], 16-bit floats through f32 and rounded once, in pieces that stay
 * in the cache. */
static void local_reduce(struct exec *x, struct stream *s, const struct sched_step *step,
                         uint64_t from, uint64_t to)
{
	size_t wide = dtype_size(x->acc), piece = QUANTUM / wide;
	bool acc = x->acc != x->conf.dtype; /* else dst itself holds the sum */
	for (uint64_t pos = from; pos < to; pos += piece) {
		size_t n = to - pos < piece ? (size_t)(to - pos) : piece;
		uint8_t *dst = at(x, s, span_add(step->dst, pos));
		uint8_t *sum = acc ? x->scratch : dst;
		for (int k = 0; k < s->sched->ninputs; k++) {
			struct sched_span in = {(uint32_t)k, step->src.off + pos};
			const uint8_t *p = at(x, s, in);
			if (k == 0 && acc)
				convert_kernel(x->acc, x->conf.dtype)(sum, p, n);
			else if (k == 0)
				memmove(sum, p, n * x->esize);
			else
				(acc ? x->reduce_acc : x->reduce)[0](sum, sum, p, n);
		}
		if (acc)
			convert_kernel(x->conf.dtype, x->acc)(dst, sum, n);
	}
}

static void copy(struct exec *x, struct stream *s, const struct sched_step *step, uint64_t from,
                 uint64_t n)
{
	const struct sched *sched = s->sched;
	uint8_t *dst = at(x, s, span_add(step->dst, from));
	const uint8_t *src = at(x, s, span_add(step->src, from));
	enum dtype to = buf_dtype(x, sched, step->dst.buf);
	enum dtype of = buf_dtype(x, sched, step->src.buf);
	if ((step->flags & SCHED_FINAL) && x->conf.op == REDUCE_AVG)
		final_kernel(to, of)(dst, src, x->conf.divisor, n);
	else
		convert_kernel(to, of)(dst, src, n);
}

static int run_locals(struct exec *x, struct stream *s)
{
	int moved = 0;
	for (uint32_t k = s->first_local; k < s->nlocals; k++) {
		uint32_t i = s->locals[k];
		const struct sched_step *step = &s->sched->steps[i];
		uint64_t done = s->progress[i], limit = done < step->len ? limit_of(s, i) : done;
		if (done < limit) {
			if (step->op == SCHED_COPY)
				copy(x, s, step, done, limit - done);
			else if (step->op == SCHED_REDUCE)
				combine(x, s->sched, step, at(x, s, span_add(step->dst, done)),
				        at(x, s, span_add(step->dst, done)),
				        at(x, s, span_add(step->src, done)), limit - done);
			else
				local_reduce(x, s, step, done, limit);
			set_progress(s, i, limit);
			moved = 1;
		}
		if (k == s->first_local && s->progress[i] == step->len)
			s->first_local++;
	}
	return moved;
}

/* ---- files ---- */

/* Take over what the file threads have done, and tell the writer how far it may go. */
static int run_files(struct exec *x, struct stream *s)
{
	int moved = 0;
	uint64_t least = WRITE_QUANTUM / x->esize;
	for (uint32_t k = 0; k < s->njobs; k++) {
		struct fileio_job *job = &s->jobs[k];
		uint32_t i = s->job_steps[k];
		if (s->progress[i] == job->count)
			continue;
		if (job->write && job->limit < job->count) {
			uint64_t limit = limit_of(s, i);
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

/* ---- windows ---- */

/* off of window w: block j gives [len*w/W, len*(w+1)/W) of itself. */
static uint64_t slice(uint64_t len, uint32_t w, uint32_t windows)
{
	return (uint64_t)((unsigned __int128)len * w / windows);
}

static void window_layout(const struct exec *x, uint32_t w, uint64_t *off)
{
	const struct coll_args *a = &x->conf.args;
	off[0] = 0;
	for (int j = 0; j < a->size; j++) {
		uint64_t len = a->off[j + 1] - a->off[j];
		off[j + 1] = off[j] + slice(len, w + 1, x->conf.windows) -
		             slice(len, w, x->conf.windows);
	}
}

/* The place in the file of element @pos of the window: the layout of IN and OUT starts at block
 * @first. */
static uint64_t file_pos(const struct exec *x, const struct stream *s, int first, uint64_t pos)
{
	const uint64_t *off = x->conf.args.off;
	uint64_t at_window = pos + s->off[first];
	int lo = first, hi = x->conf.args.size;
	while (hi - lo > 1) { /* the last block that begins at or before it */
		int mid = lo + (hi - lo) / 2;
		if (s->off[mid] <= at_window)
			lo = mid;
		else
			hi = mid;
	}
	uint64_t len = off[lo + 1] - off[lo];
	return off[lo] - off[first] + slice(len, s->window, x->conf.windows) + at_window -
	       s->off[lo];
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
				               "a window uses an edge to rank %d that the whole "
				               "vector does not",
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
	const struct coll_args *a = &x->conf.args;
	struct coll_layout layout = coll_layout(x->conf.algorithm->kind, a->rank, a->size, a->root);
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
		job->pos = file_pos(x, s, job->write ? layout.out_lo : layout.in_lo, file.off);
		job->limit = job->write ? 0 : limit_of(s, s->job_steps[k]);
		fileio_submit(&x->io, job);
	}
}

static int start_window(struct exec *x, struct stream *s, uint32_t w, struct err *err)
{
	enum sched_error e = SCHED_OK;
	struct coll_args args = x->conf.args;
	s->window = w;
	s->done = w >= x->conf.windows;
	if (s->done)
		return 0;
	window_layout(x, w, s->off);
	args.off = s->off;
	sched_free(s->sched);
	s->sched = sched_build(x->conf.algorithm, &args, &e);
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
	s->left = s->sched->nsteps;
	if (place_buffers(x, s, err) < 0 || distribute(x, s, err) < 0)
		return -1;
	submit_jobs(x, s);
	return 0;
}

static int run_stream(struct exec *x, struct stream *s, struct err *err)
{
	int moved = 0;
	if (!s->done) {
		moved |= run_files(x, s);
		moved |= run_locals(x, s);
	}
	for (int k = 0; k < x->nlanes; k++) {
		int ret = run_lane(x, s, &s->lanes[k], err);
		if (ret < 0)
			return -1;
		moved |= ret;
	}
	if (!s->done && s->left == 0) {
		if (start_window(x, s, s->window + (uint32_t)x->conf.streams, err) < 0)
			return -1;
		moved = 1;
	}
	return moved;
}

static bool finished(const struct exec *x)
{
	for (int k = 0; k < x->conf.streams; k++) {
		if (!x->streams[k].done)
			return false;
		for (int l = 0; l < x->nlanes; l++)
			if (!x->streams[k].lanes[l].ended)
				return false;
	}
	return true;
}

/* One round over all streams. > 0: something moved. */
static int round_once(struct exec *x, struct err *err)
{
	int moved = 0;
	for (int k = 0; k < x->conf.streams; k++) {
		int ret = run_stream(x, &x->streams[k], err);
		if (ret < 0)
			return -1;
		moved |= ret;
	}
	return fileio_check(&x->io, err) < 0 ? -1 : moved;
}

static uint64_t moved_bytes(const struct exec *x)
{
	return x->stats.bytes_moved + x->stats.bytes_sent + x->stats.bytes_received;
}

int exec_advance(struct exec *x, struct err *err)
{
	uint64_t until = moved_bytes(x) + SLICE;
	while (moved_bytes(x) < until) {
		int moved = round_once(x, err);
		if (moved == 0) { /* before the caller sleeps, what moved meanwhile */
			fileio_arm(&x->io);
			moved = round_once(x, err);
		}
		if (moved <= 0)
			return moved < 0 ? -1 : finished(x);
	}
	return EXEC_AGAIN;
}

/* ---- setting up ---- */

int exec_edges(const struct coll_algorithm *alg, const struct coll_args *args, int *out, int *nout,
               int *in, int *nin, struct err *err)
{
	enum sched_error e = SCHED_OK;
	struct sched *sched = sched_build(alg, args, &e);
	uint8_t *used = calloc((size_t)args->size, 1);
	*nout = *nin = 0;
	if (!sched || !used) {
		err_set(err, ERR_RESOURCE, "the schedule of %s can't be built: %s", alg->name,
		        sched_strerror(e));
	} else {
		for (uint32_t i = 0; i < sched->nsteps; i++)
			if (sched->steps[i].peer >= 0)
				used[sched->steps[i].peer] |=
				        sched->steps[i].op == SCHED_SEND ? 1 : 2;
		for (int p = 0; p < args->size; p++) {
			if (used[p] & 1)
				out[(*nout)++] = p;
			if (used[p] & 2)
				in[(*nin)++] = p;
		}
	}
	int ret = sched && used ? 0 : -1;
	sched_free(sched);
	free(used);
	return ret;
}

int exec_footprint(const struct coll_algorithm *alg, const struct coll_args *args,
                   enum reduce_op op, enum dtype dtype, bool ordered, uint64_t *bytes,
                   struct err *err)
{
	enum sched_error e = SCHED_OK;
	struct sched *sched = sched_build(alg, args, &e);
	if (!sched)
		return err_set(err, ERR_RESOURCE, "the schedule of %s can't be built: %s",
		               alg->name, sched_strerror(e));
	size_t acc = dtype_size(reduce_acc_dtype(op, dtype, ordered));
	*bytes = 0;
	for (uint32_t b = 0; b < sched->nbufs; b++)
		*bytes += sched->bufs[b].len *
		          (sched->bufs[b].type == SCHED_ACC ? acc : dtype_size(dtype));
	sched_free(sched);
	return 0;
}

static int lane_init(struct exec *x, struct lane *l, int peer, bool out, int stream,
                     struct err *err)
{
	*l = (struct lane){.peer = peer, .out = out};
	l->conn = x->conf.conn(x->conf.conn_ctx, peer, out, stream);
	if (!l->conn)
		return err_rank(err, ERR_OTHER, peer, "no connection to rank %d", peer);
	if (!l->conn->ops->sums) {
		l->hash = XXH3_createState();
		if (!l->hash)
			return err_nomem(err, "a lane", 0);
		XXH3_64bits_reset(l->hash);
	}
	return 0;
}

static int stream_init(struct exec *x, int k, const int *out, int nout, const int *in, int nin,
                       struct err *err)
{
	struct stream *s = &x->streams[k];
	s->off = calloc((size_t)x->conf.args.size + 1, sizeof *s->off);
	s->lanes = calloc((size_t)(nout + nin) + 1, sizeof *s->lanes);
	if (!s->off || !s->lanes)
		return err_nomem(err, "a stream", 0);
	for (int i = 0; i < nout + nin; i++)
		if (lane_init(x, &s->lanes[i], i < nout ? out[i] : in[i - nout], i < nout, k, err))
			return -1;
	return 0;
}

static int init_lanes(struct exec *x, struct err *err)
{
	size_t size = (size_t)x->conf.args.size;
	int *out = calloc(size, sizeof *out), *in = calloc(size, sizeof *in), nout, nin;
	x->lane_out = calloc(size, sizeof *x->lane_out);
	x->lane_in = calloc(size, sizeof *x->lane_in);
	int ret = -1;
	if (!out || !in || !x->lane_out || !x->lane_in) {
		err_nomem(err, "the lanes", size * sizeof *out);
		goto done;
	}
	if (exec_edges(x->conf.algorithm, &x->conf.args, out, &nout, in, &nin, err) < 0)
		goto done;
	for (size_t p = 0; p < size; p++)
		x->lane_out[p] = x->lane_in[p] = -1;
	for (int i = 0; i < nout; i++)
		x->lane_out[out[i]] = i;
	for (int i = 0; i < nin; i++)
		x->lane_in[in[i]] = nout + i;
	x->nlanes = nout + nin;
	for (int k = 0; k < x->conf.streams; k++)
		if (stream_init(x, k, out, nout, in, nin, err) < 0)
			goto done;
	ret = 0;
done:
	free(out);
	free(in);
	return ret;
}

struct exec *exec_new(const struct exec_conf *conf, struct err *err)
{
	struct exec *x = calloc(1, sizeof *x);
	if (!x) {
		err_nomem(err, "the executor", sizeof *x);
		return NULL;
	}
	x->conf = *conf;
	x->esize = dtype_size(conf->dtype);
	x->acc = reduce_acc_dtype(conf->op, conf->dtype, conf->ordered);
	for (int swapped = 0; swapped < 2; swapped++) {
		x->reduce[swapped] = reduce_kernel(conf->op, conf->dtype, conf->dtype, swapped);
		x->reduce_acc[swapped] = reduce_kernel(conf->op, x->acc, conf->dtype, swapped);
	}
	x->scratch = space_host_alloc(QUANTUM + 4096, err);
	x->streams = calloc((size_t)conf->streams, sizeof *x->streams);
	if (!x->scratch || !x->streams || !x->reduce[0] || !x->reduce_acc[0]) {
		err_set(err, ERR_RESOURCE, "the executor can't be set up");
		goto fail;
	}
	if (fileio_init(&x->io, &conf->io, conf->threads, err) < 0)
		goto fail;
	x->io_ready = true;
	if (init_lanes(x, err) < 0)
		goto fail;
	for (int k = 0; k < conf->streams; k++)
		if (start_window(x, &x->streams[k], (uint32_t)k, err) < 0)
			goto fail;
	return x;
fail:
	exec_free(x);
	return NULL;
}

static void stream_release(struct exec *x, struct stream *s)
{
	for (int k = 0; s->lanes && k < x->nlanes; k++)
		XXH3_freeState(s->lanes[k].hash);
	free(s->lanes);
	free(s->lane_steps);
	free(s->off);
	free(s->progress);
	free(s->bufs);
	free(s->locals);
	free(s->jobs);
	free(s->job_steps);
	sched_free(s->sched);
	space_host_free(s->memory, s->memory_size);
}

void exec_free(struct exec *x)
{
	if (!x)
		return;
	if (x->io_ready)
		fileio_release(&x->io);
	for (int k = 0; x->streams && k < x->conf.streams; k++)
		stream_release(x, &x->streams[k]);
	free(x->streams);
	free(x->lane_out);
	free(x->lane_in);
	space_host_free(x->scratch, QUANTUM + 4096);
	free(x);
}

int exec_fd(const struct exec *x)
{
	return x->io.eventfd;
}

void exec_stats(const struct exec *x, struct exec_stats *out)
{
	*out = x->stats;
	out->bytes_moved = moved_bytes(x);
}

int exec_waits_for(const struct exec *x, int *peers, int cap)
{
	int n = 0;
	for (int k = 0; k < x->conf.streams; k++) {
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
