/*
 * reduce binomial: in each round half of the ranks that have a sum send it to the others.
 *
 * 1. Receive the sums of the children in the binomial tree (tree.h), the smallest subtree first,
 *    and add each to mine.
 * 2. Send the sum to the parent.
 *
 * A chain has floor(log2 P) messages. The root receives S ceil(log2 P). Arriving elements are added
 * and forwarded at once. In place: scratch only if several inputs are folded.
 *
 * P = 6, root 0, the ranks whose vectors a rank's sum has:
 *
 *   rank                      0             1   2     3   4     5
 *   1 -> 0, 3 -> 2, 5 -> 4    0 1           -   2 3   -   4 5   -
 *   2 -> 0                    0 1 2 3       -   -     -   4 5   -
 *   4 -> 0                    0 1 2 3 4 5   -   -     -   -     -
 *
 * Source: Optimization of Collective Communication Operations in MPICH.
 */
#include "algorithms/parts/tree.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct tree t = tree_of(a, a->rank);
	const struct range all = whole_range(a);
	const struct sched_span work = sched_work(b);

	work_fold(b, work, all);
	for (int k = 0; k < t.children; k++)
		work_add(b, tree_child(a, &t, k).rank, work, all);
	if (t.parent >= 0)
		work_send(b, t.parent, work, all);
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const double q = log2_ceil(a->size);

	*c = (struct coll_cost){
	        .rounds = log2_ceil(a->size),
	        .outer = tree_outer(a),
	        .messages = 1,
	        .sent = 1,
	        .received = q,
	        .reduced = q,
	        .steady = true,
	};
}

const struct coll_algorithm reduce_binomial = {
        .kind = COLL_REDUCE,
        .name = "binomial",
        .help = "a binomial tree; for small vectors",
        .steps = "q",
        .bytes = "S",
        .restrictions = "",
        .source = "Thakur, Rabenseifner, Gropp, IJHPCA 2005",
        .cost = cost,
        .emit = emit,
};
