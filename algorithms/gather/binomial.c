/*
 * gather binomial
 *
 * 1. Receive the blocks of each child's subtree in the binomial tree (tree.h), the smallest first.
 *    Together with mine they are the blocks of consecutive ranks, from my own on.
 * 2. Send them all to the parent.
 *
 * A chain has floor(log2 P) messages. Blocks are forwarded while they arrive. Scratch: the blocks
 * of the subtree, if a rank has children and is not the root. A subtree that wraps around is two
 * messages.
 *
 * P = 6, root 0, the blocks that a rank has:
 *
 *   rank                      0             1   2     3   4     5
 *   1 -> 0, 3 -> 2, 5 -> 4    0 1           1   2 3   3   4 5   5
 *   2 -> 0, 4 -> 0            0 1 2 3 4 5   1   2 3   3   4 5   5
 *
 * Source: Optimization of Collective Communication Operations in MPICH.
 */
#include "algorithms/parts/tree.h"

/* The place of the blocks of the rank's subtree. */
static struct arc meeting_place(struct sched_builder *b, const struct coll_args *a)
{
	const struct tree t = tree_of(a, a->rank);

	if (t.parent < 0)
		return arc_whole(sched_out(b, 0));
	if (!t.children)
		return (struct arc){sched_in(b, 0, 0), a->off[a->rank]};
	return arc_subtree(b, a);
}

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct arc arc = meeting_place(b, a);
	const struct range own = block_range(a, a->rank);

	sched_fold_inputs(b, arc_at(a, arc, own.off), 0, own.len);
	tree_gather(b, a, arc, false);
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const double p = a->size;

	*c = (struct coll_cost){
	        .rounds = log2_ceil(a->size),
	        .outer = tree_outer(a),
	        .messages = 2,
	        .sent = tree_largest(a->size) / p,
	        .received = (p - 1) / p,
	};
}

const struct coll_algorithm gather_binomial = {
        .kind = COLL_GATHER,
        .name = "binomial",
        .help = "a binomial tree, whose inner ranks collect blocks; for small blocks",
        .steps = "q",
        .bytes = "the blocks of the subtree, at most S/2",
        .restrictions = "",
        .source = "Thakur, Rabenseifner, Gropp, IJHPCA 2005",
        .cost = cost,
        .emit = emit,
};
