/*
 * reduce-scatter halving_doubling: binary blocks for any P (halving_doubling.c).
 *
 * 1. The first half of the allreduce leaves rank J of the largest block of 2^L ranks the complete
 *    piece rev(J) of 2^L: rev reverses L bits.
 * 2. Each of them divides its piece at the boundaries of the ranks' blocks, which may have any
 *    lengths, and sends each part to its owner. For even blocks and a power of two that is an
 *    exchange of rank p with rev(p).
 *
 * A single input is overwritten in place; several are folded into scratch of S. The only rank of a
 * block of one rank sends a piece to every rank of the next block.
 *
 * P = 4, pieces 0..3 of the vector, with even blocks:
 *
 *   rank      0                  1                  2                  3
 *   halve     0,1 with 1         2,3 with 0         0,1 with 3         2,3 with 2
 *             0 with 2           2 with 3           1 with 0           3 with 1
 *   reorder   -                  2 to 2, 1 from 2   1 to 1, 2 from 1   -
 *
 * Source: Faster topology-aware collective algorithms through non-minimal communication; also
 * Thakur, Rabenseifner, Gropp, IJHPCA 2005.
 */
#include "algorithms/parts/blocks.h"

/* The part of @r that is in @s. */
static struct range overlap(struct range r, struct range s)
{
	const uint64_t lo = r.off > s.off ? r.off : s.off;
	const uint64_t end = r.off + r.len < s.off + s.len ? r.off + r.len : s.off + s.len;

	return (struct range){lo, end > lo ? end - lo : 0};
}

/* The last block that begins at or before element @x. */
static int block_at(const struct coll_args *a, uint64_t x)
{
	int lo = 0, hi = a->size;

	while (hi - lo > 1) {
		const int mid = lo + (hi - lo) / 2;

		*(a->off[mid] <= x ? &lo : &hi) = mid;
	}
	return lo;
}

/* Send the parts of my complete piece to their owners. */
static void send_parts(struct sched_builder *b, const struct coll_args *a, struct sched_span work,
                       struct range piece)
{
	const uint64_t end = piece.off + piece.len;

	for (int j = block_at(a, piece.off); j < a->size && a->off[j] < end; j++)
		if (j != a->rank)
			work_send(b, j, work, overlap(piece, block_range(a, j)));
}

/* Receive the parts of my block from the ranks that have them. */
static void recv_parts(struct sched_builder *b, const struct coll_args *a, struct range own)
{
	const int l = log2_floor(a->size);
	const uint64_t each = halving_piece(a, l, 0).len;

	for (uint64_t x = own.off; x < own.off + own.len;) {
		const unsigned k = (unsigned)(x / each);
		const int holder = (int)bit_reverse(k, l);
		const struct range part = overlap(own, halving_piece(a, l, k));

		if (holder != a->rank)
			sched_recv(b, holder, sched_out(b, part.off - own.off), part.len);
		x = part.off + part.len;
	}
}

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span work = sched_work(b);
	const int l = log2_floor(a->size);
	const bool largest = a->rank < 1 << l;
	const struct range own = block_range(a, a->rank);
	struct range piece = {0, 0};

	halving_doubling_reduce(b, a, work);
	if (largest)
		piece = halving_piece(a, l, bit_reverse((unsigned)a->rank, l));
	send_parts(b, a, work, piece);
	recv_parts(b, a, own);
	piece = overlap(piece, own);
	sched_copy(b, sched_out(b, piece.off - own.off), span_add(work, piece.off), piece.len, 0);
}

/* With four or more ranks, before the reorder rank 1 has no part of block 1, which is its result;
 * with three it has half. The piece of a rank of the largest block has parts of at most three
 * ranks' blocks. */
static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const int p = a->size, l = log2_floor(p);
	const bool folded = p & (p - 1), reorder = p > 2;
	const double messages = halving_doubling_messages(a, false), least = l + (reorder ? 3 : 0);
	const double late = reorder ? 1.0 / (p == 3 ? 6 : p) : 0;
	const double piece = 1.0 / (1 << l);

	*c = (struct coll_cost){
	        .rounds = l + (folded ? 2 : 0) + reorder,
	        .messages = messages > least ? messages : least,
	        .sent = reorder ? 1 : 1 - piece,
	        .received = (folded ? 1 : 1 - piece) + late,
	        .reduced = folded ? 1 : 1 - piece,
	};
}

const struct coll_algorithm reduce_scatter_halving_doubling = {
        .kind = COLL_REDUCE_SCATTER,
        .name = "halving_doubling",
        .help = "recursive halving, then each block moves to its rank",
        .steps = "L (+1 if P > 2, +2 more if P > 2^L)",
        .bytes = "S (S/2 for 2 ranks)",
        .restrictions = "",
        .source = "Gloo reduce_scatter_halving_doubling; Sack, Gropp, PPoPP 2012",
        .cost = cost,
        .emit = emit,
};
