/*
 * TLS after the handshake, and the switch to it: a peer that has the key sends records of any type
 * and content, damaged ones, and bytes that are none, in any pieces, the last ones of its handshake
 * among them. Data arrive as they were sent, up to the first thing that is not allowed, and never
 * after it. The first byte chooses the layer of records, and whether there is a handshake at all: a
 * thousand times as fast without.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/net/tls/tls_internal.h"
#include "tests/fuzz/check.h"
#include "tests/unit/tls_forge.h"

#define STREAM (96u << 10) /* bytes that a case sends at most */
#define RECORD (TLS_RECORD_TEXT + 300)

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static struct tls *contexts[3]; /* own, openssl, control */

struct world {
	struct forge peer;
	struct conn_tls *c;
	int fd; /* the peer's */
	size_t quantum;

	uint8_t stream[STREAM]; /* to be sent */
	size_t len;
	uint8_t sent[STREAM]; /* data in it, up to what is not allowed */
	size_t nsent, heard;
	unsigned idle; /* records without data in a row */
	bool stopped;  /* there is something that is not allowed; or: */
	bool closed;
	bool lenient; /* there is something that OpenSSL ignores: not in all versions */
	bool broken;  /* in the handshake */
	ssize_t last;
	struct err err;
};

/* ---- the input ---- */

struct input {
	const uint8_t *p, *end;
};

static uint8_t byte(struct input *in)
{
	return in->p < in->end ? *in->p++ : 0;
}

static size_t number(struct input *in)
{
	size_t n = byte(in);
	return n | (size_t)byte(in) << 8;
}

/* ---- what the peer sends ---- */

static void stop(struct world *w)
{
	w->stopped |= !w->closed; /* after the end all is ignored */
}

static uint8_t *room(struct world *w, size_t n)
{
	return STREAM - w->len < n ? NULL : w->stream + w->len;
}

static void put_idle(struct world *w)
{
	if (++w->idle > TLS_IDLE_MAX)
		stop(w);
}

/* A record; @flip: one of its bits, if not negative, is wrong. */
static void put(struct world *w, uint8_t type, const uint8_t *text, size_t n, int flip)
{
	uint8_t *out = room(w, n + FORGE_EXTRA);
	if (!out)
		return;
	size_t len = forge_record(&w->peer, type, text, n, out);
	w->len += len;
	if (flip >= 0) {
		out[(size_t)flip / 8 % len] ^= (uint8_t)(1u << flip % 8);
		stop(w);
	}
	if (n > TLS_RECORD_TEXT)
		stop(w);
	while (!type && n) /* zeros are padding: the type is the last other byte */
		type = text[--n];
	bool counts = !w->stopped && !w->closed;
	if (type == TLS_TYPE_DATA && n && counts) {
		memcpy(w->sent + w->nsent, text, n);
		w->nsent += n;
		w->idle = 0;
	} else if (type == TLS_TYPE_DATA && counts) {
		put_idle(w);
	} else if (type == TLS_TYPE_ALERT && n == 2 && text[1] == 90 && w->c->layer != &tls_own) {
		w->lenient = true; /* user_canceled */
		put_idle(w);
	} else if (type == TLS_TYPE_ALERT && n == 2 && text[1] == 0 && counts) {
		w->closed = true;
	} else if (counts) {
		stop(w);
	}
}

static void put_data(struct world *w, size_t n)
{
	uint8_t text[RECORD];
	for (size_t i = 0; i < n; i++)
		text[i] = (uint8_t)(w->nsent + i * 7);
	put(w, TLS_TYPE_DATA, text, n, -1);
}

static void put_key_update(struct world *w, uint8_t requested)
{
	const uint8_t update[] = {24, 0, 0, 1, requested};
	bool stopped = w->stopped;
	put(w, TLS_TYPE_HANDSHAKE, update, sizeof update, -1);
	forge_update(&w->peer);
	w->stopped = stopped;
	if (requested > 1)
		stop(w);
	if (!w->stopped && !w->closed)
		put_idle(w);
}

static void put_item(struct world *w, struct input *in)
{
	uint8_t op = byte(in), type, text[256];
	size_t n;
	switch (op % 8) {
	case 0:
	case 1:
		put_data(w, op & 8 ? number(in) % RECORD : byte(in));
		break;
	case 2:
		for (int i = 1 + op / 8; i; i--)
			put_data(w, op & 64 ? 0 : 1);
		break;
	case 3:
		for (int i = 1 + op / 8; i; i--)
			put_key_update(w, op & 64 ? byte(in) : 0);
		break;
	case 4:
		type = op & 8 ? TLS_TYPE_HANDSHAKE : byte(in);
		n = op & 16 ? byte(in) : byte(in) % 8;
		for (size_t i = 0; i < n; i++)
			text[i] = byte(in);
		put(w, type, text, n, -1);
		break;
	case 5:
		n = byte(in);
		if (n && room(w, n)) {
			for (size_t i = 0; i < n; i++)
				w->stream[w->len++] = byte(in);
			stop(w);
		}
		break;
	case 6:
		memset(text, 'd', sizeof text);
		n = byte(in);
		put(w, TLS_TYPE_DATA, text, n, (int)number(in));
		break;
	default:
		text[0] = op & 8 ? 1 : byte(in);
		text[1] = op & 8 ? 0 : byte(in);
		put(w, TLS_TYPE_ALERT, text, 2, -1);
		break;
	}
}

/* ---- our end ---- */

static void empty_peer(struct world *w)
{
	uint8_t ignored[4096];
	while (recv(w->fd, ignored, sizeof ignored, MSG_DONTWAIT) > 0)
		;
}

static void hear(struct world *w)
{
	uint8_t buf[1024];
	struct err ignored = {0};
	while (w->last >= 0 && (w->last = conn_read(&w->c->conn, buf, w->quantum, &w->err)) > 0) {
		CHECK((size_t)w->last <= w->quantum);
		CHECK(w->heard + (size_t)w->last <= w->nsent);
		CHECK(memcmp(buf, w->sent + w->heard, (size_t)w->last) == 0);
		w->heard += (size_t)w->last;
		if (w->heard % 3 == 0) {
			(void)conn_write(&w->c->conn, "answer", 6, &ignored);
			(void)conn_flush(&w->c->conn, &ignored);
			empty_peer(w);
		}
	}
}

/* Send the @n bytes at @p in pieces, and read after each. */
static void deliver(struct world *w, const uint8_t *p, size_t n, size_t piece)
{
	while (n && !w->broken) {
		size_t len = n < piece ? n : piece;
		ssize_t put = send(w->fd, p, len, MSG_NOSIGNAL | MSG_DONTWAIT);
		CHECK(put > 0 || w->last < 0);
		if (put <= 0)
			return;
		p += put;
		n -= (size_t)put;
		w->c->conn.readable = w->c->conn.writable = true;
		if (!w->c->established && conn_handshake(&w->c->conn, &w->err) < 0)
			w->broken = true;
		if (w->c->established)
			hear(w);
	}
}

/* ---- the handshake ---- */

static struct tls *context(const char *records)
{
	struct err err = {0};
	if (records)
		setenv("COLLCTL_TLS_RECORDS", records, 1);
	struct tls *t = tls_new(&err);
	CHECK(t);
	if (records)
		tls_carry_data(t);
	return t;
}

/* As if there had been one. */
static void skip_handshake(struct world *w)
{
	struct conn_tls *c = w->c;
	struct err err = {0};
	memset(w->peer.secret, 's', sizeof w->peer.secret);
	CHECK(tls_keys_init(&c->in_keys, 0x1301, w->peer.secret, false, &err) == 0);
	CHECK(tls_keys_init(&c->out_keys, 0x1301, w->peer.secret, true, &err) == 0);
	CHECK(tls_grow(c, &err) == 0);
	SSL_free(c->ssl);
	c->ssl = NULL;
	c->connecting = false;
	c->established = true;
}

/* The peer's last bytes of the handshake begin the stream. */
static void shake_hands(struct world *w, size_t piece)
{
	static uint8_t hello[4096], answer[8192];
	BIO *to = BIO_new(BIO_s_mem()), *from = BIO_new(BIO_s_mem());
	CHECK(forge_init(&w->peer, true) && to && from);
	BIO_set_mem_eof_return(from, -1);
	SSL_set_bio(w->peer.ssl, from, to);
	CHECK(SSL_do_handshake(w->peer.ssl) == -1);
	int n = BIO_read(to, hello, sizeof hello);
	CHECK(n > 0);
	deliver(w, hello, (size_t)n, piece);
	ssize_t got = recv(w->fd, answer, sizeof answer, MSG_DONTWAIT);
	CHECK(got > 0 && BIO_write(from, answer, (int)got) == got);
	CHECK(SSL_do_handshake(w->peer.ssl) == 1);
	n = BIO_read(to, w->stream, STREAM);
	CHECK(n > 0);
	w->len = (size_t)n;
}

static void check_end(const struct world *w)
{
	CHECK(!w->err.code || w->err.code == ERR_INTEGRITY || w->err.code == ERR_PEER_LOST ||
	      w->err.code == ERR_AUTH);
	if (w->broken)
		return;
	if (w->stopped)
		CHECK(w->last == -1);
	else if (w->closed && !w->lenient)
		CHECK(w->last == CONN_END);
	else if (!w->closed)
		CHECK(w->last == -1); /* it is cut */
	if (!w->stopped && !w->lenient)
		CHECK(w->heard == w->nsent);
	CHECK(w->last != CONN_END || w->heard == w->nsent);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct world w;
	struct input in = {data, data + size};
	struct err err = {0};
	uint8_t mode = byte(&in), buf[8];
	size_t piece, flip;
	int fd[2];

	if (!contexts[0]) {
		contexts[0] = context("own");
		contexts[1] = context("openssl");
		contexts[2] = context(NULL);
	}
	memset(&w, 0, offsetof(struct world, stream));
	w.len = w.nsent = w.heard = w.idle = 0;
	w.stopped = w.closed = w.lenient = w.broken = false;
	w.last = 0;
	err_clear(&w.err);
	w.quantum = 1u + byte(&in) * 4u;
	piece = byte(&in) % 2 ? 1u + byte(&in) : STREAM;
	flip = mode & 4 ? 1 + number(&in) : 0;
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd) == 0);
	w.fd = fd[0];
	struct conn *c = tls_accept(contexts[mode % 4 ? mode % 4 - 1 : 0], fd[1], forge_find, NULL,
	                            40000, &err);
	CHECK(c);
	w.c = (struct conn_tls *)c;
	if (mode % 4)
		shake_hands(&w, piece);
	else
		skip_handshake(&w);
	if (flip && w.len) { /* in the end of the handshake, where one byte counts for nothing */
		w.stream[flip / 8 % w.len] ^= (uint8_t)(1u << flip % 8);
		w.lenient = true;
	}
	forge_begin(&w.peer);
	while (in.p < in.end && w.len < STREAM - 2 * RECORD)
		put_item(&w, &in);
	deliver(&w, w.stream, w.len, piece);
	shutdown(w.fd, SHUT_WR);
	c->readable = true;
	if (!w.c->established && !w.broken) {
		CHECK(conn_handshake(c, &w.err) == -1);
		w.broken = true;
	}
	if (!w.broken)
		hear(&w);
	check_end(&w);
	/* What has ended stays so. */
	for (int i = 0; w.last < 0 && i < 2; i++)
		CHECK(conn_read(c, buf, sizeof buf, &err) == w.last);
	conn_free(c);
	close(w.fd);
	forge_release(&w.peer);
	return 0;
}
