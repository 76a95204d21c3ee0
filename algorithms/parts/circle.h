/*
 * A circle: ranks, numbered 0 .. size-1, that run a phase among themselves. Each number has a block
 * of the vector. The ranks may be all, or one of each host.
 */
#ifndef COLLCTL_ALGORITHMS_PARTS_CIRCLE_H
#define COLLCTL_ALGORITHMS_PARTS_CIRCLE_H

#include "algorithms/parts/blocks.h"

/* The number (at least 1) of blocks @rank, @rank + 1, .. that a rank has before the allgather;
 * these are not sent to it. In a reduce-scatter the rank keeps its sums of these blocks instead of
 * sending them. */
typedef int circulant_has(const struct coll_args *a, int rank);

/* A part of block @number. */
struct piece {
	struct range range;
	int number;
};

struct circle {
	int size, me;     /* number of ranks; this rank's number */
	int shift;        /* number i is the rank at i + shift modulo size in .. */
	const int *ranks; /* [size]; NULL: that rank */
	int unit;         /* the skips are first multiples of it, then those among so many */
	/* The blocks, as one of these. off[size + 1]: block i is [off[i], off[i + 1]). Or pieces of
	 * any blocks, in ascending order. */
	const uint64_t *off;
	const struct piece *pieces;
	int npieces;
	const struct coll_args *a;
	circulant_has *has; /* NULL: one block; only in a circle of all ranks without shift */
};

static inline int circle_rank(const struct circle *c, int number)
{
	const int at = (int)(((int64_t)number + c->shift) % c->size);

	return c->ranks ? c->ranks[at] : at;
}

/* Number @i + @d modulo the size, for any @d > -size. */
static inline int circle_add(const struct circle *c, int i, int d)
{
	return (int)(((int64_t)i + d + c->size) % c->size);
}

/* All ranks in their order, with their blocks. */
static inline struct circle circle_of_all(const struct coll_args *a, circulant_has *has)
{
	return (struct circle){
	        .size = a->size, .me = a->rank, .unit = 1, .off = a->off, .a = a, .has = has};
}

/*
 * The ranges of consecutive blocks, modulo the size, in an order that all ranks agree on. Ranges
 * that touch are one.
 *
 *   struct walk w = walk_blocks(c, first, count);
 *   while (walk_next(&w, &range)) ...
 */
struct walk {
	const struct circle *c;
	int first, count;
	int at;        /* the next piece or, without pieces, run */
	int only, but; /* the only piece, and one that is left out; -1: none */
};
struct walk walk_blocks(const struct circle *c, int first, int count);
bool walk_next(struct walk *w, struct range *r);

#endif
