/*
 * broadcast binomial: every rank with the vector sends it, so that twice as many have it after each
 * round.
 *
 * 1. Receive the vector from the parent in the binomial tree (tree.h).
 * 2. Send it to the children, the one with the largest subtree first.
 *
 * A chain has floor(log2 P) messages, because the root's sends do not wait. Ranks forward data
 * while they arrive. No scratch.
 *
 * P = 6, root 0, the ranks that have the vector:
 *
 *   0 -> 4, 0 -> 2, 0 -> 1     0 1 2 . 4 .
 *   4 -> 5, 2 -> 3             0 1 2 3 4 5
 *
 * Source: Optimization of Collective Communication Operations in MPICH.
 */
#include "algorithms/parts/tree.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span out = sched_out(b, 0);

	if (a->rank == a->root)
		work_fold(b, out, whole_range(a));
	tree_broadcast(b, a, out);
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const double q = log2_ceil(a->size);

	*c = (struct coll_cost){.rounds = log2_ceil(a->size),
	                        .outer = tree_outer(a),
	                        .messages = q,
	                        .sent = q,
	                        .received = 1,
	                        .steady = true};
}

const struct coll_algorithm broadcast_binomial = {
        .kind = COLL_BROADCAST,
        .name = "binomial",
        .help = "a binomial tree; for small vectors",
        .steps = "q",
        .bytes = "qS at the root, others less",
        .restrictions = "",
        .source = "Thakur, Rabenseifner, Gropp, IJHPCA 2005",
        .cost = cost,
        .emit = emit,
};
