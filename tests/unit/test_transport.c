/* The table of transports, with a toy (tests/toys/lib/net/transport_mirror.c) as its first row: a
 * mesh over it, and one with TLS, which it can't serve. */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/net/mesh.h"
#include "tests/unit/unit.h"

#define PATIENCE (100 * NS_PER_SEC)
#define RANKS    3

static struct loop loop;
static struct tls *tls;
static struct addr addrs[RANKS];
static struct mesh *meshes[RANKS];
static const uint8_t keys[RANKS][TLS_KEY_BYTES]; /* all pairs have the same */

static void nothing(void *ctx)
{
	(void)ctx;
}

static void turn(int64_t until)
{
	struct err err = {0};
	assert_true(clock_ns() < until);
	assert_int_equal(loop_turn(&loop, clock_ns() + NS_PER_MS, &err), 0);
}

/* Every rank sends to every other. */
static void open_meshes(bool with_tls)
{
	static const int others[RANKS][RANKS - 1] = {{1, 2}, {0, 2}, {0, 1}};
	int listeners[RANKS];
	struct err err = {0};
	for (int r = 0; r < RANKS; r++) {
		assert_int_equal(addr_resolve(&addrs[r], "127.0.0.1", 0, true, &err), 0);
		listeners[r] = addr_listen(&addrs[r], 0, 0, 16, &err);
		assert_true(listeners[r] >= 0);
	}
	for (int r = 0; r < RANKS; r++) {
		const struct mesh_conf c = {.loop = &loop,
		                            .tls = with_tls ? tls : NULL,
		                            .rank = r,
		                            .size = RANKS,
		                            .session = "the session",
		                            .keys = keys,
		                            .addrs = addrs,
		                            .listen_fd = listeners[r],
		                            .lanes_fd = -1,
		                            .out = others[r],
		                            .in = others[r],
		                            .nout = RANKS - 1,
		                            .nin = RANKS - 1,
		                            .streams = 1,
		                            .on_ready = nothing};
		meshes[r] = mesh_open(&c, &err);
		if (!meshes[r])
			fail_msg("%s", err.text);
	}
	for (int r = 0; r < RANKS; r++)
		for (int64_t until = clock_ns() + PATIENCE; mesh_state(meshes[r], &err) != 1;)
			turn(until);
}

/* 10,000 bytes from @from to @to, and the end. */
static void carries(int from, int to)
{
	static uint8_t sent[10000], came[sizeof sent + 1];
	struct conn *out = mesh_conn(meshes[from], to, true, 0);
	struct conn *in = mesh_conn(meshes[to], from, false, 0);
	int64_t until = clock_ns() + PATIENCE;
	struct err err = {0};
	size_t put = 0, got = 0;
	bool ended = false;
	for (size_t i = 0; i < sizeof sent; i++)
		sent[i] = (uint8_t)(i * 7 + (size_t)from);
	for (ssize_t n = 0; n != CONN_END; turn(until)) {
		if (put < sizeof sent)
			n = conn_write(out, sent + put, sizeof sent - put, &err);
		assert_true(n >= 0);
		put += put < sizeof sent ? (size_t)n : 0;
		if (put == sizeof sent && !ended)
			ended = conn_end(out, &err) == 1;
		n = conn_read(in, came + got, sizeof came - got, &err);
		assert_true(n >= 0 || n == CONN_END);
		got += n > 0 ? (size_t)n : 0;
	}
	assert_int_equal(got, sizeof sent);
	assert_memory_equal(came, sent, sizeof sent);
}

static void a_mesh(bool with_tls, const char *name)
{
	open_meshes(with_tls);
	for (int from = 0; from < RANKS; from++)
		for (int to = 0; to < RANKS; to++)
			if (from != to) {
				const struct conn *c = mesh_conn(meshes[from], to, true, 0);
				assert_string_equal(c->ops->name, name);
				carries(from, to);
			}
	for (int r = 0; r < RANKS; r++)
		mesh_close(meshes[r]);
}

TEST(a_mesh_over_a_toy)
{
	a_mesh(false, "mirror");
}

TEST(tls_is_not_the_toys)
{
	a_mesh(true, "tls");
}

static int set_up(void **state)
{
	struct err err = {0};
	tls = tls_new(&err);
	return tls ? loop_init(&loop, &err) : -1;
}

static int tear_down(void **state)
{
	loop_release(&loop);
	tls_free(tls);
	return 0;
}

int main(void)
{
	return unit_run(set_up, tear_down);
}
