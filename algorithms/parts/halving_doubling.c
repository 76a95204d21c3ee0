/*
 * Binary blocks: vector halving (halving.c) for any number of ranks (see blocks.h).
 *
 * The blocks are the set bits of P, the largest at rank 0 (P = 11: ranks 0..7, 8..9, 10). Rank r is
 * number j = r - o of the block of B ranks that begins at rank o.
 * 1. Each block halves the vector: number j has its block's sum of piece rev(j) of B.
 * 2. Up, the smallest block first: add what arrives from the next smaller block. Then cut the piece
 *    into those of the next larger block, which has B' ranks from O on, and send each to the rank
 *    there that has the same piece: piece k to O + rev(k). So number J of a larger block receives
 *    from number J mod B of the smaller one. A block of one rank cuts the whole vector.
 * 3. Down: the same pairs in the opposite direction. Receive the complete piece from the larger
 *    block, and forward it to the smaller one.
 * 4. Each block completes the vector by doubling.
 *
 * Steps 1 and 2 take L rounds and up to two more messages in sequence, and so do steps 3 and 4. All
 * blocks halve at the same time, and a smaller one ends earlier: the longest chain is L. No
 * scratch.
 *
 * P = 3, blocks 0..1 and 2, pieces 0 and 1:
 *
 *   rank 0: send 1 to 1    add 0 from 1, then from 2      send 0 to 2, send 0 to 1, receive 1
 *   rank 1: send 0 to 0    add 1 from 0, then from 2      send 1 to 2, send 1 to 0, receive 0
 *   rank 2: send 0 to 0, send 1 to 1                      receive 0 from 0, receive 1 from 1
 *
 * Source: Gloo, docs/algorithms.md, allreduce_halving_doubling; Thakur, Rabenseifner, Gropp,
 * Optimization of Collective Communication Operations in MPICH, IJHPCA 2005.
 */
#include "algorithms/parts/blocks.h"

/* A rank's block and the two adjacent ones; dim is -1 if a block does not exist. */
struct blocks {
	struct cube mine, larger, smaller;
};

static const struct cube none = {.dim = -1};

static struct blocks blocks_of(const struct coll_args *a)
{
	struct blocks x = {none, none, none};
	int first = 0;

	for (int k = log2_floor(a->size); k >= 0; k--) {
		const struct cube c = {.dim = k, .id = a->rank - first, .offset = first};

		if (!(a->size >> k & 1))
			continue;
		first += 1 << k;
		if (a->rank >= first) {
			x.larger = c;
		} else if (x.mine.dim < 0) {
			x.mine = c;
		} else {
			x.smaller = c;
			break;
		}
	}
	return x;
}

/* The rank's piece between the two phases. */
static struct range held(const struct coll_args *a, const struct blocks *x)
{
	return halving_piece(a, x->mine.dim, bit_reverse((unsigned)x->mine.id, x->mine.dim));
}

/* The number of pieces into which the rank's piece is divided for the larger block. */
static unsigned cuts(const struct blocks *x)
{
	return x->larger.dim < 0 ? 0 : 1u << (x->larger.dim - x->mine.dim);
}

/* The @i-th of these pieces, and the rank that has it there. */
static struct range cut(const struct coll_args *a, const struct blocks *x, unsigned i, int *peer)
{
	const unsigned k = bit_reverse((unsigned)x->mine.id, x->mine.dim) * cuts(x) + i;

	*peer = cube_rank(&x->larger, (int)bit_reverse(k, x->larger.dim));
	return halving_piece(a, x->larger.dim, k);
}

/* This rank's partner in the smaller block. */
static int below(const struct blocks *x)
{
	return cube_rank(&x->smaller, x->mine.id & ((1 << x->smaller.dim) - 1));
}

/* Fold first what is sent first. */
static void fold(struct sched_builder *b, const struct coll_args *a, struct sched_span work,
                 const struct blocks *x)
{
	const unsigned upper = x->mine.id & 1;

	if (!x->mine.dim) {
		work_fold(b, work, whole_range(a));
		return;
	}
	work_fold(b, work, halving_piece(a, 1, !upper));
	work_fold(b, work, halving_piece(a, 1, upper));
}

void halving_doubling_reduce(struct sched_builder *b, const struct coll_args *a,
                             struct sched_span work)
{
	const struct blocks x = blocks_of(a);

	fold(b, a, work, &x);
	halving_reduce_scatter(b, a, work, &x.mine);
	if (x.smaller.dim >= 0)
		work_add(b, below(&x), work, held(a, &x));
	for (unsigned i = 0; i < cuts(&x); i++) {
		int peer;
		const struct range r = cut(a, &x, i, &peer);

		work_send(b, peer, work, r);
	}
}

void halving_doubling_return(struct sched_builder *b, const struct coll_args *a,
                             struct sched_span work)
{
	const struct blocks x = blocks_of(a);

	for (unsigned i = 0; i < cuts(&x); i++) {
		int peer;
		const struct range r = cut(a, &x, i, &peer);

		work_recv(b, peer, work, r);
	}
	if (x.smaller.dim >= 0)
		work_send(b, below(&x), work, held(a, &x));
	halving_allgather(b, a, work, &x.mine);
}

double halving_doubling_messages(const struct coll_args *a, bool back)
{
	double most = 0;

	for (int k = log2_floor(a->size), larger = k; k >= 0; k--) {
		const bool smaller = a->size & ((1 << k) - 1);
		double messages;

		if (!(a->size >> k & 1))
			continue;
		messages = back ? 2 * k + smaller : k;
		messages += larger > k ? 1 << (larger - k) : 0;
		most = messages > most ? messages : most;
		larger = k;
	}
	return most;
}
