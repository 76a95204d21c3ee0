/*
 * The digest: the same however the bytes were cut into runs, windows and calls, and equal to its
 * definition, computed here from the whole array.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <xxhash.h>

#include "lib/data/digest.h"
#include "tests/unit/unit.h"

#define MIB ((uint64_t)1 << 20)

static uint64_t seed = 88172645463325252u;

static uint64_t next(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

/* The array, which stands for the file too. */
struct array {
	struct array_info info;
	char *bytes;
	uint64_t size;
	unsigned reads; /* how often it was read back */
	int fail;
};

static void make(struct array *a, uint64_t size)
{
	*a = (struct array){.size = size};
	a->info = (struct array_info){
	        .format = &format_raw, .dtype = DTYPE_U8, .ndim = 1, .shape = {size}};
	assert_int_equal(array_count(&a->info), 0);
	a->bytes = malloc(size + 1);
	for (uint64_t i = 0; i < size; i += 8) {
		uint64_t u = next();
		memcpy(a->bytes + i, &u, size - i < 8 ? size - i : 8);
	}
}

/* The digest of a single array. */
static struct digest *new_digest(const struct array_info *info)
{
	const struct tensor t = {.dtype = info->dtype,
	                         .ndim = info->ndim,
	                         .shape = info->shape,
	                         .count = info->count,
	                         .bytes = array_bytes(info)};
	return digest_new(&(const struct tensor *){&t}, 1);
}

static int read_back(void *ctx, void *buf, size_t bytes, uint64_t pos, struct err *err)
{
	struct array *a = ctx;
	if (a->fail)
		return err_set(err, ERR_OUTPUT, "x: cannot read back");
	assert_true(bytes <= DIGEST_PIECE && pos + bytes <= a->size);
	a->reads++;
	memcpy(buf, a->bytes + pos, bytes);
	return 0;
}

/* The definition, of @size bytes. */
static void define(const char *bytes, uint64_t size, const char *prefix, uint8_t out[DIGEST_BYTES])
{
	XXH3_state_t *state = XXH3_createState();
	XXH128_canonical_t c;
	XXH3_128bits_reset(state);
	XXH3_128bits_update(state, prefix, strlen(prefix));
	for (uint64_t at = 0; at < size; at += MIB) {
		uint64_t n = size - at < MIB ? size - at : MIB;
		XXH128_canonicalFromHash(&c, XXH3_128bits(bytes + at, n));
		XXH3_128bits_update(state, c.digest, sizeof c.digest);
	}
	XXH128_canonicalFromHash(&c, XXH3_128bits_digest(state));
	memcpy(out, c.digest, DIGEST_BYTES);
	XXH3_freeState(state);
}

static void defined(const struct array *a, const char *prefix, uint8_t out[DIGEST_BYTES])
{
	define(a->bytes, a->size, prefix, out);
}

static void final(struct digest *d, struct array *a, uint8_t out[DIGEST_BYTES])
{
	struct err err = {0};
	assert_int_equal(digest_final(d, read_back, a, (uint8_t(*)[DIGEST_BYTES])out, &err), 0);
	digest_free(d);
}

/* Finish @d, which reads back from @file: the result is the digest of @a. */
static void assert_digest(struct digest *d, const struct array *a, struct array *file)
{
	uint8_t expected[DIGEST_BYTES], found[DIGEST_BYTES];
	char prefix[64];
	snprintf(prefix, sizeof prefix, "u8 (%llu,)\n", (unsigned long long)a->size);
	defined(a, prefix, expected);
	final(d, file, found);
	assert_memory_equal(found, expected, DIGEST_BYTES);
}

static uint64_t end_of(const struct array *a, const uint64_t *starts, size_t nruns, size_t run)
{
	return run + 1 < nruns ? starts[run + 1] : a->size;
}

/* Feed the runs in turn, a random part of a random one at a time, each ascending. */
static void feed(struct digest *d, const struct array *a, const uint64_t *starts, size_t nruns,
                 uint64_t most)
{
	uint64_t *at = malloc(nruns * sizeof *at);
	memcpy(at, starts, nruns * sizeof *at);
	for (uint64_t left = a->size; left;) {
		size_t r = next() % nruns;
		uint64_t room = end_of(a, starts, nruns, r) - at[r];
		uint64_t n = next() % most + 1;
		n = n < room ? n : room;
		digest_update(d, at[r], a->bytes + at[r], n);
		at[r] += n;
		left -= n;
	}
	free(at);
}

static int by_value(const void *a, const void *b)
{
	uint64_t x, y;
	memcpy(&x, a, sizeof x);
	memcpy(&y, b, sizeof y);
	return x < y ? -1 : x > y;
}

TEST(test_any_cut)
{
	static const uint64_t sizes[] = {1,   8,       1000,    MIB - 1,
	                                 MIB, MIB + 1, 5 * MIB, 7 * MIB + 12345};
	for (size_t s = 0; s < LENGTH(sizes); s++) {
		struct array a;
		uint8_t expected[DIGEST_BYTES], found[DIGEST_BYTES];
		char prefix[64];
		make(&a, sizes[s]);
		snprintf(prefix, sizeof prefix, "u8 (%llu,)\n", (unsigned long long)sizes[s]);
		defined(&a, prefix, expected);
		for (size_t nruns = 1; nruns <= 12; nruns++) {
			/* Uneven runs, some of them empty. */
			uint64_t starts[12] = {0};
			for (size_t r = 1; r < nruns; r++)
				starts[r] = r % 4 == 3 ? starts[r - 1] : next() % a.size;
			qsort(starts, nruns, sizeof *starts, by_value);
			for (int most = 0; most < 3; most++) {
				struct digest *d = new_digest(&a.info);
				feed(d, &a, starts, nruns, a.size >> (2 * most) | 1);
				final(d, &a, found);
				assert_memory_equal(found, expected, DIGEST_BYTES);
			}
		}
		free(a.bytes);
	}
}

/* What came in order is not read back; of several runs beside each other, only the pieces that lie
 * in two. */
TEST(test_reads_back_little)
{
	struct array a;
	uint8_t one[DIGEST_BYTES], several[DIGEST_BYTES];
	const uint64_t starts[] = {0, MIB, 3 * MIB + 5, 3 * MIB + 9, 6 * MIB};
	make(&a, 8 * MIB + 3);
	struct digest *d = new_digest(&a.info);
	feed(d, &a, starts, 1, 3 * MIB);
	final(d, &a, one);
	assert_int_equal(a.reads, 0);
	d = new_digest(&a.info);
	feed(d, &a, starts, 5, MIB / 3);
	final(d, &a, several);
	assert_int_equal(a.reads, 1);
	assert_memory_equal(one, several, DIGEST_BYTES);
	free(a.bytes);
}

/* The parts of many pieces arrive in turn, each piece's in order. */
TEST(test_many_pieces_at_once)
{
	struct array a;
	make(&a, 40 * MIB);
	struct digest *d = new_digest(&a.info);
	for (uint64_t part = 0; part < 8; part++)
		for (uint64_t k = 40; k-- > 0;) {
			const uint64_t at = k * MIB + part * MIB / 8;
			digest_update(d, at, a.bytes + at, MIB / 8);
		}
	assert_digest(d, &a, &a);
	assert_int_equal(a.reads, 0);
	free(a.bytes);
}

/* After going back, the parts of the pieces may come again. A piece that stays in part is read
 * back. */
TEST(test_go_back)
{
	struct array a;
	make(&a, 4 * MIB);
	struct digest *d = new_digest(&a.info);
	char *wrong = calloc(1, 3 * MIB);
	digest_update(d, 0, wrong, 2 * MIB + 100); /* two pieces, and some of the third */
	digest_update(d, 3 * MIB, a.bytes + 3 * MIB, MIB);
	digest_go_back(d);
	digest_update(d, 2 * MIB + 100, a.bytes + 2 * MIB + 100, MIB - 100);
	digest_update(d, 0, a.bytes, MIB);
	digest_update(d, MIB, a.bytes + MIB, MIB - 1);
	assert_digest(d, &a, &a);
	assert_int_equal(a.reads, 2); /* the second and the third */
	free(wrong);
	free(a.bytes);
}

/* A piece that came with a gap or not at all, or was written again in part, is read back: what is
 * in the file counts. */
TEST(test_gaps_and_rewrites)
{
	struct array a;
	make(&a, 4 * MIB);
	struct digest *d = new_digest(&a.info);
	char *wrong = calloc(1, MIB);
	digest_update(d, 0, a.bytes, 100);
	digest_update(d, 200, a.bytes + 200, MIB - 200); /* a gap in the first piece */
	digest_update(d, MIB, a.bytes + MIB, MIB);
	digest_update(d, MIB + 10, a.bytes + MIB + 10, 10); /* some of the second once more */
	digest_update(d, 2 * MIB, wrong, MIB);
	digest_update(d, 2 * MIB, a.bytes + 2 * MIB, MIB); /* all of the third once more */
	assert_digest(d, &a, &a);
	assert_int_equal(a.reads, 3); /* the first, the second and the fourth */
	free(wrong);
	free(a.bytes);
}

/* Write @n bytes of @from at @at of the file, and add them. */
static void add(struct digest *d, struct array *file, uint64_t at, const char *from, uint64_t n)
{
	struct err err = {0};
	char buf[MIB / 8];
	digest_update(d, at, from, n);
	memcpy(file->bytes + at, from, n);
	assert_int_equal(
	        digest_settle(d, at, n, buf, 1 + next() % sizeof buf, read_back, file, &err), 0);
}

/* The second half of each piece comes before the first: it is read back once the piece is complete,
 * and nothing at the end. */
TEST(test_settle)
{
	struct array a, file;
	make(&a, 5 * MIB + 4);
	make(&file, a.size);
	struct digest *d = new_digest(&a.info);
	for (uint64_t at = 0; at < a.size; at += MIB) {
		const uint64_t size = a.size - at < MIB ? a.size - at : MIB, half = size / 2;
		const unsigned reads = file.reads;
		add(d, &file, at + half, a.bytes + at + half, size - half);
		assert_int_equal(file.reads, reads);
		add(d, &file, at, a.bytes + at, half);
		assert_true(file.reads > reads);
	}
	const unsigned reads = file.reads;
	assert_digest(d, &a, &file);
	assert_int_equal(file.reads, reads);
	free(file.bytes);
	free(a.bytes);
}

/* Parts in any order, some of them twice, with other bytes at first; and back. */
TEST(test_settle_any_order)
{
	enum { PARTS = 24 };
	for (int round = 0; round < 200; round++) {
		struct array a, file;
		uint64_t cut[PARTS + 1];
		make(&a, 2 * MIB + 99);
		make(&file, a.size);
		for (int i = 0; i <= PARTS; i++)
			cut[i] = i == 0 ? 0 : i == PARTS ? a.size : next() % a.size;
		qsort(cut, PARTS + 1, sizeof *cut, by_value);
		struct digest *d = new_digest(&a.info);
		char *wrong = calloc(1, a.size);
		for (uint64_t n = next() % (3 * PARTS); n-- > 0;) {
			const size_t i = next() % PARTS;
			add(d, &file, cut[i], (next() % 2 ? wrong : a.bytes) + cut[i],
			    cut[i + 1] - cut[i]);
			if (next() % 8 == 0)
				digest_go_back(d);
		}
		const size_t first = next() % PARTS, step = next() % 2 ? 1 : 5;
		for (size_t k = 0; k < PARTS; k++) {
			const size_t i = (first + k * step) % PARTS;
			add(d, &file, cut[i], a.bytes + cut[i], cut[i + 1] - cut[i]);
		}
		assert_digest(d, &a, &file);
		free(wrong);
		free(file.bytes);
		free(a.bytes);
	}
}

TEST(test_settle_error)
{
	struct array a;
	struct err err = {0};
	char buf[64];
	make(&a, 100);
	a.fail = 1;
	struct digest *d = new_digest(&a.info);
	digest_update(d, 50, a.bytes + 50, 50);
	assert_int_equal(digest_settle(d, 50, 50, buf, sizeof buf, read_back, &a, &err), 0);
	digest_update(d, 0, a.bytes, 50);
	assert_int_equal(digest_settle(d, 0, 50, buf, sizeof buf, read_back, &a, &err), -1);
	assert_int_equal(err.code, ERR_OUTPUT);
	digest_free(d);
	free(a.bytes);
}

TEST(test_nothing_added)
{
	struct array a;
	make(&a, MIB + 17);
	assert_digest(new_digest(&a.info), &a, &a);
	free(a.bytes);
}

TEST(test_depends_on)
{
	struct array a;
	uint8_t first[DIGEST_BYTES], other[DIGEST_BYTES];
	make(&a, 2 * MIB);
	final(new_digest(&a.info), &a, first);
	/* Every bit of the content, */
	for (int i = 0; i < 50; i++) {
		uint64_t at = next() % a.size;
		char bit = (char)(1 << next() % 8);
		a.bytes[at] ^= bit;
		final(new_digest(&a.info), &a, other);
		assert_memory_not_equal(first, other, DIGEST_BYTES);
		a.bytes[at] ^= bit;
	}
	/* the type, the shape. */
	a.info.dtype = DTYPE_I8;
	final(new_digest(&a.info), &a, other);
	assert_memory_not_equal(first, other, DIGEST_BYTES);
	a.info.dtype = DTYPE_U8;
	a.info.ndim = 2;
	a.info.shape[1] = 1;
	final(new_digest(&a.info), &a, other);
	assert_memory_not_equal(first, other, DIGEST_BYTES);
	free(a.bytes);
}

TEST(test_empty)
{
	struct array a;
	make(&a, 0);
	assert_digest(new_digest(&a.info), &a, &a);
	free(a.bytes);
}

TEST(test_read_error)
{
	struct array a;
	struct err err = {0};
	uint8_t out[DIGEST_BYTES];
	make(&a, 100);
	a.fail = 1;
	struct digest *d = new_digest(&a.info);
	assert_int_equal(digest_final(d, read_back, &a, &out, &err), -1);
	assert_int_equal(err.code, ERR_OUTPUT);
	digest_free(d);
	free(a.bytes);
}

/* The digest is part of a file's meaning: these values stay. */
TEST(test_known)
{
	struct array_info info = {.dtype = DTYPE_F32, .ndim = 2, .shape = {3, 4}, .count = 12};
	struct array a = {.size = 48, .bytes = calloc(1, 48)};
	uint8_t out[DIGEST_BYTES];
	char text[DIGEST_TEXT];
	final(new_digest(&info), &a, out);
	assert_string_equal(digest_text(out, text), "659af3dfa898a534aa53c765b4471cb2");
	free(a.bytes);
}

/* ---- several tensors ---- */

enum { MOST = 400 };

struct tensors {
	struct tensor t[MOST];
	const struct tensor *p[MOST];
	uint64_t shape[MOST][2];
	uint8_t expected[MOST][DIGEST_BYTES];
	size_t n;
	struct array all; /* their bytes, one tensor after another */
};

/* @n tensors of sizes around @about, some without bytes. */
static struct tensors *make_tensors(size_t n, uint64_t about)
{
	struct tensors *ts = calloc(1, sizeof *ts);
	uint64_t size = 0;
	ts->n = n;
	for (size_t i = 0; i < n; i++) {
		uint64_t rows = next() % 7 ? next() % (about / 4) : 0;
		ts->shape[i][0] = rows;
		ts->shape[i][1] = 2;
		ts->t[i] = (struct tensor){.dtype = DTYPE_I16,
		                           .ndim = 2,
		                           .shape = ts->shape[i],
		                           .count = 2 * rows,
		                           .bytes = 4 * rows};
		ts->p[i] = &ts->t[i];
		size += 4 * rows;
	}
	make(&ts->all, size);
	uint64_t at = 0;
	for (size_t i = 0; i < n; i++) {
		char prefix[64];
		snprintf(prefix, sizeof prefix, "i16 (%llu, 2)\n",
		         (unsigned long long)ts->shape[i][0]);
		define(ts->all.bytes + at, ts->t[i].bytes, prefix, ts->expected[i]);
		at += ts->t[i].bytes;
	}
	return ts;
}

static void free_tensors(struct tensors *ts)
{
	free(ts->all.bytes);
	free(ts);
}

static void assert_digests(struct tensors *ts, struct digest *d)
{
	struct err err = {0};
	uint8_t found[MOST][DIGEST_BYTES];
	assert_int_equal(digest_final(d, read_back, &ts->all, found, &err), 0);
	for (size_t i = 0; i < ts->n; i++)
		assert_memory_equal(found[i], ts->expected[i], DIGEST_BYTES);
	digest_free(d);
}

TEST(test_tensors_any_cut)
{
	static const struct {
		size_t n;
		uint64_t about;
	} sets[] = {{1, 3 * MIB}, {2, 3 * MIB}, {9, 2 * MIB}, {40, 100000}, {MOST, 4096}, {3, 8}};
	for (int round = 0; round < 60; round++) {
		size_t s = (size_t)round % LENGTH(sets);
		struct tensors *ts = make_tensors(sets[s].n, sets[s].about);
		uint64_t starts[8] = {0}, size = ts->all.size;
		size_t nruns = next() % 8 + 1;
		for (size_t r = 1; r < nruns; r++)
			starts[r] = size ? next() % size : 0;
		qsort(starts, nruns, sizeof *starts, by_value);
		struct digest *d = digest_new(ts->p, ts->n);
		feed(d, &ts->all, starts, nruns, size >> next() % 8 | 1);
		assert_digests(ts, d);
		free_tensors(ts);
	}
}

/* Nothing is read back of what came in order in one run, however many tensors a call brings; and
 * what came in leaps is. */
TEST(test_tensors_read_back)
{
	struct tensors *ts = make_tensors(MOST, 30000);
	const char *bytes = ts->all.bytes;
	uint64_t size = ts->all.size, half = ts->t[0].bytes;
	struct digest *d = digest_new(ts->p, ts->n);
	for (uint64_t at = 0, n; at < size; at += n) {
		n = size - at < 4 * MIB ? size - at : 4 * MIB;
		digest_update(d, at, bytes + at, n);
	}
	assert_digests(ts, d);
	assert_int_equal(ts->all.reads, 0);

	for (size_t i = 1; i < MOST / 2; i++)
		half += ts->t[i].bytes;
	d = digest_new(ts->p, ts->n);
	digest_update(d, half, bytes + half, size - half);
	digest_update(d, 0, bytes, half);
	assert_digests(ts, d);
	assert_int_equal(ts->all.reads, 0);

	uint64_t skip = size - ts->t[MOST - 1].bytes - ts->t[MOST - 2].bytes;
	d = digest_new(ts->p, ts->n);
	digest_update(d, 0, bytes, skip);
	assert_digests(ts, d);
	assert_int_equal(ts->all.reads,
	                 (ts->t[MOST - 1].bytes != 0) + (ts->t[MOST - 2].bytes != 0));
	free_tensors(ts);
}

/* More pieces that have arrived in part than may have a state: the others are read back. */
TEST(test_many_parts)
{
	enum { N = 5000 };
	const uint64_t shape[] = {3};
	const struct tensor t = {
	        .dtype = DTYPE_U8, .ndim = 1, .shape = shape, .count = 3, .bytes = 3};
	const struct tensor **tensors = calloc(N, sizeof *tensors);
	uint8_t(*found)[DIGEST_BYTES] = calloc(N, sizeof *found), expected[DIGEST_BYTES];
	struct err err = {0};
	struct array a;
	make(&a, 3 * N);
	for (size_t i = 0; i < N; i++)
		tensors[i] = &t;
	struct digest *d = digest_new(tensors, N);
	for (uint64_t i = 0; i < N; i++)
		digest_update(d, 3 * i, a.bytes + 3 * i, 1);
	for (uint64_t i = N; i-- > 0;)
		digest_update(d, 3 * i + 1, a.bytes + 3 * i + 1, 2);
	assert_int_equal(digest_final(d, read_back, &a, found, &err), 0);
	assert_in_range(a.reads, 1, N / 2);
	for (size_t i = 0; i < N; i++) {
		define(a.bytes + 3 * i, 3, "u8 (3,)\n", expected);
		assert_memory_equal(found[i], expected, DIGEST_BYTES);
	}
	digest_free(d);
	free(a.bytes);
	free(found);
	free(tensors);
}

TEST(test_no_tensors)
{
	struct err err = {0};
	struct digest *d = digest_new(NULL, 0);
	digest_update(d, 0, "", 0);
	assert_int_equal(digest_final(d, NULL, NULL, NULL, &err), 0);
	digest_free(d);
}

/* Sizes that can't be: no memory rather than an overflow. */
TEST(test_too_large)
{
	const uint64_t shape[] = {UINT64_C(1) << 63};
	const struct tensor t = {.dtype = DTYPE_U8, .ndim = 1, .shape = shape, .bytes = shape[0]};
	const struct tensor *both[] = {&t, &t};
	assert_null(digest_new(both, 2));
}

TEST(test_names)
{
	const char *names[] = {"a", "b.weight"}, *none[] = {""};
	uint8_t digests[2][DIGEST_BYTES], out[DIGEST_BYTES];
	char text[2 + 9 + 2 * DIGEST_BYTES];
	XXH128_canonical_t c;
	memset(digests[0], 0x11, DIGEST_BYTES);
	memset(digests[1], 0xfe, DIGEST_BYTES);
	memcpy(text, "a", 2);
	memcpy(text + 2, digests[0], DIGEST_BYTES);
	memcpy(text + 18, "b.weight", 9);
	memcpy(text + 27, digests[1], DIGEST_BYTES);
	assert_int_equal(digest_names(names, (const void *)digests, 2, out), 0);
	XXH128_canonicalFromHash(&c, XXH3_128bits(text, sizeof text));
	assert_memory_equal(out, c.digest, DIGEST_BYTES);
	/* One with a name isn't one without. */
	assert_int_equal(digest_names(none, (const void *)digests, 1, out), 0);
	assert_memory_equal(out, digests[0], DIGEST_BYTES);
	assert_int_equal(digest_names(names, (const void *)digests, 1, out), 0);
	XXH128_canonicalFromHash(&c, XXH3_128bits(text, 2 + DIGEST_BYTES));
	assert_memory_equal(out, c.digest, DIGEST_BYTES);
	assert_int_equal(digest_names(NULL, NULL, 0, out), 0);
	XXH128_canonicalFromHash(&c, XXH3_128bits("", 0));
	assert_memory_equal(out, c.digest, DIGEST_BYTES);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
