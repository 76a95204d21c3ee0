/* Lanes: the steps of a stream that send to, or receive from, one peer. See exec_internal.h. */
#include "lib/exec/exec_internal.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"
#include "lib/base/xxh3.h"

/* ---- sending ---- */

static int blame(struct err *err, int peer)
{
	if (err && err->rank == ERR_RANK_SELF)
		err->rank = peer;
	return -1;
}

/* Is step @i sent as a reference to its elements? Then it is done when the peer has consumed them.
 * The verifier proves that a schedule ends with such sends (COLL_COPIES: it would not). */
static bool is_lent(const struct stream *s, const struct lane *l, uint32_t i)
{
	const struct conn_lending *lending = l->conn->ops->lending;
	const struct sched_step *step = &s->sched->steps[i];
	uint64_t bytes = step->len * s->vector->esize;
	return lending && bytes >= lending->least && !s->copies &&
	       lending->reaches(l->conn, at(s, step->src), bytes);
}

/* The peer has consumed more of what was lent. 1: yes; 0: no; -1: error. */
static int take_back(struct stream *s, struct lane *l, struct err *err)
{
	size_t esize = s->vector->esize;
	int moved = 0;
	if (!l->conn->ops->lending || l->tail == l->nsteps)
		return 0;
	int64_t consumed = l->conn->ops->lending->consumed(l->conn, err);
	if (consumed < 0)
		return blame(err, l->peer);
	for (; l->tail < l->nsteps && l->tail <= l->head; l->tail++) {
		uint32_t i = l->steps[l->tail];
		uint64_t bytes = s->sched->steps[i].len * esize, done = bytes;
		if (is_lent(s, l, i)) {
			uint64_t since = (uint64_t)consumed > l->tail_at
			                         ? (uint64_t)consumed - l->tail_at
			                         : 0;
			done = since < bytes ? since : bytes;
			if (done / esize > s->progress[i]) {
				exec_progress(s, i, done / esize);
				moved = 1;
			}
		}
		if (done < bytes || l->tail == l->head)
			break;
		l->tail_at += bytes;
	}
	return moved;
}

/* The checksum of a lane whose connection has none. */
static void add_to_sum(struct exec *x, struct lane *l, const uint8_t *p, size_t n)
{
	if (!l->hash)
		return;
	XXH3_64bits_update(l->hash, p, n);
	exec_spend(x, SPENT_CIPHER);
}

static int send_step(struct exec *x, struct stream *s, struct lane *l, size_t *budget,
                     struct err *err)
{
	uint32_t i = l->steps[l->head];
	const struct sched_step *step = &s->sched->steps[i];
	size_t esize = s->vector->esize;
	uint64_t avail = exec_limit(s, i) * esize - l->bytes;
	const uint8_t *p = at(s, step->src) + l->bytes;
	if (avail == 0)
		return 0;
	if (avail > *budget)
		avail = *budget;
	bool lent = is_lent(s, l, i);
	exec_spend(x, SPENT_OTHER);
	int64_t from = x->watch.lap;
	ssize_t put = lent ? l->conn->ops->lending->lend(l->conn, p, avail, err)
	                   : conn_write(l->conn, p, avail, err);
	if (put < 0)
		return blame(err, l->peer);
	exec_spend_conn(x, l->conn);
	l->starved = (uint64_t)put < avail;
	if (put == 0)
		return 0;
	add_to_sum(x, l, p, (size_t)put);
	*budget -= (size_t)put;
	if (!l->bytes)
		l->began = from;
	l->bytes += (uint64_t)put;
	l->total += (uint64_t)put;
	x->stats.bytes_sent += (uint64_t)put;
	if (!lent)
		exec_progress(s, i, l->bytes / esize);
	if (l->bytes == step->len * esize) {
		exec_trace_step(x, l, i);
		l->head++;
		l->bytes = 0;
		x->stats.messages++;
	}
	return 1;
}

/* ---- receiving ---- */

static ssize_t read_lane(struct lane *l, uint8_t *buf, size_t n, struct err *err)
{
	if (!l->has_ahead || n == 0)
		return conn_read(l->conn, buf, n, err);
	l->has_ahead = false;
	*buf = l->ahead;
	return 1;
}

/* A sender that loses the connection before it hears that it is admitted dials again, but nobody
 * answers: this rank has all its lanes. The schedule may not read from this one until others have
 * moved, which wait for that sender. So try to read once the socket has ended. A byte that comes is
 * the first of a stream that has an end. */
static int check_in(struct lane *l, struct err *err)
{
	if (!l->conn->hung_up || l->conn->ops->lending || l->has_ahead || l->total ||
	    l->trailer_done)
		return 0;
	ssize_t got = conn_read(l->conn, &l->ahead, 1, err);
	l->has_ahead = got > 0;
	/* If the stream has ended, the reader of the trailer misses it. */
	return got >= 0 || got == CONN_END ? 0 : blame(err, l->peer);
}

static int ended_early(const struct lane *l, struct err *err)
{
	err_set(err, ERR_INTEGRITY, "rank %d ended its stream before it sent all data", l->peer);
	return blame(err, l->peer);
}

/* @n bytes, which began to arrive at @from ns, have reached the head step's destination. */
static void arrived(struct stream *s, struct lane *l, size_t n, int64_t from)
{
	uint32_t i = l->steps[l->head];
	size_t esize = s->vector->esize;
	if (!l->bytes)
		l->began = from;
	l->bytes += n;
	exec_progress(s, i, l->bytes / esize);
	if (l->bytes == s->sched->steps[i].len * esize) {
		exec_trace_step(s->exec, l, i);
		l->head++;
		l->bytes = 0;
	}
}

/* Can bytes be received directly into the buffer, without arithmetic or conversion? */
static bool is_plain(const struct stream *s, const struct sched_step *step)
{
	return step->op == SCHED_RECV && buf_dtype(s, step->dst.buf) == s->vector->dtype;
}

/* Store or reduce the @got bytes that were received at @buf, after the carry. An incomplete element
 * stays in the lane's carry. */
static int consume(struct stream *s, struct lane *l, uint8_t *buf, size_t got, int64_t from,
                   struct err *err)
{
	const struct sched_step *step = &s->sched->steps[l->steps[l->head]];
	size_t esize = s->vector->esize, have = l->ncarry + got, n = have / esize;
	l->ncarry = have - n * esize;
	memcpy(l->carry, buf + n * esize, l->ncarry);
	if (n && exec_arrived(s, step, l->bytes / esize, buf, n, err) < 0)
		return -1;
	arrived(s, l, got, from);
	return 1;
}

static void count_received(struct exec *x, struct lane *l, size_t *budget, size_t got)
{
	*budget -= got;
	l->total += got;
	x->stats.bytes_received += got;
}

/* Take the elements from where the peer has them. */
static int borrow_step(struct exec *x, struct stream *s, struct lane *l, size_t *budget,
                       struct err *err)
{
	const struct conn_lending *lending = l->conn->ops->lending;
	uint32_t i = l->steps[l->head];
	size_t esize = s->vector->esize;
	uint64_t avail = exec_limit(s, i) * esize - l->bytes;
	const void *p;
	if (avail == 0)
		return 0;
	if (avail > *budget)
		avail = *budget;
	exec_spend(x, SPENT_OTHER);
	int64_t from = x->watch.lap;
	ssize_t got = lending->borrow(l->conn, &p, avail, err);
	if (got == CONN_END)
		return ended_early(l, err);
	if (got < 0)
		return blame(err, l->peer);
	l->starved = (uint64_t)got < avail;
	if (got == 0)
		return 0;
	if ((size_t)got % esize || (uintptr_t)p % esize) {
		err_set(err, ERR_INTEGRITY, "rank %d sent a part of an element", l->peer);
		return blame(err, l->peer);
	}
	if (exec_arrived(s, &s->sched->steps[i], l->bytes / esize, p, (uint64_t)got / esize, err) <
	    0)
		return -1;
	lending->give_back(l->conn, (size_t)got);
	count_received(x, l, budget, (size_t)got);
	arrived(s, l, (size_t)got, from);
	return 1;
}

/* Receive directly into the buffer if possible; else into the scratch, which is in the cache. */
static int recv_step(struct exec *x, struct stream *s, struct lane *l, size_t *budget,
                     struct err *err)
{
	uint32_t i = l->steps[l->head];
	const struct sched_step *step = &s->sched->steps[i];
	uint64_t avail = exec_limit(s, i) * s->vector->esize - l->bytes;
	bool straight = is_plain(s, step);
	uint8_t *buf = straight ? at(s, step->dst) + l->bytes : x->scratch;
	if (avail == 0)
		return 0;
	if (avail > *budget)
		avail = *budget;
	if (!straight)
		memcpy(buf, l->carry, l->ncarry);
	exec_spend(x, SPENT_OTHER);
	int64_t from = x->watch.lap;
	ssize_t got = read_lane(l, buf + l->ncarry, avail, err);
	exec_spend_conn(x, l->conn);
	if (got == CONN_END)
		return ended_early(l, err);
	if (got < 0)
		return blame(err, l->peer);
	l->starved = (uint64_t)got < avail;
	if (got == 0)
		return 0;
	add_to_sum(x, l, buf + l->ncarry, (size_t)got);
	count_received(x, l, budget, (size_t)got);
	if (!straight)
		return consume(s, l, buf, (size_t)got, from, err);
	arrived(s, l, (size_t)got, from);
	return 1;
}

/* ---- the end of a lane ---- */

static void make_trailer(struct lane *l, uint8_t trailer[TRAILER])
{
	put_u64(trailer, l->total);
	put_u64(trailer + 8, l->hash ? XXH3_64bits_digest(l->hash) : 0);
}

static void end(struct lane *l)
{
	l->ended = true;
	l->exec->open_lanes--;
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
	if (ended == 1)
		end(l);
	return ended;
}

static int end_in(struct lane *l, struct err *err)
{
	uint8_t want[TRAILER], extra;
	if (l->trailer_done < TRAILER) {
		ssize_t got =
		        read_lane(l, l->trailer + l->trailer_done, TRAILER - l->trailer_done, err);
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
		        "rank %d's stream arrived with a wrong byte count or hash", l->peer);
		return blame(err, l->peer);
	}
	ssize_t got = conn_read(l->conn, &extra, 1, err);
	if (got == 0)
		return 0;
	if (got > 0)
		err_set(err, ERR_INTEGRITY, "rank %d sent more data than its schedule contains",
		        l->peer);
	if (got != CONN_END)
		return blame(err, l->peer);
	end(l);
	return 1;
}

/* The end of a run of a lane that is reused: flush its bytes. */
static int pause_lane(struct lane *l, struct err *err)
{
	int flushed = l->out ? conn_flush(l->conn, err) : 1;
	if (flushed < 0)
		return blame(err, l->peer);
	if (flushed == 1)
		end(l);
	return flushed;
}

/* A sending lane receives nothing except the loss of the connection. A sender that has nothing to
 * send would not notice that otherwise. */
static int check_out(struct lane *l, struct err *err)
{
	uint8_t byte;
	if (!l->conn->readable)
		return 0;
	struct err why = {0};
	ssize_t got = conn_read(l->conn, &byte, 1, &why);
	if (got == 0)
		return 0;
	if (got > 0)
		err_set(err, ERR_INTEGRITY, "rank %d sends data that its schedule does not contain",
		        l->peer);
	else if (l->conn->alerted)
		return 0;
	else if (got == CONN_END || l->conn->cut)
		err_set(err, ERR_PEER_LOST, "the connection was closed");
	else
		err_set(err, why.code, "%s", why.text);
	return blame(err, l->peer);
}

/* One turn of a lane, at most QUANTUM bytes. 1: progress; 0: none; -1: error. */
int exec_run_lane(struct exec *x, struct stream *s, struct lane *l, struct err *err)
{
	size_t budget = QUANTUM;
	int moved = 0;
	l->starved = false;
	if (l->ended)
		return 0;
	if ((l->out ? check_out(l, err) : check_in(l, err)) < 0)
		return -1;
	if (l->conn->alerted) /* the data arrived corrupt, and the receiver reports it */
		return 0;
	if (s->done) {
		l->starved = true;
		if (x->conf.repeat)
			return pause_lane(l, err);
		return l->out ? end_out(l, err) : end_in(l, err);
	}
	if (l->out && (moved = take_back(s, l, err)) < 0)
		return -1;
	while (l->head < l->nsteps && budget) {
		int ret = l->out                  ? send_step(x, s, l, &budget, err)
		          : l->conn->ops->lending ? borrow_step(x, s, l, &budget, err)
		                                  : recv_step(x, s, l, &budget, err);
		if (ret < 0)
			return -1;
		if (ret == 0 || l->starved) {
			moved |= ret;
			break;
		}
		moved = 1;
	}
	l->starved |= l->out && l->tail < l->head && l->conn->ops->lending;
	if (l->out) { /* an advancing flush is progress, because it frees space */
		uint64_t before = conn_wire_out(l->conn);
		exec_spend(x, SPENT_OTHER);
		if (conn_flush(l->conn, err) < 0)
			return blame(err, l->peer);
		exec_spend_conn(x, l->conn);
		moved |= conn_wire_out(l->conn) != before;
	}
	return moved;
}

static void ready(void *ctx)
{
	exec_wake_lane(ctx);
}

void exec_lane_watch(struct lane *l)
{
	if (l->coded)
		coded_watch(l->coded);
	l->conn->on_ready = ready;
	l->conn->ctx = l;
}

int exec_lane_init(struct exec *x, struct stream *s, int lane, int peer, bool out, struct err *err)
{
	struct lane *l = &s->lanes[lane];
	*l = (struct lane){.exec = x, .stream = s, .peer = peer, .out = out};
	l->conn = x->conf.conn(x->conf.conn_ctx, peer, out, stream_number(x, s));
	if (!l->conn)
		return err_rank(err, ERR_OTHER, peer, "no connection to rank %d", peer);
	if (x->coder && !l->conn->ops->lending) {
		l->coded = coded_new(l->conn, x->coder, out, x->conf.piece, &x->stats.coded, err);
		if (!l->coded)
			return -1;
		l->conn = l->coded;
	}
	l->conn->timed = x->conf.timed;
	exec_lane_watch(l);
	x->silent |= !l->conn->loop;
	if (!l->conn->ops->sums) {
		l->hash = XXH3_createState();
		if (!l->hash)
			return err_nomem(err, "a lane", 0);
		XXH3_64bits_reset(l->hash);
	}
	return 0;
}

/* Of the planes of elements of @dtype. Bytes may be those of a file, of any type. */
static unsigned width_of(enum dtype dtype)
{
	const size_t size = dtype_size(dtype) >> dtype_is_complex(dtype);
	return size == 1 ? 0 : size > 8 ? 8 : (unsigned)size;
}

void exec_lane_begin(struct lane *l)
{
	if (l->coded && l->out)
		coded_set_width(l->coded, width_of(l->stream->vector->dtype));
}

void exec_lane_release(struct lane *l)
{
	if (l->conn && l->conn->ctx == l)
		l->conn->on_ready = NULL;
	coded_free(l->coded);
	XXH3_freeState(l->hash);
}
