/*
 * allgather circulant (circulant.c)
 *
 * For the pairs (s', s), s = ceil(s'/2), from (2, 1) up to s' = P: send the blocks r .. r+s'-s-1 to
 * rank r - s, receive the blocks r+s .. r+s'-1 from rank r + s. All blocks are sent from and
 * received into their places.
 *
 * No scratch. Blocks may be uneven.
 *
 * P = 5, rank 0:
 *
 *   send 0 to 4     receive 1 from 1    0 1 . . .
 *   send 0 to 3     receive 2 from 2    0 1 2 . .
 *   send 0,1 to 2   receive 3,4 from 3  0 1 2 3 4
 *
 * Source: Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms.
 */
#include "algorithms/parts/circulant.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	struct circle c;

	if (circulant_circle(b, a, true, &c))
		circle_allgather(b, &c, work_gather_own(b, a));
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const double p = a->size;

	*c = (struct coll_cost){
	        .rounds = circulant_rounds(a),
	        .outer = circulant_outer_rounds(a),
	        .messages = circulant_messages(a, false, true, true),
	        .sent = (p - 1) / p,
	        .received = (p - 1) / p,
	};
}

const struct coll_algorithm allgather_circulant = {
        .kind = COLL_ALLGATHER,
        .name = "circulant",
        .help = "doubling on a circulant graph: fewest rounds and bytes, no rotation",
        .steps = "q",
        .bytes = "(P-1)b",
        .restrictions = "",
        .source = "Träff, arXiv:2410.14234",
        .cost = cost,
        .emit = emit,
};
