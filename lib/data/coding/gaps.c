#include <string.h>

#include "lib/data/coding/coder.h"
#include "lib/data/kernels/planes.h"

#define CHUNK      4096 /* elements that are compared at once; their flags stay in the cache */
#define LONG       255  /* gaps from here on are long */
#define LONG_BYTES 3    /* a piece has fewer than 2^24 elements */

/* The parts of the coding, in the coder's work memory. */
struct gaps {
	uint8_t *gap;
	uint8_t *change, *far; /* byte planes: of the changes, of the long gaps */
	size_t changed, longs;
	size_t most, most_longs; /* the bytes from one plane to the next */
};

static struct gaps parts(struct coder *c, size_t most, size_t most_longs, unsigned width)
{
	uint8_t *change = c->work + most, *far = change + most * width;
	return (struct gaps){.gap = c->work,
	                     .change = change,
	                     .far = far,
	                     .most = most,
	                     .most_longs = most_longs};
}

static inline void put_gap(struct gaps *g, size_t gap)
{
	g->gap[g->changed] = (uint8_t)(gap < LONG ? gap : LONG);
	if (gap < LONG)
		return;
	for (unsigned k = 0; k < LONG_BYTES; k++)
		g->far[k * g->most_longs + g->longs] = (uint8_t)(gap >> 8 * k);
	g->longs++;
}

/* Gap number @i; @longs: the long ones before it. */
static inline size_t get_gap(const struct gaps *g, size_t i, size_t longs)
{
	size_t gap = 0;
	if (g->gap[i] < LONG)
		return g->gap[i];
	for (unsigned k = 0; k < LONG_BYTES; k++)
		gap |= (size_t)g->far[k * g->most_longs + longs] << 8 * k;
	return gap;
}

/* The struct is copied, so that the compiler keeps it in registers: a store of a byte may change
 * any memory.
 *
 * find: where do the elements differ, and by how much? Most words of flags are 0.
 * apply: add the changes to the elements, which are the base's. Returns how many were applied;
 * fewer than all: the next gap leads behind the end. */
#define WIDTH(U)                                                                                 \
	static inline void change_##U(struct gaps *g, const uint8_t *piece, const uint8_t *base) \
	{                                                                                        \
		U a, b;                                                                          \
		memcpy(&a, piece, sizeof a);                                                     \
		memcpy(&b, base, sizeof b);                                                      \
		const U d = (U)(a - b);                                                          \
		const U z = (U)((U)(d << 1) ^ (U)(0 - (d >> (8 * sizeof d - 1))));               \
		for (unsigned k = 0; k < sizeof z; k++)                                          \
			g->change[k * g->most + g->changed] = (uint8_t)(z >> 8 * k);             \
	}                                                                                        \
	static void find_##U(struct gaps *to, const uint8_t *piece, const uint8_t *base)         \
	{                                                                                        \
		uint8_t differ[CHUNK];                                                           \
		struct gaps g = *to;                                                             \
		uint64_t flags;                                                                  \
		size_t next = 0;                                                                 \
		for (size_t first = 0, n; first < g.most; first += n) {                          \
			const size_t at = first * sizeof(U);                                     \
			n = g.most - first < CHUNK ? g.most - first : CHUNK;                     \
			if (n < CHUNK)                                                           \
				memset(differ, 0, sizeof differ);                                \
			planes_compare(sizeof(U), differ, piece + at, base + at, n);             \
			for (size_t j = 0; j < n; j += sizeof flags) {                           \
				memcpy(&flags, differ + j, sizeof flags);                        \
				for (; flags; flags &= flags - 1) {                              \
					const size_t i =                                         \
					        first + j + (size_t)__builtin_ctzll(flags) / 8;  \
					put_gap(&g, i - next);                                   \
					change_##U(&g, piece + i * sizeof(U),                    \
					           base + i * sizeof(U));                        \
					g.changed++;                                             \
					next = i + 1;                                            \
				}                                                                \
			}                                                                        \
		}                                                                                \
		*to = g;                                                                         \
	}                                                                                        \
	static size_t apply_##U(const struct gaps *from, uint8_t *piece, size_t n)               \
	{                                                                                        \
		const struct gaps g = *from;                                                     \
		size_t i, at = 0, longs = 0;                                                     \
		for (i = 0; i < g.changed; i++) {                                                \
			const size_t gap = get_gap(&g, i, longs);                                \
			U a, z = 0;                                                              \
			if (gap >= n - at)                                                       \
				break;                                                           \
			longs += g.gap[i] == LONG;                                               \
			at += gap;                                                               \
			for (unsigned k = 0; k < sizeof z; k++)                                  \
				z = (U)(z | (U)((U)g.change[k * g.most + i] << 8 * k));          \
			memcpy(&a, piece + at * sizeof a, sizeof a);                             \
			a = (U)(a + (U)((U)(z >> 1) ^ (U)(0 - (z & 1))));                        \
			memcpy(piece + at * sizeof a, &a, sizeof a);                             \
			at++;                                                                    \
		}                                                                                \
		return i;                                                                        \
	}

WIDTH(uint8_t)
WIDTH(uint16_t)
WIDTH(uint32_t)
WIDTH(uint64_t)

/* By the logarithm of the width. */
static void (*const find[])(struct gaps *, const uint8_t *, const uint8_t *) = {
        find_uint8_t, find_uint16_t, find_uint32_t, find_uint64_t};
static size_t (*const apply[])(const struct gaps *, uint8_t *, size_t) = {
        apply_uint8_t, apply_uint16_t, apply_uint32_t, apply_uint64_t};

void gaps_put(struct coder *c, struct buf *b, const void *piece, const void *base, size_t n,
              unsigned width)
{
	const size_t most = n / width, whole = most * width;
	struct gaps g = parts(c, most, most / (LONG + 1), width);
	find[__builtin_ctz(width)](&g, piece, base);
	buf_put_u32(b, (uint32_t)g.changed);
	buf_put_u32(b, (uint32_t)g.longs);
	stream_put(c, b, g.gap, g.changed, STREAM_ENTROPY);
	for (unsigned k = 0; k < LONG_BYTES; k++)
		stream_put(c, b, g.far + k * g.most_longs, g.longs, STREAM_ENTROPY);
	for (unsigned k = 0; k < width; k++)
		stream_put(c, b, g.change + k * g.most, g.changed, STREAM_ENTROPY);
	buf_put(b, (const uint8_t *)piece + whole, n - whole);
}

static int get_planes(struct coder *c, struct view *v, uint8_t *planes, unsigned count, size_t n,
                      struct err *err)
{
	for (unsigned k = 0; k < count; k++)
		if (stream_get(c, v, planes + k * n, n, err) < 0)
			return -1;
	return 0;
}

static size_t count_longs(const struct gaps *g)
{
	size_t longs = 0;
	for (size_t i = 0; i < g->changed; i++)
		longs += g->gap[i] == LONG;
	return longs;
}

int gaps_get(struct coder *c, struct view *v, const void *base, void *piece, size_t n,
             unsigned width, struct err *err)
{
	const size_t most = n / width, whole = most * width;
	const size_t changed = view_u32(v), longs = view_u32(v);
	if (v->failed)
		return stream_damaged(err, "it ends before its streams");
	if (changed > most || longs > most / (LONG + 1))
		return stream_damaged(err, "%zu changes and %zu long gaps of %zu elements", changed,
		                      longs, most);
	struct gaps g = parts(c, changed, longs, width);
	g.changed = changed;
	if (stream_get(c, v, g.gap, changed, err) < 0 ||
	    get_planes(c, v, g.far, LONG_BYTES, longs, err) < 0 ||
	    get_planes(c, v, g.change, width, changed, err) < 0)
		return -1;
	if (count_longs(&g) != longs)
		return stream_damaged(err, "%zu of its gaps are long, not %zu", count_longs(&g),
		                      longs);
	const uint8_t *rest = view_bytes(v, n - whole);
	if (!rest)
		return stream_damaged(err, "it ends before the piece");
	memcpy(piece, base, whole);
	memcpy((uint8_t *)piece + whole, rest, n - whole);
	if (apply[__builtin_ctz(width)](&g, piece, most) < changed)
		return stream_damaged(err, "a gap leads behind the end of the piece");
	return 0;
}
