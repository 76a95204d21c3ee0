/*
 * allgather neighbor: a rank alternates between its two neighbours.
 *
 * 1. An even rank exchanges its block with r + 1, an odd one with r - 1. Both now have a pair of
 *    blocks, which they send next.
 * 2. For i = 1 .. P/2-1: change the neighbour, send it the last pair and receive another one. Even
 *    ranks receive the pairs that begin at r-2, r+2, r-4, r+4, .., odd ones those at r+1, r-3, r+3,
 *    r-5, .. The pair that arrives is the next to send.
 *
 * No scratch. A pair begins with an even block, so it never wraps.
 *
 * P = 6, the blocks that arrive:
 *
 *   rank      0           1           2           3           4           5
 *   step 0    1 from 1    0 from 0    3 from 3    2 from 2    5 from 5    4 from 4
 *   step 1    4,5 from 5  2,3 from 2  0,1 from 1  4,5 from 4  2,3 from 3  0,1 from 0
 *   step 2    2,3 from 1  4,5 from 0  4,5 from 3  0,1 from 2  0,1 from 5  2,3 from 4
 *
 * Source: Performance Evaluation of Allgather Algorithms on Terascale Linux Cluster with Fast
 * Ethernet.
 */
#include "algorithms/parts/blocks.h"

static struct range pair(const struct coll_args *a, int first)
{
	return (struct range){a->off[first], a->off[first + 2] - a->off[first]};
}

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const int odd = a->rank & 1;
	const int with[2] = {rank_add(a, a->rank, odd ? -1 : 1),
	                     rank_add(a, a->rank, odd ? 1 : -1)};
	const struct sched_span work = work_gather_own(b, a);
	int have = a->rank - odd, next[2] = {have, have};

	work_send(b, with[0], work, block_range(a, a->rank));
	work_recv(b, with[0], work, block_range(a, with[0]));
	for (int i = 1; i < a->size / 2; i++) {
		const int k = i & 1;

		next[k] = rank_add(a, next[k], odd == k ? 2 : -2);
		work_send(b, with[k], work, pair(a, have));
		work_recv(b, with[k], work, pair(a, next[k]));
		have = next[k];
	}
}

static const char *falls_back(const struct coll_args *a)
{
	return a->size % 2 ? "ring" : NULL;
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const double p = a->size;

	*c = (struct coll_cost){
	        .rounds = p / 2,
	        .messages = p / 2,
	        .sent = (p - 1) / p,
	        .received = (p - 1) / p,
	};
}

const struct coll_algorithm allgather_neighbor = {
        .kind = COLL_ALLGATHER,
        .name = "neighbor",
        .help = "neighbours on a ring exchange two blocks at a time",
        .steps = "P/2",
        .bytes = "(P-1)b",
        .restrictions = "P must be even; else ring",
        .source = "Chen, Zhang, Zhang, Yuan, HPCASIA 2005; Open MPI "
                  "allgather_intra_neighborexchange",
        .cost = cost,
        .falls_back = falls_back,
        .emit = emit,
};
