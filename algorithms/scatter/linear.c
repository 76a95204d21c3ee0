/*
 * scatter linear
 *
 * 1. The root sends block j to rank j, beginning with rank r + 1.
 *
 * Scratch only at the root, for several inputs.
 *
 * P = 4, root 1:
 *
 *   rank 1: send 2 to 2, send 3 to 3, send 0 to 0
 *   others: receive my block from 1
 *
 * Source: Collective communication: theory, practice, and experience.
 */
#include "algorithms/parts/blocks.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct range own = block_range(a, a->rank);
	struct sched_span work;

	if (a->rank != a->root) {
		sched_recv(b, a->root, sched_out(b, 0), own.len);
		return;
	}
	work = sched_work(b);
	for (int d = 1; d < a->size; d++) {
		const int peer = rank_add(a, a->rank, d);

		work_fold(b, work, block_range(a, peer));
		work_send(b, peer, work, block_range(a, peer));
	}
	work_fold(b, work, own);
	work_scatter_own(b, a, work);
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const double p = a->size;

	*c = (struct coll_cost){
	        .rounds = 1, .messages = p - 1, .sent = (p - 1) / p, .received = 1 / p};
}

const struct coll_algorithm scatter_linear = {
        .kind = COLL_SCATTER,
        .name = "linear",
        .help = "the root sends every rank its block",
        .steps = "1",
        .bytes = "(P-1)b at the root",
        .restrictions = "",
        .source = "Chan, Heimlich, Purkayastha, van de Geijn, CCPE 2007",
        .cost = cost,
        .emit = emit,
};
