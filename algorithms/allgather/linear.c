/*
 * allgather linear
 *
 * 1. Every rank sends its block to rank 0.
 * 2. Rank 0 sends the whole vector down its binomial tree (tree.h), while blocks still arrive.
 *
 * A chain has L + 1 messages, because a rank's sends to several ranks do not wait for each other.
 * No scratch.
 *
 * P = 4:
 *
 *   rank 0: receive 1 from 1, 2 from 2, 3 from 3;  send 0..3 to 2, send 0..3 to 1
 *   rank 1: send 1 to 0;                           receive 0..3 from 0
 *   rank 2: send 2 to 0;                           receive 0..3 from 0, send 0..3 to 3
 *   rank 3: send 3 to 0;                           receive 0..3 from 2
 */
#include "algorithms/parts/tree.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span work = work_gather_own(b, a);
	struct coll_args from_0 = *a;

	from_0.root = 0;
	if (a->rank)
		work_send(b, 0, work, block_range(a, a->rank));
	for (int r = 1; !a->rank && r < a->size; r++)
		work_recv(b, r, work, block_range(a, r));
	tree_broadcast(b, &from_0, work);
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const double q = log2_ceil(a->size);

	*c = (struct coll_cost){.rounds = 1 + q, .messages = q, .sent = q, .received = 1};
}

const struct coll_algorithm allgather_linear = {
        .kind = COLL_ALLGATHER,
        .name = "linear",
        .help = "rank 0 gathers all blocks, then broadcasts them",
        .steps = "1 + q",
        .bytes = "rank 0 qS",
        .restrictions = "",
        .source = "Open MPI allgather_intra_basic_linear",
        .cost = cost,
        .emit = emit,
};
