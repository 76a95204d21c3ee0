/*
 * Vector halving among 2^s ranks (see blocks.h).
 *
 * 1. Reduce-scatter: for i = 0 .. s-1 number j exchanges with number j ^ 2^i. Both still process
 * the same range: the number with bit i set keeps the upper half, the other one the lower half.
 * Each sends the half that it does not keep, and adds what it receives to the half that it keeps.
 * At the end number j has the piece whose number is j with its bits reversed.
 * 2. Allgather: for i = s-1 .. 0, the two ranks of each pair exchange what they have.
 *
 * Each s rounds and S(1 - 1/2^s) bytes, no scratch.
 *
 * 2^s = 4, pieces 0..3:
 *
 *   number      0                1                2                3
 *   i = 0       0,1 with 1       2,3 with 0       0,1 with 3       2,3 with 2
 *   i = 1       0 with 2         2 with 3         1 with 0         3 with 1
 *
 * Source: Thakur, Rabenseifner, Gropp, Optimization of Collective Communication Operations in
 * MPICH, IJHPCA 2005.
 */
#include "algorithms/parts/blocks.h"

struct range halving_piece(const struct coll_args *a, int depth, unsigned i)
{
	const int l = log2_floor(a->size);
	const uint64_t n = coll_count(a), least = (n >> l) + ((n & ((UINT64_C(1) << l) - 1)) > 0);
	const uint64_t len = least << (l - depth);
	const uint64_t lo = len * i < n ? len * i : n;

	return (struct range){lo, len < n - lo ? len : n - lo};
}

unsigned bit_reverse(unsigned x, int bits)
{
	unsigned y = 0;

	for (int i = 0; i < bits; i++)
		y = y << 1 | (x >> i & 1);
	return y;
}

/* The half that the cube's number, or its partner (@other), keeps in step @i. */
static struct range half(const struct coll_args *a, const struct cube *c, int i, unsigned other)
{
	return halving_piece(a, i + 1, bit_reverse((unsigned)c->id, i + 1) ^ other);
}

void halving_reduce_scatter(struct sched_builder *b, const struct coll_args *a,
                            struct sched_span work, const struct cube *c)
{
	for (int i = 0; i < c->dim; i++) {
		const int peer = cube_rank(c, c->id ^ 1 << i);

		work_send(b, peer, work, half(a, c, i, 1));
		work_add(b, peer, work, half(a, c, i, 0));
	}
}

void halving_allgather(struct sched_builder *b, const struct coll_args *a, struct sched_span work,
                       const struct cube *c)
{
	for (int i = c->dim - 1; i >= 0; i--) {
		const int peer = cube_rank(c, c->id ^ 1 << i);

		work_send(b, peer, work, half(a, c, i, 0));
		work_recv(b, peer, work, half(a, c, i, 1));
	}
}
