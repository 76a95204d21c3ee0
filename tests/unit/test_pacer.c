/* The pacer: a bucket of tokens at given times; connections that share a limit. */
#include <sys/socket.h>
#include <unistd.h>

#include "lib/net/conn.h"
#include "lib/net/pacer.h"
#include "tests/unit/unit.h"

#define SECOND NS_PER_SEC

/* ---- the bucket ---- */

TEST(a_bucket_begins_full)
{
	struct bucket b;
	bucket_init(&b, 20u << 20, 5);
	assert_int_equal(bucket_has(&b, 5), 1 << 20);
	bucket_init(&b, 100, 5);
	assert_int_equal(bucket_has(&b, 5), PACER_PIECE);
}

TEST(tokens_accrue_up_to_the_burst)
{
	struct bucket b;
	bucket_init(&b, 1000000, 0);
	bucket_take(&b, bucket_has(&b, 0));
	assert_int_equal(bucket_has(&b, 0), 0);
	assert_int_equal(bucket_has(&b, SECOND / 1000), 1000);
	assert_int_equal(bucket_has(&b, SECOND / 100), 10000);
	bucket_take(&b, 4000);
	assert_int_equal(bucket_has(&b, SECOND / 100), 6000);
	assert_int_equal(bucket_has(&b, 100 * SECOND), 50000);
}

TEST(parts_of_tokens_count)
{
	struct bucket b;
	uint64_t taken = 0;
	bucket_init(&b, 3, 0);
	bucket_take(&b, bucket_has(&b, 0));
	for (int64_t now = 0; now <= 7 * SECOND; now += SECOND / 10) {
		uint64_t n = bucket_has(&b, now);
		bucket_take(&b, n);
		taken += n;
	}
	assert_in_range(taken, 20, 21);
}

TEST(it_knows_when_there_is_a_token)
{
	struct bucket b;
	bucket_init(&b, 4, 0);
	assert_int_equal(bucket_ready(&b), 0);
	bucket_take(&b, bucket_has(&b, 0));
	int64_t at = bucket_ready(&b);
	assert_in_range(at, SECOND / 4, SECOND / 4 + 2);
	assert_int_equal(bucket_has(&b, at / 2), 0);
	assert_int_equal(bucket_has(&b, at), 1);
}

TEST(no_time_passes_more_than_rate_and_burst)
{
	const uint64_t rate = 123457;
	uint64_t random = 1, taken = 0;
	int64_t now = 0;
	struct bucket b;
	bucket_init(&b, rate, now);
	for (int i = 0; i < 10000; i++) {
		random = random * 6364136223846793005u + 1442695040888963407u;
		now += (int64_t)(random >> 40) % (SECOND / 50);
		uint64_t has = bucket_has(&b, now), n = random >> 20 & 1 ? has : has / 3;
		bucket_take(&b, n);
		taken += n;
		assert_true((double)taken <= (double)rate * (double)now / SECOND + PACER_PIECE + 1);
	}
}

/* ---- connections ---- */

#define LANES 3
#define BYTES (64u << 10)

struct lane {
	struct conn *out, *in;
	size_t sent, received;
};

static struct loop loop;
static struct lane lanes[LANES];

static void flow(void *ctx)
{
	static uint8_t buf[BYTES];
	struct lane *l = ctx;
	struct err err = {0};
	ssize_t n;
	while (l->sent < BYTES && (n = conn_write(l->out, buf, BYTES - l->sent, &err)) != 0) {
		assert_true(n > 0);
		l->sent += (size_t)n;
	}
	assert_true(conn_flush(l->out, &err) >= 0);
	while ((n = conn_read(l->in, buf, BYTES, &err)) > 0)
		l->received += (size_t)n;
	assert_int_equal(n, 0);
}

static void open_lane(struct lane *l, struct pacer *p)
{
	struct err err = {0};
	int fds[2];
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fds), 0);
	*l = (struct lane){.out = conn_tcp_new(fds[0], &err), .in = conn_tcp_new(fds[1], &err)};
	assert_int_equal(conn_watch(l->out, &loop, flow, l, &err), 0);
	assert_int_equal(conn_watch(l->in, &loop, flow, l, &err), 0);
	pacer_add(p, l->out);
}

static size_t received(void)
{
	size_t sum = 0;
	for (int i = 0; i < LANES; i++)
		sum += lanes[i].received;
	return sum;
}

TEST(connections_share_the_limit)
{
	const uint64_t rate = 256u << 10;
	struct err err = {0};
	struct pacer p;
	assert_int_equal(loop_init(&loop, &err), 0);
	int64_t began = clock_ns();
	pacer_init(&p, &loop, rate);
	for (int i = 0; i < LANES; i++)
		open_lane(&lanes[i], &p);
	while (received() < LANES * BYTES) {
		assert_int_equal(loop_turn(&loop, INT64_MAX, &err), 0);
		double s = (double)(clock_ns() - began) / SECOND;
		assert_true((double)received() <= (double)rate * s + PACER_PIECE);
		/* None is far behind: the others have had at most a turn more each, and the first
		 * has had the burst. */
		for (int i = 0; i < LANES; i++)
			assert_true(lanes[i].sent + PACER_PIECE + 2 * PACER_PIECE >=
			            received() / LANES);
	}
	for (int i = 0; i < LANES; i++) {
		conn_free(lanes[i].out);
		conn_free(lanes[i].in);
	}
	pacer_release(&p);
	loop_release(&loop);
}

TEST(a_connection_that_waits_can_be_freed)
{
	struct err err = {0};
	struct pacer p;
	assert_int_equal(loop_init(&loop, &err), 0);
	pacer_init(&p, &loop, 1);
	for (int i = 0; i < LANES; i++) {
		open_lane(&lanes[i], &p);
		lanes[i].out->writable = true;
		flow(&lanes[i]);
	}
	assert_int_equal(p.waiting, LANES);
	conn_free(lanes[1].out);
	conn_free(lanes[2].out);
	assert_int_equal(p.waiting, 1);
	conn_free(lanes[0].out);
	assert_int_equal(p.waiting, 0);
	for (int i = 0; i < LANES; i++)
		conn_free(lanes[i].in);
	pacer_release(&p);
	loop_release(&loop);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
