/*
 * TLS connections: their buffers, and the records after the handshake (tls_handshake.c). Records
 * are made in a buffer that is sent in large pieces: a send per 16 KiB record would cost a third
 * more time. Large pieces are received too, and each record is decrypted into the caller's memory.
 * A record for which the caller has no room is decrypted in its place.
 */
#include <openssl/crypto.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

#include "lib/net/tls_internal.h"

#define BUFFER_DEFAULT (256u << 10)
#define BUFFER_LEAST   (2 * TLS_RECORD_MAX)

#define KEY_UPDATE      24 /* a handshake message: {24, 0, 0, 1, requested} */
#define KEY_UPDATE_SIZE 5
#define ALERT_SIZE      2

/* Room that is left for a key update before a record and an alert after it. */
#define RESERVE (TLS_RECORD_EXTRA + KEY_UPDATE_SIZE + TLS_RECORD_EXTRA + ALERT_SIZE)

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

ssize_t tls_fill(struct conn_tls *c, struct err *err)
{
	struct tls_in *in = &c->in;
	memmove(in->bytes, in->bytes + in->pos, in->end - in->pos);
	in->end -= in->pos;
	in->pos = 0;
	struct iovec iov = {in->bytes + in->end, in->cap - in->end};
	ssize_t got = conn_sock_readv(&c->conn, &iov, 1, err);
	if (got == CONN_END)
		c->socket_ended = true;
	if (got > 0)
		in->end += (size_t)got;
	return got;
}

/* ---- sending ---- */

/* The caller has reserved the room. */
static int put_record(struct conn_tls *c, enum tls_type type, const void *text, size_t n,
                      struct err *err)
{
	if (tls_record_seal(&c->out_keys, type, text, n, c->out.bytes + c->out.tail) < 0)
		return err_set(err, ERR_OTHER, "TLS: cannot encrypt a record");
	c->out.tail += n + TLS_RECORD_EXTRA;
	return 0;
}

static int put_key_update(struct conn_tls *c, struct err *err)
{
	static const uint8_t message[KEY_UPDATE_SIZE] = {KEY_UPDATE, 0, 0, 1, 0};
	c->key_update_due = false;
	if (put_record(c, TLS_TYPE_HANDSHAKE, message, sizeof message, err) < 0)
		return -1;
	return tls_keys_update(&c->out_keys, err);
}

/* The last record of this direction. */
static int put_alert(struct conn_tls *c, uint8_t number, struct err *err)
{
	const uint8_t alert[ALERT_SIZE] = {number == SSL3_AD_CLOSE_NOTIFY ? 1 : 2, number};
	if (c->out_ended || !tls_reserve(&c->out, sizeof alert + TLS_RECORD_EXTRA))
		return 0;
	c->out_ended = true;
	return put_record(c, TLS_TYPE_ALERT, alert, sizeof alert, err);
}

static ssize_t tls_write(struct conn *conn, const void *buf, size_t n, struct err *err)
{
	struct conn_tls *c = (struct conn_tls *)conn;
	size_t done = 0;
	while (done < n) {
		size_t len = n - done < TLS_RECORD_TEXT ? n - done : TLS_RECORD_TEXT;
		size_t need = len + TLS_RECORD_EXTRA + RESERVE;
		if (!tls_reserve(&c->out, need)) {
			if (tls_flush(conn, err) < 0)
				return -1;
			if (!tls_reserve(&c->out, need))
				break;
		}
		if ((++c->records % tls_key_records == 0 || c->key_update_due) &&
		    put_key_update(c, err) < 0)
			return -1;
		if (put_record(c, TLS_TYPE_DATA, (const uint8_t *)buf + done, len, err) < 0)
			return -1;
		done += len;
	}
	return (ssize_t)done;
}

static int tls_end(struct conn *conn, struct err *err)
{
	int flushed = tls_flush(conn, err);
	if (flushed == 1 && !((struct conn_tls *)conn)->out_ended) {
		if (put_alert((struct conn_tls *)conn, SSL3_AD_CLOSE_NOTIFY, err) < 0)
			return -1;
		flushed = tls_flush(conn, err);
	}
	if (flushed == 1)
		conn_sock_end(conn);
	return flushed;
}

/* ---- receiving ---- */

/* What has arrived is wrong: tell the peer by the alert @number. */
static int refuse(struct conn_tls *c, uint8_t number, const char *why)
{
	struct err ignored = {0};
	err_set(&c->in_lost, ERR_INTEGRITY, "TLS: %s", why);
	if (put_alert(c, number, &ignored) == 0)
		(void)tls_flush(&c->conn, &ignored);
	conn_sock_drain(&c->conn);
	return -1;
}

/* No more bytes will come; the failure of the socket is in in_lost. */
static int cut(struct conn_tls *c)
{
	if (c->in_lost.code)
		return -1;
	c->conn.cut = true;
	return err_set(&c->in_lost, ERR_INTEGRITY,
	               "the stream was cut: it ended without close_notify");
}

/* Is a whole record there? Its length; 0: not yet; -1. */
static int find_record(struct conn_tls *c)
{
	const struct tls_in *in = &c->in;
	for (;;) {
		size_t have = in->end - in->pos;
		if (have >= TLS_RECORD_HEADER) {
			int len = tls_record_length(in->bytes + in->pos);
			if (len < 0)
				return refuse(c, SSL_AD_UNEXPECTED_MESSAGE, "no valid record");
			if ((size_t)len <= have)
				return len;
		}
		ssize_t got = tls_fill(c, &c->in_lost);
		if (got <= 0)
			return got < 0 ? cut(c) : 0;
	}
}

/* A record that carries no data. */
static int take_message(struct conn_tls *c, uint8_t type, const uint8_t *text, size_t n)
{
	static const uint8_t key_update[] = {KEY_UPDATE, 0, 0, 1};
	if (type == TLS_TYPE_ALERT && n == ALERT_SIZE) {
		if (text[1] == SSL3_AD_CLOSE_NOTIFY) {
			c->in_ended = true;
			return 0;
		}
		tls_alert_error(c, text[1], ERR_INTEGRITY, &c->in_lost);
		conn_sock_drain(&c->conn);
		return -1;
	}
	if (type != TLS_TYPE_HANDSHAKE || n != KEY_UPDATE_SIZE || text[4] > 1 ||
	    memcmp(text, key_update, sizeof key_update) != 0)
		return refuse(c, SSL_AD_UNEXPECTED_MESSAGE, "unexpected message");
	c->key_update_due |= text[4];
	return tls_keys_update(&c->in_keys, &c->in_lost);
}

/* Decrypt the record of @len bytes to @buf if it fits there, else in its place. Returns the bytes
 * of data at @buf; -1. */
static ssize_t open_record(struct conn_tls *c, size_t len, uint8_t *buf, size_t room)
{
	uint8_t *record = c->in.bytes + c->in.pos, *text = buf, type;
	bool fits = len - TLS_RECORD_EXTRA <= room;
	size_t n;
	if (!fits)
		text = record + TLS_RECORD_HEADER;
	c->in.pos += len;
	if (tls_record_open(&c->in_keys, record, len, text, &n, &type) < 0)
		return refuse(c, SSL_AD_BAD_RECORD_MAC, "decryption failed or bad record mac");
	if (n > TLS_RECORD_TEXT)
		return refuse(c, SSL_AD_RECORD_OVERFLOW, "data length too long");
	if (type != TLS_TYPE_DATA)
		return take_message(c, type, text, n);
	if (fits)
		return (ssize_t)n;
	c->in.text = (size_t)(text - c->in.bytes);
	c->in.ntext = n;
	return 0;
}

/* Text that is decrypted already. */
static size_t take_text(struct conn_tls *c, uint8_t *buf, size_t n)
{
	uint8_t *text = c->in.bytes + c->in.text;
	if (n > c->in.ntext)
		n = c->in.ntext;
	if (n == 0)
		return 0;
	memcpy(buf, text, n);
	if (c->wipes)
		OPENSSL_cleanse(text, n);
	c->in.text += n;
	c->in.ntext -= n;
	return n;
}

static ssize_t tls_read(struct conn *conn, void *buf, size_t n, struct err *err)
{
	struct conn_tls *c = (struct conn_tls *)conn;
	size_t done = take_text(c, buf, n);
	while (done < n && !c->in_ended && !c->in_lost.code) {
		int len = find_record(c);
		if (len == 0)
			break;
		ssize_t got =
		        len < 0 ? -1 : open_record(c, (size_t)len, (uint8_t *)buf + done, n - done);
		if (got >= 0)
			done += (size_t)got;
		done += take_text(c, (uint8_t *)buf + done, n - done);
	}
	if (done || n == 0)
		return (ssize_t)done;
	if (c->in_lost.code)
		return err_set(err, c->in_lost.code, "%s", c->in_lost.text);
	return c->in_ended ? CONN_END : 0;
}

/* ---- the life of a connection ---- */

static void tls_conn_free(struct conn *conn)
{
	struct conn_tls *c = (struct conn_tls *)conn;
	tls_handshake_release(c);
	tls_keys_release(&c->in_keys);
	tls_keys_release(&c->out_keys);
	if (c->wipes && c->in.bytes)
		OPENSSL_cleanse(c->in.bytes + c->in.text, c->in.ntext);
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
	size_t cap = buffer ? buffer : BUFFER_DEFAULT;
	if (cap < BUFFER_LEAST)
		cap = BUFFER_LEAST;
	struct conn_tls *c = calloc(1, sizeof *c);
	if (!c) {
		err_nomem(err, "a TLS connection", sizeof *c);
		return NULL;
	}
	c->conn.ops = &tls_ops;
	c->conn.fd = -1;
	c->in = (struct tls_in){.bytes = malloc(cap), .cap = cap};
	c->out = (struct tls_out){.bytes = malloc(RECORDS_OF(cap)), .cap = RECORDS_OF(cap)};
	if (!c->in.bytes || !c->out.bytes)
		err_nomem(err, "a TLS connection", 2 * cap);
	else if (tls_handshake_init(c, t, client, err) == 0)
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
