/*
 * The choice of a coding. Where few elements change, gaps are the smallest of all, and nothing else
 * is tried. Else each coding is tried on a sample of the piece, and the best of them on the piece.
 */
#include <string.h>

#include "lib/data/coding/coder.h"

#define SMALL 32  /* gaps that take less than this part of a piece are not compared */
#define SAVES .95 /* a coding takes at most this part of the bytes of one that it replaces */

struct choice {
	enum coding coding;
	unsigned width;
	double bytes; /* expected of the piece */
};

/* Each byte of the sample stands for so many of the piece. */
struct sample {
	size_t n;
	double differ, all; /* of those in runs that differ from the base; of all */
};

static void take(struct coder *c, struct sample *s, const uint8_t *piece, const uint8_t *base,
                 size_t n)
{
	memcpy(c->sample + s->n, piece, n);
	if (base)
		memcpy(c->sample_base + s->n, base, n);
	s->n += n;
}

/* Take at most SAMPLE_RUNS runs, evenly of those that differ from the base. */
static struct sample draw(struct coder *c, const uint8_t *piece, const uint8_t *base, size_t n)
{
	uint16_t runs[CODING_PIECE / SAMPLE_RUN];
	const size_t all = n / SAMPLE_RUN, end = n < SAMPLE_RUN ? n : SAMPLE_RUN;
	struct sample s = {0};
	size_t differ = 0;
	for (size_t i = 0; i < all; i++)
		if (!base || memcmp(piece + i * SAMPLE_RUN, base + i * SAMPLE_RUN, SAMPLE_RUN) != 0)
			runs[differ++] = (uint16_t)i;
	const size_t taken = differ < SAMPLE_RUNS ? differ : SAMPLE_RUNS;
	for (size_t i = 0; i < taken; i++) {
		const size_t at = (size_t)runs[i * differ / taken] * SAMPLE_RUN;
		take(c, &s, piece + at, base ? base + at : NULL, SAMPLE_RUN);
	}
	if (!taken) /* a piece of less than a run, or only the bytes behind the last run differ */
		take(c, &s, piece + n - end, base ? base + n - end : NULL, end);
	s.differ = taken ? (double)differ / (double)taken : 1;
	s.all = (double)n / (double)s.n;
	return s;
}

/* Try a coding on the sample: is it better than @best by so much that it is worth the change? */
static void try(struct coder *c, const struct sample *s, enum coding coding, unsigned width,
                struct choice *best)
{
	const double saves = coding == best->coding ? 1 : SAVES;
	const double scale = coding == CODING_GAPS || coding == CODING_XOR ? s->differ : s->all;
	const size_t size =
	        coder_write(c, coding, c->sample, c->sample_base, s->n, width, c->other);
	if (size && (double)size * scale < saves * best->bytes)
		*best = (struct choice){coding, width, (double)size * scale};
}

/* The same with each width, if none is given. */
static void try_widths(struct coder *c, const struct sample *s, enum coding coding, unsigned width,
                       struct choice *best)
{
	for (unsigned w = width ? width : 1; w <= (width ? width : 8); w *= 2)
		try(c, s, coding, w, best);
}

/* @best: what is best so far, of a piece of @n bytes. */
static void choose(struct coder *c, const void *piece, const void *base, size_t n, unsigned width,
                   struct choice *best)
{
	const struct sample s = draw(c, piece, base, n);
	if (base && best->coding != CODING_GAPS) {
		try_widths(c, &s, CODING_GAPS, width, best);
		if (best->coding == CODING_GAPS)
			width = best->width;
	}
	if (!c->deflate || best->bytes < (double)n / SMALL)
		return;
	try(c, &s, CODING_ZSTD, 0, best);
	try_widths(c, &s, CODING_PLANES, width, best);
	if (base)
		try_widths(c, &s, CODING_XOR, width, best);
}

size_t coding_encode(struct coder *c, const void *piece, const void *base, size_t n, unsigned width,
                     void *coded)
{
	struct choice best = {CODING_RAW, 0, (double)n};
	size_t have = 0, size;
	if (base && (!n || memcmp(piece, base, n) == 0))
		return coder_write(c, CODING_EQUAL, piece, base, n, 0, coded);
	if (base && width) {
		have = coder_write(c, CODING_GAPS, piece, base, n, width, coded);
		if (have && have < n / SMALL)
			return have;
		if (have)
			best = (struct choice){CODING_GAPS, width, (double)have};
	}
	if (n)
		choose(c, piece, base, n, width, &best);
	if (have && best.coding == CODING_GAPS)
		return have;
	uint8_t *to = have ? c->other : coded;
	size = coder_write(c, best.coding, piece, base, n, best.width, to);
	if (have && (!size || size >= have))
		return have;
	if (!size)
		return coder_write(c, CODING_RAW, piece, base, n, 0, coded);
	if (have)
		memcpy(coded, c->other, size);
	return size;
}
