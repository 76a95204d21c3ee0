/* Pieces of tensors on all ranks: do they have every element once, who sends which, and what comes
 * in from a peer. */
#include <stdlib.h>
#include <string.h>

#include "lib/coll/agreement/piece_table.h"
#include "lib/coll/files/shards.h"
#include "lib/data/torch/cover.h"
#include "tests/unit/unit.h"

/* ---- do boxes have every element once? ---- */

#define SIDE 6

struct box {
	uint64_t first[3], size[3];
};

static const uint64_t cube[] = {SIDE, SIDE, SIDE};

static int has(const struct box *b, int ndim, const uint64_t at[3])
{
	for (int i = 0; i < ndim; i++)
		if (at[i] < b->first[i] || at[i] >= b->first[i] + b->size[i])
			return 0;
	return 1;
}

/* How many boxes have the element. */
static int count_at(const struct box *b, size_t n, int ndim, const uint64_t at[3])
{
	int count = 0;
	for (size_t i = 0; i < n; i++)
		count += has(&b[i], ndim, at);
	return count;
}

/* The answer, checked by counting at every element. */
static enum cover cover_of(const struct box *b, size_t n, int ndim)
{
	static struct cover_found f;
	struct cover_box boxes[64];
	struct err err = ERR_INIT;
	int holes = 0, twice = 0;
	for (size_t i = 0; i < n; i++)
		boxes[i] = (struct cover_box){b[i].first, b[i].size};
	assert_int_equal(cover_check(cube, ndim, boxes, n, &f, &err), 0);
	for (uint64_t i = 0, all = ndim == 1   ? SIDE
	                           : ndim == 2 ? SIDE * SIDE
	                                       : SIDE * SIDE * SIDE;
	     i < all; i++) {
		const uint64_t at[3] = {i % SIDE, i / SIDE % SIDE, i / SIDE / SIDE};
		const struct box place = {{f.first[0], f.first[1], f.first[2]},
		                          {f.size[0], f.size[1], f.size[2]}};
		const int count = count_at(b, n, ndim, at);
		holes += count == 0;
		twice += count > 1;
		if (f.cover == COVER_HOLE && has(&place, ndim, at))
			assert_int_equal(count, 0);
		if (f.cover == COVER_TWICE && has(&place, ndim, at))
			assert_true(f.a < f.b && has(&b[f.a], ndim, at) && has(&b[f.b], ndim, at));
	}
	if (f.cover == COVER_ONCE)
		assert_true(!holes && !twice);
	else
		assert_true(f.cover == COVER_HOLE ? holes : twice);
	return f.cover;
}

static uint32_t seed = 1;

static uint64_t draw(uint64_t below)
{
	seed = seed * 1664525u + 1013904223u;
	return (seed >> 8) % below;
}

/* Cut the box at a place of an axis, if it is longer than one element there. */
static size_t cut(struct box *b, size_t n)
{
	const size_t i = (size_t)draw(n), axis = (size_t)draw(3);
	if (b[i].size[axis] < 2)
		return n;
	const uint64_t at = 1 + draw(b[i].size[axis] - 1);
	b[n] = b[i];
	b[n].first[axis] += at;
	b[n].size[axis] -= at;
	b[i].size[axis] = at;
	return n + 1;
}

TEST(every_cut_of_a_tensor_covers_it_and_no_less_or_more_does)
{
	for (int round = 0; round < 3000; round++) {
		struct box b[33] = {{.size = {SIDE, SIDE, SIDE}}};
		size_t n = 1;
		for (uint64_t k = draw(30); k > 0; k--)
			n = cut(b, n);
		assert_int_equal(cover_of(b, n, 3), COVER_ONCE);
		const size_t i = (size_t)draw(n), axis = (size_t)draw(3);
		const struct box was = b[i];
		b[i] = b[n - 1];
		assert_int_equal(cover_of(b, n - 1, 3), COVER_HOLE);
		b[n - 1] = b[i];
		b[i] = was;
		if (b[i].first[axis] > 0) {
			b[i].first[axis]--;
			b[i].size[axis]++;
			assert_int_equal(cover_of(b, n, 3), COVER_TWICE);
		} else if (b[i].size[axis] > 1) {
			b[i].first[axis]++;
			b[i].size[axis]--;
			assert_int_equal(cover_of(b, n, 3), COVER_HOLE);
		}
		b[i] = was;
		b[n] = was;
		assert_int_equal(cover_of(b, n + 1, 3), COVER_TWICE);
	}
}

TEST(boxes_of_few_axes)
{
	const struct box b[] = {{.first = {0}, .size = {2}}, {.first = {2}, .size = {4}}};
	const uint64_t none[] = {0, 3};
	static struct cover_found f;
	struct cover_box box = {none, none};
	struct err err = ERR_INIT;
	assert_int_equal(cover_of(b, 2, 1), COVER_ONCE);
	assert_int_equal(cover_of(b, 1, 1), COVER_HOLE);
	assert_int_equal(cover_of(b + 1, 1, 1), COVER_HOLE);
	assert_int_equal(cover_of(b, 0, 1), COVER_HOLE);
	assert_int_equal(cover_check(none, 2, NULL, 0, &f, &err), 0); /* nothing to cover */
	assert_int_equal(f.cover, COVER_ONCE);
	assert_int_equal(cover_check(NULL, 0, &box, 1, &f, &err), 0);
	assert_int_equal(f.cover, COVER_ONCE);
	assert_int_equal(cover_check(NULL, 0, NULL, 0, &f, &err), 0);
	assert_int_equal(f.cover, COVER_HOLE);
}

TEST(boxes_beside_a_place)
{
	const uint64_t first[] = {2, 2}, size[] = {2, 2};
	const struct {
		uint64_t first[2], size[2];
		bool touches;
	} cases[] = {
	        {{0, 2}, {2, 2}, true},  {{4, 0}, {1, 3}, true}, {{0, 0}, {2, 2}, false},
	        {{5, 2}, {1, 2}, false}, {{2, 4}, {2, 1}, true}, {{0, 4}, {2, 1}, false},
	};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		const struct cover_box b = {cases[i].first, cases[i].size};
		assert_int_equal(cover_touches(first, size, &b, 2), cases[i].touches);
	}
}

/* ---- tables ---- */

#define RANKS 3

struct row {
	const char *name;
	enum dtype dtype;
	int ndim;
	uint64_t first[2], size[2], whole[2];
	int kind; /* 0: whole; 1: a piece of a known whole; 2: of an unknown one */
};

/* Encode @rows[n]. */
static void put(struct buf *b, const struct row *rows, size_t n)
{
	struct tensor t[8];
	const struct tensor *v[8];
	struct err err = ERR_INIT;
	for (size_t i = 0; i < n; i++) {
		const struct row *r = &rows[i];
		t[i] = (struct tensor){.name = r->name,
		                       .dtype = r->dtype,
		                       .ndim = r->ndim,
		                       .shape = r->size,
		                       .first = r->kind ? r->first : NULL,
		                       .whole = r->kind == 1 ? r->whole : NULL,
		                       .count = 1};
		for (int k = 0; k < r->ndim; k++)
			t[i].count *= r->size[k];
		t[i].bytes = t[i].count * dtype_size(r->dtype);
		v[i] = &t[i];
	}
	qsort(v, n, sizeof *v, piece_table_order);
	assert_int_equal(piece_table_put(b, v, n, &err), 0);
	assert_false(b->failed);
}

/* Settle the tables of the ranks: @counts[r] of @rows are rank r's. Returns the error's code. */
static int settle(struct piece_table *t, const struct row *rows, const size_t counts[RANKS],
                  struct err *err)
{
	*err = ERR_INIT;
	assert_int_equal(piece_table_init(t, RANKS, 1u << 20, err), 0);
	for (int r = 0; r < RANKS; rows += counts[r++]) {
		struct buf b;
		buf_init(&b, 1u << 20);
		put(&b, rows, counts[r]);
		assert_int_equal(piece_table_add(t, r, view_of(b.data, b.len), err), 0);
		buf_release(&b);
	}
	piece_table_settle(t, err);
	return err->code;
}

TEST(ranks_send_their_pieces_by_name_and_place)
{
	const struct row rows[] = {
	        {"b", DTYPE_F32, 2, {0, 0}, {1, 4}, {3, 4}, 1},
	        {"a", DTYPE_F32, 2, {0, 0}, {3, 2}, {0}, 2},
	        {"b", DTYPE_F32, 2, {1, 0}, {2, 4}, {3, 4}, 1},
	        {"c", DTYPE_BF16, 0, {0}, {0}, {0}, 0},
	        {"a", DTYPE_F32, 2, {0, 2}, {3, 1}, {0}, 2},
	        {"b", DTYPE_F32, 2, {1, 0}, {2, 4}, {3, 4}, 1},
	        {"c", DTYPE_BF16, 0, {0}, {0}, {0}, 0},
	        {"d", DTYPE_I64, 2, {0, 0}, {0, 5}, {0}, 2},
	};
	const size_t counts[] = {2, 2, 4};
	struct piece_table t;
	struct err err;
	assert_int_equal(settle(&t, rows, counts, &err), 0);
	assert_int_equal(t.ntensors, 4);
	assert_string_equal(t.tensors[0].tensor.name, "a");
	assert_int_equal(t.tensors[0].tensor.shape[1], 3);
	assert_int_equal(t.tensors[3].tensor.shape[0], 0); /* without elements */
	assert_int_equal(t.tensors[3].tensor.shape[1], 5);
	assert_int_equal(t.rows[0], 24 + 16);
	assert_int_equal(t.rows[1], 32 + 2); /* the lowest of those that have "b" and "c" */
	assert_int_equal(t.rows[2], 12);
	assert_int_equal(t.pieces.n, 7);
	for (size_t i = 0; i < t.pieces.n; i++)
		assert_int_equal(t.pieces.v[t.pieces.v[i].chosen].chosen, t.pieces.v[i].chosen);
	piece_table_release(&t);
}

/* Two ranks have @a and @b, and rank 2 nothing: the code and the text. */
static void clash(struct row a, struct row b, int code, int culprit, const char *text)
{
	const struct row rows[] = {a, b};
	const size_t counts[] = {1, 1, 0};
	struct piece_table t;
	struct err err;
	assert_int_equal(settle(&t, rows, counts, &err), code);
	assert_int_equal(err.rank, culprit);
	if (!strstr(err.text, text))
		fail_msg("'%s' has no '%s'", err.text, text);
	piece_table_release(&t);
}

TEST(what_does_not_make_whole_tensors)
{
	const struct row a = {"w", DTYPE_F32, 2, {0, 0}, {2, 4}, {4, 4}, 1};
	struct row b = {"w", DTYPE_F32, 2, {2, 0}, {2, 4}, {4, 4}, 1};
	clash(a, b, 0, ERR_RANK_SELF, "");
	b.size[1] = 3;
	clash(a, b, ERR_INPUT, ERR_RANK_SELF,
	      "tensor 'w' (4, 4): no rank has [2:4, 3:4]; ranks 0, 1 have the pieces beside it");
	b.first[0] = 1;
	clash(a, b, ERR_DISAGREE, 1,
	      "piece [1:3, 0:3] of rank 1 has elements of piece [0:2, 0:4] of rank 0");
	b.dtype = DTYPE_F16;
	clash(a, b, ERR_DISAGREE, 1, "tensor 'w': dtype f16 differs from f32 on rank 0");
	b.dtype = DTYPE_F32;
	b.whole[0] = 5;
	clash(a, b, ERR_DISAGREE, 1, "tensor 'w': shape (5, 4) differs from (4, 4) on rank 0");
	b.kind = 2;
	b.first[1] = 2;
	clash(a, b, ERR_DISAGREE, 1,
	      "shape (3, 5), which its pieces need, differs from (4, 4) on rank 0");
	clash((struct row){"w", DTYPE_F32, 2, {0, 0}, {1, INT64_MAX / 8}, {0}, 2},
	      (struct row){"w", DTYPE_F32, 2, {2, 0}, {1, 1}, {0}, 2}, ERR_INPUT, ERR_RANK_SELF,
	      "too large");
	clash((struct row){"w\x1b[2J", DTYPE_F32, 2, {0, 0}, {1, 0}, {1, 1}, 1},
	      (struct row){"v", DTYPE_F32, 2, {0, 0}, {1, 1}, {1, 1}, 1}, ERR_INPUT, ERR_RANK_SELF,
	      "tensor 'w\\x1b[2J' (1, 1): no rank has a piece of it");
}

TEST(no_rank_has_anything)
{
	const size_t counts[] = {0, 0, 0};
	struct piece_table t;
	struct err err;
	assert_int_equal(settle(&t, NULL, counts, &err), ERR_INPUT);
	piece_table_release(&t);
}

/* ---- shards ---- */

TEST(shards_are_chunks_of_equal_length_and_a_rest)
{
	uint64_t first[2], size[2];
	for (uint64_t n = 0; n < 20; n++)
		for (int p = 1; p < 12; p++) {
			const uint64_t shape[] = {n, 3},
			               chunk = (n + (uint64_t)p - 1) / (uint64_t)p;
			const struct tensor t = {.ndim = 2, .shape = shape}, scalar = {.ndim = 0};
			uint64_t next = 0;
			for (int r = 0; r < p; r++) {
				assert_true(shard_box(&t, 0, p, r, first, size));
				assert_int_equal(first[0], next);
				assert_true(size[0] == chunk || next + size[0] == n);
				assert_true(first[1] == 0 && size[1] == 3);
				next += size[0];
				assert_int_equal(shard_box(&t, 2, p, r, first, size), r == 0);
				assert_int_equal(shard_box(&scalar, 0, p, r, first, size), r == 0);
			}
			assert_int_equal(next, n);
		}
	const uint64_t most[] = {INT64_MAX, 3};
	const struct tensor t = {.ndim = 2, .shape = most};
	assert_true(shard_box(&t, 0, 3, 2, first, size));
	assert_int_equal(first[0] + size[0], INT64_MAX);
}

/* ---- lies ---- */

static int add(const void *data, size_t n, uint64_t limit)
{
	struct piece_table t;
	struct err err = ERR_INIT;
	assert_int_equal(piece_table_init(&t, RANKS, limit, &err), 0);
	piece_table_add(&t, 1, view_of(data, n), &err);
	if (!err.code)
		piece_table_settle(&t, &err); /* whatever it says, it ends */
	piece_table_release(&t);
	return err.code;
}

TEST(tables_that_are_cut_or_changed)
{
	const struct row rows[] = {
	        {"ab", DTYPE_F32, 2, {0, 0}, {2, 2}, {4, 2}, 1},
	        {"ab", DTYPE_F32, 2, {2, 0}, {2, 2}, {4, 2}, 1},
	        {"s", DTYPE_U8, 0, {0}, {0}, {0}, 0},
	};
	struct buf b;
	buf_init(&b, 1u << 20);
	put(&b, rows, LENGTH(rows));
	const size_t tensor = 2 + 2 + 3 + 16 + 4 + 2 * 33;
	assert_int_equal(b.len, tensor + 2 + 1 + 3 + 4 + 1);
	assert_int_equal(add(b.data, b.len, 1u << 20), 0);
	for (size_t n = 1; n < b.len; n++)
		if (n != tensor)
			assert_int_equal(add(b.data, n, 1u << 20), ERR_INTEGRITY);
	for (size_t i = 0; i < b.len; i++)
		for (int bit = 0; bit < 8; bit++) {
			b.data[i] ^= (uint8_t)(1u << bit);
			add(b.data, b.len, 1u << 20);
			b.data[i] ^= (uint8_t)(1u << bit);
		}
	/* a name that is no text; a type, a number of axes and a range that cannot be */
	static const struct {
		size_t at;
		uint8_t byte;
	} lies[] = {{2, 0xff},  {2, 0},  {4, 0xee}, {5, 65}, {6, 2},
	            {14, 0x80}, {23, 9}, {27, 1},   {28, 3}, {35, 0x7f}};
	for (size_t i = 0; i < LENGTH(lies); i++) {
		const uint8_t was = b.data[lies[i].at];
		b.data[lies[i].at] = lies[i].byte;
		if (add(b.data, b.len, 1u << 20) != ERR_INTEGRITY)
			fail_msg("lie %zu is believed", i);
		b.data[lies[i].at] = was;
	}
	assert_int_equal(add(b.data, b.len, 100), ERR_RESOURCE);
	buf_release(&b);
}

TEST(one_tensor_twice)
{
	const struct row row = {"a", DTYPE_F32, 1, {0}, {4}, {4}, 0};
	struct buf b;
	buf_init(&b, 1u << 20);
	put(&b, &row, 1);
	put(&b, &row, 1);
	assert_int_equal(add(b.data, b.len, 1u << 20), ERR_INTEGRITY);
	buf_release(&b);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
