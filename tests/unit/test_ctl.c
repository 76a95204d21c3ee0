/* Control links: messages in any pieces, lengths that are refused, and how a link ends. */
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>
#include <xxhash.h>

#include "lib/base/clock.h"
#include "lib/job/ctl.h"
#include "tests/unit/unit.h"

#define CTL_TEST(name) TEST_WITH(name, set_up, tear_down)

#define PATIENCE (100 * NS_PER_SEC) /* no test takes longer */

static struct loop loop;

struct end {
	struct ctl ctl;
	int messages, losses;
	uint8_t types[64];
	uint8_t *last; /* body */
	size_t last_len;
	struct err why;
	int release_at; /* release the link in the n-th message; 0: never */
};

static void on_message(void *ctx, uint8_t type, struct view body)
{
	struct end *e = ctx;
	assert_int_equal(e->losses, 0);
	assert_true(ctl_open(&e->ctl));
	e->types[e->messages++ % 64] = type;
	free(e->last);
	e->last_len = view_left(&body);
	e->last = malloc(e->last_len + 1);
	memcpy(e->last, body.p, e->last_len);
	if (e->messages == e->release_at)
		ctl_release(&e->ctl);
}

static void on_lost(void *ctx, const struct err *err)
{
	struct end *e = ctx;
	assert_false(ctl_open(&e->ctl));
	e->losses++;
	e->why = *err;
}

static void end_init(struct end *e, int fd)
{
	struct err err = {0};
	struct conn *c = conn_tcp_new(fd, &err);
	*e = (struct end){.ctl = {.on_message = on_message, .on_lost = on_lost, .ctx = e}};
	assert_non_null(c);
	assert_int_equal(ctl_start(&e->ctl, c, &loop, &err), 0);
}

static void end_release(struct end *e)
{
	ctl_release(&e->ctl);
	ctl_release(&e->ctl);
	free(e->last);
}

static int set_up(void **state)
{
	struct err err = {0};
	return loop_init(&loop, &err);
}

static int tear_down(void **state)
{
	loop_release(&loop);
	return 0;
}

static void turn(void)
{
	struct err err = {0};
	assert_int_equal(loop_turn(&loop, clock_ns() + NS_PER_MS, &err), 0);
}

static void until(const int *counter, int n)
{
	int64_t end = clock_ns() + PATIENCE;
	while (*counter < n) {
		assert_true(clock_ns() < end);
		turn();
	}
}

static void sockets(int fd[2])
{
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
}

static void two_ends(struct end *a, struct end *b)
{
	int fd[2];
	sockets(fd);
	end_init(a, fd[0]);
	end_init(b, fd[1]);
}

/* ---- a peer whose every byte is made by hand ---- */

struct hand {
	int fd;
	uint32_t seq;
};

static void raw(struct hand *h, const void *p, size_t n)
{
	assert_int_equal(send(h->fd, p, n, MSG_NOSIGNAL), n);
}

/* @n bytes in one frame, written @step bytes at a time with turns of the loop between. */
static void send_bytes(struct hand *h, const void *p, uint32_t n, size_t step)
{
	uint8_t wire[20 + 4096];
	size_t len = 20 + (size_t)n;
	put_u32(wire, n);
	put_u32(wire + 4, h->seq);
	put_u64(wire + 8, XXH3_64bits(p, n));
	put_u32(wire + 16, (uint32_t)XXH3_64bits(wire, 16));
	h->seq++;
	memcpy(wire + 20, p, n);
	for (size_t i = 0; i < len; i += step) {
		raw(h, wire + i, len - i < step ? len - i : step);
		if (step < len)
			turn();
	}
}

static size_t message(uint8_t *out, uint8_t type, const char *body)
{
	size_t n = strlen(body);
	put_u32(out, (uint32_t)n);
	out[4] = type;
	memcpy(out + 5, body, n);
	return 5 + n;
}

CTL_TEST(messages_in_any_pieces)
{
	uint8_t m[64];
	size_t n = message(m, 1, "one");
	n += message(m + n, 2, "");
	n += message(m + n, 3, "number three");
	for (size_t step = 1; step <= 64; step *= 2)           /* of the socket */
		for (size_t part = 1; part <= 64; part *= 4) { /* of frames */
			int fd[2];
			struct end e;
			sockets(fd);
			end_init(&e, fd[0]);
			struct hand h = {.fd = fd[1]};
			for (size_t i = 0; i < n; i += part)
				send_bytes(&h, m + i, (uint32_t)(n - i < part ? n - i : part),
				           step);
			until(&e.messages, 3);
			assert_memory_equal(e.types, "\1\2\3", 3);
			assert_int_equal(e.last_len, 12);
			assert_memory_equal(e.last, "number three", 12);
			assert_int_equal(e.losses, 0);
			end_release(&e);
			close(fd[1]);
		}
}

CTL_TEST(an_oversized_message_is_refused)
{
	static const uint32_t lengths[] = {CTL_BODY_MAX + 1, 1u << 31, UINT32_MAX};
	for (size_t i = 0; i < 3; i++) {
		int fd[2];
		struct end e;
		uint8_t m[64];
		size_t n = message(m, 1, "before");
		put_u32(m + n, lengths[i]);
		m[n + 4] = 2;
		sockets(fd);
		end_init(&e, fd[0]);
		struct hand h = {.fd = fd[1]};
		send_bytes(&h, m, (uint32_t)n + 5, 4096);
		until(&e.losses, 1);
		assert_int_equal(e.messages, 1);
		assert_int_equal(e.why.code, ERR_INTEGRITY);
		assert_non_null(strstr(e.why.text, "a control message of"));
		end_release(&e);
		close(fd[1]);
	}
}

CTL_TEST(the_largest_message_passes)
{
	struct end a, b;
	struct buf body;
	two_ends(&a, &b);
	buf_init(&body, CTL_BODY_MAX);
	for (uint32_t i = 0; i < CTL_BODY_MAX / 4; i++)
		buf_put_u32(&body, i * 2654435761u);
	for (int i = 0; i < 3; i++)
		ctl_send(&a.ctl, 9, &body);
	until(&b.messages, 3);
	assert_int_equal(b.last_len, CTL_BODY_MAX);
	assert_memory_equal(b.last, body.data, CTL_BODY_MAX);
	ctl_send(&a.ctl, 7, NULL);
	until(&b.messages, 4);
	assert_memory_equal(b.types, "\x9\x9\x9\x7", 4);
	assert_int_equal(b.last_len, 0);
	buf_release(&body);
	end_release(&a);
	end_release(&b);
}

CTL_TEST(the_end_comes_after_what_was_queued)
{
	struct end a, b;
	struct buf body;
	two_ends(&a, &b);
	buf_init(&body, CTL_BODY_MAX);
	while (body.len < 500000)
		buf_put_u8(&body, (uint8_t)body.len);
	for (int i = 0; i < 4; i++)
		ctl_send(&a.ctl, 9, &body);
	ctl_end(&a.ctl);
	ctl_send(&a.ctl, 1, NULL); /* too late: not sent */
	until(&b.losses, 1);
	assert_int_equal(b.messages, 4);
	assert_int_equal(b.why.code, 0);
	until(&a.losses, 1); /* b has closed */
	buf_release(&body);
	end_release(&a);
	end_release(&b);
}

/* Who has announced its end still hears. */
CTL_TEST(an_end_is_of_one_direction)
{
	struct end a;
	int fd[2];
	uint8_t m[64];
	sockets(fd);
	end_init(&a, fd[0]);
	struct hand h = {.fd = fd[1]};
	ctl_end(&a.ctl);
	turn();
	send_bytes(&h, m, (uint32_t)message(m, 5, "last words"), 1);
	until(&a.messages, 1);
	assert_int_equal(a.losses, 0);
	close(fd[1]);
	until(&a.losses, 1);
	end_release(&a);
}

CTL_TEST(a_cut_is_no_end)
{
	struct end e;
	int fd[2];
	uint8_t m[64];
	sockets(fd);
	end_init(&e, fd[0]);
	struct hand h = {.fd = fd[1]};
	send_bytes(&h, m, (uint32_t)message(m, 4, "my last"), 4096);
	close(fd[1]); /* at once: both are found together */
	until(&e.losses, 1);
	assert_int_equal(e.messages, 1);
	assert_memory_equal(e.last, "my last", 7);
	assert_int_equal(e.why.code, ERR_PEER_LOST); /* as a process that dies leaves it */
	for (int i = 0; i < 5; i++)
		turn();
	assert_int_equal(e.losses, 1);
	end_release(&e);
}

/* A link that can't be written to any more is read to its end before it is given up: the peer may
 * have said why. */
CTL_TEST(the_peers_word_comes_before_its_loss)
{
	struct end e;
	int fd[2];
	uint8_t m[64];
	struct buf body;
	buf_init(&body, 100000);
	while (body.len < 100000)
		buf_put_u8(&body, 1);
	sockets(fd);
	end_init(&e, fd[0]);
	turn();
	for (int i = 0; i < 20; i++)
		ctl_send(&e.ctl, 1, &body);
	struct hand h = {.fd = fd[1]};
	send_bytes(&h, m, (uint32_t)message(m, 4, "why"), 4096);
	close(fd[1]);
	ctl_send(&e.ctl, 2, NULL); /* fails, which shows later */
	assert_true(ctl_open(&e.ctl));
	assert_int_equal(e.losses, 0);
	until(&e.losses, 1);
	assert_int_equal(e.messages, 1);
	assert_memory_equal(e.last, "why", 3);
	assert_int_not_equal(e.why.code, 0);
	buf_release(&body);
	end_release(&e);
}

CTL_TEST(a_message_may_release_its_link)
{
	struct end e;
	int fd[2];
	uint8_t m[64];
	size_t n = message(m, 1, "one");
	n += message(m + n, 2, "two");
	n += message(m + n, 3, "three");
	sockets(fd);
	end_init(&e, fd[0]);
	e.release_at = 2;
	struct hand h = {.fd = fd[1]};
	send_bytes(&h, m, (uint32_t)n, 4096);
	until(&e.messages, 2);
	turn();
	turn();
	assert_int_equal(e.messages, 2);
	assert_int_equal(e.losses, 0);
	ctl_send(&e.ctl, 1, NULL); /* nothing happens */
	ctl_end(&e.ctl);
	end_release(&e);
	close(fd[1]);
}

CTL_TEST(hearing_is_noted)
{
	struct end a, b;
	two_ends(&a, &b);
	int64_t before = b.ctl.heard;
	assert_true(before > 0);
	turn();
	assert_true(b.ctl.heard == before);
	ctl_send(&a.ctl, 1, NULL);
	until(&b.messages, 1);
	assert_true(b.ctl.heard > before);
	end_release(&a);
	end_release(&b);
}

CTL_TEST(what_is_queued_moves_with_the_connection)
{
	struct end a, b, c = {.ctl = {.on_message = on_message, .on_lost = on_lost, .ctx = &c}};
	struct err err = {0};
	uint8_t bytes[4096];
	struct buf body;
	int n = 0;
	two_ends(&a, &b);
	memset(bytes, 'x', sizeof bytes);
	buf_init_fixed(&body, bytes, sizeof bytes);
	body.len = sizeof bytes;
	for (; !a.ctl.out.len; n++)
		ctl_send(&a.ctl, 1, &body);
	assert_int_equal(ctl_take(&c.ctl, &a.ctl, &loop, &err), 0);
	assert_false(ctl_open(&a.ctl));
	ctl_send(&c.ctl, 2, NULL);
	until(&b.messages, n + 1);
	assert_int_equal(b.losses, 0);
	assert_int_equal(b.types[n % 64], 2);
	end_release(&a);
	end_release(&b);
	end_release(&c);
}

struct flood {
	struct end end;
	struct hand peer;
	int messages, timers;
};

#define BATCH 1000
#define EMPTY (20 + 5) /* bytes of an empty message in a frame */

static void send_batch(struct flood *f)
{
	static uint8_t wire[BATCH * EMPTY];
	for (uint8_t *p = wire; p < wire + sizeof wire; p += EMPTY) {
		put_u32(p, 5);
		put_u32(p + 4, f->peer.seq++);
		put_u64(p + 8, XXH3_64bits(p + 20, 5));
		put_u32(p + 16, (uint32_t)XXH3_64bits(p, 16));
	}
	raw(&f->peer, wire, sizeof wire);
}

/* As many arrive as are handled. */
static void flood_on(void *ctx, uint8_t type, struct view body)
{
	struct flood *f = ctx;
	(void)type, (void)body;
	assert_true(++f->messages < 1000 * BATCH);
	if (!f->timers && f->messages % BATCH == 0)
		send_batch(f);
}

static void on_timer(void *ctx)
{
	struct flood *f = ctx;
	f->timers++;
}

CTL_TEST(a_flood_of_messages_leaves_turns_to_timers)
{
	struct flood f = {0};
	struct loop_timer timer = {.fn = on_timer, .ctx = &f};
	struct err err = {0};
	int fd[2];
	sockets(fd);
	f.peer.fd = fd[0];
	f.end.ctl = (struct ctl){.on_message = flood_on, .on_lost = on_lost, .ctx = &f};
	assert_int_equal(ctl_start(&f.end.ctl, conn_tcp_new(fd[1], &err), &loop, &err), 0);
	loop_timer_set(&loop, &timer, clock_ns());
	for (int i = 0; i < 5; i++) /* more than a read takes */
		send_batch(&f);
	until(&f.timers, 1);
	/* What had arrived is handled to the end. */
	int sent = (int)f.peer.seq;
	until(&f.messages, sent);
	end_release(&f.end);
	close(fd[0]);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
