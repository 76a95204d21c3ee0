/*
 * exscan linear
 *
 * 1. Receive from rank r-1 the sum of ranks 0 .. r-1: the result. Rank 0's is the
 *    identity.
 * 2. Add my own vector to the right of it, in scratch, and send that to rank r+1, if it exists.
 *
 * Streamed as scan linear is; scratch: S. A sum is the left fold in rank order and is sent without
 * rounding: with --order rank the wire has the wider type.
 *
 * P = 4:
 *
 *   rank      0      1         2           3
 *   sends     0      0+1       0+1+2
 *   result    -      0         0+1         0+1+2
 */
#include "algorithms/parts/blocks.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
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

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	*c = (struct coll_cost){
	        .rounds = a->size - 1,
	        .messages = 1,
	        .sent = 1,
	        .received = 1,
	        .reduced = a->size > 2,
	};
}

const struct coll_algorithm exscan_linear = {
        .kind = COLL_EXSCAN,
        .name = "linear",
        .help = "a pipeline from rank to rank; for large vectors",
        .steps = "P-1, pipelined",
        .bytes = "S",
        .restrictions = "",
        .source = "Open MPI coll_base_exscan linear",
        .flags = COLL_ORDERED | COLL_PARTIALS,
        .cost = cost,
        .emit = emit,
};
