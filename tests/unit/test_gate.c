/* The gate of a listening socket: who speaks properly is admitted with the opening record, whoever
 * else comes costs a bounded slot for a bounded time and disturbs nobody. */
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/net/congestion.h"
#include "lib/net/gate.h"
#include "tests/unit/unit.h"

#define GATE_TEST(name) TEST_WITH(name, set_up, tear_down)

#define PATIENCE (100 * NS_PER_SEC) /* no test takes longer */

static struct loop loop;
static struct tls *tls;
static struct gate *gate;
static struct addr at;
static struct conn *admitted[64];
static uint8_t openings[64][GATE_OPENING];
static int nadmitted;
static bool closes; /* the gate, with the first who is admitted, or when it is starved */
static int nstarved;
static const char *congestion; /* the --congestion of both sides */
static struct rlimit limit;    /* of descriptors */

static const uint8_t key[TLS_KEY_BYTES] = "the key of both sides of a test";

static int find(void *ctx, const uint8_t *identity, size_t len, uint8_t out[TLS_KEY_BYTES])
{
	assert_ptr_equal(ctx, &gate);
	if (len != 5 || memcmp(identity, "alice", 5) != 0)
		return -1;
	memcpy(out, key, TLS_KEY_BYTES);
	return 0;
}

static void admit(void *ctx, struct conn *conn, const uint8_t opening[GATE_OPENING],
                  const struct addr *from)
{
	char text[ADDR_TEXT];
	assert_ptr_equal(ctx, &gate);
	assert_non_null(strstr(addr_text(from, true, text), "127.0.0."));
	memcpy(openings[nadmitted], opening, GATE_OPENING);
	admitted[nadmitted++] = conn;
	if (closes)
		gate_close(gate);
	if (closes)
		gate = NULL;
}

static void starved(void *ctx, const struct err *err)
{
	assert_ptr_equal(ctx, &gate);
	assert_int_equal(err->code, ERR_RESOURCE);
	assert_string_equal(err->text, "accept: Too many open files");
	nstarved++;
	if (closes)
		gate_close(gate);
	if (closes)
		gate = NULL;
}

static void gate_set_up(bool with_tls, int slots, int per_source, int64_t patience)
{
	struct err err = {0};
	struct gate_conf conf = {
	        .loop = &loop,
	        .slots = slots,
	        .per_source = per_source,
	        .patience = patience,
	        .congestion = congestion,
	        .find = find,
	        .admit = admit,
	        .starved = starved,
	        .ctx = &gate,
	};
	assert_int_equal(addr_resolve(&at, "127.0.0.1", 0, true, &err), 0);
	conf.fd = addr_listen(&at, 0, 0, 512, &err);
	assert_true(conf.fd >= 0);
	conf.tls = with_tls ? tls : NULL;
	gate = gate_open(&conf, &err);
	assert_non_null(gate);
}

static int set_up(void **state)
{
	struct err err = {0};
	nadmitted = nstarved = 0;
	closes = false;
	congestion = NULL;
	if (getrlimit(RLIMIT_NOFILE, &limit) < 0)
		return -1;
	tls = tls_new(&err);
	return tls ? loop_init(&loop, &err) : -1;
}

static int tear_down(void **state)
{
	setrlimit(RLIMIT_NOFILE, &limit);
	gate_close(gate);
	gate = NULL;
	for (int i = 0; i < nadmitted; i++)
		conn_free(admitted[i]);
	loop_release(&loop);
	tls_free(tls);
	return 0;
}

static void turn(void)
{
	struct err err = {0};
	assert_int_equal(loop_turn(&loop, clock_ns() + NS_PER_MS, &err), 0);
}

static void turns(int n)
{
	while (n--)
		turn();
}

/* A stranger from 127.0.0.@host. */
static int come(uint8_t host)
{
	struct sockaddr_in from = {.sin_family = AF_INET};
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	from.sin_addr.s_addr = htonl(0x7f000000u + host);
	assert_int_equal(bind(fd, (struct sockaddr *)&from, sizeof from), 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&at.sa, at.len), 0);
	fcntl(fd, F_SETFL, O_NONBLOCK);
	turns(2);
	return fd;
}

static bool dropped(int fd)
{
	char c;
	ssize_t n = recv(fd, &c, 1, MSG_DONTWAIT);
	return n == 0 || (n < 0 && errno != EAGAIN);
}

static void must_be_dropped(int fd)
{
	int64_t until = clock_ns() + PATIENCE;
	while (!dropped(fd)) {
		assert_true(clock_ns() < until);
		turn();
	}
}

static void nothing(void *ctx)
{
	(void)ctx;
}

/* Come properly and say an opening of @mark bytes; NULL: done, the error otherwise. Returns the
 * connection, which the caller frees. */
static struct conn *come_properly(bool with_tls, const char *identity, const uint8_t *with,
                                  uint8_t mark, struct err *err)
{
	uint8_t opening[GATE_OPENING];
	size_t said = 0;
	int64_t until = clock_ns() + PATIENCE;
	int before = nadmitted, fd = conn_sock_dial(&at, congestion, err), shaken = 0;
	assert_true(fd >= 0);
	struct conn *c =
	        with_tls ? tls_dial(tls, fd, identity, with, 0, err) : conn_tcp_new(fd, err);
	assert_non_null(c);
	assert_int_equal(conn_watch(c, &loop, nothing, NULL, err), 0);
	memset(opening, mark, sizeof opening);
	while (nadmitted == before && !err->code) {
		assert_true(clock_ns() < until);
		turn();
		if (!shaken)
			shaken = conn_handshake(c, err);
		if (shaken <= 0)
			continue;
		if (said < sizeof opening) {
			ssize_t put = conn_write(c, opening + said, sizeof opening - said, err);
			said += put > 0 ? (size_t)put : 0;
		}
		if (!err->code && conn_flush(c, err) >= 0) {
			char byte;
			(void)conn_read(c, &byte, 1, err);
		}
	}
	return c;
}

/* Inside this machine nothing paces, unless it has been chosen. */
static void must_have_congestion(int fd)
{
	char name[16] = "";
	socklen_t len = sizeof name - 1;
	assert_int_equal(getsockopt(fd, IPPROTO_TCP, TCP_CONGESTION, name, &len), 0);
	assert_string_equal(name, congestion ? congestion : "reno");
}

static void must_be_admitted(bool with_tls)
{
	struct err err = {0};
	int n = nadmitted;
	uint8_t want[GATE_OPENING];
	struct conn *c = come_properly(with_tls, "alice", key, (uint8_t)('A' + n), &err);
	if (err.code)
		fail_msg("%s", err.text);
	assert_int_equal(nadmitted, n + 1);
	memset(want, 'A' + n, sizeof want);
	assert_memory_equal(openings[n], want, sizeof want);
	if (with_tls)
		assert_string_equal(tls_identity(admitted[n]), "alice");
	must_have_congestion(c->fd);
	must_have_congestion(admitted[n]->fd);
	/* The connection is good for more, both ways. */
	char buf[8];
	int64_t until = clock_ns() + PATIENCE;
	assert_int_equal(conn_write(admitted[n], "welcome", 7, &err), 7);
	assert_int_equal(conn_flush(admitted[n], &err), 1);
	ssize_t got;
	while ((got = conn_read(c, buf, sizeof buf, &err)) == 0) {
		assert_true(clock_ns() < until);
		turn();
	}
	assert_int_equal(got, 7);
	conn_free(c);
}

GATE_TEST(the_opening_is_delivered)
{
	for (int with_tls = 0; with_tls < 2; with_tls++) {
		gate_set_up(with_tls, 4, 4, 0);
		must_be_admitted(with_tls);
		must_be_admitted(with_tls);
		assert_string_equal(gate_last_refusal(gate), "");
		gate_close(gate);
	}
	gate = NULL;
}

GATE_TEST(the_oldest_goes_when_slots_are_full)
{
	int fd[5];
	gate_set_up(false, 3, 3, 0);
	for (uint8_t i = 0; i < 5; i++)
		fd[i] = come((uint8_t)(i + 1));
	must_be_dropped(fd[0]);
	must_be_dropped(fd[1]);
	for (int i = 2; i < 5; i++)
		assert_false(dropped(fd[i]));
	must_be_admitted(false);
	must_be_dropped(fd[2]); /* the one admitted took its place for a while */
	assert_false(dropped(fd[3]));
	for (int i = 0; i < 5; i++)
		close(fd[i]);
}

GATE_TEST(a_source_pays_itself)
{
	int other, fd[4];
	gate_set_up(false, 10, 2, 0);
	other = come(9);
	for (int i = 0; i < 4; i++)
		fd[i] = come(2);
	must_be_dropped(fd[0]);
	must_be_dropped(fd[1]);
	assert_false(dropped(fd[2]));
	assert_false(dropped(fd[3]));
	assert_false(dropped(other));
	must_be_admitted(false);
	assert_false(dropped(other));
	close(other);
	for (int i = 0; i < 4; i++)
		close(fd[i]);
}

/* Both ends of a connection have the one that was chosen. */
GATE_TEST(congestion_control_is_chosen)
{
	static const char *const names[] = {"cubic", "bbr"};
	struct err err = {0};
	assert_int_equal(congestion_check("reno", &err), 0);
	assert_int_equal(congestion_check("no-such-name", &err), -1);
	assert_int_equal(err.code, ERR_USAGE);
	assert_non_null(strstr(err.text, "'no-such-name'"));
	assert_non_null(strstr(err.text, " reno"));
	err_clear(&err);
	assert_int_equal(congestion_check("reno-and-more-than-15-bytes", &err), -1);
	err_clear(&err);
	assert_int_equal(congestion_check("", &err), -1);
	for (int i = 0; i < 2 && !congestion; i++)
		if (congestion_check(names[i], &(struct err){0}) == 0)
			congestion = names[i];
	gate_set_up(false, 8, 8, 0);
	must_be_admitted(false);
}

/* A flood from the address of an honest peer: whose handshake has begun stays, however many come
 * and say nothing, or a little. */
GATE_TEST(who_has_proved_something_stays)
{
	struct err err = {0};
	int fd[24];
	gate_set_up(true, 8, 4, 0);
	int at_gate = conn_sock_dial(&at, NULL, &err);
	struct conn *honest = tls_dial(tls, at_gate, "alice", key, 0, &err);
	assert_int_equal(conn_watch(honest, &loop, nothing, NULL, &err), 0);
	struct pollfd answer = {.fd = at_gate, .events = POLLIN};
	/* Until the gate has answered the ClientHello. */
	for (int64_t until = clock_ns() + PATIENCE; !(answer.revents & POLLIN);) {
		assert_true(clock_ns() < until);
		assert_true(conn_handshake(honest, &err) >= 0);
		turn();
		assert_true(poll(&answer, 1, 0) >= 0);
	}
	for (int i = 0; i < 24; i++) {
		fd[i] = come(1);
		if (i % 2)
			(void)!send(fd[i], "\x16\x03\x01", 3, MSG_NOSIGNAL);
	}
	uint8_t opening[GATE_OPENING] = "honest";
	struct greeting g = {0};
	memcpy(g.opening, opening, sizeof opening);
	for (int64_t until = clock_ns() + PATIENCE; !nadmitted; turn()) {
		assert_true(clock_ns() < until);
		assert_true(greeting_advance(&g, honest, &err) >= 0);
	}
	assert_string_equal((const char *)openings[0], "honest");
	conn_free(honest);
	for (int i = 0; i < 24; i++)
		close(fd[i]);
}

GATE_TEST(patience_ends)
{
	const int64_t patience = NS_PER_SEC;
	int silent, slow;
	int64_t start = clock_ns();
	gate_set_up(false, 10, 10, patience);
	silent = come(1);
	slow = come(1);
	for (int i = 0; !dropped(silent) || !dropped(slow); i++) {
		(void)!send(slow, "\1", 1, MSG_NOSIGNAL); /* a byte now and then */
		turn();
		assert_true(clock_ns() - start < PATIENCE);
	}
	assert_true(clock_ns() - start >= patience);
	must_be_admitted(false);
	/* Who was admitted is no stranger any more. */
	for (start = clock_ns(); clock_ns() - start < patience * 5 / 4;)
		turn();
	assert_int_equal(nadmitted, 1);
	close(silent);
	close(slow);
}

GATE_TEST(strangers_disturb_nobody)
{
	static const char *const noises[] = {
	        "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
	        "\x16\x03\x01\x02",
	        "\x16\x03\x01\x00\x04\x01\x00\x00\x00",
	        "SSH-2.0-OpenSSH_9.0\r\n",
	        "\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff",
	        "",
	};
	for (int with_tls = 0; with_tls < 2; with_tls++) {
		gate_set_up(with_tls, 8, 8, 0);
		for (int i = 0; i < 240; i++) {
			int fd = come((uint8_t)(1 + i % 7));
			const char *noise = noises[i % 6];
			(void)!send(fd, noise, strlen(noise), MSG_NOSIGNAL);
			if (i % 2)
				turn();
			if (i % 3)
				shutdown(fd, SHUT_WR);
			turns(i % 3);
			close(fd);
		}
		turns(3);
		must_be_admitted(with_tls);
		gate_close(gate);
	}
	gate = NULL;
	assert_int_equal(nadmitted, 2);
}

GATE_TEST(a_refusal_is_remembered)
{
	struct err err = {0};
	gate_set_up(true, 8, 8, 0);
	struct conn *c = come_properly(
	        true, "alice", (const uint8_t *)"another key, of another job ...", 'x', &err);
	assert_int_equal(err.code, ERR_AUTH);
	assert_non_null(strstr(err.text, "secrets differ"));
	assert_non_null(strstr(gate_last_refusal(gate), "secrets differ"));
	conn_free(c);
	err = (struct err){0};
	c = come_properly(true, "mallory", key, 'x', &err);
	assert_int_equal(err.code, ERR_AUTH);
	assert_non_null(strstr(err.text, "no such job"));
	conn_free(c);
	assert_int_equal(nadmitted, 0);
	must_be_admitted(true);
}

/* One side has --insecure, the other has not: both learn that at once. */
GATE_TEST(the_other_protocol_is_answered)
{
	for (int i = 0; i < 20; i++) {
		struct err err = {0};
		gate_set_up(true, 8, 8, 0);
		struct conn *c = come_properly(false, NULL, NULL, 'x', &err);
		assert_int_equal(err.code, ERR_AUTH);
		assert_non_null(strstr(err.text, "--insecure"));
		assert_non_null(strstr(gate_last_refusal(gate), "it does not use TLS"));
		conn_free(c);
		must_be_admitted(true);
		gate_close(gate);
		gate_set_up(false, 8, 8, 0);
		err = (struct err){0};
		c = come_properly(true, "alice", key, 'x', &err);
		assert_int_equal(err.code, ERR_AUTH);
		assert_non_null(strstr(err.text, "--insecure"));
		assert_non_null(strstr(gate_last_refusal(gate), "it uses TLS"));
		conn_free(c);
		must_be_admitted(false);
		gate_close(gate);
		gate = NULL;
	}
}

GATE_TEST(closing_drops_strangers)
{
	int fd;
	gate_set_up(false, 8, 8, 0);
	fd = come(1);
	assert_false(dropped(fd));
	gate_close(gate);
	gate = NULL;
	assert_true(dropped(fd));
	close(fd);
	assert_null(loop.timers);
	fd = socket(AF_INET, SOCK_STREAM, 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&at.sa, at.len), -1);
	close(fd);
}

GATE_TEST(it_says_where_it_listens)
{
	struct addr a;
	struct err err = {0};
	gate_set_up(false, 8, 8, 0);
	assert_int_equal(gate_local_addr(gate, &a, &err), 0);
	assert_int_equal(addr_port(&a), addr_port(&at));
}

/* Connect and send the opening, without a turn of the loop. */
static struct conn *come_at_once(void)
{
	struct err err = {0};
	uint8_t opening[GATE_OPENING] = {0};
	struct conn *c = conn_tcp_new(conn_sock_dial(&at, NULL, &err), &err);
	assert_non_null(c);
	c->writable = true;
	assert_int_equal(conn_handshake(c, &err), 1);
	assert_int_equal(conn_write(c, opening, sizeof opening, &err), sizeof opening);
	assert_int_equal(conn_flush(c, &err), 1);
	return c;
}

GATE_TEST(who_is_admitted_may_close_it)
{
	struct conn *c[3];
	gate_set_up(false, 8, 8, 0);
	closes = true;
	for (int i = 0; i < 3; i++)
		c[i] = come_at_once();
	turns(3);
	assert_int_equal(nadmitted, 1);
	assert_null(gate);
	for (int i = 0; i < 3; i++)
		conn_free(c[i]);
}

/* ---- no descriptor is left ---- */

/* A client that has connected when no descriptor is left. */
static int come_without_descriptors(void)
{
	int fd = socket(AF_INET, SOCK_STREAM, 0), next = dup(fd);
	assert_true(fd >= 0 && next >= 0);
	close(next); /* the lowest that is free */
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)next, limit.rlim_max}),
	                 0);
	assert_int_equal(connect(fd, (struct sockaddr *)&at.sa, at.len), 0);
	return fd;
}

static void give_descriptors(void)
{
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &limit), 0);
}

GATE_TEST(who_has_just_come_keeps_its_descriptor)
{
	gate_set_up(false, 10, 10, 10 * PATIENCE);
	int first = come(1), second = come_without_descriptors();
	for (int64_t start = clock_ns(); clock_ns() - start < NS_PER_SEC / 2;) /* some pauses */
		turn();
	assert_false(dropped(first));
	assert_int_equal(nstarved, 0);
	give_descriptors();
	must_be_admitted(false);
	assert_false(dropped(first));
	assert_false(dropped(second));
	close(first);
	close(second);
}

GATE_TEST(who_came_long_ago_loses_its_descriptor)
{
	gate_set_up(false, 10, 10, 0);
	int first = come(1), second = come_without_descriptors();
	must_be_dropped(first);
	turns(2);
	assert_false(dropped(second));
	give_descriptors();
	must_be_admitted(false);
	close(first);
	close(second);
}

GATE_TEST(nobody_can_lose_a_descriptor)
{
	for (int i = 0; i < 2; i++) {
		int64_t until = clock_ns() + PATIENCE;
		gate_set_up(false, 10, 10, 0);
		closes = i;
		int fd = come_without_descriptors();
		while (nstarved < (closes ? 2 : 1)) { /* two in all */
			assert_true(clock_ns() < until);
			turn();
		}
		give_descriptors();
		if (closes)
			must_be_dropped(fd);
		else
			must_be_admitted(false);
		close(fd);
		gate_close(gate);
		gate = NULL;
	}
}

int main(void)
{
	return unit_run(NULL, NULL);
}
