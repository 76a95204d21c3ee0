/*
 * broadcast scatter_allgather
 *
 * 1. Scatter in a binomial tree (tree.h): each rank receives the blocks of its subtree, v .. v+h-1
 *    counted from the root, and forwards those of each child's subtree.
 * 2. Allgather on the circulant graph (circulant.c). Rank v has the blocks of its subtree, which
 *    are the first h that it would receive: these are skipped. So no block reaches a rank twice,
 *    and none is sent to the root.
 *
 * Every rank receives S. All together they send (P-1)S, the minimum. No scratch.
 *
 * P = 4, root 0, the blocks that a rank has:
 *
 *   rank                 0         1         2         3
 *   0 -> 2, 0 -> 1       0 1 2 3   . 1 . .   . . 2 3   . . . .
 *   2 -> 3               0 1 2 3   . 1 . .   . . 2 3   . . . 3
 *   to r - 1             0 1 2 3   . 1 2 .   . . 2 3   0 . . 3     2 has 3 already
 *   to r - 2             0 1 2 3   0 1 2 3   0 1 2 3   0 1 2 3
 *
 * Source: SUMMA; also Thakur, Rabenseifner, Gropp, IJHPCA 2005; the allgather is that of Träff's
 * paper.
 */
#include "algorithms/parts/circulant.h"
#include "algorithms/parts/tree.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct circle c = circle_of_all(a, tree_subtree);
	const struct sched_span out = sched_out(b, 0);

	tree_scatter(b, a, arc_whole(out));
	circle_allgather(b, &c, out);
}

/* A run of blocks that wraps around is two messages: at most one of the root's runs to its
 * children, and at most one in each round of the allgather. */
static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const double p = a->size, q = log2_ceil(a->size);

	*c = (struct coll_cost){
	        .rounds = 2 * q,
	        .messages = 3 * q + 1,
	        .sent = 2 * (p - 1) / p,
	        .received = 1,
	};
}

const struct coll_algorithm broadcast_scatter_allgather = {
        .kind = COLL_BROADCAST,
        .name = "scatter_allgather",
        .help = "scatter in a binomial tree, allgather on a circulant graph",
        .steps = "2q",
        .bytes = "2S(P-1)/P at the root, others less",
        .restrictions = "",
        .source = "van de Geijn, Watts, CPE 1997; Träff, arXiv:2410.14234",
        .cost = cost,
        .emit = emit,
};
