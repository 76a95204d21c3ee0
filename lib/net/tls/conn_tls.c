/*
 * TLS connections: their buffers, and the stream after the handshake (tls_handshake.c) over one of
 * the two layers of records (tls_own.c, tls_openssl.c). Records are made in a buffer that is sent
 * in large pieces: a send per 16 KiB record would cost a third more time. Large pieces are received
 * too. Until the peer is authenticated the buffers are small.
 */
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "lib/net/tls/tls_internal.h"

/* Before authentication, and of control links; what OpenSSL holds is not in these. */
#define SMALL_IN  4096u
#define SMALL_OUT 8192u

#define BUFFER_DEFAULT (256u << 10)
#define BUFFER_LEAST   (2 * TLS_RECORD_MAX)

#define RECORDS_A_READ 1024 /* then other connections and the timers have their turn */

/* Room that is left for a key update before a record and an alert after it. */
#define RESERVE (TLS_RECORD_EXTRA + 5 + TLS_RECORD_EXTRA + 2)

/* What the records of @n bytes take, and the reserve: one write of @n bytes then makes one send. */
#define RECORDS_OF(n) ((n) + ((n) / TLS_RECORD_TEXT + 1) * TLS_RECORD_EXTRA + RESERVE)

uint32_t tls_key_records = 1u << 22;

/* ---- the buffers ---- */

uint8_t *tls_reserve(struct tls_out *o, size_t n)
{
	if (!o->wrapped && o->cap - o->tail < n && o->head >= n) {
		o->end = o->tail;
		o->tail = 0;
		o->wrapped = true;
	}
	size_t limit = o->wrapped ? o->head : o->cap;
	return limit - o->tail >= n ? o->bytes + o->tail : NULL;
}

static void sent(struct tls_out *o, size_t n)
{
	if (o->wrapped && n >= o->end - o->head) {
		n -= o->end - o->head;
		o->head = 0;
		o->wrapped = false;
	}
	o->head += n;
	if (!o->wrapped && o->head == o->tail)
		o->head = o->tail = 0;
}

int tls_flush(struct conn *conn, struct err *err)
{
	struct tls_out *o = &((struct conn_tls *)conn)->out;
	while (o->wrapped || o->tail > o->head) {
		struct iovec iov[2] = {
		        {o->bytes + o->head, (o->wrapped ? o->end : o->tail) - o->head},
		        {o->bytes, o->tail}};
		ssize_t put = conn_sock_writev(conn, iov, o->wrapped && o->tail ? 2 : 1, err);
		if (put <= 0)
			return (int)put;
		sent(o, (size_t)put);
	}
	return 1;
}

ssize_t tls_fill(struct conn_tls *c)
{
	struct tls_in *in = &c->in;
	memmove(in->bytes, in->bytes + in->pos, in->end - in->pos);
	in->end -= in->pos;
	in->pos = 0;
	struct iovec iov = {in->bytes + in->end, in->cap - in->end};
	ssize_t got = conn_sock_readv(&c->conn, &iov, 1, &c->in_lost);
	if (got == CONN_END)
		c->socket_ended = true;
	if (got > 0)
		in->end += (size_t)got;
	return got;
}

int tls_grow(struct conn_tls *c, struct err *err)
{
	size_t out = RECORDS_OF(c->buffer);
	uint8_t *p;
	if (!c->buffer)
		return 0;
	if ((p = err_realloc(c->in.bytes, c->buffer, 1, "a TLS connection", err))) {
		c->in.bytes = p;
		c->in.cap = c->buffer;
	}
	if (p && (p = err_realloc(c->out.bytes, out, 1, "a TLS connection", err))) {
		c->out.bytes = p;
		c->out.cap = out;
	}
	return p ? 0 : -1;
}

/* Why nothing more can be read, and after a fatal alert nothing written. */
static int tell_lost(const struct conn_tls *c, struct err *err)
{
	return err_set(err, c->in_lost.code, "%s", c->in_lost.text);
}

/* ---- sending ---- */

static ssize_t tls_write(struct conn *conn, const void *buf, size_t n, struct err *err)
{
	struct conn_tls *c = (struct conn_tls *)conn;
	size_t done = 0, most = c->out.cap - TLS_RECORD_EXTRA - RESERVE;
	if (most > TLS_RECORD_TEXT)
		most = TLS_RECORD_TEXT;
	if (c->out_ended && c->in_lost.code)
		return tell_lost(c, err);
	while (done < n) {
		size_t len = n - done < most ? n - done : most;
		size_t need = len + TLS_RECORD_EXTRA + RESERVE;
		if (!tls_reserve(&c->out, need)) {
			if (tls_flush(conn, err) < 0)
				return -1;
			if (!tls_reserve(&c->out, need))
				break;
		}
		if (++c->sealed % tls_key_records == 0 && c->layer->put_key_update(c, err) < 0)
			return -1;
		if (c->layer->put(c, (const uint8_t *)buf + done, len, err) < 0)
			return -1;
		done += len;
	}
	return (ssize_t)done;
}

static int tls_end(struct conn *conn, struct err *err)
{
	struct conn_tls *c = (struct conn_tls *)conn;
	int flushed = tls_flush(conn, err);
	if (flushed == 1 && !c->out_ended) {
		if (c->layer->put_end(c, err) < 0)
			return -1;
		flushed = tls_flush(conn, err);
	}
	if (flushed == 1)
		conn_sock_end(conn);
	return flushed;
}

/* ---- receiving ---- */

int tls_cut(struct conn_tls *c)
{
	if (c->in_lost.code)
		return -1;
	c->conn.cut = true;
	return err_set(&c->in_lost, ERR_INTEGRITY,
	               "the stream was cut: it ended without close_notify");
}

static ssize_t tls_read(struct conn *conn, void *buf, size_t n, struct err *err)
{
	struct conn_tls *c = (struct conn_tls *)conn;
	uint64_t last = c->opened + RECORDS_A_READ;
	size_t done = 0, got;
	while (done < n && !c->in_ended && !c->in_lost.code) {
		if (done && c->opened >= last) {
			conn_again(conn);
			break;
		}
		if (c->layer->take(c, (uint8_t *)buf + done, n - done, &got) <= 0)
			break;
		if (got)
			c->idle_from = c->opened;
		done += got;
	}
	if (done || n == 0)
		return (ssize_t)done;
	if (c->in_lost.code)
		return tell_lost(c, err);
	return c->in_ended ? CONN_END : 0;
}

/* ---- the life of a connection ---- */

static void tls_conn_free(struct conn *conn)
{
	struct conn_tls *c = (struct conn_tls *)conn;
	tls_handshake_release(c);
	tls_keys_release(&c->in_keys);
	tls_keys_release(&c->out_keys);
	free(c->in.bytes);
	free(c->out.bytes);
	free(c);
}

static const struct conn_ops tls_ops = {
        .name = "tls",
        .sums = true, /* every record has a tag */
        .handshake = tls_handshake,
        .read = tls_read,
        .write = tls_write,
        .flush = tls_flush,
        .end = tls_end,
        .free = tls_conn_free,
};

static struct conn_tls *conn_tls_new(struct tls *t, bool client, size_t buffer, struct err *err)
{
	struct conn_tls *c = err_calloc(1, sizeof *c, "a TLS connection", err);
	if (!buffer)
		buffer = BUFFER_DEFAULT;
	if (buffer < BUFFER_LEAST)
		buffer = BUFFER_LEAST;
	if (!c)
		return NULL;
	c->conn.ops = &tls_ops;
	c->conn.fd = -1;
	c->layer = t->layer;
	c->buffer = t->carries_data ? buffer : 0;
	c->in = (struct tls_in){.bytes = err_malloc(SMALL_IN, "a TLS connection", err),
	                        .cap = SMALL_IN};
	c->out = (struct tls_out){.bytes = err_malloc(SMALL_OUT, "a TLS connection", err),
	                          .cap = SMALL_OUT};
	if (c->in.bytes && c->out.bytes && tls_handshake_init(c, t, client, err) == 0)
		return c;
	tls_conn_free(&c->conn);
	return NULL;
}

struct conn *tls_dial(struct tls *t, int fd, const char *identity, const uint8_t key[TLS_KEY_BYTES],
                      size_t buffer, struct err *err)
{
	struct conn_tls *c = conn_tls_new(t, true, buffer, err);
	if (!c)
		return NULL;
	c->conn.fd = fd;
	if (!t->credentials) {
		snprintf(c->identity, sizeof c->identity, "%s", identity);
		memcpy(c->key, key, TLS_KEY_BYTES);
	}
	return &c->conn;
}

struct conn *tls_accept(struct tls *t, int fd, tls_find_key *find, void *ctx, size_t buffer,
                        struct err *err)
{
	struct conn_tls *c = conn_tls_new(t, false, buffer, err);
	if (!c)
		return NULL;
	c->conn.fd = fd;
	c->find = find;
	c->find_ctx = ctx;
	return &c->conn;
}

const char *tls_identity(const struct conn *conn)
{
	return ((const struct conn_tls *)conn)->identity;
}

X509 *tls_certificate(const struct conn *conn)
{
	return ((const struct conn_tls *)conn)->peer;
}
