#include "lib/job/ctl.h"

#include <string.h>
#include <sys/socket.h>

#include "lib/base/clock.h"

#define HEADER 5
#define CHUNK  16384
#define FIRST  4096 /* bytes that can always be queued: an ABORT needs no further memory */
#define READS  16   /* of one link; then others and the timers have their turn */

static void lose(struct ctl *c, const struct err *why)
{
	struct err err = c->lacked.code ? c->lacked : *why;
	void (*on_lost)(void *, const struct err *) = c->on_lost;
	void *ctx = c->ctx;
	ctl_release(c);
	on_lost(ctx, &err);
}

static void lacking(struct ctl *c, const char *what, size_t bytes)
{
	struct err err = ERR_INIT;
	err_nomem(&err, what, bytes);
	c->on_lacking(c->ctx, &err);
}

/* Send what is queued. -1: the link was lost. */
static int push_out(struct ctl *c, struct err *err)
{
	while (c->out.len) {
		ssize_t put = conn_write(c->conn, c->out.data, c->out.len, err);
		if (put < 0)
			return -1;
		if (put == 0)
			break;
		buf_drop(&c->out, (size_t)put);
	}
	int flushed = conn_flush(c->conn, err);
	if (flushed < 0)
		return -1;
	if (c->ending && !c->ended && flushed && !c->out.len) {
		flushed = conn_end(c->conn, err);
		if (flushed < 0)
			return -1;
		c->ended = flushed;
	}
	return 0;
}

/* The next event reports a loss, after the remaining bytes are read. A lack of memory is reported
 * as such, because the later error would hide it. */
static int push(struct ctl *c)
{
	struct err err = ERR_INIT;
	if (push_out(c, &err) == 0)
		return 0;
	if (err.code == ERR_RESOURCE && !c->lacked.code) {
		c->lacked = err;
		(void)shutdown(c->conn->fd, SHUT_RDWR); /* causes an event */
	}
	return -1;
}

/* Handle every complete message. -1: one is malformed, or the link is gone. */
static int dispatch(struct ctl *c, struct err *err)
{
	size_t used = 0;
	int ret = 0;
	while (c->conn && c->in.len - used >= HEADER) {
		const uint8_t *p = c->in.data + used;
		uint32_t len = get_u32(p);
		if (len > CTL_BODY_MAX) {
			ret = err_set(err, ERR_INTEGRITY, "a control message of %u bytes", len);
			break;
		}
		if (c->in.len - used < HEADER + (size_t)len)
			break;
		used += HEADER + len;
		c->on_message(c->ctx, p[4], view_of(p + HEADER, len));
	}
	if (c->conn)
		buf_drop(&c->in, used);
	return c->conn ? ret : -1;
}

/* The peer has announced its end. A link that ends without an announcement was cut, and the peer
 * cannot know what has arrived here. */
static void answer_end(struct ctl *c)
{
	struct err ignored = ERR_INIT;
	c->ending = true;
	(void)push_out(c, &ignored);
}

static void ready(void *ctx)
{
	struct ctl *c = ctx;
	struct err err = {0};
	bool pushed = push(c) == 0;
	for (int i = 0; c->conn; i++) {
		if (i == READS) {
			conn_again(c->conn);
			break;
		}
		uint8_t *p = buf_room(&c->in, CHUNK);
		if (!p && c->in.nomem) {
			c->in.failed = c->in.nomem = false;
			lacking(c, "a control message", c->in.len + CHUNK);
			return;
		}
		if (!p) {
			err_set(&err, ERR_INTEGRITY, "a control message is too long");
			lose(c, &err);
			return;
		}
		ssize_t got = conn_read(c->conn, p, CHUNK, &err);
		if (got == 0)
			break;
		if (got < 0) {
			c->alerted = c->conn->alerted;
			if (c->conn->cut) { /* a process that dies leaves the link like this */
				err_clear(&err);
				err_set(&err, ERR_PEER_LOST, "connection closed");
			}
			if (!err.code)
				answer_end(c);
			lose(c, &err);
			return;
		}
		c->heard = clock_ns();
		c->in.len += (size_t)got;
		if (dispatch(c, &err) < 0) {
			if (c->conn)
				lose(c, &err);
			return;
		}
	}
	if (!pushed && c->conn) {
		err_set(&err, ERR_PEER_LOST, "connection reset");
		lose(c, &err);
	}
}

int ctl_start(struct ctl *c, struct conn *conn, struct loop *loop, struct err *err)
{
	c->conn = conn;
	/* ROSTER and PLACES contain keys. */
	buf_init_secret(&c->in, CTL_BODY_MAX + HEADER + CHUNK);
	buf_init_secret(&c->out, 16u * CTL_BODY_MAX);
	c->heard = clock_ns();
	c->ending = c->ended = c->alerted = false;
	err_clear(&c->lacked);
	if (buf_reserve(&c->in, CHUNK) < 0 || buf_reserve(&c->out, FIRST) < 0)
		return err_nomem(err, "a control link", CHUNK + FIRST);
	return conn_watch(conn, loop, ready, c, err);
}

int ctl_take(struct ctl *c, struct ctl *from, struct loop *loop, struct err *err)
{
	struct conn *conn = from->conn;
	struct buf queued = from->out;
	from->conn = NULL;
	from->out = (struct buf){0};
	ctl_release(from);
	if (ctl_start(c, conn, loop, err) < 0) {
		buf_release(&queued);
		return -1;
	}
	buf_release(&c->out);
	c->out = queued;
	return 0;
}

void ctl_release(struct ctl *c)
{
	conn_free(c->conn);
	c->conn = NULL;
	buf_release(&c->in);
	buf_release(&c->out);
}

void ctl_send(struct ctl *c, uint8_t type, const struct buf *body)
{
	size_t before = c->out.len;
	if (!c->conn || c->ending)
		return;
	buf_put_u32(&c->out, body ? (uint32_t)body->len : 0);
	buf_put_u8(&c->out, type);
	if (body)
		buf_put(&c->out, body->data, body->len);
	if (c->out.nomem) { /* what was queued before can still be sent */
		c->out.len = before;
		c->out.failed = c->out.nomem = false;
		lacking(c, "a control message", HEADER + (body ? body->len : 0));
		return;
	}
	if (c->out.failed) /* the peer takes nothing: the link is useless */
		(void)shutdown(c->conn->fd, SHUT_RDWR);
	(void)push(c); /* the next event reports a loss, after the remaining bytes are read */
}

void ctl_look(struct ctl *c)
{
	c->conn->readable = true;
	ready(c);
}

void ctl_end(struct ctl *c)
{
	if (!c->conn)
		return;
	c->ending = true;
	(void)push(c);
}
