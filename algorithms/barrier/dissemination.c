/*
 * barrier dissemination
 *
 * 1. For d = 1, 2, 4, .. < P: send to r + d, receive from r - d, and combine what arrives with
 * mine.
 * 2. After the round of d a rank has heard, directly or not, of the 2d ranks r, r-1, .. r-2d+1.
 *
 * A notice is one element of `band`. If P is not a power of two, a rank may receive a notice twice,
 * which changes nothing. No scratch.
 *
 * P = 3, the notices that a rank holds:
 *
 *   rank         0        1        2
 *   at first     0        1        2
 *   d = 1        0 2      1 0      2 1
 *   d = 2        0 2 1 0  1 0 2 1  2 1 0 2
 *
 * Source: Two algorithms for barrier synchronization.
 */
#include "algorithms/parts/blocks.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct range all = whole_range(a);
	const struct sched_span out = sched_out(b, 0);

	sched_fold_inputs(b, out, 0, all.len);
	for (int k = 0; k < log2_ceil(a->size); k++) {
		const int d = 1 << k;

		sched_send(b, rank_add(a, a->rank, d), out, all.len);
		sched_recv_reduce(b, rank_add(a, a->rank, -d), out, out, all.len, 0);
	}
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const double q = log2_ceil(a->size);

	*c = (struct coll_cost){
	        .rounds = q,
	        .messages = q,
	        .sent = q,
	        .received = q,
	        .reduced = q,
	};
}

const struct coll_algorithm barrier_dissemination = {
        .kind = COLL_BARRIER,
        .name = "dissemination",
        .help = "in round k rank r notifies rank r + 2^k",
        .steps = "q",
        .bytes = "q messages",
        .restrictions = "",
        .source = "Hensgen, Finkel, Manber, IJPP 1988",
        .flags = COLL_DIVERGENT | COLL_COPIES | COLL_IDEMPOTENT,
        .cost = cost,
        .emit = emit,
};
