/*
 * A toy: allreduce star. Rank 0 adds the vectors of all and sends the sum to all.
 */
#include "algorithms/parts/blocks.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const uint64_t len = coll_count(a);
	const struct sched_span out = sched_out(b, 0);

	sched_fold_inputs(b, out, 0, len);
	if (a->rank > 0) {
		sched_send(b, 0, out, len);
		sched_recv(b, 0, out, len);
		return;
	}
	for (int r = 1; r < a->size; r++)
		sched_recv_reduce(b, r, out, out, len, 0);
	for (int r = 1; r < a->size; r++)
		sched_send(b, r, out, len);
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const double others = a->size - 1;

	*c = (struct coll_cost){.rounds = 2,
	                        .messages = others,
	                        .sent = others,
	                        .received = others,
	                        .reduced = others};
}

const struct coll_algorithm allreduce_star = {
        .kind = COLL_ALLREDUCE,
        .name = "star",
        .help = "a toy",
        .steps = "2",
        .bytes = "(P-1)S at rank 0",
        .restrictions = "",
        .source = "",
        .cost = cost,
        .emit = emit,
};
