/*
 * reduce binomial: who is done hands its sum over, so that half as many have one after each round.
 *
 * 1. Receive the sums of the children in the binomial tree (tree.h), the smallest subtree first,
 *    and add each to mine.
 * 2. Send the sum to the parent.
 *
 * q = ceil(log2 P) rounds where a rank receives one message at a time; a chain has floor(log2 P)
 * messages. Every rank sends S, the root receives qS. What arrives is added and passed on at once.
 * Worked in place: scratch only where several inputs are folded.
 *
 * P = 6, root 0, the ranks whose vectors a rank's sum has:
 *
 *   rank                      0             1   2     3   4     5
 *   1 -> 0, 3 -> 2, 5 -> 4    0 1           -   2 3   -   4 5   -
 *   2 -> 0                    0 1 2 3       -   -     -   4 5   -
 *   4 -> 0                    0 1 2 3 4 5   -   -     -   -     -
 *
 * Source: Thakur, Rabenseifner, Gropp, Optimization of Collective Communication Operations in
 * MPICH, IJHPCA 2005.
 */
#include "algorithms/emitters.h"
#include "algorithms/tree.h"

void reduce_binomial(struct sched_builder *b, const struct coll_args *a)
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

void reduce_binomial_cost(const struct coll_args *a, struct coll_cost *c)
{
	const double q = log2_ceil(a->size);

	*c = (struct coll_cost){
	        .rounds = log2_ceil(a->size),
	        .messages = 1,
	        .sent = 1,
	        .received = q,
	        .reduced = q,
	};
}
