/*
 * Shared by scan and exscan: each algorithm serves both, with or without the rank's own vector in
 * its result.
 */
#ifndef COLLCTL_ALGORITHMS_SCAN_PARTS_H
#define COLLCTL_ALGORITHMS_SCAN_PARTS_H

#include "algorithms/parts/blocks.h"

extern const struct coll_algorithm scan_recursive_doubling, exscan_doubling_123;

/* scan_recursive_doubling.c */
void recursive_doubling_prefixes(struct sched_builder *b, const struct coll_args *a,
                                 bool exclusive);

/* exscan_doubling_123.c: @w <- the sum of the ranks before me, in rank order; unchanged on rank 0.
 * @v: my own vector, which is overwritten if it is at @w. */
void doubling_123_prefixes(struct sched_builder *b, const struct coll_args *a, struct sched_span v,
                           struct sched_span w);
/* Its number of rounds. */
int doubling_123_rounds(const struct coll_args *a);

#endif
