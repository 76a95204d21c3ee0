/*
 * allreduce circulant (circulant.c)
 *
 * 1. The reduce-scatter leaves block r complete at rank r.
 * 2. The allgather, the same rounds backwards, sends it to all ranks.
 *
 * No scratch. Blocks may be uneven.
 *
 * P = 3: (s', s) = (3,2) (2,1). Rank 0's blocks, R:
 *
 *   send 2 to 2   add 0 from 1       R: 0 1 .
 *   send 1 to 1   add 0 from 2       R: 0 . .    block 0 is complete
 *   send 0 to 2   receive 1 from 1   R: 0 1 .
 *   send 0 to 1   receive 2 from 2   R: 0 1 2
 *
 * Source: Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms.
 */
#include "algorithms/parts/circulant.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span work = sched_work(b);

	struct circle c;

	if (!circulant_circle(b, a, false, &c))
		return;
	circle_fold(b, &c, work);
	circle_reduce_scatter(b, &c, work);
	circle_allgather(b, &c, work);
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const double p = a->size;

	*c = (struct coll_cost){
	        .rounds = 2 * circulant_rounds(a),
	        .outer = 2 * circulant_outer_rounds(a),
	        .messages = circulant_messages(a, true, true, false),
	        .sent = 2 * (p - 1) / p,
	        .received = 2 * (p - 1) / p,
	        .reduced = (p - 1) / p,
	};
}

const struct coll_algorithm allreduce_circulant = {
        .kind = COLL_ALLREDUCE,
        .name = "circulant",
        .help = "reduce-scatter and allgather on a circulant graph: fewest rounds and "
                "bytes",
        .steps = "2q",
        .bytes = "2S(P-1)/P",
        .restrictions = "",
        .source = "Träff, arXiv:2410.14234",
        .cost = cost,
        .emit = emit,
};
