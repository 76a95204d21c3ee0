/*
 * The binomial tree over the ranks, and the phases that move blocks along it (broadcast, scatter,
 * gather). Offsets and lengths are elements.
 *
 * Let v = (rank - root) mod P. The parent of v is v with its lowest set bit b cleared (the root: b
 * = P). So the children of v are v + 1, v + 2, v + 4, .. v + 2^k, for all 2^k < b with v + 2^k < P.
 * The subtree of v is the run of up to b ranks from v on, modulo P, and so a run of blocks. A path
 * from the root has at most floor(log2 P) hops: the most bits set in a number below P.
 *
 * P = 6: 0
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
	int parent;   /* rank; -1: this is the root */
	int children; /* their number; the k-th is rank + 2^k modulo the size */
	int subtree; /* number of ranks in the subtree: this rank and the following ones, modulo the
	                size */
};
struct tree tree_of(const struct coll_args *a, int rank);

/* tree_of child @k. */
static inline struct tree tree_child(const struct coll_args *a, const struct tree *t, int k)
{
	return tree_of(a, rank_add(a, t->rank, 1 << k));
}

/* tree_of(..).subtree, with a circulant_has's type (circle.h). */
int tree_subtree(const struct coll_args *a, int rank);

/* The number of ranks in the largest subtree of a child of the root. */
int tree_largest(int size);

/* The rounds of the whole tree that are between hosts (coll_cost.outer). If the ranks of each host
 * are consecutive, these are about the rounds of a tree of the hosts. 0: the hosts are unknown,
 * there is one, or no ranks share one. */
int tree_outer(const struct coll_args *a);

/* A buffer for consecutive blocks, modulo the size: element `first` of the collective is at `at`;
 * after the last element of the collective follows element 0. */
struct arc {
	struct sched_span at;
	uint64_t first;
};
/* The work area (blocks.h), which has the whole vector. */
static inline struct arc arc_whole(struct sched_span work)
{
	return (struct arc){work, 0};
}
/* New scratch for the blocks of the rank's subtree. */
struct arc arc_subtree(struct sched_builder *b, const struct coll_args *a);
/* Where element @off of the collective is in the arc, or where the blocks before it end. */
struct sched_span arc_at(const struct coll_args *a, struct arc arc, uint64_t off);

/* Broadcast the vector at @work: receive it from the parent and, while it arrives, send it to the
 * children, the one with the largest subtree first. */
void tree_broadcast(struct sched_builder *b, const struct coll_args *a, struct sched_span work);

/* Scatter: receive the blocks of the rank's subtree into @arc, and forward each child's blocks, the
 * child with the largest subtree first. The root's blocks are in its inputs, and its @arc is the
 * whole vector. */
void tree_scatter(struct sched_builder *b, const struct coll_args *a, struct arc arc);

/* Gather: receive each child's blocks into @arc, and send them to the parent together with the
 * rank's own block, which must be in @arc. @reduce: add received blocks to those in @arc. */
void tree_gather(struct sched_builder *b, const struct coll_args *a, struct arc arc, bool reduce);

#endif
