/*
 * allgather direct (direct.c), from r+1 on around the ranks
 *
 * P-1 peers, no scratch.
 *
 * P = 3, rank 1:
 *
 *   send 1 to 2, send 1 to 0;  receive 0 from 0, receive 2 from 2
 *
 * Source: Collective communication: theory, practice, and experience.
 */
#include "algorithms/parts/blocks.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	direct_allgather(b, a, work_gather_own(b, a));
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const double p = a->size;

	*c = (struct coll_cost){
	        .rounds = 1,
	        .messages = p - 1,
	        .sent = (p - 1) / p,
	        .received = (p - 1) / p,
	};
}

const struct coll_algorithm allgather_direct = {
        .kind = COLL_ALLGATHER,
        .name = "direct",
        .help = "each rank sends its block to all",
        .steps = "1",
        .bytes = "(P-1)b",
        .restrictions = "",
        .source = "Chan, Heimlich, Purkayastha, van de Geijn, CCPE 2007",
        .cost = cost,
        .emit = emit,
};
