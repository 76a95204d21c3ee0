/*
 * reduce direct: only joint operations; sums are those of linear.
 *
 * 1. Reduce-scatter by direct exchange (direct.c): every rank sends the block j of each of its
 *    inputs to rank j, which joins all contributions of its block.
 * 2. Send the block to the root.
 *
 * The root receives the contributions of one block and the blocks of the others, where linear's
 * receives all contributions. P-1 peers. Scratch: one block for each contribution, and one for the
 * result where the rank is not the root.
 *
 * P = 3, root 0, the blocks of rank 1:
 *
 *   send 2 to 2, send 0 to 0
 *   block 1 of rank 0, my block 1, block 1 of rank 2: joined;  send 1 to 0
 *
 * Source: Collective communication: theory, practice, and experience.
 */
#include "algorithms/parts/blocks.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const bool is_root = a->rank == a->root;
	const struct range own = block_range(a, a->rank);
	const struct sched_span result =
	        is_root ? sched_out(b, own.off) : sched_scratch(b, SCHED_DATA, own.len);

	joint_reduce_scatter(b, a, result);
	if (!is_root)
		sched_send(b, a->root, result, own.len);
	for (int d = 1; d < a->size && is_root; d++) {
		const struct range r = block_range(a, rank_add(a, a->rank, -d));

		sched_recv(b, rank_add(a, a->rank, -d), sched_out(b, r.off), r.len);
	}
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const struct joint_load others = joint_load_of(a, a->root);
	const double p = a->size, root = coll_inputs(a, a->root);

	*c = (struct coll_cost){
	        .rounds = 2,
	        .messages = larger(others.most * (p - 1) + 1, root * (p - 1)),
	        .sent = larger(others.most * (p - 1) + 1, root * (p - 1)) / p,
	        .received = larger(others.all - others.least, others.all - root + p - 1) / p,
	        .reduced = (others.all - 1) / p,
	};
}

static const char *falls_back(const struct coll_args *a)
{
	return a->joint ? NULL : "linear";
}

const struct coll_algorithm reduce_direct = {
        .kind = COLL_REDUCE,
        .name = "direct",
        .help = "each rank joins one block of all vectors, and sends it to the root",
        .steps = "2",
        .bytes = "S",
        .restrictions = "for median and trimmed:F; for others falls back to linear",
        .source = "Chan, Heimlich, Purkayastha, van de Geijn, CCPE 2007",
        .flags = COLL_JOINT,
        .cost = cost,
        .falls_back = falls_back,
        .emit = emit,
};
