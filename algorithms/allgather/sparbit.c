/*
 * allgather sparbit: like bruck with the distances in reverse order, the farthest first: every
 * block is sent from and received into its place.
 *
 * q = ceil(log2 P). For d = 2^(q-1), .. 2, 1, and s = 0, 2d, 4d, .. with s + d < P: send block r -
 * s to rank r + d, receive block r - d - s from rank r - d. So block r - x arrives in the round
 * of x's lowest bit, after it has travelled the distances of x's higher bits.
 *
 * No scratch; P-1 messages, because the blocks of a round are not adjacent. They are sent at
 * different times; if P is not a power of two, some before their round.
 *
 * P = 6, the blocks of rank 0:
 *
 *   d = 4   send 0 to 4                      receive 2 from 2
 *   d = 2   send 0 to 2                      receive 4 from 4
 *   d = 1   send 0, 4, 2 to 1                receive 5, 3, 1 from 5
 *
 * Source: Sparbit: a new logarithmic-cost and data locality-aware MPI Allgather algorithm.
 */
#include "algorithms/parts/blocks.h"

static struct range block_down(const struct coll_args *a, int d)
{
	return block_range(a, rank_add(a, a->rank, -d));
}

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span work = work_gather_own(b, a);

	for (int d = 1 << (log2_ceil(a->size) - 1); d; d >>= 1) {
		const int up = rank_add(a, a->rank, d), down = rank_add(a, a->rank, -d);

		for (int s = 0; s < a->size - d; s += 2 * d)
			work_send(b, up, work, block_down(a, s));
		for (int s = 0; s < a->size - d; s += 2 * d)
			work_recv(b, down, work, block_down(a, d + s));
	}
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const double p = a->size;

	*c = (struct coll_cost){
	        .rounds = log2_ceil(a->size),
	        .messages = p - 1,
	        .sent = (p - 1) / p,
	        .received = (p - 1) / p,
	};
}

const struct coll_algorithm allgather_sparbit = {
        .kind = COLL_ALLGATHER,
        .name = "sparbit",
        .help = "each rank sends all its blocks, over halving distances; no rotation",
        .steps = "q",
        .bytes = "(P-1)b",
        .restrictions = "",
        .source = "Loch, Koslovski, CLUSTER 2021; Open MPI allgather_intra_sparbit",
        .cost = cost,
        .emit = emit,
};
