/*
 * The coding of a piece: at most 1 MiB of the new bytes of a file, as a difference to a base, the
 * same range of an old version that the decoder has too. A coded piece describes itself, and is
 * never more than CODING_HEAD bytes longer than the piece.
 *
 * Units: bytes; elements of 1, 2, 4 or 8 bytes from the beginning of the piece. The result depends
 * on the piece, its base, the width and the version of libzstd; the decoder reads what any version
 * writes.
 *
 * A coded piece is a head of 8 bytes (coding, 1; width of elements, 1; 0, 2; bytes of the piece,
 * 4), then, numbers little-endian:
 *
 *   EQUAL   nothing: the piece is the base
 *   RAW     the piece
 *   ZSTD    a stream, of the piece
 *   PLANES  a stream of byte 0 of all elements, one of byte 1, ... ; the rest
 *   XOR     the same of the piece XOR the base
 *   GAPS    the number of changed elements (4), and of long gaps (4); a stream of the gaps:
 * elements between a changed one and the one before it, 255 for 255 or more; three streams, byte 0
 *           to 2 of the long gaps; a stream for each byte of the changes; the rest. A change is
 *           new - old, modulo 2 to the power of the bits, zigzag: 0, -1, 1, -2, ... become
 *           0, 1, 2, 3, ...
 *
 * The rest is the bytes at the end of the piece that make no element. A stream is its length (4)
 * and as many bytes. The bytes that it stands for have a known number: if that is its length, it is
 * these bytes; a shorter one is compressed by zstd.
 *
 * Source: zstd, RFC 8878; ZipNN (Hershcovitch et al., 2024) and slime for byte planes and XOR.
 */
#ifndef COLLCTL_DATA_CODING_CODING_H
#define COLLCTL_DATA_CODING_CODING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

#define CODING_PIECE   ((size_t)1 << 20) /* at most */
#define CODING_HEAD    8
#define CODING_ROOM(n) ((n) + CODING_HEAD) /* of a coded piece of n bytes, at most */

/* The values are in coded pieces. */
enum coding {
	CODING_EQUAL,
	CODING_RAW,
	CODING_ZSTD,
	CODING_PLANES,
	CODING_XOR,
	CODING_GAPS,
	CODINGS
};

const char *coding_name(enum coding); /* "gaps" */
bool coding_has_base(enum coding);
/* The version of libzstd, which is opened at run time; NULL: not available. */
const char *coding_library(void);

/* The memory in which one thread at a time encodes and decodes: less than 5 MiB, whatever the
 * pieces and the coded pieces are. Of these, libzstd allocates some on first use, at most 1 MiB. */
struct coder;

/* @zstd: compress, if libzstd is available. Without, pieces are equal, raw, or gaps that are not
 * compressed. */
struct coder *coder_new(bool zstd, struct err *err);
bool coder_has_zstd(const struct coder *);
void coder_free(struct coder *); /* NULL: nothing */

/* Code the @n bytes @piece, at most CODING_PIECE, into @coded, of CODING_ROOM(n) bytes, as small as
 * it can be, judged by a sample of the piece. @base: n bytes; NULL: none. @width: of an element; 0:
 * not known, so try. The arrays do not overlap. Returns the length. Does not fail. */
size_t coding_encode(struct coder *, const void *piece, const void *base, size_t n, unsigned width,
                     void *coded);

/* Decode all @bytes of @coded to exactly @n bytes, at most CODING_PIECE. @base as in coding_encode.
 * The arrays do not overlap. On failure the contents of @piece are undefined. ERR_INTEGRITY: @coded
 * is no coded piece of n bytes, or is one to a base that is NULL; the error names no rank or file.
 * ERR_RESOURCE: it is compressed, and libzstd is not available. */
int coding_decode(struct coder *, const void *coded, size_t bytes, const void *base, void *piece,
                  size_t n, struct err *err);

/* The bytes that a coded piece, of at least CODING_HEAD bytes, says it stands for. */
size_t coding_plain_bytes(const void *coded);

/* The coding of a coded piece that coding_encode has made or coding_decode has accepted. */
enum coding coding_of(const void *coded);

#endif
