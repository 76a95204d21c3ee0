/*
 * A circle: ranks with the numbers 0 .. size-1 that run a phase among themselves, for instance all
 * ranks, or one rank of each host. The vector, or a part of it, is divided into one block for each
 * number. All offsets and lengths are elements. A circle owns nothing: what its pointers point to
 * must outlive it.
 *
 * Source: Träff, Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms, arXiv:2410.14234
 * (circulant.c).
 */
#ifndef COLLCTL_ALGORITHMS_PARTS_CIRCLE_H
#define COLLCTL_ALGORITHMS_PARTS_CIRCLE_H

#include "algorithms/parts/blocks.h"

/* How many consecutive blocks from block @rank on (modulo the size, at least 1) the rank has before
 * the allgather. They are not sent to it. In a reduce-scatter the rank does not send its sums of
 * these blocks. */
typedef int circulant_has(const struct coll_args *a, int rank);

/* A range of elements that belongs to block `number`. */
struct piece {
	struct range range;
	int number;
};

struct circle {
	int size, me; /* number of ranks; this rank's number */
	/* The rank with number i is ranks[(i + shift) % size]; ranks NULL: (i + shift) % size. */
	int shift;
	const int *ranks; /* [size] */
	/* The ranks are composed of groups of `unit` consecutive numbers: the first skips of a
	 * reduce-scatter are multiples of it, the last ones are less (circulant.c). 1: no
	 * groups. */
	int unit;
	/* The blocks, in one of two forms. off[size + 1]: block i is [off[i], off[i + 1]). Or
	 * pieces[npieces] of any blocks, in ascending order of elements; off is then not used. */
	const uint64_t *off;
	const struct piece *pieces;
	int npieces;
	const struct coll_args *a;
	circulant_has *has; /* NULL: one block; else the circle must be circle_of_all's */
};

/* The rank with number @number. */
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

/* The circle of all ranks, in which each rank's number and block are its own. */
static inline struct circle circle_of_all(const struct coll_args *a, circulant_has *has)
{
	return (struct circle){
	        .size = a->size, .me = a->rank, .unit = 1, .off = a->off, .a = a, .has = has};
}

/*
 * Iterates over the ranges of elements of the blocks first .. first + count - 1, modulo the size.
 * Adjacent ranges are merged. Sender and receiver of the same blocks get the same ranges in the
 * same order, so each range can be one message.
 *
 *   struct walk w = walk_blocks(c, first, count);
 *   while (walk_next(&w, &range)) ...
 */
struct walk {
	const struct circle *c;
	int first, count;
	int at;        /* the index of the next piece; without pieces, of the next run: 0 or 1 */
	int only, but; /* of pieces: take only this one; leave out this one; -1: no such choice */
};
/* @c must outlive the walk. */
struct walk walk_blocks(const struct circle *c, int first, int count);
/* Store the next non-empty range in *r. False: there are no more. */
bool walk_next(struct walk *w, struct range *r);

#endif
