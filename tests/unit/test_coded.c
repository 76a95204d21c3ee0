/* Coded lanes over connections in memory: what is written is read, whatever the sizes of pieces,
 * reads and writes are; and what no coded lane sends is refused. */
#include <string.h>

#include "lib/base/buf.h"
#include "lib/exec/coded.h"
#include "tests/unit/conn_memory.h"
#include "tests/unit/unit.h"

#define N     100000 /* bytes of a stream */
#define PIECE 4096

static struct coder *coder;
static uint8_t plain[N], back[N];
static uint64_t random_state;

static uint64_t draw(void)
{
	random_state += 0x9e3779b97f4a7c15u;
	uint64_t x = random_state;
	x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9u;
	x = (x ^ (x >> 27)) * 0x94d049bb133111ebu;
	return x ^ (x >> 31);
}

static int set_up(void **state)
{
	(void)state;
	random_state = 1;
	coder = coder_new(true, NULL);
	return coder ? 0 : -1;
}

static int tear_down(void **state)
{
	(void)state;
	coder_free(coder);
	return 0;
}

/* Elements as weights have: the upper byte of each has few values. */
static void make_weights(unsigned width)
{
	for (size_t i = 0; i < N; i++)
		plain[i] = (uint8_t)(i % width == width - 1 ? 0x3c + draw() % 4 : draw());
}

static void transfer(size_t capacity, size_t quantum, size_t piece, unsigned width)
{
	struct conn *w, *r, *out, *in;
	struct coded_count sent = {0}, received = {0};
	struct err err = ERR_INIT;
	size_t put = 0, got = 0;
	assert_int_equal(conn_memory_pair(&w, &r, capacity, quantum, draw() | 1, &err), 0);
	out = coded_new(w, coder, true, piece, &sent, &err);
	in = coded_new(r, coder, false, piece, &received, &err);
	assert_true(out && in);
	coded_set_width(out, width);
	bool ended = false;
	ssize_t n = 0;
	while (n != CONN_END) {
		n = put < N ? conn_write(out, plain + put, 1 + draw() % (N - put), &err) : 0;
		assert_true(n >= 0 && n <= (ssize_t)piece);
		put += (size_t)n;
		assert_true(conn_flush(out, &err) >= 0);
		if (put == N && !ended)
			ended = conn_end(out, &err) == 1;
		n = conn_read(in, back + got, got < N ? 1 + draw() % (N - got) : 1, &err);
		assert_true(n >= 0 || n == CONN_END);
		got += n > 0 ? (size_t)n : 0;
	}
	assert_int_equal(got, N);
	assert_memory_equal(back, plain, N);
	assert_int_equal(sent.plain, N);
	assert_int_equal(received.plain, N);
	assert_int_equal(sent.coded, received.coded);
	if (width && coder_has_zstd(coder) && piece >= 4096 && capacity > PIECE)
		assert_true(sent.coded < N);
	coded_free(out);
	coded_free(in);
	conn_free(w);
	conn_free(r);
}

TEST(what_is_written_is_read)
{
	static const unsigned widths[] = {0, 1, 2, 4, 8};
	for (size_t i = 0; i < LENGTH(widths); i++) {
		make_weights(widths[i] ? widths[i] : 2);
		transfer(1, 0, PIECE, widths[i]);
		transfer(64, 7, 64, widths[i]);
		transfer(65536, 0, PIECE, widths[i]);
		transfer(1 << 20, 0, CODED_PIECE_MAX, widths[i]);
	}
}

/* A piece that cannot be shortened costs its heads alone. */
TEST(random_bytes_stay_as_they_are)
{
	struct conn *w, *r, *out;
	struct coded_count n = {0};
	struct err err = ERR_INIT;
	for (size_t i = 0; i < N; i++)
		plain[i] = (uint8_t)draw();
	assert_int_equal(conn_memory_pair(&w, &r, 1 << 20, 0, 0, &err), 0);
	assert_non_null(out = coded_new(w, coder, true, CODED_PIECE_MAX, &n, &err));
	assert_int_equal(conn_write(out, plain, N, &err), N);
	assert_int_equal(n.coded, N + 4 + CODING_HEAD);
	coded_free(out);
	conn_free(w);
	conn_free(r);
}

/* ---- a peer that lies ---- */

/* Read what is in @b, and then the end. Returns the last result. */
static ssize_t read_all(const struct buf *b, struct err *err)
{
	struct conn *w, *r, *in;
	struct coded_count n = {0};
	uint8_t piece[PIECE];
	ssize_t got;
	*err = (struct err)ERR_INIT;
	assert_int_equal(conn_memory_pair(&w, &r, 1 << 20, 0, 0, err), 0);
	assert_non_null(in = coded_new(r, coder, false, PIECE, &n, err));
	assert_int_equal(conn_write(w, b->data, b->len, err), b->len);
	assert_int_equal(conn_end(w, err), 1);
	while ((got = conn_read(in, piece, 100, err)) >= 0)
		assert_true(got > 0);
	coded_free(in);
	conn_free(w);
	conn_free(r);
	return got;
}

static void put_head(struct buf *b, uint32_t length, enum coding coding, uint32_t bytes)
{
	buf_put_u32(b, length);
	buf_put_u8(b, (uint8_t)coding);
	buf_put_u8(b, 0);
	buf_put_u16(b, 0);
	buf_put_u32(b, bytes);
}

TEST(what_no_coded_lane_sends_is_refused)
{
	static const struct {
		uint32_t length;
		enum coding coding;
		uint32_t bytes; /* that the piece says */
		size_t follow;
		const char *says; /* NULL: it is right */
	} cases[] = {
	        {CODING_HEAD + 5, CODING_RAW, 5, 5, NULL},
	        {CODING_HEAD + PIECE, CODING_RAW, PIECE, PIECE, NULL},
	        {CODING_HEAD - 1, CODING_RAW, 5, 5, "7 bytes"},
	        {0, CODING_RAW, 5, 5, "0 bytes"},
	        {UINT32_MAX, CODING_RAW, 5, 5, "4294967295 bytes"},
	        {CODING_HEAD + PIECE + 1, CODING_RAW, PIECE + 1, PIECE + 1, "bytes"},
	        {CODING_HEAD, CODING_RAW, 0, 0, "0 bytes"},
	        {CODING_HEAD + 5, CODING_ZSTD, PIECE + 1, 5, "4097 bytes"},
	        {CODING_HEAD + 5, CODING_ZSTD, UINT32_MAX, 5, "4294967295 bytes"},
	        {CODING_HEAD + 5, CODING_RAW, 6, 5, "it ends before the piece"},
	        {CODING_HEAD + 6, CODING_RAW, 5, 6, "1 bytes follow its end"},
	        {CODING_HEAD + 9, CODING_RAW, 9, 5, "the stream ends within a coded piece"},
	        {CODING_HEAD, CODING_EQUAL, 5, 0, "needs a base"},
	        {CODING_HEAD + 5, CODINGS, 5, 5, "is not known"},
	};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct err err;
		struct buf b;
		buf_init(&b, 1 << 20);
		put_head(&b, cases[i].length, cases[i].coding, cases[i].bytes);
		buf_put(&b, plain, cases[i].follow);
		const ssize_t got = read_all(&b, &err);
		buf_release(&b);
		if (!cases[i].says && got != CONN_END)
			fail_msg("case %zu: %s", i, err.text);
		if (cases[i].says &&
		    (got != -1 || err.code != ERR_INTEGRITY || !strstr(err.text, cases[i].says)))
			fail_msg("case %zu: %d: %s", i, err.code, err.text);
	}
}

int main(void)
{
	return unit_run(set_up, tear_down);
}
