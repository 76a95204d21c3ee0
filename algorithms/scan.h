/*
 * What scan and exscan share: each algorithm is one, with the rank's own vector in its result or
 * without.
 */
#ifndef COLLCTL_ALGORITHMS_SCAN_H
#define COLLCTL_ALGORITHMS_SCAN_H

#include "algorithms/blocks.h"

/* scan_recursive_doubling.c */
void recursive_doubling_prefixes(struct sched_builder *b, const struct coll_args *a,
                                 bool exclusive);

/* exscan_doubling_123.c: @w <- what the ranks before me add up to, from left to right, unless there
 * are none. @v: my own vector, of which nothing is left if it is where @w is. */
void doubling_123_prefixes(struct sched_builder *b, const struct coll_args *a, struct sched_span v,
                           struct sched_span w);
/* Its rounds. */
int doubling_123_rounds(const struct coll_args *a);

#endif
