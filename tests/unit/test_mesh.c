/* The mesh over real sockets: edges stand at both ends, a connection that breaks before it is
 * admitted is dialled again, and one that was reflected or led to another rank is rejected. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <errno.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/net/mesh.h"

#define PATIENCE (100 * NS_PER_SEC) /* no test takes longer */
#define RANKS    3

static struct loop loop;
static struct tls *tls;
static struct addr addrs[RANKS];
static int listeners[RANKS];
static struct mesh *meshes[RANKS];

static void nothing(void *ctx)
{
	(void)ctx;
}

static int set_up(void **state)
{
	struct err err = {0};
	(void)state;
	tls = tls_new(&err);
	for (int r = 0; r < RANKS; r++) {
		if (addr_resolve(&addrs[r], "127.0.0.1", 0, true, &err) < 0)
			return -1;
		listeners[r] = addr_listen(&addrs[r], 0, 0, 512, &err);
		if (listeners[r] < 0)
			return -1;
		meshes[r] = NULL;
	}
	return tls ? loop_init(&loop, &err) : -1;
}

static int tear_down(void **state)
{
	(void)state;
	for (int r = 0; r < RANKS; r++) {
		mesh_close(meshes[r]);
		if (listeners[r] >= 0)
			close(listeners[r]);
	}
	loop_release(&loop);
	tls_free(tls);
	return 0;
}

static struct mesh_conf conf_of(int rank, bool with_tls, const int *out, int nout, const int *in,
                                int nin, const struct addr *at)
{
	struct mesh_conf c = {
	        .loop = &loop,
	        .tls = with_tls ? tls : NULL,
	        .rank = rank,
	        .size = RANKS,
	        .session = "the session",
	        .key = "the session's key",
	        .addrs = at,
	        .listen_fd = -1,
	        .out = out,
	        .in = in,
	        .nout = nout,
	        .nin = nin,
	        .streams = 1,
	        .on_ready = nothing,
	};
	return c;
}

static void open_mesh(struct mesh_conf *c)
{
	struct err err = {0};
	if (c->nin) {
		c->listen_fd = listeners[c->rank];
		listeners[c->rank] = -1;
	}
	meshes[c->rank] = mesh_open(c, &err);
	assert_non_null(meshes[c->rank]);
}

static void turn(void)
{
	struct err err = {0};
	assert_int_equal(loop_turn(&loop, clock_ns() + NS_PER_MS, &err), 0);
}

static void until_ready(int rank)
{
	struct err err = {0};
	int64_t until = clock_ns() + PATIENCE;
	int state;
	while ((state = mesh_state(meshes[rank], &err)) == 0) {
		assert_true(clock_ns() < until);
		turn();
	}
	assert_int_equal(state, 1);
}

/* One byte of @from arrives at @to. */
static void carries(int from, int to)
{
	struct err err = {0};
	uint8_t sent = 42, came = 0;
	struct conn *out = mesh_conn(meshes[from], to, true, 0);
	struct conn *in = mesh_conn(meshes[to], from, false, 0);
	int64_t until = clock_ns() + PATIENCE;
	assert_int_equal(conn_write(out, &sent, 1, &err), 1);
	assert_int_equal(conn_flush(out, &err), 1);
	while (conn_read(in, &came, 1, &err) == 0) {
		assert_true(clock_ns() < until);
		turn();
	}
	assert_int_equal(came, 42);
}

static const int zero[] = {0}, one[] = {1}, one_two[] = {1, 2};

static void a_pair(void **state)
{
	(void)state;
	for (int with_tls = 0; with_tls < 2; with_tls++) {
		struct mesh_conf a = conf_of(0, with_tls, one, 1, one, 1, addrs);
		struct mesh_conf b = conf_of(1, with_tls, zero, 1, zero, 1, addrs);
		open_mesh(&a);
		open_mesh(&b);
		until_ready(0);
		until_ready(1);
		carries(0, 1);
		carries(1, 0);
		tear_down(state);
		assert_int_equal(set_up(state), 0);
	}
}

/* The listener drops the first connections, as one that is crowded does. */
static void dialled_again(void **state)
{
	(void)state;
	for (int with_tls = 0; with_tls < 2; with_tls++) {
		struct mesh_conf a = conf_of(0, with_tls, one, 1, NULL, 0, addrs);
		struct mesh_conf b = conf_of(1, with_tls, NULL, 0, zero, 1, addrs);
		int64_t until = clock_ns() + PATIENCE;
		open_mesh(&a);
		for (int dropped = 0; dropped < 4;) {
			int fd = accept(listeners[1], NULL, NULL);
			assert_true(fd >= 0 || errno == EAGAIN);
			assert_true(clock_ns() < until);
			if (fd >= 0) {
				close(fd);
				dropped++;
			}
			turn();
			assert_int_equal(mesh_state(meshes[0], NULL), 0);
		}
		open_mesh(&b);
		until_ready(0);
		until_ready(1);
		carries(0, 1);
		tear_down(state);
		assert_int_equal(set_up(state), 0);
	}
}

/* The dialler has lost its connection after it was admitted, and comes again. */
static void admitted_again(void **state)
{
	(void)state;
	for (int with_tls = 0; with_tls < 2; with_tls++) {
		struct mesh_conf a = conf_of(0, with_tls, one, 1, NULL, 0, addrs);
		struct mesh_conf b = conf_of(1, with_tls, NULL, 0, zero, 1, addrs);
		open_mesh(&b);
		open_mesh(&a);
		until_ready(1);
		mesh_close(meshes[0]);
		open_mesh(&a);
		until_ready(0);
		until_ready(1);
		carries(0, 1);
		tear_down(state);
		assert_int_equal(set_up(state), 0);
	}
}

/* Nobody refuses the connection, but the edge never stands: some turns, in which the dialler tries
 * again and again. */
static void never_stands(int rank, int peer)
{
	struct err err = {0};
	int64_t until = clock_ns() + PATIENCE;
	do {
		assert_true(clock_ns() < until);
		turn();
		assert_int_equal(mesh_state(meshes[rank], NULL), 0);
		err = (struct err){0};
		assert_int_equal(mesh_missing(meshes[rank], &err), peer);
	} while (!strstr(err.text, "(3 connections failed)"));
	assert_int_equal(err.rank, peer);
	assert_true(err.code == ERR_PEER_LOST || err.code == ERR_INTEGRITY);
}

/* Did the last connection to @peer break before its ends were authenticated? */
static void breaks_in_handshake(int rank, int peer, bool expected)
{
	bool in_handshake;
	assert_non_null(mesh_broke(meshes[rank], peer, &in_handshake));
	assert_int_equal(in_handshake, expected);
}

/* Row 6: what rank 0 sends to rank 2 leads to rank 1. */
static void misrouted(void **state)
{
	(void)state;
	for (int with_tls = 0; with_tls < 2; with_tls++) {
		struct addr wrong[RANKS] = {addrs[0], addrs[1], addrs[1]};
		struct mesh_conf a = conf_of(0, with_tls, one_two, 2, NULL, 0, wrong);
		struct mesh_conf b = conf_of(1, with_tls, NULL, 0, zero, 1, addrs);
		open_mesh(&b);
		open_mesh(&a);
		until_ready(1);
		never_stands(0, 2);
		breaks_in_handshake(0, 2, with_tls);
		carries(0, 1);
		tear_down(state);
		assert_int_equal(set_up(state), 0);
	}
}

/* Row 6: what rank 0 sends to rank 1 comes back to rank 0, which expects rank 1. */
static void reflected(void **state)
{
	(void)state;
	for (int with_tls = 0; with_tls < 2; with_tls++) {
		struct addr wrong[RANKS] = {addrs[0], addrs[0], addrs[2]};
		struct mesh_conf a = conf_of(0, with_tls, one, 1, one, 1, wrong);
		open_mesh(&a);
		never_stands(0, 1);
		assert_null(mesh_conn(meshes[0], 1, false, 0));
		tear_down(state);
		assert_int_equal(set_up(state), 0);
	}
}

/* After mesh_stop one more connection authenticates, but none replaces an edge. */
static void dialled_once_more(void **state)
{
	for (int with_tls = 0; with_tls < 2; with_tls++) {
		struct mesh_conf a = conf_of(0, with_tls, one, 1, NULL, 0, addrs);
		struct mesh_conf b = conf_of(1, with_tls, NULL, 0, zero, 1, addrs);
		struct err err = {0};
		int64_t until = clock_ns() + PATIENCE;
		int done;
		open_mesh(&b);
		open_mesh(&a);
		until_ready(0);
		until_ready(1);
		mesh_stop(meshes[0]);
		mesh_stop(meshes[1]);
		struct conn *c = mesh_dial(meshes[0], 1, &err);
		assert_non_null(c);
		assert_int_equal(conn_watch(c, &loop, nothing, NULL, &err), 0);
		while ((done = conn_handshake(c, &err)) == 0) {
			assert_true(clock_ns() < until);
			turn();
		}
		assert_int_equal(done, 1);
		conn_free(c);
		struct mesh *first = meshes[0];
		open_mesh(&a);
		never_stands(0, 1);
		breaks_in_handshake(0, 1, false);
		mesh_close(meshes[0]);
		meshes[0] = first;
		carries(0, 1);
		tear_down(state);
		assert_int_equal(set_up(state), 0);
	}
}

#define MESH_TEST(f) cmocka_unit_test_setup_teardown(f, set_up, tear_down)

int main(void)
{
	const struct CMUnitTest tests[] = {
	        MESH_TEST(a_pair),    MESH_TEST(dialled_again), MESH_TEST(admitted_again),
	        MESH_TEST(misrouted), MESH_TEST(reflected),     MESH_TEST(dialled_once_more),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
