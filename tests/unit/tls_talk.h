/*
 * A conversation over TLS: our end, of any kind of records, with an end that another library makes,
 * which runs a script in another thread with a blocking socket.
 */
#ifndef COLLCTL_TESTS_TLS_TALK_H
#define COLLCTL_TESTS_TLS_TALK_H

#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/net/conn.h"
#include "lib/net/tls/tls.h"
#include "lib/net/tls/tls_gcm.h"
#include "tests/unit/unit.h"

#define PATIENCE (100 * NS_PER_SEC)
#define DATA     3000000
#define NOISE    "\x17\3\3\0\x11not encrypted at."
#define IDENTITY "D1|000102030405060708090a0b0c0d0e0f|0|1|0"

static uint8_t key[TLS_KEY_BYTES] = "the key of both sides of a test";
static uint8_t data[DATA];

/* ---- the other library's end ---- */

/* What it does after the handshake, letter by letter. */
struct script {
	const char *acts; /* r: read to close_notify; R: read DATA; w: write DATA; W: in pieces of
	                     1000; b: a record of noise; and what the library does: u: update its
	                     key; U: and ask for ours; e: close_notify */
	const char *suite;
	size_t padding;
	const char *groups; /* NULL: the library's */
};

struct end {
	const struct library *library;
	pthread_t thread;
	const struct script *script;
	int fd;
	bool client;
	void *session;      /* the library's */
	const char *failed; /* what it did last, if that failed */
	size_t read;
	bool right; /* what it read is a beginning of data */
};

struct library {
	const char *name;
	/* Make e->session and shake hands. */
	bool (*open)(struct end *e);
	void (*close)(struct end *e);
	/* 0: after close_notify; -1: anything else is wrong. */
	ssize_t (*read)(struct end *e, void *buf, size_t n);
	ssize_t (*write)(struct end *e, const void *buf, size_t n);
	bool (*act)(struct end *e, char what);
};

/* Reads at most @most bytes, until close_notify. True: as it should be. */
static bool read_some(struct end *e, size_t most, bool to_the_end)
{
	static uint8_t buf[40000];
	size_t first = e->read;
	while (e->read - first < most) {
		size_t want = most - (e->read - first);
		ssize_t got = e->library->read(e, buf, want < sizeof buf ? want : sizeof buf);
		if (got <= 0)
			return to_the_end && got == 0;
		e->right &= e->read % DATA + (size_t)got <= DATA &&
		            memcmp(data + e->read % DATA, buf, (size_t)got) == 0;
		e->read += (size_t)got;
	}
	return !to_the_end;
}

static bool write_data(struct end *e, size_t piece)
{
	ssize_t put;
	for (size_t at = 0; at < DATA; at += (size_t)put) {
		put = e->library->write(e, data + at, DATA - at < piece ? DATA - at : piece);
		if (put <= 0)
			return false;
	}
	return true;
}

static bool act(struct end *e, char what)
{
	switch (what) {
	case 'r':
		return read_some(e, SIZE_MAX, true);
	case 'R':
		return read_some(e, DATA, false);
	case 'w':
		return write_data(e, DATA);
	case 'W':
		return write_data(e, 1000);
	case 'b':
		return send(e->fd, NOISE, 22, MSG_NOSIGNAL) == 22;
	default:
		return e->library->act(e, what);
	}
}

static void *run_end(void *arg)
{
	struct end *e = arg;
	if (!e->library->open(e))
		e->failed = "handshake";
	for (const char *a = e->script->acts; *a && !e->failed; a++)
		if (!act(e, *a))
			e->failed = a;
	e->library->close(e);
	shutdown(e->fd, SHUT_WR);
	return NULL;
}

static void join_end(struct end *e)
{
	pthread_join(e->thread, NULL);
	close(e->fd);
	if (e->failed)
		fail_msg("%s's end: %s of %s", e->library->name, e->failed, e->script->acts);
	assert_true(e->right);
}

/* ---- our end ---- */

static int find(void *ctx, const uint8_t *identity, size_t len, uint8_t out[TLS_KEY_BYTES])
{
	(void)ctx;
	if (len != strlen(IDENTITY) || memcmp(identity, IDENTITY, len) != 0)
		return -1;
	memcpy(out, key, TLS_KEY_BYTES);
	return 0;
}

/* Without a loop: wait for what @c could not do. */
static void wait_for(struct conn *c, int64_t until)
{
	struct pollfd p = {c->fd, (short)(c->writable ? POLLIN : POLLIN | POLLOUT), 0};
	assert_true(clock_ns() < until);
	poll(&p, 1, 10);
	c->readable = c->writable = true;
}

struct talk {
	struct conn *c;
	size_t out, in; /* bytes of data, again and again, to send and expected */
	size_t sent, got;
	size_t piece; /* of a write or a read */
	bool noisy;   /* it ends by a record of noise */
	bool ended;
};

/* False: nothing more can be sent now. */
static bool send_some(struct talk *t)
{
	struct err ignored = {0};
	size_t at = t->sent % DATA, len = DATA - at < t->piece ? DATA - at : t->piece;
	if (t->sent < t->out) {
		ssize_t put = conn_write(t->c, data + at, len, &ignored);
		t->sent += put > 0 ? (size_t)put : 0;
		(void)conn_flush(t->c, &ignored);
		return put > 0;
	}
	if (t->noisy && !t->ended && conn_flush(t->c, &ignored) == 1)
		t->ended = send(t->c->fd, NOISE, 22, MSG_NOSIGNAL) == 22;
	else if (!t->ended && !t->noisy)
		t->ended = conn_end(t->c, &ignored) != 0;
	return false;
}

/* Sends and reads both at once; then ends, and waits for the end. Returns what reading said last.
 */
static ssize_t talk(struct talk *t, struct err *err)
{
	int64_t until = clock_ns() + PATIENCE;
	uint8_t *back = malloc(t->piece);
	ssize_t n = 0;
	int ret;
	assert_non_null(back);
	while ((ret = conn_handshake(t->c, err)) == 0)
		wait_for(t->c, until);
	if (ret < 0)
		fail_msg("handshake: %s", err->text);
	while (n >= 0 || (n == CONN_END && !t->ended)) {
		bool more = send_some(t);
		if (n >= 0)
			n = conn_read(t->c, back, t->piece, err);
		for (ssize_t i = 0; i < n; i++)
			if (back[i] != data[(t->got + (size_t)i) % DATA])
				fail_msg("byte %zu is wrong", t->got + (size_t)i);
		t->got += n > 0 ? (size_t)n : 0;
		if (n <= 0 && !more)
			wait_for(t->c, until);
	}
	free(back);
	if (n == CONN_END)
		assert_int_equal(t->got, t->in);
	return n;
}

static const char *records; /* of our end; NULL: a control link's */

static int choose(void **state)
{
	records = *state;
	return 0;
}

/* With an end of @library that runs @script. @dials: ours is the client. */
static ssize_t converse(const struct library *library, const struct script *script, bool dials,
                        struct talk t, struct err *err)
{
	struct end e = {.library = library, .script = script, .client = !dials, .right = true};
	int fd[2];
	if (records)
		setenv("COLLCTL_TLS_RECORDS", records, 1);
	struct tls *tls = tls_new(err);
	assert_non_null(tls);
	if (records)
		tls_carry_data(tls);
	unsetenv("COLLCTL_TLS_RECORDS");
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	fcntl(fd[0], F_SETFL, O_NONBLOCK);
	t.c = dials ? tls_dial(tls, fd[0], IDENTITY, key, 0, err)
	            : tls_accept(tls, fd[0], find, NULL, 0, err);
	assert_non_null(t.c);
	t.c->readable = t.c->writable = true;
	e.fd = fd[1];
	assert_int_equal(pthread_create(&e.thread, NULL, run_end, &e), 0);
	ssize_t last = talk(&t, err);
	join_end(&e);
	conn_free(t.c);
	tls_free(tls);
	return last;
}

/* Each case with every kind of records of ours, as client and as server, with AES-GCM of ipsec-mb
 * and of OpenSSL; our key is updated every 2^22 records or every @key_records. */
struct exchange {
	struct script script;
	size_t out, in; /* of our end */
};

static void exchange(const struct library *library, const struct exchange *cases, size_t n,
                     uint32_t key_records)
{
	for (size_t i = 0; i < n; i++)
		for (int k = 0; k < 8; k++) {
			struct err err = {0};
			if (k & 2 && (!records || strcmp(records, "own") != 0))
				continue;
			tls_gcm_disabled = k & 2;
			tls_key_records = k & 4 ? key_records : 1u << 22;
			struct talk t = {.out = cases[i].out,
			                 .in = cases[i].in,
			                 .piece = k & 4 ? 70000 : 5000 + 7000 * i};
			ssize_t last = converse(library, &cases[i].script, k & 1, t, &err);
			if (last != CONN_END)
				fail_msg("case %zu, %d: %zd, %s", i, k, last, err.text);
		}
	tls_gcm_disabled = false;
	tls_key_records = 1u << 22;
}

static int prepare(void **state)
{
	(void)state;
	for (size_t i = 0; i < DATA; i++)
		data[i] = (uint8_t)(i * 31 + i / 251);
	return 0;
}

/* clang-format off */
#define TALK_TEST(f) \
	{#f ", control", f, choose, NULL, NULL}, \
	{#f ", own", f, choose, NULL, (void *)"own"}, \
	{#f ", openssl", f, choose, NULL, (void *)"openssl"}
/* clang-format on */

#endif
