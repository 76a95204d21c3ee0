/*
 * What a peer may send over a coded lane. The first byte says how much arrives, and is asked for,
 * at a time. Whatever comes, no more than a piece is decoded at once, and the end is the
 * announced one or ERR_INTEGRITY; what is decoded can be written again, and comes back.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/exec/coded.h"
#include "tests/fuzz/check.h"
#include "tests/unit/conn_memory.h"

#define PIECE 4096
#define MOST  (1u << 20) /* bytes that a test decodes */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerInitialize(int *argc, char ***argv);

static struct coder *coder;

int LLVMFuzzerInitialize(int *argc, char ***argv)
{
	(void)argc;
	(void)argv;
	CHECK(coder = coder_new(true, NULL));
	return 0;
}

/* Read all that @r brings into @to[MOST]. Returns the number of bytes. */
static size_t read_all(struct conn *r, size_t quantum, uint8_t *to, struct coded_count *count)
{
	struct err err = ERR_INIT;
	struct conn *in = coded_new(r, coder, false, PIECE, count, &err);
	size_t n = 0;
	ssize_t got = 0;
	CHECK(in);
	while (got >= 0 && n + quantum <= MOST) {
		got = conn_read(in, to + n, quantum, &err);
		CHECK(got <= (ssize_t)quantum && got <= PIECE);
		n += got > 0 ? (size_t)got : 0;
	}
	CHECK(got >= 0 || (got == CONN_END) == !err.code);
	CHECK(!err.code || (err.text[0] && (err.code == ERR_INTEGRITY || !coder_has_zstd(coder))));
	coded_free(in);
	return n;
}

static void write_again(const uint8_t *bytes, size_t n, size_t quantum, uint8_t *to)
{
	struct coded_count count = {0};
	struct err err = ERR_INIT;
	struct conn *w, *r;
	size_t put = 0;
	CHECK(conn_memory_pair(&w, &r, 2 * MOST, 0, 0, &err) == 0);
	struct conn *out = coded_new(w, coder, true, PIECE, &count, &err);
	CHECK(out);
	coded_set_width(out, (unsigned)quantum % 2 * 2);
	while (put < n) {
		ssize_t took = conn_write(out, bytes + put, n - put, &err);
		CHECK(took > 0);
		put += (size_t)took;
	}
	CHECK(conn_end(out, &err) == 1);
	coded_free(out);
	CHECK(read_all(r, quantum, to, &count) == n && memcmp(bytes, to, n) == 0);
	conn_free(w);
	conn_free(r);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static uint8_t plain[MOST], again[MOST];
	struct coded_count count = {0};
	struct err err = ERR_INIT;
	struct conn *w, *r;
	if (size < 2)
		return 0;
	const size_t quantum = 1 + data[0] * (size_t)40;
	CHECK(conn_memory_pair(&w, &r, size, quantum, data[0] & 1 ? data[0] : 0, &err) == 0);
	((struct conn_memory *)w)->ring->quantum = 0;
	((struct conn_memory *)w)->ring->random = 0;
	CHECK(conn_write(w, data + 1, size - 1, &err) == (ssize_t)size - 1);
	CHECK(conn_end(w, &err) == 1);
	((struct conn_memory *)w)->ring->quantum = quantum;
	const size_t n = read_all(r, quantum, plain, &count);
	conn_free(w);
	conn_free(r);
	if (n && n + quantum <= MOST)
		write_again(plain, n, quantum, again);
	return 0;
}
