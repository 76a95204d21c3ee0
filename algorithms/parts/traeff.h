/*
 * Träff's schedule for a broadcast of n blocks in n - 1 + ceil(log2 P) rounds, which is the
 * minimum. In each round every rank sends one block and receives one. The reverse schedule, in
 * which arriving blocks are added, is a reduction. Pure; O(log P) memory.
 *
 * Ranks are numbered from the root, modulo P: the root is 0. In round i, with k = i mod q, rank r
 * sends to r + skip[k] and receives from r - skip[k]. Every q rounds the pattern repeats, with
 * block numbers that are q higher.
 *
 * Source: Träff, Optimal Broadcast Schedules in Logarithmic Time with Applications to Broadcast,
 * All-Broadcast, Reduction and All-Reduction, arXiv:2407.18004.
 */
#ifndef COLLCTL_ALGORITHMS_PARTS_TRAEFF_H
#define COLLCTL_ALGORITHMS_PARTS_TRAEFF_H

#include "algorithms/parts/circle.h"

#define TRAEFF_LOG 31 /* ceil(log2) of the largest size */

struct traeff {
	int r, q;                 /* the rank, counted from the root; ceil(log2 size) */
	int skip[TRAEFF_LOG + 1]; /* [0..q]: 1, .., size; each is half of the next, rounded up */
	int send[TRAEFF_LOG], recv[TRAEFF_LOG]; /* [0..q): the block of a round; negative: of the
	                                           previous q rounds */
};

/* Compute the schedule of rank @r (counted from the root) of @size >= 2. O(log^2 size). */
void traeff_schedule(int size, int r, struct traeff *t);

/* One round of a rank: it sends block `send` to r + skip and receives block `recv` from r - skip. A
 * block is 0..n-1, or -1: none. */
struct traeff_round {
	int skip, send, recv;
};

/* Round @i, 0 .. n - 2 + q, of a broadcast of @n >= 1 blocks. */
struct traeff_round traeff_round(const struct traeff *t, int n, int i);

/* The number n of blocks that broadcast and reduce circulant use, for any length of the vector. It
 * is so large that n - 1 + q blocks, which the root sends (or receives), are less than a sixteenth
 * more than the vector. Two ranks: 1. */
int traeff_blocks(int size);

/* Block @j of the @n blocks of @whole; empty for j = -1. */
struct range traeff_block(struct range whole, int n, int j);

/* The circle of all ranks in which the root is number 0. */
struct circle traeff_circle(const struct coll_args *a);
/* Broadcast the range @whole of the work area (blocks.h) from number 0 of the circle; reduce it to
 * number 0. Both use traeff_blocks(c->size) blocks. In a circle of one rank they do nothing. */
void traeff_broadcast(struct sched_builder *b, const struct circle *c, struct sched_span work,
                      struct range whole);
void traeff_reduce(struct sched_builder *b, const struct circle *c, struct sched_span work,
                   struct range whole);

#endif
