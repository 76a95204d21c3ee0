/* Memory lanes: bytes that are copied and lent, in pieces of every size; full tables and rings,
 * ends, and wake-ups. */
#include "tests/unit/lane_world.h"

LANE_TEST(what_reaches)
{
	uint8_t outside[8];
	open_lane(0);
	const struct conn_lending *l = s->ops->lending;
	assert_true(l->reaches(s, memory, ARENA));
	assert_true(l->reaches(s, memory + ARENA - 8, 8));
	assert_false(l->reaches(s, memory + ARENA - 8, 9));
	assert_false(l->reaches(s, memory - 1, 1));
	assert_false(l->reaches(s, outside, sizeof outside));
	assert_false(r->ops->lending->reaches(r, memory, 8)); /* it only receives */
	assert_string_equal(conn_shared_identity(r), IDENTITY);
}

/* Send a piece of the bytes at @from. */
static size_t send_piece(const uint8_t *from, size_t left, bool copies, bool lends)
{
	static uint8_t copy[ARENA];
	size_t n = a_size(left);
	ssize_t ret;
	if (lends && (!copies || below(2))) {
		ret = lend(from, n);
	} else {
		memcpy(copy, from, n);
		ret = put(copy, n);
		memset(copy, 0xee, n); /* what was accepted is the connection's */
	}
	return (size_t)ret;
}

/* Take a piece, which must be at @want. */
static size_t take_piece(const uint8_t *want)
{
	static uint8_t buf[ARENA];
	size_t n = a_size(ARENA), k;
	const void *p;
	ssize_t got;
	if (below(2)) {
		got = get(buf, n);
		assert_memory_equal(buf, want, (size_t)got);
		return (size_t)got;
	}
	got = borrow(&p, n);
	assert_true((size_t)got <= n);
	if (got == 0)
		return 0;
	assert_memory_equal(p, want, (size_t)got);
	k = 1 + below((size_t)got); /* the rest is borrowed again */
	r->ops->lending->give_back(r, k);
	return k;
}

static void passes_all(bool copies, bool lends, size_t ring)
{
	size_t sent = 0, taken = 0, turns = 0;
	struct err err = {0};
	open_lane(ring);
	while (taken < ARENA) {
		for (size_t i = below(40); i && sent < ARENA; i--)
			sent += send_piece(memory + sent, ARENA - sent, copies, lends);
		for (size_t i = below(40); i && taken < sent; i--)
			taken += take_piece(memory + taken);
		assert_int_equal(consumed(), taken);
		assert_true(turns++ < ARENA);
	}
	assert_int_equal(conn_end(s, &err), 1);
	assert_int_equal(conn_flush(s, &err), 1);
	assert_int_equal(get(&turns, 1), CONN_END);
	assert_int_equal(s->wire_out, ARENA);
	assert_int_equal(r->wire_in, ARENA);
}

LANE_TEST(pieces_of_every_size)
{
	static const size_t rings[] = {0, 1, 16 << 10, (16 << 10) + 1, 100000, 1 << 20};
	for (size_t i = 0; i < LENGTH(rings); i++)
		for (int ways = 1; ways < 4; ways++) {
			passes_all(ways & 1, ways & 2, rings[i]);
			again();
		}
}

/* ---- descriptors of files ---- */

static int pass(int fd)
{
	struct err err = {0};
	turn();
	const int ret = s->ops->lending->pass(s, fd, &err);
	assert_int_equal(err.code, 0);
	return ret;
}

/* Returns the descriptor; -1: none has come. */
static int take_fd(void)
{
	struct err err = {0};
	int fd = -1;
	turn();
	const int ret = r->ops->lending->take(r, &fd, &err);
	assert_int_equal(err.code, 0);
	assert_int_equal(ret, fd >= 0);
	return fd;
}

/* Beside the stream, in any order with the bytes that wake, and one at a time. */
LANE_TEST(descriptors_are_passed)
{
	struct err err = {0};
	struct stat one, other;
	uint8_t byte = 7;
	int fd, lost = -1;
	open_lane(0);
	assert_int_equal(take_fd(), -1);
	for (int i = 0; i < 3; i++) {
		const int own = i == 1 ? arena_fd(arena) : s->fd;
		wake(of(s));
		assert_int_equal(pass(own), 1);
		wake(of(s));
		assert_int_equal(pass(own), 0); /* it has not been taken */
		assert_int_equal(put(&byte, 1), 1);
		turn();
		assert_int_equal(get(&byte, 1), 1); /* hears the descriptor, too */
		wake(of(r));
		fd = take_fd();
		assert_true(fd >= 0);
		assert_int_equal(take_fd(), -1);
		assert_true(fstat(own, &one) == 0 && fstat(fd, &other) == 0);
		assert_true(one.st_dev == other.st_dev && one.st_ino == other.st_ino);
		assert_int_equal(fcntl(fd, F_GETFD), FD_CLOEXEC);
		close(fd);
	}
	/* One that nobody takes is closed with the lane. */
	assert_int_equal(pass(arena_fd(arena)), 1);
	turn();
	assert_int_equal(get(&byte, 1), 0);
	conn_free(r);
	r = NULL;
	turn();
	FAILS(s->ops->lending->pass(s, arena_fd(arena), &why), ERR_PEER_LOST, "");
	again();
	open_lane(0);
	conn_free(s);
	s = NULL;
	turn();
	FAILS(r->ops->lending->take(r, &lost, &why), ERR_PEER_LOST, "closed");
	assert_int_equal(lost, -1);
	(void)err;
}

LANE_TEST(a_full_table)
{
	uint8_t byte;
	struct err err = {0};
	open_lane(0);
	for (int lent = 0; lent < 2; lent++) {
		for (int i = 0; i < REFERENCES; i++)
			assert_int_equal(lent ? lend(memory + i, 1) : put(memory + i, 1), 1);
		assert_int_equal(put(memory, 1), 0);
		assert_int_equal(lend(memory, 1), 0);
		assert_int_equal(conn_end(s, &err), 0);
		assert_int_equal(get(&byte, 1), 1);
		assert_int_equal(byte, memory[0]);
		assert_int_equal(put(memory + REFERENCES, 1), 1);
		assert_int_equal(put(memory, 1), 0);
		for (int i = 1; i <= REFERENCES; i++) {
			assert_int_equal(get(&byte, 1), 1);
			assert_int_equal(byte, memory[i]);
		}
		assert_int_equal(get(&byte, 1), 0);
	}
	assert_int_equal(conn_end(s, &err), 1);
	assert_int_equal(get(&byte, 1), CONN_END);
	assert_int_equal(conn_end(s, &err), 1);
	assert_int_equal(get(&byte, 1), CONN_END);
}

LANE_TEST(a_full_ring)
{
	static uint8_t bytes[RING_LEAST];
	open_lane(1);
	/* A piece is at most a quarter of the ring. */
	for (int i = 0; i < 4; i++)
		assert_int_equal(put(memory + (size_t)i * RING_LEAST / 4, RING_LEAST),
		                 RING_LEAST / 4);
	assert_int_equal(put(memory, 1), 0);
	assert_int_equal(lend(memory + RING_LEAST, RING_LEAST), RING_LEAST); /* needs no ring */
	assert_int_equal(get(bytes, RING_LEAST / 4 - 1), RING_LEAST / 4 - 1);
	assert_int_equal(put(memory, 1), 0); /* the first piece is not consumed yet */
	assert_int_equal(get(bytes + RING_LEAST / 4 - 1, 1), 1);
	assert_int_equal(put(memory, RING_LEAST), RING_LEAST / 4);
	assert_int_equal(put(memory, 1), 0);
	assert_int_equal(get(bytes + RING_LEAST / 4, 3 * RING_LEAST / 4), 3 * RING_LEAST / 4);
	assert_memory_equal(bytes, memory, RING_LEAST);
}

LANE_TEST(an_end_alone)
{
	uint8_t byte;
	const void *p;
	struct err err = {0};
	open_lane(0);
	assert_int_equal(borrow(&p, 1), 0);
	assert_int_equal(conn_end(s, &err), 1);
	assert_int_equal(borrow(&p, 1), CONN_END);
	assert_int_equal(get(&byte, 1), CONN_END);
	/* The socket's end adds nothing. */
	conn_free(s);
	s = NULL;
	turn();
	assert_int_equal(get(&byte, 1), CONN_END);
}

LANE_TEST(what_was_sent_before_the_loss_arrives)
{
	static uint8_t bytes[4];
	open_lane(0);
	put(memory, 3);
	lend(memory + 3, 5);
	conn_free(s);
	s = NULL;
	turn();
	assert_int_equal(get(bytes, 4), 4);
	assert_int_equal(get(bytes, 4), 4); /* the mapping outlives its owner's */
	assert_memory_equal(bytes, memory + 4, 4);
	FAILS(conn_read(r, bytes, 1, &why), ERR_PEER_LOST, "the connection was closed");
}

LANE_TEST(what_was_consumed_before_the_loss_counts)
{
	static uint8_t bytes[8];
	for (size_t n = 7; n <= 8; n++) {
		open_lane(0);
		lend(memory, 8);
		get(bytes, n);
		conn_free(r);
		r = NULL;
		turn();
		if (n == 8)
			assert_int_equal(consumed(), 8);
		else
			FAILS(s->ops->lending->consumed(s, &why), ERR_PEER_LOST, "closed");
		FAILS(conn_write(s, memory, 1, &why), ERR_PEER_LOST, "closed");
		FAILS(s->ops->lending->lend(s, memory, 1, &why), ERR_PEER_LOST, "closed");
		FAILS(conn_end(s, &why), ERR_PEER_LOST, "closed");
		assert_int_equal(conn_read(s, bytes, 1, NULL), CONN_END);
		again();
	}
}

/* ---- what the receiver says ---- */

LANE_TEST(an_answer)
{
	static const uint8_t words[] = {1, 2, 3, WAKE, WAKE, 4, 5};
	uint8_t heard[8];
	struct err err = {0};
	open_lane(0);
	assert_int_equal(conn_read(s, heard, 8, &err), 0);
	assert_int_equal(conn_write(r, words, 6, &err), 6);
	turn();
	assert_int_equal(conn_read(s, heard, 1, &err), 1);
	assert_int_equal(heard[0], 1);
	assert_int_equal(conn_read(s, heard, 8, &err), 3);
	assert_memory_equal(heard, "\2\3\4", 3);
	assert_int_equal(conn_write(r, words, 3, &err), 3);
	turn();
	assert_int_equal(consumed(), 0);
	assert_int_equal(conn_write(r, words, 2, &err), 2);
	turn();
	FAILS(s->ops->lending->consumed(s, &why), ERR_INTEGRITY, "unknown byte 2 ");
}

LANE_TEST(a_sender_that_speaks)
{
	uint8_t byte = 7;
	open_lane(0);
	assert_int_equal(send(s->fd, &byte, 1, 0), 1);
	turn();
	FAILS(conn_read(r, &byte, 1, &why), ERR_INTEGRITY, "unknown byte 7 ");
}

LANE_TEST(a_flood_of_wakes)
{
	uint8_t wakes[200], byte;
	open_lane(0);
	memset(wakes, WAKE, sizeof wakes);
	for (int i = 0; i < 5; i++) {
		assert_int_equal(send(s->fd, wakes, sizeof wakes, 0), sizeof wakes);
		assert_int_equal(send(r->fd, wakes, sizeof wakes, 0), sizeof wakes);
		turn();
		put(memory + i, 1);
		assert_int_equal(get(&byte, 1), 1);
		assert_int_equal(byte, memory[i]);
		assert_int_equal(consumed(), i + 1);
	}
}

/* ---- waking ---- */

static void on_ready(void *ctx)
{
	*(bool *)ctx = true;
}

/* What the sender or the receiver has learned in a turn that ends with @deadline. */
static void learns(bool *at, bool *there, int64_t deadline, bool sender, bool receiver)
{
	struct err err = {0};
	*at = *there = false;
	assert_int_equal(loop_turn(&loop, deadline, &err), 0);
	assert_int_equal(*at, sender);
	assert_int_equal(*there, receiver);
}

/* An event in memory is dispatched by a turn that need not sleep. The sender has one when bytes
 * that it lent come back, or when there is room that was missing. */
LANE_TEST(events_without_sleep)
{
	bool at, there;
	uint8_t byte;
	open_lane(0);
	s->on_ready = r->on_ready = on_ready;
	s->ctx = &at;
	r->ctx = &there;
	loop.yields = 3;
	turn();
	lend(memory, 1);
	learns(&at, &there, INT64_MAX, false, true);
	get(&byte, 1);
	learns(&at, &there, INT64_MAX, true, false);
	put(memory, 1);
	learns(&at, &there, INT64_MAX, false, true);
	get(&byte, 1);
	learns(&at, &there, 0, false, false);
	for (int i = 0; i < REFERENCES; i++)
		put(memory, 1);
	assert_int_equal(put(memory, 1), 0);
	learns(&at, &there, INT64_MAX, false, true);
	get(&byte, 1);
	learns(&at, &there, INT64_MAX, true, false);
}

/* One end in a thread. */
struct end {
	struct conn *conn;
	int yields, n;
	bool failed;
};

static void *send_all_pieces(void *ctx)
{
	struct end *e = ctx;
	struct loop own;
	struct err err = {0};
	bool ready = true;
	int64_t until = clock_ns() + PATIENCE, done = 0;
	loop_init(&own, &err);
	own.yields = e->yields;
	conn_watch(e->conn, &own, on_ready, &ready, &err);
	for (int i = 0; i < e->n && !e->failed; i++) {
		bool lends = i / 500 % 2 == 0; /* else until there is no room */
		ssize_t sent = 0;
		while (!e->failed && sent == 0) {
			sent = lends ? e->conn->ops->lending->lend(e->conn, memory + i, 8, &err)
			             : conn_write(e->conn, memory + i, 8, &err);
			if (sent == 0)
				e->failed = clock_ns() > until || loop_turn(&own, until, &err) < 0;
		}
		e->failed |= sent != 8;
		while (!e->failed && lends &&
		       (done = e->conn->ops->lending->consumed(e->conn, &err)) < 8 * (i + 1))
			e->failed =
			        done < 0 || clock_ns() > until || loop_turn(&own, until, &err) < 0;
	}
	while (!e->failed && (done = conn_end(e->conn, &err)) == 0)
		e->failed = clock_ns() > until || loop_turn(&own, until, &err) < 0;
	e->failed |= done != 1;
	loop_poll_del(&own, &e->conn->poll);
	loop_del(&own, &e->conn->watch);
	e->conn->loop = NULL;
	loop_release(&own);
	return NULL;
}

/* Each end sleeps until the other one has done something: the sender lends one piece at a time,
 * or copies until there is no room. */
LANE_TEST(ends_that_sleep)
{
	struct err err = {0};
	for (int yields = 0; yields < 6; yields++) {
		struct end e = {.yields = yields & 1 ? 5 : 0, .n = 1500};
		int64_t until = clock_ns() + PATIENCE;
		bool ready = true;
		uint64_t taken = 0;
		pthread_t thread;
		ssize_t got = 0;
		const void *p;
		open_lane(1);
		loop_poll_del(&loop, &s->poll);
		loop_del(&loop, &s->watch);
		s->loop = NULL;
		e.conn = s;
		loop.yields = yields & 2 ? 5 : 0;
		conn_watch(r, &loop, on_ready, &ready, &err);
		assert_int_equal(pthread_create(&thread, NULL, send_all_pieces, &e), 0);
		while ((got = r->ops->lending->borrow(r, &p, 8, &err)) != CONN_END && got >= 0 &&
		       clock_ns() < until) {
			if (got == 0) {
				loop_turn(&loop, until, &err);
				continue;
			}
			if (memcmp(p, memory + taken / 8 + taken % 8, (size_t)got) != 0)
				break;
			r->ops->lending->give_back(r, (size_t)got);
			taken += (uint64_t)got;
		}
		if (got != CONN_END) { /* the thread must end */
			conn_free(r);
			r = NULL;
		}
		pthread_join(thread, NULL);
		assert_int_equal(got, CONN_END);
		assert_false(e.failed);
		assert_int_equal(taken, 8 * 1500);
		again();
	}
}

int main(void)
{
	return unit_run(NULL, NULL);
}
