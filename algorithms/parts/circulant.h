/*
 * Reduce-scatter and allgather on a circulant graph (circulant.c), by the ranks of a circle.
 */
#ifndef COLLCTL_ALGORITHMS_PARTS_CIRCULANT_H
#define COLLCTL_ALGORITHMS_PARTS_CIRCULANT_H

#include "algorithms/parts/circle.h"

/*
 * The phases, on the vector at @work. Before the reduce-scatter the rank's inputs
 * are in their places (circle_fold). After it the rank's block is complete, before the allgather it
 * is there.
 */
void circle_fold(struct sched_builder *b, const struct circle *c, struct sched_span work);
void circle_reduce_scatter(struct sched_builder *b, const struct circle *c, struct sched_span work);
void circle_allgather(struct sched_builder *b, const struct circle *c, struct sched_span work);

/*
 * The circle of the algorithms called circulant: all ranks. If the ranks' hosts are known and every
 * host has as many, more than one, the ranks are numbered so that as few bytes as possible leave a
 * host (see circulant.c). Block i belongs to number i's rank if @owned, else it is block i of the
 * vector. False: no memory.
 */
bool circulant_circle(struct sched_builder *b, const struct coll_args *a, bool owned,
                      struct circle *c);

/* The number of messages of the rank that sends most in the reduce-scatter, the allgather, or both:
 * one per round, two if its run of blocks wraps around. An upper bound if blocks are @owned and
 * ranks share hosts. */
double circulant_messages(const struct coll_args *a, bool scatter, bool gather, bool owned);
/* The same for a circle of @size ranks whose blocks are one behind the other. */
int circle_messages(int size, bool scatter, bool gather);
/* The rounds of each of the two, and how many of them are between hosts. */
int circulant_rounds(const struct coll_args *a);
int circulant_outer_rounds(const struct coll_args *a);

#endif
