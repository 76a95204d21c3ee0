/*
 * scan linear: a chain from rank to rank, which streams.
 *
 * 1. Receive from rank r-1 what the ranks 0 .. r-1 have added up to; my own vector stands right of
 *    it.
 * 2. Send the sum to rank r+1.
 *
 * P-1 rounds of S bytes, but every element goes on as soon as it is there: the time of S bytes and
 * of P-2 latencies. No scratch. A sum is the left fold in rank order, and goes on as it is: with
 * --order rank the wire has the wider type.
 *
 * P = 4:
 *
 *   rank      0      1         2           3
 *   sends     0      0+1       0+1+2
 *   result    0      0+1       0+1+2       0+1+2+3
 *
 * Source: Open MPI, ompi_coll_base_scan_intra_linear.
 */
#include "algorithms/blocks.h"
#include "algorithms/emitters.h"

void scan_linear(struct sched_builder *b, const struct coll_args *a)
{
	const uint64_t len = coll_count(a);
	const struct sched_span out = sched_out(b, 0);

	sched_fold_inputs(b, out, 0, len);
	if (a->rank > 0)
		sched_recv_reduce(b, a->rank - 1, out, out, len, SCHED_WIRE_LEFT);
	if (a->rank + 1 < a->size)
		sched_send(b, a->rank + 1, out, len);
}

void scan_linear_cost(const struct coll_args *a, struct coll_cost *c)
{
	*c = (struct coll_cost){
	        .rounds = a->size - 1,
	        .messages = 1,
	        .sent = 1,
	        .received = 1,
	        .reduced = 1,
	};
}
