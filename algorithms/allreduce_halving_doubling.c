/*
 * allreduce halving_doubling: halve the vector with partners at doubling distances, adding, and
 * double it back; binary blocks for any P (halving_doubling.c).
 *
 * 1. Each block of 2^k ranks halves the vector, until each rank has a piece of its block's sum.
 * 2. The blocks' sums are added, the smallest block's first, up to the largest block.
 * 3. What is complete there goes down again, block by block.
 * 4. Each block doubles what its ranks have.
 *
 * 2L rounds and 2S(P-1)/P bytes where P is a power of two; else two hops between blocks more, and
 * S to 2S bytes. No scratch. The only rank of a block of one sends and receives a piece of every
 * rank of the next.
 *
 * P = 4, pieces 0..3, the pieces that a rank has to do with:
 *
 *   rank      0                  1                  2                  3
 *   halve     0,1 with 1         2,3 with 0         0,1 with 3         2,3 with 2
 *             0 with 2           2 with 3           1 with 0           3 with 1
 *   double    0,1 with 2         2,3 with 3         0,1 with 0         2,3 with 1
 *             0..3 with 1        0..3 with 0        0..3 with 3        0..3 with 2
 *
 * Source: Gloo, docs/algorithms.md, allreduce_halving_doubling; Thakur, Rabenseifner, Gropp,
 * Optimization of Collective Communication Operations in MPICH, IJHPCA 2005.
 */
#include "algorithms/blocks.h"
#include "algorithms/emitters.h"

void allreduce_halving_doubling(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span work = sched_work(b);

	halving_doubling_reduce(b, a, work);
	halving_doubling_return(b, a, work);
}

/* A rank of a block of B sends 2(1 - 1/B), and 1/B to the larger block and to the smaller one,
 * where there are such; so many it receives. */
void allreduce_halving_doubling_cost(const struct coll_args *a, struct coll_cost *c)
{
	const int l = log2_floor(a->size), rest = a->size - (1 << l);
	const double piece = 1.0 / (1 << l);
	const double sent = 2 - piece * (!rest ? 2 : rest & (rest - 1) ? 0 : 1);

	*c = (struct coll_cost){
	        .rounds = 2 * l + (rest ? 2 : 0),
	        .messages = halving_doubling_messages(a, true),
	        .sent = sent,
	        .received = sent,
	        .reduced = rest ? 1 : 1 - piece,
	};
}
