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
ALGORITHM(allgather_linear);
ALGORITHM(allgather_bruck);
ALGORITHM(allgather_recursive_doubling);
const char *allgather_recursive_doubling_falls_back(const struct coll_args *);
ALGORITHM(allgather_neighbor);
const char *allgather_neighbor_falls_back(const struct coll_args *);
ALGORITHM(allgather_two_proc);
const char *allgather_two_proc_falls_back(const struct coll_args *);
ALGORITHM(allgather_sparbit);
const char *allgather_tuned_falls_back(const struct coll_args *);

/* broadcast */
ALGORITHM(broadcast_one_to_all);
ALGORITHM(broadcast_binomial);
ALGORITHM(broadcast_ring);
ALGORITHM(broadcast_scatter_allgather);
ALGORITHM(broadcast_circulant);

/* reduce */
ALGORITHM(reduce_linear);
ALGORITHM(reduce_binomial);
ALGORITHM(reduce_ring);
ALGORITHM(reduce_rs_gather);
ALGORITHM(reduce_circulant);

/* gather */
ALGORITHM(gather_linear);
ALGORITHM(gather_binomial);

/* scatter */
ALGORITHM(scatter_linear);
ALGORITHM(scatter_binomial);

/* alltoall */
ALGORITHM(alltoall_direct);
ALGORITHM(alltoall_pairwise);
ALGORITHM(alltoall_bruck);
const char *alltoall_bruck_falls_back(const struct coll_args *);

/* scan, exscan */
ALGORITHM(scan_linear);
ALGORITHM(scan_recursive_doubling);
ALGORITHM(scan_doubling_123);
ALGORITHM(exscan_linear);
ALGORITHM(exscan_recursive_doubling);
ALGORITHM(exscan_doubling_123);

/* exchange */
ALGORITHM(exchange_pairwise_exchange);

/* barrier */
ALGORITHM(barrier_all_to_all);
ALGORITHM(barrier_all_to_one);
ALGORITHM(barrier_dissemination);

#endif
