/*
 * Connections over real sockets, both ends in one process and one loop: plain TCP in frames, and
 * TLS with the records of control links and with both kinds for data. Transfers in random pieces,
 * damage of every kind put on the wire by hand or by a proxy in the middle, and what each end says
 * about it.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <xxhash.h>

#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/net/addr.h"
#include "lib/net/conn.h"
#include "lib/net/tls/tls.h"
#include "tests/unit/conn_memory.h"
#include "tests/unit/tls_records.h"
#include "tests/unit/unit.h"

#define PATIENCE (100 * NS_PER_SEC) /* no test takes longer */

static struct loop loop;
static struct tls *tls;
static uint64_t random_state;

static uint64_t draw(void)
{
	uint64_t x = random_state += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static size_t below(size_t n)
{
	return (size_t)(draw() % n);
}

/* *state: the records of data, or NULL: a control link's. */
static int set_up(void **state)
{
	struct err err = {0};
	random_state = 1;
	tls = tls_with_records(*state);
	return tls ? loop_init(&loop, &err) : -1;
}

static int tear_down(void **state)
{
	loop_release(&loop);
	tls_free(tls);
	tls_key_records = 1u << 22;
	return 0;
}

static void nothing(void *ctx)
{
	(void)ctx;
}

static void watch(struct conn *c)
{
	struct err err = {0};
	assert_int_equal(conn_watch(c, &loop, nothing, NULL, &err), 0);
}

/* ---- pairs ---- */

struct pair {
	struct conn *a, *b;
};

/* Two connected sockets: by way of a loopback listener, so that they are TCP's. */
static void sockets(int fd[2], int bytes)
{
	struct addr at;
	struct err err = {0};
	assert_int_equal(addr_resolve(&at, "127.0.0.1", 0, true, &err), 0);
	int listener = addr_listen(&at, 0, 0, 4, &err);
	assert_true(listener >= 0);
	if (bytes)
		assert_int_equal(setsockopt(listener, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes),
		                 0);
	fd[0] = socket(AF_INET, SOCK_STREAM, 0);
	if (bytes) {
		setsockopt(fd[0], SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
		setsockopt(fd[0], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
	}
	assert_int_equal(connect(fd[0], (struct sockaddr *)&at.sa, at.len), 0);
	do
		fd[1] = accept(listener, NULL, NULL);
	while (fd[1] < 0 && errno == EAGAIN);
	assert_true(fd[1] >= 0);
	if (bytes)
		setsockopt(fd[1], SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
	fcntl(fd[0], F_SETFL, O_NONBLOCK);
	fcntl(fd[1], F_SETFL, O_NONBLOCK);
	close(listener);
}

static uint8_t key[TLS_KEY_BYTES] = "the key of both sides of a test";

static int find(void *ctx, const uint8_t *identity, size_t len, uint8_t out[TLS_KEY_BYTES])
{
	(void)ctx;
	if (len != 5 || memcmp(identity, "alice", 5) != 0)
		return -1;
	memcpy(out, key, TLS_KEY_BYTES);
	return 0;
}

static struct pair tcp_over(int a, int b)
{
	struct err err = {0};
	struct pair p = {conn_tcp_new(a, &err), conn_tcp_new(b, &err)};
	assert_true(p.a && p.b);
	watch(p.a);
	watch(p.b);
	return p;
}

static struct pair tls_over(int a, int b, const char *identity, const uint8_t *with, size_t buffer)
{
	struct err err = {0};
	struct pair p = {tls_dial(tls, a, identity, with, buffer, &err),
	                 tls_accept(tls, b, find, NULL, buffer, &err)};
	assert_true(p.a && p.b);
	watch(p.a);
	watch(p.b);
	return p;
}

static void turn(int64_t until)
{
	struct err err = {0};
	assert_true(clock_ns() < until);
	assert_int_equal(loop_turn(&loop, clock_ns() + NS_PER_MS, &err), 0);
}

/* Shake hands; the results of both. */
static void shake(struct pair *p, int *a, int *b, struct err *ea, struct err *eb)
{
	int64_t until = clock_ns() + PATIENCE;
	*a = *b = 0;
	while (*a == 0 || *b == 0) {
		if (*a == 0)
			*a = conn_handshake(p->a, ea);
		if (*b == 0)
			*b = conn_handshake(p->b, eb);
		/* Whoever fails closes its end, as a gate does. */
		if (*b < 0 && *a == 0 && p->b->fd >= 0) {
			conn_free(p->b);
			p->b = NULL;
			while (*a == 0) {
				turn(until);
				*a = conn_handshake(p->a, ea);
			}
			return;
		}
		turn(until);
	}
}

static void shake_well(struct pair *p)
{
	struct err ea = {0}, eb = {0};
	int a, b;
	shake(p, &a, &b, &ea, &eb);
	if (a != 1 || b != 1)
		fail_msg("handshake: '%s', '%s'", ea.text, eb.text);
}

static void pair_free(struct pair *p)
{
	conn_free(p->a);
	conn_free(p->b);
}

static struct pair make(bool with_tls, int socket_bytes)
{
	int fd[2];
	sockets(fd, socket_bytes);
	struct pair p = with_tls ? tls_over(fd[0], fd[1], "alice", key, 0) : tcp_over(fd[0], fd[1]);
	shake_well(&p);
	return p;
}

/* ---- transfers ---- */

struct flow {
	struct conn *from, *to;
	uint8_t *data, *got;
	size_t n, sent, received;
	bool ended, heard_end;
};

static uint8_t *noise(size_t n)
{
	uint8_t *p = malloc(n + 1);
	assert_non_null(p);
	for (size_t i = 0; i < n; i++)
		p[i] = (uint8_t)draw();
	return p;
}

static void flow_step(struct flow *f, size_t piece)
{
	struct err err = {0};
	if (f->sent < f->n) {
		size_t len = 1 + below(piece);
		if (len > f->n - f->sent)
			len = f->n - f->sent;
		ssize_t put = conn_write(f->from, f->data + f->sent, len, &err);
		if (put < 0)
			fail_msg("write: %s", err.text);
		assert_true((size_t)put <= len);
		f->sent += (size_t)put;
		if (conn_flush(f->from, &err) < 0)
			fail_msg("flush: %s", err.text);
	} else if (!f->ended) {
		int ret = conn_end(f->from, &err);
		if (ret < 0)
			fail_msg("end: %s", err.text);
		f->ended = ret;
	}
	if (f->heard_end)
		return;
	size_t len = 1 + below(piece);
	/* One byte more than is due, so that the end shows. */
	if (len > f->n + 1 - f->received)
		len = f->n + 1 - f->received;
	ssize_t got = conn_read(f->to, f->got + f->received, len, &err);
	if (got == CONN_END)
		f->heard_end = true;
	else if (got < 0)
		fail_msg("read: %s", err.text);
	else
		f->received += (size_t)got;
	assert_true(f->received <= f->n);
}

static void flow_init(struct flow *f, struct conn *from, struct conn *to, size_t n)
{
	*f = (struct flow){.from = from, .to = to, .n = n, .data = noise(n), .got = malloc(n + 1)};
	assert_non_null(f->got);
}

static void flow_check(struct flow *f)
{
	assert_int_equal(f->received, f->n);
	assert_memory_equal(f->data, f->got, f->n);
	free(f->data);
	free(f->got);
}

/* @n bytes each way at once, in pieces of up to @piece. */
static void exchange(struct pair *p, size_t n, size_t piece)
{
	struct flow f[2];
	int64_t until = clock_ns() + PATIENCE;
	flow_init(&f[0], p->a, p->b, n);
	flow_init(&f[1], p->b, p->a, n / 2);
	for (unsigned i = 0; !(f[0].heard_end && f[1].heard_end && f[0].ended && f[1].ended); i++) {
		for (int k = 0; k < 2; k++)
			flow_step(&f[k], piece);
		struct err err = {0};
		if (i % 16 == 0) {
			assert_true(clock_ns() < until);
			assert_int_equal(loop_turn(&loop, 0, &err), 0);
		}
	}
	flow_check(&f[0]);
	flow_check(&f[1]);
}

static void transfers(bool with_tls)
{
	static const struct {
		size_t n, piece;
		int socket_bytes;
	} cases[] = {
	        {0, 1, 0},
	        {1, 1, 0},
	        {20000, 1, 0},
	        {300000, 100, 0},
	        {3000000, 5000, 0},
	        {20000000, 700000, 0},
	        {20000000, 3000000, 0},
	        {300000, 70000, 4096},
	        {50000, 3, 4096},
	        {1000000, 2000000, 2048},
	};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct pair p = make(with_tls, cases[i].socket_bytes);
		exchange(&p, cases[i].n, cases[i].piece);
		pair_free(&p);
	}
}

static void plain_transfers(void **state)
{
	transfers(false);
}

static void tls_transfers(void **state)
{
	transfers(true);
}

/* With a new key every few records, and then the end. */
static void tls_key_updates(void **state)
{
	for (uint32_t records = 1; records <= 5; records++) {
		tls_key_records = records;
		struct pair p = make(true, records == 4 ? 4096 : 0);
		exchange(&p, 700000 + records, 40000);
		pair_free(&p);
		p = make(true, 0);
		exchange(&p, 5 * records, 1); /* records of a byte */
		pair_free(&p);
	}
}

/* Bytes on the wire of 40 records. */
static uint64_t wire_of_40_records(void)
{
	struct pair p = make(true, 0);
	struct err err = {0};
	uint64_t before = p.a->wire_out;
	for (int i = 0; i < 40; i++)
		assert_int_equal(conn_write(p.a, "x", 1, &err), 1);
	assert_int_equal(conn_flush(p.a, &err), 1);
	uint64_t n = p.a->wire_out - before;
	pair_free(&p);
	return n;
}

static void tls_keys_are_updated(void **state)
{
	uint64_t plain = wire_of_40_records();
	tls_key_records = 4;
	assert_int_equal(wire_of_40_records() - plain, 10 * 27); /* KeyUpdate's record */
}

static void tls_small_ring(void **state)
{
	int fd[2];
	sockets(fd, 2048);
	struct pair p = tls_over(fd[0], fd[1], "alice", key, 1);
	shake_well(&p);
	tls_key_records = 3;
	exchange(&p, 500000, 100000);
	pair_free(&p);
}

static void tls_gives_the_identity(void **state)
{
	struct pair p = make(true, 0);
	assert_string_equal(tls_identity(p.b), "alice");
	pair_free(&p);
}

/* ---- reading what somebody else has written ---- */

/* Read until the end or an error; how many bytes came. */
static size_t read_out(struct conn *c, uint8_t *buf, size_t cap, ssize_t *last, struct err *err)
{
	int64_t until = clock_ns() + PATIENCE;
	size_t n = 0;
	for (;;) {
		*last = conn_read(c, buf + n, cap - n, err);
		if (*last < 0)
			return n;
		n += (size_t)*last;
		assert_true(n < cap);
		if (*last == 0)
			turn(until);
	}
}

static void put_all(int fd, const void *data, size_t n)
{
	assert_int_equal(send(fd, data, n, MSG_NOSIGNAL), n);
}

/* {u32 length, u32 sequence, u64 sum of the payload, u32 sum of these} */
static size_t header(uint8_t *out, uint32_t length, uint32_t seq, uint64_t sum)
{
	put_u32(out, length);
	put_u32(out + 4, seq);
	put_u64(out + 8, sum);
	put_u32(out + 16, (uint32_t)XXH3_64bits(out, 16));
	return 20;
}

static size_t frame(uint8_t *out, uint32_t seq, const void *payload, uint32_t n)
{
	size_t at = header(out, n, seq, XXH3_64bits(payload, n));
	if (n)
		memcpy(out + at, payload, n);
	return at + n;
}

static size_t end_frame(uint8_t *out, uint32_t seq)
{
	return header(out, UINT32_MAX, seq, 0);
}

/* What a plain reader makes of @wire, then FIN. */
static struct err receive_wire(const uint8_t *wire, size_t n, ssize_t *last, char *heard,
                               size_t *len)
{
	int fd[2];
	uint8_t buf[4096];
	struct err err = {0};
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	struct conn *c = conn_tcp_new(fd[0], &err);
	assert_non_null(c);
	watch(c);
	put_all(fd[1], wire, n);
	close(fd[1]);
	*len = read_out(c, buf, sizeof buf, last, &err);
	memcpy(heard, buf, *len);
	/* What has failed stays so. */
	struct err again = {0};
	ssize_t ret = conn_read(c, buf, sizeof buf, &again);
	assert_int_equal(ret, *last);
	conn_free(c);
	return err;
}

static size_t two_frames(uint8_t *wire)
{
	size_t n = frame(wire, 0, "hello ", 6);
	n += frame(wire + n, 1, "world", 5);
	return n + end_frame(wire + n, 2);
}

static void frames_are_read(void **state)
{
	uint8_t wire[256];
	char heard[4096];
	ssize_t last;
	size_t len;
	receive_wire(wire, two_frames(wire), &last, heard, &len);
	assert_int_equal(last, CONN_END);
	assert_int_equal(len, 11);
	assert_memory_equal(heard, "hello world", 11);
}

/* Whatever bit of the wire flips: never a success, never other bytes as a whole frame's. */
static void a_flipped_bit_in_a_frame(void **state)
{
	uint8_t wire[256];
	char heard[4096];
	ssize_t last;
	size_t len, n = two_frames(wire);
	for (size_t bit = 0; bit < 8 * n; bit++) {
		wire[bit / 8] ^= (uint8_t)(1u << bit % 8);
		struct err err = receive_wire(wire, n, &last, heard, &len);
		wire[bit / 8] ^= (uint8_t)(1u << bit % 8);
		if (last != -1 || err.code != ERR_INTEGRITY)
			fail_msg("bit %zu: %zd, %d: %s", bit, last, err.code, err.text);
	}
}

static void a_stream_cut_at_any_byte(void **state)
{
	uint8_t wire[256];
	char heard[4096];
	ssize_t last;
	size_t len, n = two_frames(wire);
	for (size_t at = 0; at < n; at++) {
		struct err err = receive_wire(wire, at, &last, heard, &len);
		assert_int_equal(last, -1);
		assert_int_equal(err.code, ERR_INTEGRITY);
		assert_true(len <= 11 && memcmp(heard, "hello world", len) == 0);
	}
}

static void wrong_frames(void **state)
{
	static uint8_t wire[CONN_FRAME_MAX + 1024];
	static uint8_t payload[CONN_FRAME_MAX + 1];
	char heard[4096];
	ssize_t last;
	size_t len, n;
	/* repeated */
	n = frame(wire, 0, "hello", 5);
	n += frame(wire + n, 0, "hello", 5);
	struct err err = receive_wire(wire, n, &last, heard, &len);
	assert_int_equal(err.code, ERR_INTEGRITY);
	assert_non_null(strstr(err.text, "received frame 0, expected frame 1"));
	/* missing */
	n = frame(wire, 1, "hello", 5);
	err = receive_wire(wire, n, &last, heard, &len);
	assert_int_equal(err.code, ERR_INTEGRITY);
	assert_int_equal(len, 0);
	/* one byte too long */
	n = frame(wire, 0, payload, CONN_FRAME_MAX + 1);
	err = receive_wire(wire, 20, &last, heard, &len);
	assert_int_equal(err.code, ERR_INTEGRITY);
	assert_non_null(strstr(err.text, "a frame of 262145 bytes"));
	/* empty */
	n = frame(wire, 0, "", 0);
	err = receive_wire(wire, n, &last, heard, &len);
	assert_int_equal(err.code, ERR_INTEGRITY);
	/* an end whose checksum is not */
	n = end_frame(wire, 0);
	wire[15] ^= 1;
	err = receive_wire(wire, n, &last, heard, &len);
	assert_int_equal(err.code, ERR_INTEGRITY);
}

/* After the alert about a corrupt frame nothing counts, not even the same frame as it should be. */
static void nothing_counts_after_an_alert(void **state)
{
	uint8_t wire[256];
	char heard[4096];
	ssize_t last;
	size_t len, n = frame(wire, 0, "hello", 5);
	wire[n - 1] ^= 1;
	n += frame(wire + n, 0, "hello", 5);
	n += end_frame(wire + n, 1);
	struct err err = receive_wire(wire, n, &last, heard, &len);
	assert_int_equal(last, -1);
	assert_int_equal(err.code, ERR_INTEGRITY);
	/* the peer's alert */
	n = frame(wire, 0, "hello", 5);
	n += header(wire + n, UINT32_MAX - 1, 1, 0);
	n += frame(wire + n, 1, "world", 5);
	n += end_frame(wire + n, 2);
	err = receive_wire(wire, n, &last, heard, &len);
	assert_int_equal(last, -1);
	assert_int_equal(len, 5);
	assert_non_null(strstr(err.text, "the peer received corrupt bytes"));
}

static void tls_answers_are_understood(void **state)
{
	static const uint8_t alert[] = {21, 3, 3, 0, 2, 2, 70};
	char heard[4096];
	ssize_t last;
	size_t len;
	struct err err = receive_wire(alert, sizeof alert, &last, heard, &len);
	assert_int_equal(err.code, ERR_AUTH);
	assert_non_null(strstr(err.text, "uses TLS"));
}

/* What came before the connection was lost counts: it may say why. */
static void what_came_before_a_loss_is_read(bool with_tls)
{
	struct pair p = make(with_tls, 0);
	struct err err = {0};
	struct linger hard = {1, 0};
	char buf[64];
	ssize_t last, got = 0;
	int64_t until = clock_ns() + PATIENCE;
	assert_int_equal(conn_write(p.a, "why", 3, &err), 3);
	assert_int_equal(conn_flush(p.a, &err), 1);
	/* Wait until both have arrived: the bytes, and the reset. */
	while (recv(p.b->fd, buf, 1, MSG_PEEK) <= 0)
		turn(until);
	setsockopt(p.a->fd, SOL_SOCKET, SO_LINGER, &hard, sizeof hard);
	conn_free(p.a);
	p.a = NULL;
	turn(until);
	turn(until);
	while ((got = conn_read(p.b, buf, sizeof buf, &err)) == 0)
		turn(until);
	assert_int_equal(got, 3);
	assert_memory_equal(buf, "why", 3);
	read_out(p.b, (uint8_t *)buf, sizeof buf, &last, &err);
	assert_int_equal(last, -1);
	assert_int_equal(err.code, ERR_PEER_LOST);
	pair_free(&p);
}

static void plain_loss_after_bytes(void **state)
{
	what_came_before_a_loss_is_read(false);
}

static void tls_loss_after_bytes(void **state)
{
	what_came_before_a_loss_is_read(true);
}

static void writing_to_nobody_is_a_loss(bool with_tls)
{
	struct pair p = make(with_tls, 0);
	struct err err = {0};
	static uint8_t zeros[100000];
	int64_t until = clock_ns() + PATIENCE;
	ssize_t put = 0;
	conn_free(p.b);
	p.b = NULL;
	while (put >= 0) {
		turn(until);
		put = conn_write(p.a, zeros, sizeof zeros, &err);
		if (put >= 0 && conn_flush(p.a, &err) < 0)
			break;
	}
	assert_int_equal(err.code, ERR_PEER_LOST);
	pair_free(&p);
}

static void plain_writing_to_nobody(void **state)
{
	writing_to_nobody_is_a_loss(false);
}

static void tls_writing_to_nobody(void **state)
{
	writing_to_nobody_is_a_loss(true);
}

static void a_refused_connection_is_a_loss(void **state)
{
	struct addr at;
	struct err err = {0};
	int64_t until = clock_ns() + PATIENCE;
	int ret = 0;
	assert_int_equal(addr_resolve(&at, "127.0.0.1", 0, true, &err), 0);
	int listener = addr_listen(&at, 0, 0, 4, &err);
	close(listener);
	int fd = conn_sock_dial(&at, NULL, &err);
	if (fd >= 0) {
		struct conn *c = conn_tcp_new(fd, &err);
		watch(c);
		while ((ret = conn_handshake(c, &err)) == 0)
			turn(until);
		assert_int_equal(ret, -1);
		conn_free(c);
	}
	assert_int_equal(err.code, ERR_PEER_LOST);
}

/* ---- TLS: who may speak ---- */

static void tls_secrets_differ(void **state)
{
	struct err ea = {0}, eb = {0};
	uint8_t other[TLS_KEY_BYTES] = "another key, of another job ...";
	int fd[2], a, b;
	sockets(fd, 0);
	struct pair p = tls_over(fd[0], fd[1], "alice", other, 0);
	shake(&p, &a, &b, &ea, &eb);
	assert_int_equal(a, -1);
	assert_int_equal(b, -1);
	assert_int_equal(ea.code, ERR_AUTH);
	assert_int_equal(eb.code, ERR_AUTH);
	assert_non_null(strstr(ea.text, "secrets differ"));
	assert_non_null(strstr(eb.text, "secrets differ"));
	pair_free(&p);
}

static void tls_unknown_identity(void **state)
{
	struct err ea = {0}, eb = {0};
	int fd[2], a, b;
	sockets(fd, 0);
	struct pair p = tls_over(fd[0], fd[1], "mallory", key, 0);
	shake(&p, &a, &b, &ea, &eb);
	assert_int_equal(a, -1);
	assert_int_equal(b, -1);
	assert_int_equal(ea.code, ERR_AUTH);
	assert_non_null(strstr(ea.text, "no such job or session"));
	assert_null(strstr(ea.text, "secrets"));
	pair_free(&p);
}

static void tls_hears_plain_bytes(void **state)
{
	struct err err = {0};
	uint8_t wire[64];
	int fd[2], ret;
	int64_t until = clock_ns() + PATIENCE;
	sockets(fd, 0);
	struct conn *c = tls_dial(tls, fd[0], "alice", key, 0, &err);
	watch(c);
	put_all(fd[1], wire, frame(wire, 0, "hello", 5));
	while ((ret = conn_handshake(c, &err)) == 0)
		turn(until);
	assert_int_equal(ret, -1);
	assert_int_equal(err.code, ERR_AUTH);
	assert_non_null(strstr(err.text, "does not use TLS"));
	conn_free(c);
	close(fd[1]);
}

static void tls_closed_while_shaking_hands(void **state)
{
	struct err err = {0};
	int fd[2], ret;
	int64_t until = clock_ns() + PATIENCE;
	sockets(fd, 0);
	struct conn *c = tls_accept(tls, fd[0], find, NULL, 0, &err);
	watch(c);
	close(fd[1]);
	while ((ret = conn_handshake(c, &err)) == 0)
		turn(until);
	assert_int_equal(ret, -1);
	assert_int_equal(err.code, ERR_PEER_LOST);
	conn_free(c);
}

/* ---- TLS through a proxy that cuts and flips ---- */

struct proxy {
	int a, b;        /* its sides of two pairs of sockets */
	uint64_t passed; /* bytes from a to b since `counting` */
	bool counting;
	int64_t cut, flip; /* at this byte from a to b; -1: nowhere */
};

static void pass(struct proxy *x)
{
	uint8_t buf[65536];
	ssize_t n = recv(x->b, buf, sizeof buf, MSG_DONTWAIT);
	if (n > 0)
		put_all(x->a, buf, (size_t)n);
	n = recv(x->a, buf, sizeof buf, MSG_DONTWAIT);
	if (n <= 0)
		return;
	int64_t first = (int64_t)x->passed, end = first + n;
	if (x->counting && x->cut >= first && x->cut < end)
		n = (ssize_t)(x->cut - first);
	if (x->counting && x->flip >= first && x->flip < end)
		buf[x->flip - first] ^= 32;
	if (n && (!x->counting || x->cut < 0 || first <= x->cut))
		put_all(x->b, buf, (size_t)n);
	if (x->counting) { /* all that there is has come at once */
		shutdown(x->b, SHUT_WR);
		x->passed += (uint64_t)(end - first);
	}
}

/* "hello", "world" and the end from a to b, with the fault; what b hears. @total: bytes passed. */
static struct err through(int64_t cut, int64_t flip, ssize_t *last, char *heard, size_t *len,
                          uint64_t *total)
{
	int left[2], right[2];
	struct err ea = {0}, err = {0};
	int64_t until = clock_ns() + PATIENCE;
	int a = 0, b = 0;
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, left), 0);
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, right), 0);
	struct proxy x = {.a = left[1], .b = right[0], .cut = cut, .flip = flip};
	struct pair p = tls_over(left[0], right[1], "alice", key, 0);
	while (a != 1 || b != 1) {
		a = a == 1 ? a : conn_handshake(p.a, &ea);
		b = b == 1 ? b : conn_handshake(p.b, &err);
		assert_true(a >= 0 && b >= 0);
		pass(&x);
		turn(until);
	}
	pass(&x);
	x.counting = true;
	assert_int_equal(conn_write(p.a, "hello ", 6, &ea), 6);
	assert_int_equal(conn_write(p.a, "world", 5, &ea), 5);
	assert_int_equal(conn_end(p.a, &ea), 1);
	*len = 0;
	for (*last = 0; *last >= 0; *len += *last > 0 ? (size_t)*last : 0) {
		pass(&x);
		*last = conn_read(p.b, heard + *len, 1, &err);
		if (*last == 0)
			turn(until);
	}
	*total = x.passed;
	pair_free(&p);
	close(left[1]);
	close(right[0]);
	return err;
}

static void tls_close_notify_is_the_end(void **state)
{
	char heard[64];
	ssize_t last;
	size_t len;
	uint64_t total;
	through(-1, -1, &last, heard, &len, &total);
	assert_int_equal(last, CONN_END);
	assert_int_equal(len, 11);
	assert_memory_equal(heard, "hello world", 11);
	assert_true(total > 11);
}

static void tls_cut_or_flipped_at_any_byte(void **state)
{
	char heard[64];
	ssize_t last;
	size_t len;
	uint64_t total, n;
	through(-1, -1, &last, heard, &len, &total);
	for (uint64_t at = 0; at < total; at++)
		for (int flip = 0; flip < 2; flip++) {
			struct err err = through(flip ? -1 : (int64_t)at, flip ? (int64_t)at : -1,
			                         &last, heard, &len, &n);
			if (last != -1 || err.code != ERR_INTEGRITY)
				fail_msg("byte %llu, flip %d: %zd, %d: %s", (unsigned long long)at,
				         flip, last, err.code, err.text);
			assert_true(len <= 11 && memcmp(heard, "hello world", len) == 0);
		}
}

/* ---- in-memory ---- */

static void memory_rings(void **state)
{
	struct err err = {0};
	for (size_t cap = 1; cap < 20; cap++) {
		struct flow f;
		struct conn *w, *r;
		assert_int_equal(conn_memory_pair(&w, &r, cap, cap % 3, cap % 2 * 77, &err), 0);
		flow_init(&f, w, r, 1000);
		for (int i = 0; !f.heard_end; i++) {
			flow_step(&f, 7);
			assert_true(i < 100000);
		}
		flow_check(&f);
		conn_free(w);
		conn_free(r);
	}
}

#define CONN_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)
/* clang-format off */
#define TLS_TEST(f) \
	{#f ", control", f, set_up, tear_down, NULL}, \
	{#f ", own", f, set_up, tear_down, (void *)"own"}, \
	{#f ", openssl", f, set_up, tear_down, (void *)"openssl"}
/* clang-format on */

int main(void)
{
	const struct CMUnitTest tests[] = {
	        CONN_TEST(plain_transfers),
	        TLS_TEST(tls_transfers),
	        TLS_TEST(tls_key_updates),
	        TLS_TEST(tls_keys_are_updated),
	        TLS_TEST(tls_small_ring),
	        TLS_TEST(tls_gives_the_identity),
	        CONN_TEST(frames_are_read),
	        CONN_TEST(a_flipped_bit_in_a_frame),
	        CONN_TEST(a_stream_cut_at_any_byte),
	        CONN_TEST(wrong_frames),
	        CONN_TEST(nothing_counts_after_an_alert),
	        CONN_TEST(tls_answers_are_understood),
	        CONN_TEST(plain_loss_after_bytes),
	        TLS_TEST(tls_loss_after_bytes),
	        CONN_TEST(plain_writing_to_nobody),
	        TLS_TEST(tls_writing_to_nobody),
	        CONN_TEST(a_refused_connection_is_a_loss),
	        TLS_TEST(tls_secrets_differ),
	        TLS_TEST(tls_unknown_identity),
	        TLS_TEST(tls_hears_plain_bytes),
	        TLS_TEST(tls_closed_while_shaking_hands),
	        TLS_TEST(tls_close_notify_is_the_end),
	        TLS_TEST(tls_cut_or_flipped_at_any_byte),
	        CONN_TEST(memory_rings),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
