/*
 * Reduce-scatter and allgather on a ring: every rank sends to the right and receives from the left
 * (see blocks.h).
 *
 * Each block is cut into m pieces. Piece i, i = 0 .. mP-1, is the (i mod m)-th of block
 * first - floor(i/m): the walk goes down the blocks, through all pieces of each.
 * 1. Reduce-scatter: send the pieces of the first block; for every further one receive it from the
 *    left, adding it to mine, and send it right, but for those of the last block, first + 1: they
 *    have passed every rank and are complete.
 * 2. Allgather: send the pieces of the first block; receive every further one from the left and
 *    send it right, but for those of the last block: the right neighbour had them first.
 *
 * Each P-1 rounds, S(P-1)/P bytes, no scratch. A piece is forwarded while it arrives.
 *
 * P = 3, m = 1, first = r-1, "+2" receives and adds block 2, "=2" receives complete block 2:
 *
 *   rank 0: send 2   +1 send 1   +0     first = 0:   send 0   =2 send 2   =1
 *   rank 1: send 0   +2 send 2   +1     first = 1:   send 1   =0 send 0   =2
 *   rank 2: send 1   +0 send 0   +2     first = 2:   send 2   =1 send 1   =0
 *
 * Source: Patarasuk, Yuan, Bandwidth optimal all-reduce algorithms for clusters of workstations,
 * JPDC 2009.
 */
#include "algorithms/parts/blocks.h"

/* The first pieces of a block are the longer ones. */
static struct range piece(const struct coll_args *a, int first, int pieces, int64_t i)
{
	const int64_t j = (first - i / pieces + 2 * (int64_t)a->size) % a->size;
	const struct range block = block_range(a, (int)j);
	const uint64_t m = (uint64_t)pieces, k = (uint64_t)(i % pieces);
	const uint64_t each = block.len / m, longer = block.len % m;

	return (struct range){block.off + k * each + (k < longer ? k : longer),
	                      each + (k < longer)};
}

void ring_reduce_scatter(struct sched_builder *b, const struct coll_args *a, struct sched_span work,
                         int first, int pieces)
{
	const int left = rank_add(a, a->rank, -1), right = rank_add(a, a->rank, 1);
	const int64_t n = (int64_t)pieces * a->size;

	for (int64_t i = 0; i < n; i++) {
		const struct range r = piece(a, first, pieces, i);

		work_fold(b, work, r);
		if (i >= pieces)
			work_add(b, left, work, r);
		if (i < n - pieces)
			work_send(b, right, work, r);
	}
}

void ring_allgather(struct sched_builder *b, const struct coll_args *a, struct sched_span work,
                    int first, int pieces)
{
	const int left = rank_add(a, a->rank, -1), right = rank_add(a, a->rank, 1);
	const int64_t n = (int64_t)pieces * a->size;

	for (int64_t i = 0; i < n; i++) {
		const struct range r = piece(a, first, pieces, i);

		if (i >= pieces)
			work_recv(b, left, work, r);
		if (i < n - pieces)
			work_send(b, right, work, r);
	}
}
