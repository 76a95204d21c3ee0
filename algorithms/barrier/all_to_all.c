/*
 * barrier all_to_all
 *
 * 1. Send my notice to r+1, r+2, .. round the ranks.
 * 2. Receive one from each, and combine it with mine.
 *
 * A notice is one element of `band` from each rank; a rank that has all of them knows that all
 * ranks have reached the barrier. No scratch.
 *
 * P = 3, the notices that a rank holds:
 *
 *   rank         0      1      2
 *   at first     0      1      2
 *   round 1      0 2 1  1 0 2  2 1 0
 */
#include "algorithms/parts/blocks.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct range all = whole_range(a);
	const struct sched_span out = sched_out(b, 0);

	sched_fold_inputs(b, out, 0, all.len);
	for (int d = 1; d < a->size; d++)
		sched_send(b, rank_add(a, a->rank, d), out, all.len);
	for (int d = 1; d < a->size; d++)
		sched_recv_reduce(b, rank_add(a, a->rank, -d), out, out, all.len, 0);
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const double p = a->size;

	*c = (struct coll_cost){
	        .rounds = 1,
	        .messages = p - 1,
	        .sent = p - 1,
	        .received = p - 1,
	        .reduced = p - 1,
	};
}

const struct coll_algorithm barrier_all_to_all = {
        .kind = COLL_BARRIER,
        .name = "all_to_all",
        .help = "every rank notifies every other rank, over every link",
        .steps = "1",
        .bytes = "P-1 messages",
        .restrictions = "",
        .source = "Gloo barrier_all_to_all",
        .flags = COLL_DIVERGENT | COLL_COPIES,
        .cost = cost,
        .emit = emit,
};
