/*
 * scatter binomial
 *
 * 1. Receive the blocks of my subtree in the binomial tree (tree.h) from the parent: those of
 *    consecutive ranks, from my own on.
 * 2. Send each child the blocks of its subtree, the largest first; keep my own.
 *
 * A chain has floor(log2 P) messages. A rank receives the blocks of its subtree: at most half of S.
 * Blocks are forwarded while they arrive. Scratch: the blocks of the subtree, if a rank has
 * children and is not the root. A subtree that wraps around is two messages.
 *
 * P = 6, root 0, the blocks that a rank still has to forward or keep:
 *
 *   rank                      0             1   2     3   4     5
 *                             0 1 2 3 4 5
 *   0 -> 4, 0 -> 2, 0 -> 1    0             1   2 3   -   4 5   -
 *   4 -> 5, 2 -> 3            0             1   2     3   4     5
 *
 * Source: Optimization of Collective Communication Operations in MPICH.
 */
#include "algorithms/parts/tree.h"

/* The place of the blocks of the rank's subtree. */
static struct arc parting_place(struct sched_builder *b, const struct coll_args *a)
{
	const struct tree t = tree_of(a, a->rank);

	if (t.parent < 0)
		return arc_whole(sched_work(b));
	if (!t.children)
		return (struct arc){sched_out(b, 0), a->off[a->rank]};
	return arc_subtree(b, a);
}

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct arc arc = parting_place(b, a);
	const struct range own = block_range(a, a->rank);

	tree_scatter(b, a, arc);
	sched_copy(b, sched_out(b, 0), arc_at(a, arc, own.off), own.len, 0);
}

/* One of the root's runs of blocks may wrap around and be two messages. */
static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const double p = a->size;

	*c = (struct coll_cost){
	        .rounds = log2_ceil(a->size),
	        .outer = tree_outer(a),
	        .messages = log2_ceil(a->size) + 1,
	        .sent = (p - 1) / p,
	        .received = tree_largest(a->size) / p,
	};
}

const struct coll_algorithm scatter_binomial = {
        .kind = COLL_SCATTER,
        .name = "binomial",
        .help = "a binomial tree, whose inner ranks divide the blocks; for small blocks",
        .steps = "q",
        .bytes = "(P-1)b at the root, others less",
        .restrictions = "",
        .source = "Thakur, Rabenseifner, Gropp, IJHPCA 2005",
        .cost = cost,
        .emit = emit,
};
