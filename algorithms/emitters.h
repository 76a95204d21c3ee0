/*
 * The algorithms that table.c has rows for, one file each: its emitter and its closed form.
 */
#ifndef COLLCTL_ALGORITHMS_EMITTERS_H
#define COLLCTL_ALGORITHMS_EMITTERS_H

#include "algorithms/sched.h"

#define ALGORITHM(name)                                              \
	void name(struct sched_builder *, const struct coll_args *); \
	void name##_cost(const struct coll_args *, struct coll_cost *)

/* allreduce */
ALGORITHM(allreduce_ring_chunked);
ALGORITHM(allreduce_recursive_doubling);
ALGORITHM(allreduce_circulant);
ALGORITHM(allreduce_direct);
ALGORITHM(allreduce_ring);
ALGORITHM(allreduce_halving_doubling);
ALGORITHM(allreduce_bcube);
ALGORITHM(allreduce_rabenseifner);

/* reduce-scatter */
ALGORITHM(reduce_scatter_circulant);
ALGORITHM(reduce_scatter_ring);
ALGORITHM(reduce_scatter_direct);
ALGORITHM(reduce_scatter_halving_doubling);

/* allgather */
ALGORITHM(allgather_circulant);
ALGORITHM(allgather_ring);
ALGORITHM(allgather_direct);

/* barrier */
ALGORITHM(barrier_all_to_all);
ALGORITHM(barrier_all_to_one);
ALGORITHM(barrier_dissemination);

#endif
