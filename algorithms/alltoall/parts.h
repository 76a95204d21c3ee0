/*
 * Shared by the algorithms of alltoall: steps for one part of the input or the output.
 */
#ifndef COLLCTL_ALGORITHMS_ALLTOALL_PARTS_H
#define COLLCTL_ALGORITHMS_ALLTOALL_PARTS_H

#include "algorithms/parts/blocks.h"

/* Send the part of my input that rank @j gets. */
static inline void alltoall_send(struct sched_builder *b, const struct coll_args *a, int j)
{
	const struct range part = block_range(a, j);

	sched_send(b, j, sched_in(b, 0, part.off), part.len);
}

/* Receive the part of my output that rank @j sends. */
static inline void alltoall_recv(struct sched_builder *b, const struct coll_args *a, int j)
{
	const uint64_t at = coll_recv_at(a, j);

	sched_recv(b, j, sched_out(b, at), coll_recv_at(a, j + 1) - at);
}

/* Copy my own part. */
static inline void alltoall_keep(struct sched_builder *b, const struct coll_args *a)
{
	const struct range part = block_range(a, a->rank);

	sched_copy(b, sched_out(b, coll_recv_at(a, a->rank)), sched_in(b, 0, part.off), part.len,
	           0);
}

#endif
