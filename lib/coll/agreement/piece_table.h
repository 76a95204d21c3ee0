/*
 * Tables of pieces: what parts of which tensors lie on each rank (gather --consolidate). Each rank
 * encodes its own table; who has the tables of all ranks settles them: which tensors there are,
 * and which rank sends which piece. All who settle the same tables get the same result. Pure
 * functions; one thread. lib/net/PROTOCOL.md has the bytes.
 *
 * A piece is a box of a tensor's elements. Pieces with the same box are replicas; the one of the
 * lowest rank is chosen. A rank sends the bytes of its chosen pieces, by the names of their
 * tensors, then by their places.
 */
#ifndef COLLCTL_COLL_AGREEMENT_PIECE_TABLE_H
#define COLLCTL_COLL_AGREEMENT_PIECE_TABLE_H

#include "lib/base/buf.h"
#include "lib/base/pool.h"
#include "lib/base/vec.h"
#include "lib/data/dataset/dataset.h"

#define PIECE_NAME_MAX 65535u /* bytes of a tensor's name */

/* Compare two tensors of a table: by name, then by place. For qsort of pointers to struct tensor,
 * whose order is that of the table. */
int piece_table_order(const void *a, const void *b);
/* Is it a piece, or does it only say that its tensor exists (struct tensor)? */
bool piece_has_elements(const struct tensor *);
/* Encode the table of the @n tensors, which are sorted. ERR_INPUT: a name is too long. */
int piece_table_put(struct buf *, const struct tensor *const *tensors, size_t n, struct err *err);

struct piece {
	int rank;
	uint32_t number;              /* of those of its rank's table that have elements */
	uint32_t tensor;              /* in `tensors`, once settled */
	int ndim;                     /* as its tensor's */
	const uint64_t *first, *size; /* [ndim] */
	uint64_t bytes;
	size_t chosen; /* the index of the replica that is chosen, perhaps its own */
	uint64_t at;   /* if it is chosen: its offset in the bytes of its rank */
};

struct whole_tensor {
	struct tensor tensor; /* name, dtype, shape, count and bytes */
	uint64_t at;          /* the bytes of all tensors before it */
	size_t first, n;      /* its pieces */
};

struct piece_table {
	int size;       /* ranks */
	uint64_t limit; /* bytes of memory for all tables */
	uint64_t used;
	struct pool pool;
	VEC(struct listed_tensor) listed; /* the tensors of each rank */
	VEC(struct piece) pieces;         /* once settled: by tensor and place */
	struct whole_tensor *tensors;     /* [ntensors], by name */
	size_t ntensors;
	uint64_t *rows;  /* [size]: the bytes that each rank sends */
	uint64_t *count; /* [size]: its pieces */
};

/* @limit: bytes of memory for the tables. ERR_RESOURCE. */
int piece_table_init(struct piece_table *, int size, uint64_t limit, struct err *err);
void piece_table_release(struct piece_table *);
/* Add the table of @rank, once for each rank. ERR_INTEGRITY: it is malformed; ERR_RESOURCE: the
 * tables exceed the limit. */
int piece_table_add(struct piece_table *, int rank, struct view, struct err *err);
/* After the last table. The error names the tensor. ERR_DISAGREE: two ranks have different types or
 * shapes of a tensor, or pieces that overlap; ERR_INPUT: one rank's pieces overlap, or no rank has
 * a part of a tensor. */
int piece_table_settle(struct piece_table *, struct err *err);

/* In place of settling: call @tell for the first place of each tensor that no rank has. -1: its
 * result, or an error of piece_table_settle other than that. */
typedef int piece_hole(void *ctx, const struct tensor *whole, const uint64_t *first,
                       const uint64_t *size, struct err *err);
int piece_table_holes(struct piece_table *, piece_hole *tell, void *ctx, struct err *err);

/* "tensor 'w' (6, 2)", its name escaped. Returns @buf. */
#define PIECE_TENSOR_TEXT 1024
char *piece_tensor_text(const struct tensor *, char buf[PIECE_TENSOR_TEXT]);

#endif
