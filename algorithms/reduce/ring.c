/*
 * reduce ring
 *
 * 1. Receive the sum of the ranks before me from the right neighbour, unless that is the root, and
 *    add it to mine.
 * 2. Send the sum to the left one, unless I am the root.
 *
 * A SEND follows the RECV_REDUCE of the same elements: a sum is forwarded while it is still
 * arriving. With n ranks and r pieces this takes (n + r - 2)(L + m/(rB)). In place: scratch only if
 * several inputs are folded.
 *
 * P = 4, root 2, the ranks whose vectors are in what is sent:
 *
 *   1 -> 0: 1    0 -> 3: 0 1    3 -> 2: 3 0 1
 */
#include "algorithms/parts/blocks.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const int left = rank_add(a, a->rank, -1), right = rank_add(a, a->rank, 1);
	const struct range all = whole_range(a);
	const struct sched_span work = sched_work(b);

	work_fold(b, work, all);
	if (right != a->root)
		work_add(b, right, work, all);
	if (a->rank != a->root)
		work_send(b, left, work, all);
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	*c = (struct coll_cost){.rounds = a->size - 1,
	                        .messages = 1,
	                        .sent = 1,
	                        .received = 1,
	                        .reduced = 1,
	                        .steady = true};
}

const struct coll_algorithm reduce_ring = {
        .kind = COLL_REDUCE,
        .name = "ring",
        .help = "a pipeline along a chain of all ranks; for large vectors on few ranks",
        .steps = "P-1, pipelined",
        .bytes = "S",
        .restrictions = "",
        .source = "Open MPI reduce_intra_pipeline",
        .cost = cost,
        .emit = emit,
};
