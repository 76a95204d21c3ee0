/*
 * The binomial tree and moving blocks along it. See tree.h.
 */
#include "algorithms/parts/tree.h"
#include "lib/sched/placement.h"

struct tree tree_of(const struct coll_args *a, int rank)
{
	const int v = rank_add(a, rank, -a->root), low = v & -v;
	const int up = v ? low : a->size; /* subtrees below end here */
	struct tree t = {.rank = rank, .parent = v ? rank_add(a, rank, -low) : -1};

	t.subtree = up < a->size - v ? up : a->size - v;
	t.children = log2_ceil(t.subtree);
	return t;
}

int tree_subtree(const struct coll_args *a, int rank)
{
	return tree_of(a, rank).subtree;
}

int tree_largest(int size)
{
	const int half = 1 << (log2_ceil(size) - 1), last = size - half;

	return last > half / 2 ? last : half / 2;
}

int tree_outer(const struct coll_args *a)
{
	const struct hosts_sizes s = hosts_sizes(a);

	if (!s.n)
		return 0;
	return s.together ? log2_ceil(s.n) : log2_ceil(a->size);
}

struct arc arc_subtree(struct sched_builder *b, const struct coll_args *a)
{
	struct range run[2];

	block_runs(a, a->rank, tree_subtree(a, a->rank), run);
	return (struct arc){sched_scratch(b, SCHED_DATA, run[0].len + run[1].len), run[0].off};
}

struct sched_span arc_at(const struct coll_args *a, struct arc arc, uint64_t off)
{
	return span_add(arc.at,
	                off < arc.first ? off + coll_count(a) - arc.first : off - arc.first);
}

static void send_subtree(struct sched_builder *b, const struct coll_args *a, struct arc arc,
                         int peer, const struct tree *t)
{
	struct range run[2];

	block_runs(a, t->rank, t->subtree, run);
	for (int k = 0; k < 2; k++)
		sched_send(b, peer, arc_at(a, arc, run[k].off), run[k].len);
}

static void recv_subtree(struct sched_builder *b, const struct coll_args *a, struct arc arc,
                         int peer, const struct tree *t, bool reduce)
{
	struct range run[2];

	block_runs(a, t->rank, t->subtree, run);
	for (int k = 0; k < 2; k++) {
		const struct sched_span at = arc_at(a, arc, run[k].off);

		if (reduce)
			sched_recv_reduce(b, peer, at, at, run[k].len, 0);
		else
			sched_recv(b, peer, at, run[k].len);
	}
}

/* Fold the root's inputs, run by run in the order of the sends. */
static void fold_subtree(struct sched_builder *b, const struct coll_args *a, struct arc arc,
                         const struct tree *t)
{
	struct range run[2];

	block_runs(a, t->rank, t->subtree, run);
	for (int k = 0; k < 2; k++)
		work_fold(b, arc.at, run[k]);
}

void tree_broadcast(struct sched_builder *b, const struct coll_args *a, struct sched_span work)
{
	const struct tree t = tree_of(a, a->rank);

	if (t.parent >= 0)
		work_recv(b, t.parent, work, whole_range(a));
	for (int k = t.children - 1; k >= 0; k--)
		work_send(b, tree_child(a, &t, k).rank, work, whole_range(a));
}

void tree_scatter(struct sched_builder *b, const struct coll_args *a, struct arc arc)
{
	const struct tree t = tree_of(a, a->rank);

	if (t.parent >= 0)
		recv_subtree(b, a, arc, t.parent, &t, false);
	for (int k = t.children - 1; k >= 0; k--) {
		const struct tree child = tree_child(a, &t, k);

		if (t.parent < 0)
			fold_subtree(b, a, arc, &child);
		send_subtree(b, a, arc, child.rank, &child);
	}
	if (t.parent < 0)
		work_fold(b, arc.at, block_range(a, a->rank));
}

void tree_gather(struct sched_builder *b, const struct coll_args *a, struct arc arc, bool reduce)
{
	const struct tree t = tree_of(a, a->rank);

	for (int k = 0; k < t.children; k++) {
		const struct tree child = tree_child(a, &t, k);

		recv_subtree(b, a, arc, child.rank, &child, reduce);
	}
	if (t.parent >= 0)
		send_subtree(b, a, arc, t.parent, &t);
}
