/*
 * A memory lane whose ends are both in this process. The test is made of the parts of
 * conn_shared.c, so that a hostile end can do what a connection never does.
 */
#ifndef COLLCTL_TESTS_LANE_WORLD_H
#define COLLCTL_TESTS_LANE_WORLD_H

#include "lib/net/conn_shared.c"

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <sys/un.h>
#include <sys/wait.h>

#include "lib/base/clock.h"
#include "lib/net/addr.h"
#include "tests/unit/unit.h"

#define PATIENCE (100 * NS_PER_SEC) /* no test takes longer */
#define ARENA    (1u << 20)
#define IDENTITY "D1|00|0|1|0"

static struct loop loop;
static struct arena *arena;
static uint8_t *memory; /* all of the arena */
static struct arena_maps maps;
static int ends[2];        /* the dialler's, the listener's */
static struct conn *s, *r; /* the sender, the receiver */
static uint64_t random_state;

static const uint8_t key[TLS_KEY_BYTES] = "the key", another[TLS_KEY_BYTES] = "another key";

static inline uint64_t draw(void)
{
	uint64_t x = random_state += 0x9e3779b97f4a7c15u;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static inline size_t below(size_t n)
{
	return (size_t)(draw() % n);
}

static inline int find(void *ctx, const uint8_t *identity, size_t len, uint8_t found[TLS_KEY_BYTES])
{
	if (len != strlen(IDENTITY) || memcmp(identity, IDENTITY, len) != 0)
		return -1;
	memcpy(found, ctx ? ctx : key, TLS_KEY_BYTES);
	return 0;
}

static inline int open_socket(void)
{
	return socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, ends);
}

static inline int set_up(void **state)
{
	struct err err = {0};
	(void)state;
	random_state = 1;
	s = r = NULL;
	ends[0] = ends[1] = -1;
	arena = arena_new(ARENA, &err);
	memory = arena ? arena_alloc(arena, ARENA) : NULL;
	if (!memory || open_socket() < 0)
		return -1;
	for (size_t i = 0; i < ARENA; i++)
		memory[i] = (uint8_t)(i ^ i >> 8 ^ i >> 16);
	return loop_init(&loop, &err);
}

static inline void close_both(void)
{
	conn_free(s);
	conn_free(r);
	for (int i = 0; i < 2; i++)
		if (ends[i] >= 0)
			close(ends[i]);
	s = r = NULL;
	ends[0] = ends[1] = -1;
}

static inline int tear_down(void **state)
{
	(void)state;
	close_both();
	assert_null(maps.first);
	arena_free(arena);
	loop_release(&loop);
	return 0;
}

/* Another pair of ends. */
static inline void again(void)
{
	close_both();
	assert_int_equal(open_socket(), 0);
}

static inline void watch(struct conn *c)
{
	struct err err = {0};
	assert_non_null(c);
	assert_int_equal(conn_watch(c, &loop, NULL, NULL, &err), 0);
}

static inline void make_sender(const uint8_t *with, size_t ring)
{
	struct err err = {0};
	s = conn_shared_dial(ends[0], IDENTITY, with, arena, ring, &err);
	ends[0] = -1;
	watch(s);
}

static inline void make_receiver(const uint8_t *with)
{
	struct err err = {0};
	r = conn_shared_accept(ends[1], find, (void *)with, &maps, &err);
	ends[1] = -1;
	watch(r);
}

static inline void turn(void)
{
	struct err err = {0};
	assert_int_equal(loop_turn(&loop, 0, &err), 0);
}

/* Events that have happened are seen after one turn: both ends are in this process. */
static inline int handshake(struct conn *c, struct err *err)
{
	turn();
	return conn_handshake(c, err);
}

static inline void open_lane(size_t ring)
{
	struct err err = {0};
	make_sender(key, ring);
	make_receiver(key);
	for (int i = 0; i < 4; i++) {
		int at = handshake(s, &err), there = handshake(r, &err);
		assert_true(at >= 0 && there >= 0);
	}
	assert_int_equal(handshake(s, &err), 1);
	assert_int_equal(handshake(r, &err), 1);
}

/* ---- the stream ---- */

static inline ssize_t put(const void *p, size_t n)
{
	struct err err = {0};
	ssize_t ret = conn_write(s, p, n, &err);
	assert_true(ret >= 0);
	return ret;
}

static inline ssize_t lend(const void *p, size_t n)
{
	struct err err = {0};
	assert_true(s->ops->lending->reaches(s, p, n));
	ssize_t ret = s->ops->lending->lend(s, p, n, &err);
	assert_true(ret >= 0);
	return ret;
}

static inline ssize_t get(void *p, size_t n)
{
	struct err err = {0};
	ssize_t ret = conn_read(r, p, n, &err);
	assert_int_equal(err.code, 0);
	return ret;
}

static inline ssize_t borrow(const void **p, size_t n)
{
	struct err err = {0};
	ssize_t ret = r->ops->lending->borrow(r, p, n, &err);
	assert_int_equal(err.code, 0);
	return ret;
}

static inline int64_t consumed(void)
{
	struct err err = {0};
	int64_t n = s->ops->lending->consumed(s, &err);
	assert_int_equal(err.code, 0);
	return n;
}

/* The call fails with @code and a text that contains @text. */
#define FAILS(call, code_, text_)                                    \
	do {                                                         \
		struct err why = {0};                                \
		assert_int_equal((call), -1);                        \
		if (why.code != (code_) || !strstr(why.text, text_)) \
			fail_msg("%d: %s", why.code, why.text);      \
	} while (0)

/* A piece of at most @left bytes, often of a size near those that matter. */
static inline size_t a_size(size_t left)
{
	static const size_t edges[] = {16 << 10, 4 << 10, 64, 32, 16};
	size_t n = 1 + below(below(3) ? 300 : 60000);
	if (below(4) == 0)
		n = edges[below(5)] + below(3) - 1;
	return n < left ? n : left;
}

/* ---- a test ---- */

#define LANE_TEST(name) TEST_WITH(name, set_up, tear_down)

#endif
