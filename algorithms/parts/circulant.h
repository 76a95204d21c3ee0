/*
 * Reduce-scatter and allgather on a circulant graph, among the ranks of a circle. circulant.c
 * explains the algorithm and names its source.
 */
#ifndef COLLCTL_ALGORITHMS_PARTS_CIRCULANT_H
#define COLLCTL_ALGORITHMS_PARTS_CIRCULANT_H

#include "algorithms/parts/circle.h"

/*
 * The phases, on the work area @work (blocks.h). circle_fold folds the rank's inputs into @work;
 * the reduce-scatter needs that. After the reduce-scatter the rank's block is complete. The
 * allgather needs the rank's block.
 */
void circle_fold(struct sched_builder *b, const struct circle *c, struct sched_span work);
void circle_reduce_scatter(struct sched_builder *b, const struct circle *c, struct sched_span work);
void circle_allgather(struct sched_builder *b, const struct circle *c, struct sched_span work);

/*
 * Make the circle of the algorithms called circulant, which has all ranks. If the hosts are known
 * and all hosts have the same number of ranks, more than one, then the ranks are numbered so that
 * as few bytes as possible leave a host (circulant.c). @owned: the block of number i is the block
 * of its rank; else it is block i of the vector. The builder owns the memory. False: no memory.
 */
bool circulant_circle(struct sched_builder *b, const struct coll_args *a, bool owned,
                      struct circle *c);

/* The number of messages of the rank that sends most, in the reduce-scatter (@scatter) and the
 * allgather (@gather): one per round, or two if the run of blocks wraps around. An upper bound if
 * @owned is true and ranks share hosts. */
double circulant_messages(const struct coll_args *a, bool scatter, bool gather, bool owned);
/* The same in both phases for a circle of @size ranks whose blocks are consecutive. */
int circle_messages(int size);
/* The number of rounds of one of the two phases, and how many of these are between hosts. */
int circulant_rounds(const struct coll_args *a);
int circulant_outer_rounds(const struct coll_args *a);

#endif
