/*
 * allgather ring (ring.c)
 *
 * In step i = 0 .. P-2 rank r sends block r-i to the right and receives block r-i-1 from the left.
 *
 * Two neighbours, no scratch. A block is forwarded while it still arrives.
 *
 * P = 3, "=2" receives block 2:
 *
 *   rank 0: send 0   =2 send 2   =1
 *   rank 1: send 1   =0 send 0   =2
 *   rank 2: send 2   =1 send 1   =0
 */
#include "algorithms/parts/blocks.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	ring_allgather(b, a, work_gather_own(b, a), a->rank, 1);
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
	};
}

const struct coll_algorithm allgather_ring = {
        .kind = COLL_ALLGATHER,
        .name = "ring",
        .help = "each rank passes every block on to the next rank of a ring",
        .steps = "P-1",
        .bytes = "(P-1)b",
        .restrictions = "",
        .source = "Open MPI allgather_intra_ring",
        .cost = cost,
        .emit = emit,
};
