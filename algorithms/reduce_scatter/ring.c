/*
 * reduce-scatter ring (ring.c)
 *
 * 1. Send block r-1 right.
 * 2. For i = 2 .. P: receive block r-i from the left, adding it to mine, and send it right; the
 *    last, block r, has passed every rank and stays.
 *
 * Two neighbours. A single input is overwritten in place; several are folded into scratch of S. A
 * block is forwarded while it arrives.
 *
 * P = 3, "+2" receives and adds block 2:
 *
 *   rank 0: send 2   +1 send 1   +0
 *   rank 1: send 0   +2 send 2   +1
 *   rank 2: send 1   +0 send 0   +2
 *
 * Source: Bandwidth optimal all-reduce algorithms for clusters of workstations.
 */
#include "algorithms/parts/blocks.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span work = sched_work(b);

	ring_reduce_scatter(b, a, work, rank_add(a, a->rank, -1), 1);
	work_scatter_own(b, a, work);
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const double p = a->size;

	*c = (struct coll_cost){
	        .rounds = p - 1,
	        .messages = p - 1,
	        .sent = (p - 1) / p,
	        .received = (p - 1) / p,
	        .steady = true,
	        .reduced = (p - 1) / p,
	};
}

const struct coll_algorithm reduce_scatter_ring = {
        .kind = COLL_REDUCE_SCATTER,
        .name = "ring",
        .help = "each block passes round a ring, and every rank adds to it",
        .steps = "P-1",
        .bytes = "S(P-1)/P",
        .restrictions = "",
        .source = "Patarasuk, Yuan, JPDC 2009",
        .cost = cost,
        .emit = emit,
};
