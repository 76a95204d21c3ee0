/*
 * Shared by the algorithms of alltoall: steps for one part of the input or the output. @b is the
 * builder of the rank a->rank, "I" below.
 */
#ifndef COLLCTL_ALGORITHMS_ALLTOALL_PARTS_H
#define COLLCTL_ALGORITHMS_ALLTOALL_PARTS_H

#include "algorithms/parts/blocks.h"

/* Send rank @j its part of my input. */
static inline void alltoall_send(struct sched_builder *b, const struct coll_args *a, int j)
{
	const struct range part = block_range(a, j);

	sched_send(b, j, sched_in(b, 0, part.off), part.len);
}

/* Receive rank @j's part of my output. */
static inline void alltoall_recv(struct sched_builder *b, const struct coll_args *a, int j)
{
	const uint64_t at = coll_recv_at(a, j);

	sched_recv(b, j, sched_out(b, at), coll_recv_at(a, j + 1) - at);
}

/* Copy the part that I send to myself from the input to the output. */
static inline void alltoall_keep(struct sched_builder *b, const struct coll_args *a)
{
	const struct range part = block_range(a, a->rank);

	sched_copy(b, sched_out(b, coll_recv_at(a, a->rank)), sched_in(b, 0, part.off), part.len,
	           0);
}

#endif
