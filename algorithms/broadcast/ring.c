/*
 * broadcast ring
 *
 * 1. Receive the vector from the left neighbour, unless I am the root.
 * 2. Send it to the right one, unless that is the root.
 *
 * A SEND follows the RECV of the same elements: every rank forwards data while they arrive, in
 * pieces as small as the connections accept. With n ranks and r pieces this takes (n + r - 2)(L +
 * m/(rB)). No scratch.
 *
 * P = 4, root 2:
 *
 *   2 -> 3 -> 0 -> 1
 */
#include "algorithms/parts/blocks.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const int left = rank_add(a, a->rank, -1), right = rank_add(a, a->rank, 1);
	const struct range all = whole_range(a);
	const struct sched_span out = sched_out(b, 0);

	if (a->rank == a->root)
		work_fold(b, out, all);
	else
		work_recv(b, left, out, all);
	if (right != a->root)
		work_send(b, right, out, all);
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	*c = (struct coll_cost){
	        .rounds = a->size - 1, .messages = 1, .sent = 1, .received = 1, .steady = true};
}

const struct coll_algorithm broadcast_ring = {
        .kind = COLL_BROADCAST,
        .name = "ring",
        .help = "a pipeline along a chain of all ranks; for large vectors on few ranks",
        .steps = "P-1, pipelined",
        .bytes = "S",
        .restrictions = "",
        .source = "Open MPI bcast_intra_pipeline",
        .cost = cost,
        .emit = emit,
};
