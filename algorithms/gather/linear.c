/*
 * gather linear
 *
 * 1. Send the block to the root.
 * 2. The root receives each block into its place, beginning with that of rank r + 1.
 *
 * No scratch.
 *
 * P = 4, root 1:
 *
 *   rank 1: receive 2 from 2, receive 3 from 3, receive 0 from 0
 *   others: send my block to 1
 *
 * Source: Collective communication: theory, practice, and experience.
 */
#include "algorithms/parts/blocks.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct range own = block_range(a, a->rank);

	if (a->rank != a->root) {
		const struct sched_span in = sched_in(b, 0, 0);

		sched_fold_inputs(b, in, 0, own.len);
		sched_send(b, a->root, in, own.len);
		return;
	}
	sched_fold_inputs(b, sched_out(b, own.off), 0, own.len);
	for (int d = 1; d < a->size; d++) {
		const int peer = rank_add(a, a->rank, d);

		work_recv(b, peer, sched_out(b, 0), block_range(a, peer));
	}
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const double p = a->size;

	*c = (struct coll_cost){.rounds = 1, .messages = 1, .sent = 1 / p, .received = (p - 1) / p};
}

const struct coll_algorithm gather_linear = {
        .kind = COLL_GATHER,
        .name = "linear",
        .help = "every rank sends its block to the root",
        .steps = "1",
        .bytes = "b",
        .restrictions = "",
        .source = "Chan, Heimlich, Purkayastha, van de Geijn, CCPE 2007",
        .cost = cost,
        .emit = emit,
};
