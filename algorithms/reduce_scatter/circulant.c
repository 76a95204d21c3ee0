/*
 * reduce-scatter circulant (circulant.c)
 *
 * s = P; while s > 1: s' = s, s = ceil(s/2); send the blocks r+s .. r+s'-1 to rank r + s, add those
 * from rank r - s to the blocks r .. r+s'-s-1. At the end block r is complete.
 *
 * A single input is overwritten in place; several are folded into scratch of S.
 *
 * P = 4, the blocks of rank 0 with the ranks whose contributions they have:
 *
 *   block                        0        1      2    3
 *   send 2,3 to 2, add from 2    0 2      0 2    -    -      (rank 1: 1 3)
 *   send 1 to 1, add from 3      0 1 2 3  -      -    -
 *
 * Source: Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms.
 */
#include "algorithms/parts/circulant.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span work = sched_work(b);
	struct circle c;

	if (!circulant_circle(b, a, true, &c))
		return;
	circle_fold(b, &c, work);
	circle_reduce_scatter(b, &c, work);
	work_scatter_own(b, a, work);
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const double p = a->size;

	*c = (struct coll_cost){
	        .rounds = circulant_rounds(a),
	        .outer = circulant_outer_rounds(a),
	        .messages = circulant_messages(a, true, false, true),
	        .sent = (p - 1) / p,
	        .received = (p - 1) / p,
	        .reduced = (p - 1) / p,
	};
}

const struct coll_algorithm reduce_scatter_circulant = {
        .kind = COLL_REDUCE_SCATTER,
        .name = "circulant",
        .help = "halving on a circulant graph: fewest rounds and bytes",
        .steps = "q",
        .bytes = "S(P-1)/P",
        .restrictions = "",
        .source = "Träff, arXiv:2410.14234",
        .cost = cost,
        .emit = emit,
};
