/* The mesh over real sockets: edges stand at both ends, a connection that breaks before it is
 * admitted is dialled again, and one that was reflected or led to another rank is rejected. Edges
 * to ranks that are near are memory lanes, and TCP where that does not work. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/net/mesh.h"
#include "tests/unit/unit.h"

#define MESH_TEST(name) TEST_WITH(name, set_up, tear_down)

#define PATIENCE (100 * NS_PER_SEC) /* no test takes longer */
#define RANKS    3

static struct loop loop;
static struct tls *tls;
static struct addr addrs[RANKS];
static int listeners[RANKS];
static struct mesh *meshes[RANKS];
static uint8_t keys[RANKS][RANKS][TLS_KEY_BYTES]; /* of the pairs */

static void nothing(void *ctx)
{
	(void)ctx;
}

static int set_up(void **state)
{
	struct err err = {0};
	tls = tls_new(&err);
	for (int r = 0; r < RANKS; r++) {
		for (int p = 0; p < RANKS; p++)
			memset(keys[r][p], 1 + (r < p ? r * RANKS + p : p * RANKS + r),
			       TLS_KEY_BYTES);
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
	        .keys = (const uint8_t(*)[TLS_KEY_BYTES])keys[rank],
	        .addrs = at,
	        .listen_fd = -1,
	        .lanes_fd = -1,
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

MESH_TEST(a_pair)
{
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
MESH_TEST(dialled_again)
{
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
MESH_TEST(admitted_again)
{
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
MESH_TEST(misrouted)
{
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
MESH_TEST(reflected)
{
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

/* What mesh_missing says of an edge whose other end has another key. */
static void met_a_stranger(int rank, int peer)
{
	struct err err = {0};
	never_stands(rank, peer);
	breaks_in_handshake(rank, peer, true);
	assert_int_equal(mesh_missing(meshes[rank], &err), peer);
	assert_int_equal(err.code, ERR_PEER_LOST); /* no bytes are corrupt */
	assert_int_equal(err.rank, peer);
	assert_non_null(strstr(err.text, "another process answers there, without the key of this "
	                                 "lane (3 connections failed)"));
}

/* Row 80: rank 2 has the session and its own keys, and sends to rank 1 as rank 0. */
MESH_TEST(another_rank_dials)
{
	struct mesh_conf a = conf_of(0, true, one, 1, NULL, 0, addrs);
	struct mesh_conf b = conf_of(1, true, NULL, 0, zero, 1, addrs);
	struct mesh_conf c = conf_of(0, true, one, 1, NULL, 0, addrs);
	struct err err = {0};
	c.keys = (const uint8_t(*)[TLS_KEY_BYTES])keys[2];
	open_mesh(&b);
	meshes[2] = mesh_open(&c, &err);
	assert_non_null(meshes[2]);
	met_a_stranger(2, 1);
	assert_int_equal(mesh_state(meshes[1], &err), 0);
	assert_null(mesh_conn(meshes[1], 0, false, 0));
	open_mesh(&a);
	until_ready(0);
	until_ready(1);
	carries(0, 1);
	assert_int_equal(mesh_state(meshes[2], &err), 0); /* nor does it replace the edge */
	met_a_stranger(2, 1);
	carries(0, 1);
}

/* Row 80: rank 2 listens where rank 0 expects rank 1, until rank 1 has its address back. */
MESH_TEST(another_rank_listens)
{
	struct mesh_conf a = conf_of(0, true, one, 1, NULL, 0, addrs);
	struct mesh_conf b = conf_of(1, true, NULL, 0, zero, 1, addrs);
	struct mesh_conf c = conf_of(1, true, NULL, 0, zero, 1, addrs);
	struct err err = {0};
	c.keys = (const uint8_t(*)[TLS_KEY_BYTES])keys[2];
	c.listen_fd = dup(listeners[1]);
	meshes[2] = mesh_open(&c, &err);
	assert_non_null(meshes[2]);
	open_mesh(&a);
	met_a_stranger(0, 1);
	assert_int_equal(mesh_state(meshes[2], &err), 0);
	mesh_close(meshes[2]);
	meshes[2] = NULL;
	open_mesh(&b);
	until_ready(0);
	until_ready(1);
	carries(0, 1);
}

/* After mesh_stop one more connection authenticates, but none replaces an edge. */
MESH_TEST(dialled_once_more)
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

/* ---- memory lanes ---- */

static const bool all_near[RANKS] = {true, true, true};

/* Rank 0 sends to rank 1, which it takes for near. */
static struct mesh_conf near_sender(bool with_tls)
{
	struct mesh_conf c = conf_of(0, with_tls, one, 1, NULL, 0, addrs);
	c.near = all_near;
	c.arena_bytes = 1 << 20;
	return c;
}

static struct mesh_conf near_receiver(bool with_tls)
{
	return conf_of(1, with_tls, NULL, 0, zero, 1, addrs);
}

static struct addr lanes_of(int rank)
{
	struct addr a;
	addr_of_lanes(&a, addr_port(&addrs[rank]), rank);
	return a;
}

static void listen_for_lanes(struct mesh_conf *c)
{
	struct err err = {0};
	struct addr a = lanes_of(c->rank);
	c->lanes_fd = addr_listen_lanes(&a, &err);
	assert_true(c->lanes_fd >= 0);
}

static void counts(int rank, int memory, int tcp)
{
	int m, t;
	mesh_count(meshes[rank], &m, &t);
	assert_int_equal(m, memory);
	assert_int_equal(t, tcp);
}

/* Rank 0's edges to rank 1 are TCP, @why. */
static void falls_back(const char *why)
{
	until_ready(0);
	until_ready(1);
	carries(0, 1);
	assert_non_null(mesh_no_memory(meshes[0], 1));
	if (!strstr(mesh_no_memory(meshes[0], 1), why))
		fail_msg("no memory: %s", mesh_no_memory(meshes[0], 1));
	assert_null(mesh_conn(meshes[0], 1, true, 0)->ops->lending);
	assert_null(mesh_conn(meshes[1], 0, false, 0)->ops->lending);
	counts(0, 0, 1);
	counts(1, 0, 1);
}

MESH_TEST(near_ranks_share_memory)
{
	for (int with_tls = 0; with_tls < 2; with_tls++) {
		struct mesh_conf a = near_sender(with_tls), b = near_receiver(with_tls);
		a.in = b.out = NULL;
		a.streams = b.streams = 3;
		listen_for_lanes(&b);
		open_mesh(&a);
		open_mesh(&b);
		until_ready(0);
		until_ready(1);
		carries(0, 1);
		assert_null(mesh_no_memory(meshes[0], 1));
		assert_non_null(mesh_arena(meshes[0]));
		assert_null(mesh_arena(meshes[1])); /* it sends to nobody */
		counts(0, 3, 0);
		counts(1, 3, 0);
		for (int k = 0; k < 3; k++) {
			assert_string_equal(mesh_conn(meshes[0], 1, true, k)->ops->name, "memory");
			assert_string_equal(mesh_conn(meshes[1], 0, false, k)->ops->name, "memory");
		}
		mesh_settle(meshes[1]);
		carries(0, 1);
		tear_down(state);
		assert_int_equal(set_up(state), 0);
	}
}

/* A rank that has ranks of its host and others. */
MESH_TEST(near_and_far)
{
	static const bool second_near[RANKS] = {false, true, false};
	struct mesh_conf a = conf_of(0, true, one_two, 2, NULL, 0, addrs);
	struct mesh_conf b = near_receiver(true), c = conf_of(2, true, NULL, 0, zero, 1, addrs);
	a.near = second_near;
	a.arena_bytes = 4096;
	listen_for_lanes(&b);
	listen_for_lanes(&c);
	open_mesh(&a);
	open_mesh(&b);
	open_mesh(&c);
	for (int r = 0; r < RANKS; r++)
		until_ready(r);
	counts(0, 1, 1);
	counts(1, 1, 0);
	counts(2, 0, 1);
	assert_null(mesh_no_memory(meshes[0], 1));
	assert_null(mesh_no_memory(meshes[0], 2)); /* it is not near */
	carries(0, 1);
	carries(0, 2);
}

MESH_TEST(nobody_listens_for_lanes)
{
	for (int with_tls = 0; with_tls < 2; with_tls++) {
		struct mesh_conf a = near_sender(with_tls), b = near_receiver(with_tls);
		open_mesh(&a);
		open_mesh(&b);
		falls_back("Connection refused");
		tear_down(state);
		assert_int_equal(set_up(state), 0);
	}
}

/* A process of @uid has rank 1's address, and takes connections until it is killed. */
static pid_t squat(uid_t uid)
{
	struct addr a = lanes_of(1);
	int ready[2];
	char byte;
	assert_int_equal(pipe(ready), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct err err = {0};
		if (setresuid(uid, uid, uid) < 0)
			_exit(2);
		int listener = addr_listen_lanes(&a, &err);
		if (listener < 0 || fcntl(listener, F_SETFL, 0) < 0 || write(ready[1], "x", 1) != 1)
			_exit(3);
		for (;;)
			close(accept(listener, NULL, NULL));
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static void squatted(uid_t uid, const char *why)
{
	struct mesh_conf a = near_sender(true), b = near_receiver(true);
	struct addr at = lanes_of(1);
	struct err err = {0};
	pid_t pid = squat(uid);
	assert_int_equal(addr_listen_lanes(&at, &err), -1); /* so rank 1 listens for none */
	open_mesh(&a);
	open_mesh(&b);
	falls_back(why);
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

MESH_TEST(another_user_has_the_address)
{
	if (geteuid() != 0)
		skip(); /* root can be others */
	squatted(65534, "it runs as another user (uid 65534)");
}

MESH_TEST(another_process_has_the_address)
{
	squatted(geteuid(), "");
}

/* Another job's rank has the address: it does not know the session. */
MESH_TEST(another_job_has_the_address)
{
	struct mesh_conf a = near_sender(true), b = near_receiver(true);
	struct mesh_conf other = conf_of(1, true, NULL, 0, zero, 1, addrs);
	struct err err = {0};
	memcpy(other.session, "another session", 16);
	listen_for_lanes(&other);
	other.listen_fd = listeners[2];
	listeners[2] = -1;
	meshes[2] = mesh_open(&other, &err);
	assert_non_null(meshes[2]);
	open_mesh(&a);
	open_mesh(&b);
	falls_back("");
	assert_int_equal(mesh_state(meshes[2], &err), 0);
}

/* The same session with another key: the dialler does not believe the listener. */
MESH_TEST(another_key)
{
	struct mesh_conf a = near_sender(false), b = near_receiver(false);
	b.keys = (const uint8_t(*)[TLS_KEY_BYTES])keys[2];
	listen_for_lanes(&b);
	open_mesh(&a);
	open_mesh(&b);
	falls_back("the listener of a memory lane has another key");
}

/* Row 80: over a memory lane and then TLS. */
MESH_TEST(another_rank_of_the_host_dials)
{
	struct mesh_conf a = near_sender(true), b = near_receiver(true), c = near_sender(true);
	struct err err = {0};
	c.keys = (const uint8_t(*)[TLS_KEY_BYTES])keys[2];
	listen_for_lanes(&b);
	open_mesh(&b);
	meshes[2] = mesh_open(&c, &err);
	assert_non_null(meshes[2]);
	met_a_stranger(2, 1);
	assert_string_equal(mesh_no_memory(meshes[2], 1),
	                    "the listener of a memory lane has another key");
	assert_null(mesh_conn(meshes[1], 0, false, 0));
	open_mesh(&a);
	until_ready(0);
	until_ready(1);
	counts(1, 1, 0);
	carries(0, 1);
}

MESH_TEST(no_memory_for_the_arena)
{
	struct mesh_conf a = near_sender(true), b = near_receiver(true);
	a.arena_bytes = (size_t)1 << 62;
	listen_for_lanes(&b);
	open_mesh(&a);
	open_mesh(&b);
	assert_null(mesh_arena(meshes[0]));
	falls_back("bytes of shared memory");
}

/* There are descriptors for the arena and for the sockets, but none for the lane: which end notices
 * first depends on the order of events. */
MESH_TEST(too_few_descriptors)
{
	struct mesh_conf a = near_sender(true), b = near_receiver(true);
	struct rlimit before;
	listen_for_lanes(&b);
	open_mesh(&b);
	int free[4]; /* the next ones: of the arena, the two sockets, and the lane */
	for (int i = 0; i < 4; i++) {
		free[i] = dup(0);
		assert_true(free[i] >= 0);
	}
	for (int i = 0; i < 4; i++)
		close(free[i]);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	assert_int_equal(
	        setrlimit(RLIMIT_NOFILE, &(struct rlimit){(rlim_t)free[3], before.rlim_max}), 0);
	open_mesh(&a);
	int64_t until = clock_ns() + PATIENCE;
	while (!mesh_no_memory(meshes[0], 1) && clock_ns() < until)
		turn();
	assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
	falls_back("");
}

/* The dialler comes again, by memory. */
MESH_TEST(a_lane_admitted_again)
{
	struct mesh_conf a = near_sender(true), b = near_receiver(true);
	listen_for_lanes(&b);
	open_mesh(&b);
	open_mesh(&a);
	until_ready(1);
	mesh_close(meshes[0]);
	open_mesh(&a);
	until_ready(0);
	until_ready(1);
	counts(0, 1, 0);
	carries(0, 1);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
