/*
 * The binomial tree over the ranks, counted from the root, and the two phases that move blocks
 * along it.
 *
 * With v = (rank - root) mod P, the parent of v is v with its lowest set bit cleared. So v's
 * children are v + 1, v + 2, v + 4, .. below that bit (the root's: below P), and the subtree of v
 * is a run of that many ranks from v on, modulo P, and so a run of blocks. A chain from the root
 * has at most floor(log2 P) hops, the most bits set in a number below P.
 *
 * P = 6:       0
 *            / | \
 *           4  2  1        subtrees: 4,5   2,3   1
 *           |  |
 *           5  3
 */
#ifndef COLLCTL_ALGORITHMS_PARTS_TREE_H
#define COLLCTL_ALGORITHMS_PARTS_TREE_H

#include "algorithms/parts/blocks.h"

struct tree {
	int rank;
	int parent;   /* rank, or -1: the root */
	int children; /* number of them; the k-th is rank + 2^k */
	int subtree;  /* number of ranks in the subtree: this one and the following ones, modulo the
	                 size */
};
struct tree tree_of(const struct coll_args *a, int rank);

/* The tree seen from child @k. */
static inline struct tree tree_child(const struct coll_args *a, const struct tree *t, int k)
{
	return tree_of(a, rank_add(a, t->rank, 1 << k));
}

/* tree_of(..).subtree, as a separate function */
int tree_subtree(const struct coll_args *a, int rank);

/* The number of ranks in the largest subtree of a child of the root. */
int tree_largest(int size);

/* coll_cost.outer of the whole tree: with consecutive ranks on each host about as many rounds as a
 * tree of the hosts has. 0: unknown hosts, or no ranks that share one. */
int tree_outer(const struct coll_args *a);

/* The place of consecutive blocks, modulo the size: element @first of the collective is at @at, and
 * element 0 follows the last element. */
struct arc {
	struct sched_span at;
	uint64_t first;
};
/* The whole vector at @work. */
static inline struct arc arc_whole(struct sched_span work)
{
	return (struct arc){work, 0};
}
/* Scratch for the blocks of the rank's subtree. */
struct arc arc_subtree(struct sched_builder *b, const struct coll_args *a);
/* The place of element @off of the collective, or the end of the blocks before it. */
struct sched_span arc_at(const struct coll_args *a, struct arc arc, uint64_t off);

/* Broadcast the vector at @work: receive it from the parent and, while it arrives, send it to the
 * children, the one with the largest subtree first. */
void tree_broadcast(struct sched_builder *b, const struct coll_args *a, struct sched_span work);

/* Scatter: receive the blocks of the rank's subtree to their places in @arc, and forward each
 * child's blocks, the largest subtree first. The root has all blocks in its inputs, and its @arc is
 * the whole vector. */
void tree_scatter(struct sched_builder *b, const struct coll_args *a, struct arc arc);

/* Gather: receive each child's blocks to their places in @arc, and send them to the parent with the
 * rank's own block, which is already there. @reduce: add received blocks to those in @arc. */
void tree_gather(struct sched_builder *b, const struct coll_args *a, struct arc arc, bool reduce);

#endif
