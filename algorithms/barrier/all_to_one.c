/*
 * barrier all_to_one
 *
 * 1. The root receives a notice from every rank, and combines it with its own.
 * 2. It sends the result to every rank.
 *
 * A notice is one element of `band`. No scratch.
 *
 * P = 3, root 0, the notices that a rank holds:
 *
 *   rank         0      1      2
 *   at first     0      1      2
 *   round 1      0 1 2  1      2
 *   round 2      0 1 2  0 1 2  0 1 2
 */
#include "algorithms/parts/blocks.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct range all = whole_range(a);
	const struct sched_span out = sched_out(b, 0);

	sched_fold_inputs(b, out, 0, all.len);
	if (a->rank != a->root) {
		sched_send(b, a->root, out, all.len);
		sched_recv(b, a->root, out, all.len);
		return;
	}
	for (int d = 1; d < a->size; d++)
		sched_recv_reduce(b, rank_add(a, a->rank, d), out, out, all.len, 0);
	for (int d = 1; d < a->size; d++)
		sched_send(b, rank_add(a, a->rank, d), out, all.len);
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const double p = a->size;

	*c = (struct coll_cost){
	        .rounds = 2,
	        .messages = p - 1,
	        .sent = p - 1,
	        .received = p - 1,
	        .reduced = p - 1,
	};
}

const struct coll_algorithm barrier_all_to_one = {
        .kind = COLL_BARRIER,
        .name = "all_to_one",
        .help = "every rank notifies the root, which then notifies all",
        .steps = "2",
        .bytes = "1 message; the root P-1",
        .restrictions = "",
        .source = "Gloo barrier_all_to_one",
        .cost = cost,
        .emit = emit,
};
