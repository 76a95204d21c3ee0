/*
 * reduce-scatter circulant: each round halves the blocks that a rank still has to do with
 * (circulant.c), for any P as few rounds and as few bytes as can be.
 *
 * s = P; while s > 1: s' = s, s = ceil(s/2); send the blocks r+s .. r+s'-1 to rank r + s, add those
 * that come from rank r - s to the blocks r .. r+s'-s-1. At the end block r is complete.
 *
 * ceil(log2 P) rounds, S(P-1)/P bytes. A single input is used up in place; several are folded into
 * a scratch of S.
 *
 * P = 4, the blocks of rank 0 with the ranks whose contributions they have:
 *
 *   block                        0        1      2    3
 *   send 2,3 to 2, add from 2    0 2      0 2    -    -      (rank 1: 1 3)
 *   send 1 to 1, add from 3      0 1 2 3  -      -    -
 *
 * Source: Träff, Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms, arXiv:2410.14234.
 */
#include "algorithms/blocks.h"
#include "algorithms/emitters.h"

void reduce_scatter_circulant(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span work = sched_work(b);

	circulant_reduce_scatter(b, a, work);
	work_scatter_own(b, a, work);
}

void reduce_scatter_circulant_cost(const struct coll_args *a, struct coll_cost *c)
{
	const double p = a->size, q = log2_ceil(a->size);

	*c = (struct coll_cost){
	        .rounds = q,
	        .messages = circulant_messages(a, true, false),
	        .sent = (p - 1) / p,
	        .received = (p - 1) / p,
	        .reduced = (p - 1) / p,
	};
}
