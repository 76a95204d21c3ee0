/*
 * allreduce double_tree: half of the blocks is reduced up one binary tree and broadcast down it,
 * the other half along a second tree, in which other ranks are inside.
 *
 * 1. The first tree: the parent of r is r with its lowest set bit moved one place up, or, if that
 *    is not a rank, cleared. So odd ranks are leaves, and the ranks below r on its left are smaller
 *    than r, those on its right larger. Rank 0 is the root and has one child, the largest power of
 *    two below P. The second tree is the first with the ranks in reverse order or, if P is odd,
 *    with rank r + 1 in the place of r.
 * 2. Each half is cut into segments. For each of them a rank adds what its children send, the left
 *    one, itself, the right one, and sends the sum to its parent.
 * 3. The root's sum goes down to all ranks. Segments of both trees take turns.
 *
 * A rank that has two children in one tree is a leaf in the other, or nearly. No scratch. All ranks
 * get the bits of one sum.
 *
 * P = 6, the trees and who is where in the second:
 *
 *   0                     5
 *    \                     \
 *     4                     1
 *    / \                   / \
 *   2   5                 3   0
 *  / \                   / \
 * 1   3                 4   2
 *
 * Source: Two-tree algorithms for full bandwidth broadcast, reduction and scan; the trees are those
 * of NCCL.
 */
#include "algorithms/parts/blocks.h"

/* The segments of each half: more make the pipeline shorter, and the messages more. */
#define SEGMENTS 8

/* A rank's neighbours in a tree, -1: none. */
struct links {
	int parent, left, right;
};

/* The first tree on @size ranks. */
static struct links first_tree(int size, int r)
{
	const int bit = r ? r & -r : 2 << (log2_ceil(size) - 1);
	struct links t = {.parent = -1, .left = -1, .right = -1};
	int half = bit / 2;

	if (r) {
		t.parent = (r ^ bit) | bit << 1;
		t.parent = t.parent < size ? t.parent : r ^ bit;
		t.left = half ? r - half : -1;
	}
	while (half && r + half >= size)
		half /= 2;
	t.right = half ? r + half : -1;
	return t;
}

/* Where @r is in the first tree if @tree is 0, and in the second; and back. */
static int place_of(int size, int tree, int r)
{
	if (!tree)
		return r;
	return size % 2 ? (r + size - 1) % size : size - 1 - r;
}

static int rank_at(int size, int tree, int place)
{
	if (!tree || place < 0)
		return place;
	return size % 2 ? (place + 1) % size : size - 1 - place;
}

static struct links links_of(int size, int tree, int r)
{
	const struct links t = first_tree(size, place_of(size, tree, r));

	return (struct links){
	        .parent = rank_at(size, tree, t.parent),
	        .left = rank_at(size, tree, t.left),
	        .right = rank_at(size, tree, t.right),
	};
}

/* The blocks of the first tree. */
static int blocks_of_first(int size)
{
	return (size + 1) / 2;
}

/* Segment @i of the half of @tree. The halves are cut where blocks are: so an element has the same
 * tree whatever the number of windows. */
static struct range segment(const struct coll_args *a, int tree, int i)
{
	const uint64_t middle = a->off[blocks_of_first(a->size)];
	const uint64_t from = tree ? middle : 0, len = tree ? coll_count(a) - middle : middle;
	const uint64_t lo = coll_split_at(len, SEGMENTS, i);

	return (struct range){from + lo, coll_split_at(len, SEGMENTS, i + 1) - lo};
}

static void go_up(struct sched_builder *b, const struct links *t, struct sched_span work,
                  struct range r)
{
	const struct sched_span at = span_add(work, r.off);

	work_fold(b, work, r);
	if (t->left >= 0)
		sched_recv_reduce(b, t->left, at, at, r.len, SCHED_WIRE_LEFT);
	if (t->right >= 0)
		work_add(b, t->right, work, r);
	if (t->parent >= 0)
		work_send(b, t->parent, work, r);
}

static void go_down(struct sched_builder *b, const struct links *t, struct sched_span work,
                    struct range r)
{
	if (t->parent >= 0)
		work_recv(b, t->parent, work, r);
	if (t->left >= 0)
		work_send(b, t->left, work, r);
	if (t->right >= 0)
		work_send(b, t->right, work, r);
}

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct links t[] = {links_of(a->size, 0, a->rank), links_of(a->size, 1, a->rank)};
	const struct sched_span work = sched_work(b);

	for (int i = 0; i < 2 * SEGMENTS; i++)
		go_up(b, &t[i % 2], work, segment(a, i % 2, i / 2));
	for (int i = 0; i < 2 * SEGMENTS; i++)
		go_down(b, &t[i % 2], work, segment(a, i % 2, i / 2));
}

static double larger(double a, double b)
{
	return a > b ? a : b;
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const double first = blocks_of_first(a->size) / (double)a->size;

	*c = (struct coll_cost){
	        .rounds = 2 * log2_ceil(a->size),
	        .idle = 2 * log2_ceil(a->size),
	};
	for (int r = 0; r < a->size; r++) {
		double messages = 0, sent = 0, reduced = 0;

		for (int tree = 0; tree < 2; tree++) {
			const struct links t = links_of(a->size, tree, r);
			const int children = (t.left >= 0) + (t.right >= 0);
			const double share = tree ? 1 - first : first;

			messages += SEGMENTS * (children + (t.parent >= 0));
			sent += share * (children + (t.parent >= 0));
			reduced += share * children;
		}
		c->messages = larger(c->messages, messages);
		c->sent = larger(c->sent, sent);
		c->reduced = larger(c->reduced, reduced);
	}
	c->received = c->sent;
}

const struct coll_algorithm allreduce_double_tree = {
        .kind = COLL_ALLREDUCE,
        .name = "double_tree",
        .help = "two binary trees: each reduces and broadcasts half of the vector, in segments",
        .steps = "2q, pipelined",
        .bytes = "about 2S",
        .restrictions = "",
        .source = "Sanders, Speck, Träff, Parallel Computing 2009",
        .cost = cost,
        .emit = emit,
};
