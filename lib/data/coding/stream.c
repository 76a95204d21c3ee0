#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/library.h"
#include "lib/data/coding/coder.h"

/* ---- libzstd ---- */

#define ZSTD_FUNCTIONS(X)          \
	X(versionString)           \
	X(createCCtx)              \
	X(freeCCtx)                \
	X(CCtx_setParameter)       \
	X(compress2)               \
	X(createDCtx)              \
	X(freeDCtx)                \
	X(findFrameCompressedSize) \
	X(decompressDCtx)          \
	X(isError)

/* The members have libzstd's own types, so that calls are checked by the compiler. */
#define X(name) __typeof__(ZSTD_##name) *name;
static struct {
	ZSTD_FUNCTIONS(X)
} zstd;
#undef X
#define X(name) {#name, &zstd.name, LIBRARY_LINKED(ZSTD_##name)},
LIBRARY(libzstd, "zstd", "for compressed pieces", "libzstd1", "ZSTD_", ZSTD_FUNCTIONS(X), NULL,
        "libzstd.so.1");
#undef X

const char *coding_library(void)
{
	return library_open(&libzstd, NULL) < 0 ? NULL : zstd.versionString();
}

static int begin(struct coder *c, bool want, struct err *err)
{
	c->missing = ERR_INIT;
	if (!want)
		err_set(&c->missing, ERR_RESOURCE,
		        "libzstd is needed for compressed pieces, and is not to be used");
	if (!want || library_open(&libzstd, &c->missing) < 0)
		return 0;
	c->deflate = zstd.createCCtx();
	c->inflate = zstd.createDCtx();
	if (!c->deflate || !c->inflate)
		return err_nomem(err, "zstd", CODING_PIECE);
	zstd.CCtx_setParameter(c->deflate, ZSTD_c_compressionLevel, 1);
	zstd.CCtx_setParameter(c->deflate, ZSTD_c_strategy, ZSTD_fast);
	return 0;
}

struct coder *coder_new(bool want, struct err *err)
{
	struct coder *c = err_malloc(sizeof *c, "coding pieces", err);
	if (!c)
		return NULL;
	c->deflate = NULL;
	c->inflate = NULL;
	if (begin(c, want, err) < 0) {
		coder_free(c);
		return NULL;
	}
	return c;
}

bool coder_has_zstd(const struct coder *c)
{
	return c->deflate;
}

void coder_free(struct coder *c)
{
	if (!c)
		return;
	if (c->deflate)
		zstd.freeCCtx(c->deflate);
	if (c->inflate)
		zstd.freeDCtx(c->inflate);
	free(c);
}

/* ---- streams ---- */

#define LENGTH_BYTES 4
#define FRAME        12 /* bytes that zstd adds; it shortens nothing that is not longer */
#define MAGIC        0xfd2fb528u

/* A match of bytes without order hardly saves more than their Huffman codes take, and the search
 * for matches takes most of the time. So search only long ones, in the smallest table: for the gaps
 * and changes of weights that is 2 to 11 % shorter than zstd -1, and up to twice as fast. 0: zstd's
 * own value. */
static size_t compress(struct coder *c, uint8_t *to, size_t room, const uint8_t *bytes, size_t n,
                       enum stream_kind kind)
{
	const bool entropy = kind == STREAM_ENTROPY;
	if (!c->deflate || n <= FRAME)
		return 0;
	zstd.CCtx_setParameter(c->deflate, ZSTD_c_minMatch, entropy ? 7 : 0);
	zstd.CCtx_setParameter(c->deflate, ZSTD_c_hashLog, entropy ? 6 : 0);
	const size_t size = zstd.compress2(c->deflate, to, room, bytes, n);
	return zstd.isError(size) || size >= n ? 0 : size;
}

void stream_put(struct coder *c, struct buf *b, const uint8_t *bytes, size_t n,
                enum stream_kind kind)
{
	uint8_t *p = buf_room(b, LENGTH_BYTES);
	if (!p)
		return;
	b->len += LENGTH_BYTES;
	const size_t room = b->max - b->len;
	const size_t size = compress(c, p + LENGTH_BYTES, room < n ? room : n, bytes, n, kind);
	put_u32(p, (uint32_t)(size ? size : n));
	if (size)
		b->len += size;
	else
		buf_put(b, bytes, n);
}

int stream_damaged(struct err *err, const char *fmt, ...)
{
	char what[256];
	va_list args;
	va_start(args, fmt);
	vsnprintf(what, sizeof what, fmt, args);
	va_end(args);
	return err_set(err, ERR_INTEGRITY, "a coded piece is damaged: %s", what);
}

int stream_get(struct coder *c, struct view *v, uint8_t *bytes, size_t n, struct err *err)
{
	const uint32_t length = view_u32(v);
	const uint8_t *p = view_bytes(v, length);
	if (v->failed)
		return stream_damaged(err, "it ends within a stream");
	if (length > n)
		return stream_damaged(err, "a stream of %zu bytes takes %u", n, length);
	if (length == n) {
		if (n)
			memcpy(bytes, p, n);
		return 0;
	}
	if (!c->inflate)
		return err_pass(err, &c->missing);
	/* One frame, and none of the old formats and comments that libzstd reads as well. */
	if (length < sizeof(uint32_t) || get_u32(p) != MAGIC ||
	    zstd.findFrameCompressedSize(p, length) != length)
		return stream_damaged(err, "a stream of %zu bytes is no frame of zstd", n);
	const size_t got = zstd.decompressDCtx(c->inflate, bytes, n, p, length);
	if (zstd.isError(got))
		return stream_damaged(err, "a stream of %zu bytes cannot be unpacked", n);
	if (got != n)
		return stream_damaged(err, "a stream unpacks to %zu bytes, not %zu", got, n);
	return 0;
}
