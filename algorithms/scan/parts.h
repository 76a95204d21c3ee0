/*
 * Shared by scan and exscan. Each algorithm computes either: the result includes the rank's own
 * vector (scan) or not (exscan). Lengths are elements.
 */
#ifndef COLLCTL_ALGORITHMS_SCAN_PARTS_H
#define COLLCTL_ALGORITHMS_SCAN_PARTS_H

#include "algorithms/parts/blocks.h"

extern const struct coll_algorithm scan_recursive_doubling, exscan_doubling_123;

/* scan/recursive_doubling.c: the whole scan or, if @exclusive, exscan. */
void recursive_doubling_prefixes(struct sched_builder *b, const struct coll_args *a,
                                 bool exclusive);

/* exscan/doubling_123.c: reduce the vectors of the ranks below this one, in rank order, into @w; on
 * rank 0 @w is unchanged. @v: this rank's own vector; if it is at @w, it is overwritten. */
void doubling_123_prefixes(struct sched_builder *b, const struct coll_args *a, struct sched_span v,
                           struct sched_span w);

#endif
