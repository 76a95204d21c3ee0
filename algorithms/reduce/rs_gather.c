/*
 * reduce rs_gather: broadcast scatter_allgather backwards.
 *
 * 1. Reduce-scatter on the circulant graph (circulant.c). A rank keeps its sums of the blocks of
 *    its subtree in the binomial tree (tree.h), v .. v+h-1 counted from the root, instead of
 *    sending them: step 2 sends them.
 * 2. Gather in the binomial tree: add the children's sums of the blocks of their subtrees to mine,
 *    and send the blocks of my subtree to the parent.
 *
 * Every rank sends each element of its vector once; the root receives 2S(P-1)/P and the others
 * less. Together they receive (P-1)S, the minimum. In place: scratch only if several inputs are
 * folded.
 *
 * P = 4, root 0, the ranks whose contributions are in the blocks of ranks 0 and 2:
 *
 *   rank               0: 0      1      2      3          2: 2     3
 *   to r + 2              02     02     0      0             2     2
 *   to r + 1              0123   02     0      0             123   2
 *   3 -> 2, 1 -> 0        0123   0123   0      0             123   123
 *   2 -> 0                0123   0123   0123   0123          -     -
 *
 * Source: Optimization of Collective Reduction Operations; the reduce-scatter is that of Träff's
 * paper.
 */
#include "algorithms/parts/circulant.h"
#include "algorithms/parts/tree.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct circle c = circle_of_all(a, tree_subtree);
	const struct sched_span work = sched_work(b);

	circle_fold(b, &c, work);
	circle_reduce_scatter(b, &c, work);
	tree_gather(b, a, arc_whole(work), true);
}

/* A run of blocks that wraps around is two messages. */
static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const double p = a->size, q = log2_ceil(a->size);

	*c = (struct coll_cost){
	        .rounds = 2 * q,
	        .messages = 2 * q + 2,
	        .sent = 1,
	        .received = 2 * (p - 1) / p,
	        .reduced = 2 * (p - 1) / p,
	};
}

const struct coll_algorithm reduce_rs_gather = {
        .kind = COLL_REDUCE,
        .name = "rs_gather",
        .help = "reduce-scatter on a circulant graph, gather in a binomial tree",
        .steps = "2q",
        .bytes = "S",
        .restrictions = "",
        .source = "Rabenseifner, ICCS 2004; Träff, arXiv:2410.14234",
        .cost = cost,
        .emit = emit,
};
