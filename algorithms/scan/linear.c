/*
 * scan linear
 *
 * 1. Receive from rank r-1 the sum of ranks 0 .. r-1, and add my own vector on the right.
 * 2. Send the sum to rank r+1.
 *
 * Every element is forwarded as soon as it arrives: the time of S bytes and P-2 latencies. No
 * scratch. A sum is the left fold in rank order and is sent without rounding: with --order rank the
 * wire has the wider type.
 *
 * P = 4:
 *
 *   rank      0      1         2           3
 *   sends     0      0+1       0+1+2
 *   result    0      0+1       0+1+2       0+1+2+3
 */
#include "algorithms/parts/blocks.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const uint64_t len = coll_count(a);
	const struct sched_span out = sched_out(b, 0);

	sched_fold_inputs(b, out, 0, len);
	if (a->rank > 0)
		sched_recv_reduce(b, a->rank - 1, out, out, len, SCHED_WIRE_LEFT);
	if (a->rank + 1 < a->size)
		sched_send(b, a->rank + 1, out, len);
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	*c = (struct coll_cost){
	        .rounds = a->size - 1,
	        .messages = 1,
	        .sent = 1,
	        .received = 1,
	        .reduced = 1,
	};
}

const struct coll_algorithm scan_linear = {
        .kind = COLL_SCAN,
        .name = "linear",
        .help = "a pipeline from rank to rank; for large vectors",
        .steps = "P-1, pipelined",
        .bytes = "S",
        .restrictions = "",
        .source = "Open MPI coll_base_scan linear",
        .flags = COLL_ORDERED | COLL_PARTIALS,
        .cost = cost,
        .emit = emit,
};
