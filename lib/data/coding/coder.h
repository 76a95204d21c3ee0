/*
 * Internal to lib/data/coding: the coder, and how each coding is written and read. coding.h has the
 * layout of the bytes.
 */
#ifndef COLLCTL_DATA_CODING_CODER_H
#define COLLCTL_DATA_CODING_CODER_H

#include <zstd.h>

#include "lib/base/buf.h"
#include "lib/data/coding/coding.h"

#define SAMPLE_RUN  2048 /* bytes of a piece that are sampled together */
#define SAMPLE_RUNS 16

/* The most that a coding needs: gaps of one byte and changes of one, for each byte of the piece,
 * and the long gaps, each of which is at least 255 elements and takes three bytes. */
#define CODER_WORK (2 * CODING_PIECE + 3 * (CODING_PIECE / 256))

struct coder {
	ZSTD_CCtx *deflate; /* NULL: without zstd */
	ZSTD_DCtx *inflate;
	struct err missing; /* why there is no zstd */
	uint8_t sample[SAMPLE_RUNS * SAMPLE_RUN], sample_base[SAMPLE_RUNS * SAMPLE_RUN];
	uint8_t other[CODING_ROOM(CODING_PIECE)]; /* another coded piece, to compare */
	uint8_t work[CODER_WORK];
};

/* ---- streams ---- */

/* What a stream is made of: bytes without order, where matches cost more than they save, or bytes
 * that may repeat others. */
enum stream_kind { STREAM_ENTROPY, STREAM_MATCHES };

/* Add the stream of @bytes[n], compressed if that is shorter. Too little room: b->failed. */
void stream_put(struct coder *, struct buf *b, const uint8_t *bytes, size_t n, enum stream_kind);
/* Read a stream that stands for @n bytes. ERR_INTEGRITY; ERR_RESOURCE. */
int stream_get(struct coder *, struct view *v, uint8_t *bytes, size_t n, struct err *err);
/* Set ERR_INTEGRITY: "a coded piece is damaged: ...". Returns -1. */
int stream_damaged(struct err *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

/* ---- gaps ---- */

/* What follows the head. @piece, @base: of @n bytes. Too little room: b->failed. */
void gaps_put(struct coder *, struct buf *b, const void *piece, const void *base, size_t n,
              unsigned width);
/* ERR_INTEGRITY; ERR_RESOURCE. */
int gaps_get(struct coder *, struct view *v, const void *base, void *piece, size_t n,
             unsigned width, struct err *err);

/* ---- pieces ---- */

/* Code the piece in this way alone. Returns the length, less than CODING_ROOM(n) but of RAW and
 * EQUAL; 0: it would not be less. @width: not 0 where the coding has one. @coding is one that fits:
 * for EQUAL the piece is the base, and others that have a base get one. */
size_t coder_write(struct coder *, enum coding coding, const void *piece, const void *base,
                   size_t n, unsigned width, void *coded);

#endif
