/*
 * allreduce weighted: direct (direct.c), in which a rank's block is the larger, the faster the link
 * of its host is (fill.h). The blocks are those of coll_args.off: the caller has cut them.
 *
 * The sums are those of direct, in the same order, so the bits do not depend on the cuts. A rank
 * with an empty block sends its vector to the others, and receives the result.
 *
 * P = 4, rates 2 2 2 1: a vector of 28 elements has blocks of 9, 9, 9 and 1. Each way rank 0 moves
 * 19 + 3 * 9 = 46 elements, and rank 3 27 + 3 * 1 = 30: both for about the same time.
 *
 * Source: the bound and the filling are derived in fill.h; the exchange is direct's.
 */
#include "algorithms/parts/blocks.h"
#include "lib/sched/placement.h"

static double largest_part(const struct coll_args *a)
{
	uint64_t most = 0;

	for (int r = 0; a->off && r < a->size; r++)
		most = block_range(a, r).len > most ? block_range(a, r).len : most;
	return most ? (double)most / (double)coll_count(a) : 1.0 / a->size;
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	direct_allreduce_cost(a, largest_part(a), c);
}

static const char *falls_back(const struct coll_args *a)
{
	if (a->size < 3 || hosts_count(a) == 1)
		return "direct";
	return hosts_shared(a) && !a->ordered && !a->joint ? "weighted_hosts" : NULL;
}

const struct coll_algorithm allreduce_weighted = {
        .kind = COLL_ALLREDUCE,
        .name = "weighted",
        .help = "direct, with blocks by the rates of the hosts' links",
        .steps = "2",
        .bytes = "S(1+f(P-2)), f: its part",
        .restrictions = "direct for fewer than 3 ranks, or on one host; weighted_hosts where ranks "
                        "share hosts, unless --order rank",
        .source = "lib/price/fill.h; Chan, Heimlich, Purkayastha, van de Geijn, CCPE 2007",
        .flags = COLL_ORDERED | COLL_FINAL | COLL_JOINT | COLL_WEIGHTED,
        .cost = cost,
        .falls_back = falls_back,
        .emit = direct_allreduce,
};
