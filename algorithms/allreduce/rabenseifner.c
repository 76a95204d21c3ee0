/*
 * allreduce rabenseifner
 *
 * 1. If P is not a power of two, the fold (fold.c) brings the ranks down to 2^L.
 * 2. These halve the vector with partners at doubling distances, adding, until each has a piece of
 *    the sum, and double it back the other way (halving.c).
 * 3. The fold returns the result to the ranks that waited.
 *
 * halving_doubling sends at most 2S, but more messages: here a rank sends only one to each partner.
 * No scratch.
 *
 * P = 6, 2^L = 4, number id among the core ranks, pieces 0..3 of the vector:
 *
 *   rank      0      1               2      3               4               5
 *   in        -> 1                   -> 3
 *   id               0                      1               2               3
 *   halve            0,1 with 3             2,3 with 1      0,1 with 5      2,3 with 4
 *                    0 with 4               2 with 5        1 with 1        3 with 3
 *   double           0,1, then 0..3         2,3, then 0..3  0,1, then 0..3  2,3, then 0..3
 *   out       <- 1                   <- 3
 *
 * Source: Optimization of Collective Reduction Operations; Optimization of Collective Communication
 * Operations in MPICH.
 */
#include "algorithms/parts/blocks.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct range all = whole_range(a);
	const struct sched_span work = sched_work(b);
	struct fold f;

	work_fold(b, work, all);
	f = fold_in(b, a, all);
	if (f.id >= 0) {
		const struct cube c = {log2_floor(f.core), f.id, f.extra, f.extra};

		halving_reduce_scatter(b, a, work, &c);
		halving_allgather(b, a, work, &c);
	}
	fold_out(b, a, all, &f);
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const int l = log2_floor(a->size);
	const double piece = 1.0 / (1 << l), fold = (a->size & (a->size - 1)) != 0;

	*c = (struct coll_cost){
	        .rounds = 2 * l + 2 * fold,
	        .messages = 2 * l + fold,
	        .sent = 2 * (1 - piece) + fold,
	        .received = 2 * (1 - piece) + fold,
	        .reduced = 1 - piece + fold,
	        .pairs = true,
	};
}

const struct coll_algorithm allreduce_rabenseifner = {
        .kind = COLL_ALLREDUCE,
        .name = "rabenseifner",
        .help = "halving_doubling on the largest number of ranks that is a power of two",
        .steps = "2L (+2 if P is not a power of two)",
        .bytes = "2S(1-1/2^L) (+S if P is not a power of two)",
        .restrictions = "",
        .source = "Rabenseifner, ICCS 2004; Thakur, Rabenseifner, Gropp, IJHPCA 2005",
        .cost = cost,
        .emit = emit,
};
