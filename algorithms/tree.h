/*
 * The binomial tree over the ranks, counted from the root, and the two phases that move blocks
 * along it.
 *
 * With v = (rank - root) mod P, the parent of v is v with its lowest set bit cleared. So v's
 * children are v + 1, v + 2, v + 4, .. below that bit (the root's: below P), and the subtree of v
 * is as many ranks from v on: a run of blocks, modulo P. A chain from the root has at most as many
 * hops as a number below P has bits that are set: floor(log2 P).
 *
 * P = 6:       0
 *            / | \
 *           4  2  1        subtrees: 4,5   2,3   1
 *           |  |
 *           5  3
 */
#ifndef COLLCTL_ALGORITHMS_TREE_H
#define COLLCTL_ALGORITHMS_TREE_H

#include "algorithms/blocks.h"

struct tree {
	int rank;
	int parent;   /* rank, or -1: the root */
	int children; /* number of them; the k-th is rank + 2^k */
	int subtree;  /* ranks in it: this one and so many - 1 after it, modulo the size */
};
struct tree tree_of(const struct coll_args *a, int rank);

/* The tree at child @k, and the same as coll_args' rank has it. */
static inline struct tree tree_child(const struct coll_args *a, const struct tree *t, int k)
{
	return tree_of(a, rank_add(a, t->rank, 1 << k));
}

/* tree_of(..).subtree, as a function of its own */
int tree_subtree(const struct coll_args *a, int rank);

/* The ranks in the largest subtree but the whole: what a child of the root has at most. */
int tree_largest(int size);

/* Where blocks lie that follow one another modulo the size: element @first of the collective is at
 * @at, and behind the last element, coll_count(), comes element 0. */
struct arc {
	struct sched_span at;
	uint64_t first;
};
/* The whole vector at @work. */
static inline struct arc arc_whole(struct sched_span work)
{
	return (struct arc){work, 0};
}
/* Room for the blocks of the rank's subtree. */
struct arc arc_subtree(struct sched_builder *b, const struct coll_args *a);
/* Where element @off of the collective lies, or where the blocks end that lie before it. */
struct sched_span arc_at(const struct coll_args *a, struct arc arc, uint64_t off);

/* The vector at @work goes from the root to all: received from the parent, and sent to the children
 * while it arrives, that with the largest subtree first. */
void tree_broadcast(struct sched_builder *b, const struct coll_args *a, struct sched_span work);

/* Each rank's subtree comes to it: the rank receives its blocks to their places in @arc and sends
 * each child's on, the largest subtree first. The root has all blocks in its inputs, and @arc there
 * is the whole vector. */
void tree_scatter(struct sched_builder *b, const struct coll_args *a, struct arc arc);

/* The reverse: the rank receives each child's blocks to their places in @arc and sends them with
 * its own, which is there already, to the parent. @reduce: what comes is added to what is there. */
void tree_gather(struct sched_builder *b, const struct coll_args *a, struct arc arc, bool reduce);

#endif
