/*
 * broadcast scatter_allgather: the blocks go to their ranks, and from there to all.
 *
 * 1. Scatter in a binomial tree (tree.h): each rank receives the blocks of its subtree, v .. v+h-1
 *    counted from the root, and passes each child's on.
 * 2. Allgather on the circulant graph (circulant.c). Rank v has the blocks of its subtree, which
 * are the first h that it would receive: these are left out. So nothing comes to a rank twice, and
 *    nothing to the root.
 *
 * 2 ceil(log2 P) rounds at most; every rank receives S, the root sends 2S(P-1)/P and the others
 * less. All together they send (P-1)S, which is the least that can be. No scratch.
 *
 * P = 4, root 0, the blocks that a rank has:
 *
 *   rank                 0         1         2         3
 *   0 -> 2, 0 -> 1       0 1 2 3   . 1 . .   . . 2 3   . . . .
 *   2 -> 3               0 1 2 3   . 1 . .   . . 2 3   . . . 3
 *   to r - 1             0 1 2 3   . 1 2 .   . . 2 3   0 . . 3     2 has 3 already
 *   to r - 2             0 1 2 3   0 1 2 3   0 1 2 3   0 1 2 3
 *
 * Source: van de Geijn, Watts, SUMMA, CPE 1997, and Thakur, Rabenseifner, Gropp, IJHPCA 2005; the
 * allgather is that of Träff, arXiv:2410.14234.
 */
#include "algorithms/emitters.h"
#include "algorithms/tree.h"

void broadcast_scatter_allgather(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span out = sched_out(b, 0);

	tree_scatter(b, a, arc_whole(out));
	circulant_allgather_but(b, a, out, tree_subtree);
}

/* A run of blocks that wraps behind the last one is two messages: of the root's to its children one
 * may, and one in each round of the allgather. */
void broadcast_scatter_allgather_cost(const struct coll_args *a, struct coll_cost *c)
{
	const double p = a->size, q = log2_ceil(a->size);

	*c = (struct coll_cost){
	        .rounds = 2 * q,
	        .messages = 3 * q + 1,
	        .sent = 2 * (p - 1) / p,
	        .received = 1,
	};
}
