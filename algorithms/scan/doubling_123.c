/*
 * scan doubling_123: exscan doubling_123, followed by one addition.
 *
 * 1. W <- the sum of the ranks before me, with the skips 1, 2, 3, 6, 12, ..
 * 2. The result is W+V, with my own vector V; rank 0's is V.
 *
 * V is added once, at the end. Sending W+V in every round, not only in the second, would save a
 * round for some P but cost one more addition per round. recursive_doubling makes that choice: it
 * has a sum with and one without V in every round.
 *
 * One addition in each round, and one for the W+V of the second. Scratch: 2S, for W and for W+V.
 *
 * P = 4:
 *
 *   rank      0      1      2        3
 *   skip 1    0      1      2                  sent
 *             -      0      1        2         W
 *   skip 2    0      0+1                       sent
 *             -      0      0+1      (0+1)+2   W
 *   result    0      0+1    (0+1)+2  ((0+1)+2)+3
 *
 * Source: Optimizing the exclusive prefix sums operation (123-doubling).
 */
#include "algorithms/scan/parts.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const uint64_t len = coll_count(a);
	const struct sched_span out = sched_out(b, 0), w = sched_scratch(b, SCHED_DATA, len);

	sched_fold_inputs(b, out, 0, len);
	doubling_123_prefixes(b, a, out, w);
	if (a->rank > 0)
		sched_reduce(b, out, w, len, SCHED_WIRE_LEFT);
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	exscan_doubling_123.cost(a, c);
	c->reduced++;
}

const struct coll_algorithm scan_doubling_123 = {
        .kind = COLL_SCAN,
        .name = "doubling_123",
        .help = "doubling with skips 1, 2, 3, 6, 12, ...: fewest additions",
        .steps = "max(1, floor(log2(4(P-1)/3)))",
        .bytes = "S ceil(log2(4(P-1)/3))",
        .restrictions = "",
        .source = "Träff, arXiv:2507.04785",
        .cost = cost,
        .emit = emit,
};
