/*
 * Coded lanes (--wire lossless): a connection whose bytes travel as coded pieces (coding.h) over
 * another connection. Each piece is the shorter of its bytes and of zstd of their byte planes. Each
 * write is one piece, so the more bytes wait for a slow link, the better they are coded.
 *
 *     u32 the bytes of the coded piece; the coded piece
 *
 * The executor is the user: only reading (of the receiving end), writing, flushing and ending are
 * there, and `sums` is false, so that the lane's trailer has the hash of the decoded bytes. The
 * sending end passes reads through: they only find that the connection is lost.
 *
 * A hostile peer can neither make an end allocate nor decode more than a piece: ERR_INTEGRITY. One
 * thread: that of the connection below, which must outlive this one.
 */
#ifndef COLLCTL_EXEC_CODED_H
#define COLLCTL_EXEC_CODED_H

#include "lib/data/coding/coding.h"
#include "lib/net/conn.h"

/* The most bytes of a piece: with its heads it fits a frame (CONN_FRAME_MAX), and it has whole
 * elements of every type. */
#define CODED_PIECE_MAX ((256u << 10) - 64)

/* Bytes of pieces, and what became of them on the wire. */
struct coded_count {
	uint64_t plain, coded;
};

/* The sending (@out) or receiving end, over @under, whose events it takes. Pieces have at most
 * @piece bytes, at most CODED_PIECE_MAX, the same at both ends. The sending end has the memory of
 * one piece, the receiving end of two. @coder and @count, to which it
 * adds, must outlive it. NULL: ERR_RESOURCE. */
struct conn *coded_new(struct conn *under, struct coder *coder, bool out, size_t piece,
                       struct coded_count *count, struct err *err);
/* Leaves the connection below to its owner. NULL: nothing. */
void coded_free(struct conn *);
/* Take the events of the connection below (again). */
void coded_watch(struct conn *);
/* The bytes of an element, or of its parts, of what is written from now on: 1, 2, 4 or 8; 0: not
 * known. */
void coded_set_width(struct conn *, unsigned width);

#endif
