/* A coded piece: its head, and the codings that are streams alone. */
#include <string.h>

#include "lib/data/coding/coder.h"
#include "lib/data/kernels/planes.h"

const char *coding_name(enum coding coding)
{
	static const char *const names[CODINGS] = {
	        [CODING_EQUAL] = "equal",   [CODING_RAW] = "raw", [CODING_ZSTD] = "zstd",
	        [CODING_PLANES] = "planes", [CODING_XOR] = "xor", [CODING_GAPS] = "gaps",
	};
	return names[coding];
}

enum coding coding_of(const void *coded)
{
	return (enum coding) * (const uint8_t *)coded;
}

size_t coding_plain_bytes(const void *coded)
{
	return get_u32((const uint8_t *)coded + 4);
}

bool coding_has_base(enum coding coding)
{
	return coding == CODING_EQUAL || coding == CODING_XOR || coding == CODING_GAPS;
}

static bool has_width(unsigned coding)
{
	return coding == CODING_PLANES || coding == CODING_XOR || coding == CODING_GAPS;
}

/* ---- writing ---- */

static void put_head(struct buf *b, enum coding coding, size_t n, unsigned width)
{
	buf_put_u8(b, (uint8_t)coding);
	buf_put_u8(b, has_width(coding) ? (uint8_t)width : 0);
	buf_put_u16(b, 0);
	buf_put_u32(b, (uint32_t)n);
}

static void put_planes(struct coder *c, struct buf *b, const void *piece, const void *base,
                       size_t n, unsigned width)
{
	const size_t each = n / width, whole = each * width;
	planes_split(width, c->work, piece, base, each);
	for (unsigned k = 0; k < width; k++)
		stream_put(c, b, c->work + k * each, each, STREAM_ENTROPY);
	buf_put(b, (const uint8_t *)piece + whole, n - whole);
}

size_t coder_write(struct coder *c, enum coding coding, const void *piece, const void *base,
                   size_t n, unsigned width, void *coded)
{
	struct buf b;
	buf_init_fixed(&b, coded, CODING_ROOM(n));
	put_head(&b, coding, n, width);
	switch (coding) {
	case CODING_EQUAL:
		return b.len;
	case CODING_RAW:
		buf_put(&b, piece, n);
		return b.len;
	case CODING_ZSTD:
		stream_put(c, &b, piece, n, STREAM_MATCHES);
		break;
	case CODING_PLANES:
		put_planes(c, &b, piece, NULL, n, width);
		break;
	case CODING_XOR:
		put_planes(c, &b, piece, base, n, width);
		break;
	case CODING_GAPS:
		gaps_put(c, &b, piece, base, n, width);
		break;
	default:
		return 0;
	}
	return b.failed || b.len >= CODING_ROOM(n) ? 0 : b.len;
}

/* ---- reading ---- */

static int get_raw(struct view *v, void *piece, size_t n, struct err *err)
{
	const uint8_t *p = view_bytes(v, n);
	if (!p)
		return stream_damaged(err, "it ends before the piece");
	memcpy(piece, p, n);
	return 0;
}

static int get_planes(struct coder *c, struct view *v, const void *base, void *piece, size_t n,
                      unsigned width, struct err *err)
{
	const size_t each = n / width, whole = each * width;
	for (unsigned k = 0; k < width; k++)
		if (stream_get(c, v, c->work + k * each, each, err) < 0)
			return -1;
	planes_join(width, piece, c->work, base, each);
	return get_raw(v, (uint8_t *)piece + whole, n - whole, err);
}

static int get_head(struct view *v, const void *base, size_t n, unsigned *coding, unsigned *width,
                    struct err *err)
{
	*coding = view_u8(v);
	*width = view_u8(v);
	const unsigned zero = view_u16(v);
	const size_t bytes = view_u32(v);
	if (v->failed)
		return stream_damaged(err, "it ends within its head");
	if (*coding >= CODINGS || zero)
		return stream_damaged(err, "coding %u is not known", *coding);
	if (has_width(*coding) ? *width != 1 && *width != 2 && *width != 4 && *width != 8 : *width)
		return stream_damaged(err, "coding %s has elements of %u bytes",
		                      coding_name((enum coding) * coding), *width);
	if (bytes != n)
		return stream_damaged(err, "it stands for %zu bytes, not %zu", bytes, n);
	if (coding_has_base((enum coding) * coding) && !base)
		return stream_damaged(err, "coding %s needs a base, and there is none",
		                      coding_name((enum coding) * coding));
	return 0;
}

static int get_body(struct coder *c, struct view *v, unsigned coding, unsigned width,
                    const void *base, void *piece, size_t n, struct err *err)
{
	switch (coding) {
	case CODING_RAW:
		return get_raw(v, piece, n, err);
	case CODING_ZSTD:
		return stream_get(c, v, piece, n, err);
	case CODING_PLANES:
		return get_planes(c, v, NULL, piece, n, width, err);
	case CODING_XOR:
		return get_planes(c, v, base, piece, n, width, err);
	case CODING_GAPS:
		return gaps_get(c, v, base, piece, n, width, err);
	default: /* EQUAL */
		if (n)
			memcpy(piece, base, n);
		return 0;
	}
}

int coding_decode(struct coder *c, const void *coded, size_t bytes, const void *base, void *piece,
                  size_t n, struct err *err)
{
	struct view v = view_of(coded, bytes);
	unsigned coding, width;
	if (get_head(&v, base, n, &coding, &width, err) < 0 ||
	    get_body(c, &v, coding, width, base, piece, n, err) < 0)
		return -1;
	if (view_left(&v))
		return stream_damaged(err, "%zu bytes follow its end", view_left(&v));
	return 0;
}
