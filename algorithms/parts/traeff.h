/*
 * Träff's schedule for a broadcast of n blocks in n - 1 + ceil(log2 P) rounds, the minimum: in each
 * round every rank sends one block and receives one. Reversed, with arriving blocks added, it is a
 * reduction.
 *
 * Ranks are counted from the root: the root is 0. In round i, with k = i mod q, rank r sends to r +
 * skip[k] and receives from r - skip[k]. The block numbers repeat every q rounds, increased by q.
 */
#ifndef COLLCTL_ALGORITHMS_PARTS_TRAEFF_H
#define COLLCTL_ALGORITHMS_PARTS_TRAEFF_H

#include "algorithms/parts/circle.h"

#define TRAEFF_LOG 31 /* ceil(log2) of the largest size */

struct traeff {
	int r, q;                 /* the rank, ceil(log2 size) */
	int skip[TRAEFF_LOG + 1]; /* [0..q]: 1, .., size; each is half the next, rounded up */
	int send[TRAEFF_LOG],
	        recv[TRAEFF_LOG]; /* [0..q): the block; -q..-1: of the previous q rounds */
};

/* The schedule of rank @r of @size >= 2. O(log^2 size). */
void traeff_schedule(int size, int r, struct traeff *t);

/* A rank's part in one round: the block that it sends to r + skip and the one that it receives from
 * r - skip, each of 0..n-1, or -1: none. */
struct traeff_round {
	int skip, send, recv;
};

/* Round @i of the n - 1 + q of a broadcast of @n >= 1 blocks. */
struct traeff_round traeff_round(const struct traeff *t, int n, int i);

/* The number of blocks of the vector in broadcast and reduce circulant, for any length. The root
 * sends (or receives) n - 1 + q blocks, less than a sixteenth more than the vector. One block for
 * two ranks. */
int traeff_blocks(int size);

/* Block @j of the @n blocks of @whole; empty for j = -1. */
struct range traeff_block(struct range whole, int n, int j);

/* The circle of all ranks in which the root is number 0. */
struct circle traeff_circle(const struct coll_args *a);
/* Broadcast @whole of the vector at @work in the circle, from number 0; reduce it to there. Both in
 * traeff_blocks(c->size) blocks, one after the other; a circle of one rank does nothing. */
void traeff_broadcast(struct sched_builder *b, const struct circle *c, struct sched_span work,
                      struct range whole);
void traeff_reduce(struct sched_builder *b, const struct circle *c, struct sched_span work,
                   struct range whole);

#endif
