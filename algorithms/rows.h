/*
 * The rows of table.c: ALGORITHM(x) is the struct coll_algorithm x of an algorithm's file. Of
 * algorithms with equal prices, selection takes the first; so those that also copy elements come
 * last.
 */

/* allreduce */
ALGORITHM(allreduce_ring)
ALGORITHM(allreduce_ring_chunked)
ALGORITHM(allreduce_halving_doubling)
ALGORITHM(allreduce_bcube)
ALGORITHM(allreduce_recursive_doubling)
ALGORITHM(allreduce_rabenseifner)
ALGORITHM(allreduce_circulant)
ALGORITHM(allreduce_direct)
ALGORITHM(allreduce_double_tree)
ALGORITHM(allreduce_census)
ALGORITHM(allreduce_hosts)
ALGORITHM(allreduce_weighted)
ALGORITHM(allreduce_weighted_hosts)
ALGORITHM(allreduce_cuda_ring)
ALGORITHM(allreduce_cuda_ring_chunked)
ALGORITHM(allreduce_cuda_halving_doubling)
ALGORITHM(allreduce_cuda_halving_doubling_pipelined)

/* reduce-scatter */
ALGORITHM(reduce_scatter_halving_doubling)
ALGORITHM(reduce_scatter_circulant)
ALGORITHM(reduce_scatter_ring)
ALGORITHM(reduce_scatter_direct)
ALGORITHM(reduce_scatter_hosts)

/* allgather */
ALGORITHM(allgather_linear)
ALGORITHM(allgather_recursive_doubling)
ALGORITHM(allgather_circulant)
ALGORITHM(allgather_bruck)
ALGORITHM(allgather_ring)
ALGORITHM(allgather_direct)
ALGORITHM(allgather_neighbor)
ALGORITHM(allgather_two_proc)
ALGORITHM(allgather_sparbit)
ALGORITHM(allgather_tuned)
ALGORITHM(allgather_hosts)

/* broadcast */
ALGORITHM(broadcast_one_to_all)
ALGORITHM(broadcast_binomial)
ALGORITHM(broadcast_ring)
ALGORITHM(broadcast_scatter_allgather)
ALGORITHM(broadcast_circulant)
ALGORITHM(broadcast_hosts)
ALGORITHM(broadcast_weighted)
ALGORITHM(broadcast_cuda_broadcast_one_to_all)

/* reduce */
ALGORITHM(reduce_linear)
ALGORITHM(reduce_binomial)
ALGORITHM(reduce_ring)
ALGORITHM(reduce_rs_gather)
ALGORITHM(reduce_circulant)
ALGORITHM(reduce_hosts)
ALGORITHM(reduce_direct)

/* gather */
ALGORITHM(gather_linear)
ALGORITHM(gather_binomial)
ALGORITHM(gather_hosts)

/* scatter */
ALGORITHM(scatter_linear)
ALGORITHM(scatter_binomial)
ALGORITHM(scatter_hosts)

/* alltoall */
ALGORITHM(alltoall_direct)
ALGORITHM(alltoall_pairwise)
ALGORITHM(alltoall_bruck)
ALGORITHM(alltoall_hosts)

/* scan */
ALGORITHM(scan_linear)
ALGORITHM(scan_recursive_doubling)
ALGORITHM(scan_doubling_123)

/* exscan */
ALGORITHM(exscan_linear)
ALGORITHM(exscan_recursive_doubling)
ALGORITHM(exscan_doubling_123)

/* exchange */
ALGORITHM(exchange_pairwise_exchange)

/* barrier */
ALGORITHM(barrier_all_to_all)
ALGORITHM(barrier_all_to_one)
ALGORITHM(barrier_dissemination)
ALGORITHM(barrier_hosts)
