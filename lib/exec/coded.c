#include "lib/exec/coded.h"

#include <stdlib.h>
#include <string.h>

#include "lib/base/buf.h"

#define LENGTH 4 /* bytes before a coded piece */

_Static_assert(LENGTH + CODING_ROOM(CODED_PIECE_MAX) <= CONN_FRAME_MAX, "a piece is one frame");
_Static_assert(CODED_PIECE_MAX <= CODING_PIECE, "the coder takes a piece");

struct coded {
	struct conn conn;
	struct conn *under;
	struct coder *coder;
	struct coded_count *count;
	bool out;
	unsigned width;
	size_t most;    /* bytes of a piece */
	uint8_t *piece; /* receiving: [most], the piece of which [at, have) are still to be read */
	size_t at, have;
	uint8_t *coded; /* [LENGTH + CODING_ROOM(most)], of which `done` of `len` are sent, or have
	                   arrived; receiving: len is LENGTH until the length is known */
	size_t done, len;
};

/* What the user of a connection looks at. */
static void mirror(struct coded *c)
{
	struct conn *under = c->under, *conn = &c->conn;
	conn->loop = under->loop;
	conn->readable = under->readable || c->at < c->have;
	conn->writable = under->writable;
	conn->hung_up = under->hung_up;
	conn->cut = under->cut;
	conn->alerted = under->alerted;
	conn->system_ns += under->system_ns;
	under->system_ns = 0;
	under->timed = conn->timed;
	conn->wire_in = under->wire_in;
	atomic_store_explicit(&conn->wire_out, conn_wire_out(under), memory_order_relaxed);
}

static void ready(void *ctx)
{
	struct coded *c = ctx;
	mirror(c);
	if (c->conn.on_ready)
		c->conn.on_ready(c->conn.ctx);
}

/* ---- sending ---- */

/* Pass on what is coded. 1: all; 0: not yet; -1. */
static int push(struct coded *c, struct err *err)
{
	while (c->done < c->len) {
		ssize_t put = conn_write(c->under, c->coded + c->done, c->len - c->done, err);
		if (put <= 0)
			return (int)put;
		c->done += (size_t)put;
	}
	return 1;
}

static ssize_t coded_write(struct conn *conn, const void *buf, size_t n, struct err *err)
{
	struct coded *c = (struct coded *)conn;
	int pushed = push(c, err);
	if (pushed > 0) {
		if (n > c->most)
			n = c->most;
		const size_t bytes =
		        coding_encode(c->coder, buf, NULL, n, c->width, c->coded + LENGTH);
		put_u32(c->coded, (uint32_t)bytes);
		c->len = LENGTH + bytes;
		c->done = 0;
		c->count->plain += n;
		c->count->coded += c->len;
		pushed = push(c, err) < 0 ? -1 : 1;
	}
	mirror(c);
	return pushed > 0 ? (ssize_t)n : pushed;
}

static int coded_flush(struct conn *conn, struct err *err)
{
	struct coded *c = (struct coded *)conn;
	uint64_t before;
	int pushed, flushed;
	do { /* a flush may make room for the rest of the piece */
		before = conn_wire_out(c->under);
		pushed = push(c, err);
		flushed = pushed < 0 ? -1 : conn_flush(c->under, err);
	} while (pushed == 0 && flushed >= 0 && conn_wire_out(c->under) != before);
	mirror(c);
	return flushed > 0 ? pushed : flushed;
}

static int coded_end(struct conn *conn, struct err *err)
{
	struct coded *c = (struct coded *)conn;
	int flushed = coded_flush(conn, err);
	if (flushed > 0)
		flushed = conn_end(c->under, err);
	mirror(c);
	return flushed;
}

/* ---- receiving ---- */

static int damaged(struct err *err, size_t bytes)
{
	return err_set(err, ERR_INTEGRITY, "a coded piece is damaged: %zu bytes", bytes);
}

/* Read until `len` bytes have come. 1: they have; 0: not yet; -1; CONN_END. */
static int pull(struct coded *c, struct err *err)
{
	while (c->done < c->len) {
		ssize_t got = conn_read(c->under, c->coded + c->done, c->len - c->done, err);
		if (got == CONN_END && c->done)
			return err_set(err, ERR_INTEGRITY, "the stream ends within a coded piece");
		if (got <= 0)
			return (int)got;
		c->done += (size_t)got;
	}
	return 1;
}

/* Await a piece. Returns as pull. */
static int receive(struct coded *c, struct err *err)
{
	int got = pull(c, err);
	if (got <= 0 || c->len > LENGTH)
		return got;
	const size_t bytes = get_u32(c->coded);
	if (bytes < CODING_HEAD || bytes > CODING_ROOM(c->most))
		return damaged(err, bytes);
	c->len = LENGTH + bytes;
	return pull(c, err);
}

/* Decode the piece that has come: into @buf if it fits, else to be read later. */
static ssize_t decode(struct coded *c, void *buf, size_t n, struct err *err)
{
	const uint8_t *coded = c->coded + LENGTH;
	const size_t bytes = c->len - LENGTH, plain = coding_plain_bytes(coded);
	if (!plain || plain > c->most)
		return damaged(err, plain);
	const bool fits = plain <= n;
	if (coding_decode(c->coder, coded, bytes, NULL, fits ? buf : c->piece, plain, err) < 0)
		return -1;
	c->count->plain += plain;
	c->count->coded += c->len;
	c->len = LENGTH;
	c->done = c->at = 0;
	c->have = fits ? 0 : plain;
	return fits ? (ssize_t)plain : 0;
}

static ssize_t take(struct coded *c, void *buf, size_t n)
{
	const size_t left = c->have - c->at;
	if (n > left)
		n = left;
	memcpy(buf, c->piece + c->at, n);
	c->at += n;
	return (ssize_t)n;
}

static ssize_t coded_read(struct conn *conn, void *buf, size_t n, struct err *err)
{
	struct coded *c = (struct coded *)conn;
	ssize_t got = 0;
	if (c->out) {
		got = conn_read(c->under, buf, n, err);
	} else {
		if (c->at == c->have && (got = receive(c, err)) > 0)
			got = decode(c, buf, n, err);
		if (got == 0 && c->at < c->have)
			got = take(c, buf, n);
	}
	mirror(c);
	return got;
}

/* ---- the ends ---- */

static void release(struct conn *conn)
{
	struct coded *c = (struct coded *)conn;
	if (c->under->ctx == c)
		c->under->on_ready = NULL;
	free(c->piece);
	free(c->coded);
	free(c);
}

static const struct conn_ops coded_ops = {
        .name = "coded",
        .read = coded_read,
        .write = coded_write,
        .flush = coded_flush,
        .end = coded_end,
        .free = release,
};

struct conn *coded_new(struct conn *under, struct coder *coder, bool out, size_t piece,
                       struct coded_count *count, struct err *err)
{
	struct coded *c = err_calloc(1, sizeof *c, "a coded lane", err);
	if (!c)
		return NULL;
	*c = (struct coded){.conn = {.ops = &coded_ops, .fd = -1},
	                    .under = under,
	                    .coder = coder,
	                    .count = count,
	                    .out = out,
	                    .most = piece,
	                    .len = out ? 0 : LENGTH};
	c->coded = err_malloc(LENGTH + CODING_ROOM(piece), "a coded lane", err);
	c->piece = out ? NULL : err_malloc(piece, "a coded lane", err);
	if (!c->coded || (!out && !c->piece)) {
		release(&c->conn);
		return NULL;
	}
	coded_watch(&c->conn);
	return &c->conn;
}

void coded_free(struct conn *conn)
{
	if (conn)
		release(conn);
}

void coded_watch(struct conn *conn)
{
	struct coded *c = (struct coded *)conn;
	c->under->on_ready = ready;
	c->under->ctx = c;
	mirror(c);
}

void coded_set_width(struct conn *conn, unsigned width)
{
	((struct coded *)conn)->width = width;
}
