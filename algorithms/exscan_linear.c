/*
 * exscan linear: a chain from rank to rank, which streams.
 *
 * 1. Receive from rank r-1 what the ranks 0 .. r-1 have added up to: the result. Rank 0's is the
 *    identity.
 * 2. Add my own vector to the right of it, aside, and send that to rank r+1, if there is one.
 *
 * P-1 rounds of S bytes, streamed as scan linear's are; scratch: S. A sum is the left fold in rank
 * order, and goes on as it is: with --order rank the wire has the wider type.
 *
 * P = 4:
 *
 *   rank      0      1         2           3
 *   sends     0      0+1       0+1+2
 *   result    -      0         0+1         0+1+2
 *
 * Source: Open MPI, ompi_coll_base_exscan_intra_linear.
 */
#include "algorithms/blocks.h"
#include "algorithms/emitters.h"

void exscan_linear(struct sched_builder *b, const struct coll_args *a)
{
	const uint64_t len = coll_count(a);
	const struct sched_span own = sched_in(b, 0, 0), out = sched_out(b, 0);
	struct sched_span sum;

	if (a->rank == 0) {
		sched_send(b, 1, own, len);
		sched_identity(b, out, len);
		return;
	}
	if (a->rank + 1 == a->size) {
		sched_recv(b, a->rank - 1, out, len);
		return;
	}
	sum = sched_scratch(b, SCHED_DATA, len);
	sched_copy(b, sum, own, len, 0);
	sched_recv(b, a->rank - 1, out, len);
	sched_reduce(b, sum, out, len, SCHED_WIRE_LEFT);
	sched_send(b, a->rank + 1, sum, len);
}

void exscan_linear_cost(const struct coll_args *a, struct coll_cost *c)
{
	*c = (struct coll_cost){
	        .rounds = a->size - 1,
	        .messages = 1,
	        .sent = 1,
	        .received = 1,
	        .reduced = a->size > 2,
	};
}
