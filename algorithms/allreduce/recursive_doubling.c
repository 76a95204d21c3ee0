/*
 * allreduce recursive_doubling
 *
 * 1. If P is not a power of two, the fold (fold.c) brings the ranks down to 2^L.
 * 2. For d = 1, 2, .. 2^(L-1): number i exchanges its whole vector with number i ^ d, and both add
 *    the two. The lower number's operand is the left one on both ranks, so both get the same bits.
 *    After the step all ranks of an aligned group of 2d have these bits.
 * 3. The fold returns the result to the ranks that waited.
 *
 * No scratch: arriving elements are added to elements that are already sent.
 *
 * P = 4, the sums:
 *
 *   rank      0              1              2              3
 *   d = 1     0+1            0+1            2+3            2+3
 *   d = 2     (0+1)+(2+3)    (0+1)+(2+3)    (0+1)+(2+3)    (0+1)+(2+3)
 *
 * Source: Optimization of Collective Communication Operations in MPICH.
 */
#include "algorithms/parts/blocks.h"

static void exchange(struct sched_builder *b, const struct fold *f, struct sched_span out,
                     uint64_t len)
{
	for (int d = 1; d < f->core; d <<= 1) {
		const int peer = fold_rank(f, f->id ^ d);

		sched_send(b, peer, out, len);
		sched_recv_reduce(b, peer, out, out, len, f->id & d ? SCHED_WIRE_LEFT : 0);
	}
}

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct range all = whole_range(a);
	const struct sched_span out = sched_out(b, 0);
	struct fold f;

	sched_fold_inputs(b, out, 0, all.len);
	f = fold_in(b, a, all);
	if (f.id >= 0)
		exchange(b, &f, out, all.len);
	fold_out(b, a, all, &f);
}

/* A chain of all L rounds goes from a core rank to its complement. It begins and ends with the fold
 * only if both have folded a rank in: if those are more than half of the core ranks. */
static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const int core = 1 << log2_floor(a->size), extra = a->size - core;
	const double l = log2_floor(a->size), fold = extra > 0;

	*c = (struct coll_cost){
	        .rounds = l + fold + (2 * extra > core),
	        .messages = l + fold,
	        .sent = l + fold,
	        .received = l + fold,
	        .reduced = l + fold,
	};
}

const struct coll_algorithm allreduce_recursive_doubling = {
        .kind = COLL_ALLREDUCE,
        .name = "recursive_doubling",
        .help = "partners at doubling distances exchange whole vectors; for small vectors",
        .steps = "L (+1 if P > 2^L, +2 if P > 1.5 2^L)",
        .bytes = "SL (+S if P is not a power of two)",
        .restrictions = "",
        .source = "Thakur, Rabenseifner, Gropp, IJHPCA 2005",
        .flags = COLL_COPIES,
        .cost = cost,
        .emit = emit,
};
