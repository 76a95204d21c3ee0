/*
 * Reduce-scatter and allgather on a circulant graph: with the minimum of rounds and bytes for any P
 * (see blocks.h).
 *
 * R[i] is block (r + i) mod P: each rank numbers the blocks from its own.
 * 1. Reduce-scatter: s = P. While s > 1: s' = s, s = ceil(s/2); send R[s .. s'-1] to r + s, receive
 *    as many from r - s and add them to R[0 .. s'-s-1]. A rank no longer uses blocks that it has
 *    sent. At the end R[0], block r, is complete.
 * 2. Allgather: the same (s', s) backwards: send R[0 .. s'-s-1] to r - s, receive R[s .. s'-1]
 *    from r + s.
 *
 * Each ceil(log2 P) rounds and S(P-1)/P bytes, no scratch; blocks may be uneven. A run of blocks
 * that wraps around is two messages, in the same round.
 *
 * P = 5: (s', s) = (5,3) (3,2) (2,1). Rank 0's blocks:
 *
 *   send 3,4 to 3   add 0,1 from 2      R: 0 1 2 . .
 *   send 2 to 2     add 0 from 3        R: 0 1 . . .
 *   send 1 to 1     add 0 from 4        R: 0 . . . .    block 0 is complete
 *   send 0 to 4     receive 1 from 1    R: 0 1 . . .
 *   send 0 to 3     receive 2 from 2    R: 0 1 2 . .
 *   send 0,1 to 2   receive 3,4 from 3  R: 0 1 2 3 4
 *
 * A rank may have more than its own block when the allgather begins, R[0 .. h-1]: these are not
 * sent to it. In the reduce-scatter a rank may keep its sums of R[0 .. h-1]; a later phase adds
 * them up.
 *
 * Source: Träff, Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms, arXiv:2410.14234.
 */
#include "algorithms/blocks.h"

static int halve(int s)
{
	return s - s / 2;
}

static void fold_blocks(struct sched_builder *b, const struct coll_args *a, struct sched_span work,
                        int i, int count)
{
	struct range run[2];

	block_runs(a, rank_add(a, a->rank, i), count, run);
	for (int k = 0; k < 2; k++)
		work_fold(b, work, run[k]);
}

static void send_blocks(struct sched_builder *b, const struct coll_args *a, struct sched_span work,
                        int peer, int i, int count)
{
	struct range run[2];

	block_runs(a, rank_add(a, a->rank, i), count, run);
	for (int k = 0; k < 2; k++)
		work_send(b, peer, work, run[k]);
}

static void recv_blocks(struct sched_builder *b, const struct coll_args *a, struct sched_span work,
                        int peer, int i, int count, bool reduce)
{
	struct range run[2];

	block_runs(a, rank_add(a, a->rank, i), count, run);
	for (int k = 0; k < 2; k++)
		if (reduce)
			work_add(b, peer, work, run[k]);
		else
			work_recv(b, peer, work, run[k]);
}

static int one_block(const struct coll_args *a, int rank)
{
	(void)a;
	(void)rank;
	return 1;
}

/* The blocks of R[s .. s1-1] that rank @to lacks: they begin at *first. Returns their number. */
static int missing(const struct coll_args *a, circulant_has *has, int to, int s, int s1, int *first)
{
	const int n = has(a, to);

	*first = n > s ? n : s;
	return *first < s1 ? s1 - *first : 0;
}

void circulant_reduce_scatter_but(struct sched_builder *b, const struct coll_args *a,
                                  struct sched_span work, circulant_has *keeps)
{
	/* Fold first what is sent first. */
	fold_blocks(b, a, work, halve(a->size), a->size - halve(a->size));
	fold_blocks(b, a, work, 0, halve(a->size));
	for (int s1 = a->size, s; s1 > 1; s1 = s) {
		int to, from, first, count;

		s = halve(s1);
		to = rank_add(a, a->rank, s);
		from = rank_add(a, a->rank, -s);
		count = missing(a, keeps, a->rank, s, s1, &first);
		send_blocks(b, a, work, to, first, count);
		count = missing(a, keeps, from, s, s1, &first);
		recv_blocks(b, a, work, from, first - s, count, true);
	}
}

/* Run the pairs in ascending order, by recursion from @s1 down. */
static void gather_pairs(struct sched_builder *b, const struct coll_args *a, struct sched_span work,
                         circulant_has *has, int s1)
{
	const int s = halve(s1), to = rank_add(a, a->rank, -s), from = rank_add(a, a->rank, s);
	int first, count;

	if (s1 == 1)
		return;
	gather_pairs(b, a, work, has, s);
	count = missing(a, has, to, s, s1, &first);
	send_blocks(b, a, work, to, first - s, count);
	count = missing(a, has, a->rank, s, s1, &first);
	recv_blocks(b, a, work, from, first, count, false);
}

void circulant_allgather_but(struct sched_builder *b, const struct coll_args *a,
                             struct sched_span work, circulant_has *has)
{
	gather_pairs(b, a, work, has, a->size);
}

/* The number of rounds of the allgather in which @rank's run of blocks wraps around. */
static int gather_wraps(const struct coll_args *a, int rank)
{
	int wraps = 0;

	for (int s1 = a->size; s1 > 1; s1 = halve(s1))
		wraps += rank + s1 - halve(s1) > a->size;
	return wraps;
}

/* In the reduce-scatter the run of a rank wraps in one round at most: in round (s', s) those of the
 * ranks P-s'+1 .. P-s-1 do. In the allgather a higher rank's run wraps as often as a lower one's or
 * more. So the rank that sends most is the last one of such a set, or the last of all. */
double circulant_messages(const struct coll_args *a, bool scatter, bool gather)
{
	const int phases = scatter + gather;
	int most = gather ? gather_wraps(a, a->size - 1) : 0;

	for (int s1 = a->size; scatter && s1 > 1; s1 = halve(s1)) {
		const int last = a->size - halve(s1) - 1;
		const int wraps = 1 + (gather ? gather_wraps(a, last) : 0);

		if (s1 - halve(s1) > 1 && wraps > most)
			most = wraps;
	}
	return phases * log2_ceil(a->size) + most;
}

void circulant_reduce_scatter(struct sched_builder *b, const struct coll_args *a,
                              struct sched_span work)
{
	circulant_reduce_scatter_but(b, a, work, one_block);
}

void circulant_allgather(struct sched_builder *b, const struct coll_args *a, struct sched_span work)
{
	circulant_allgather_but(b, a, work, one_block);
}
