/*
 * allreduce circulant: reduce-scatter and allgather on a circulant graph, for any P as few rounds
 * and as few bytes as can be.
 *
 * R[i] is block (r + i) mod P: each rank numbers the blocks from its own.
 * 1. s = P. While s > 1: s' = s, s = ceil(s/2); send R[s .. s'-1] to r + s, receive as many from
 *    r - s and add them to R[0 .. s'-s-1]. What has been sent is done with. At the end R[0], block
 *    r, is complete.
 * 2. The same (s', s) the other way: send R[0 .. s'-s-1] to r - s, receive R[s .. s'-1] from r + s.
 *
 * 2 ceil(log2 P) rounds, 2S(P-1)/P bytes, no scratch, uneven blocks as well. A run of blocks that
 * wraps behind the last one is two messages, in the same round.
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
 * Source: Träff, Optimal, Non-pipelined Reduce-scatter and Allreduce Algorithms, arXiv:2410.14234.
 */
#include "algorithms/blocks.h"
#include "algorithms/emitters.h"

static int halve(int s)
{
	return s - s / 2;
}

static void fold_blocks(struct sched_builder *b, const struct coll_args *a, int i, int count)
{
	struct range run[2];

	block_runs(a, rank_add(a, a->rank, i), count, run);
	for (int k = 0; k < 2; k++)
		sched_fold_inputs(b, sched_out(b, run[k].off), run[k].off, run[k].len);
}

static void send_blocks(struct sched_builder *b, const struct coll_args *a, int peer, int i,
                        int count)
{
	struct range run[2];

	block_runs(a, rank_add(a, a->rank, i), count, run);
	for (int k = 0; k < 2; k++)
		sched_send(b, peer, sched_out(b, run[k].off), run[k].len);
}

static void recv_blocks(struct sched_builder *b, const struct coll_args *a, int peer, int i,
                        int count, bool reduce)
{
	struct range run[2];

	block_runs(a, rank_add(a, a->rank, i), count, run);
	for (int k = 0; k < 2; k++) {
		const struct sched_span out = sched_out(b, run[k].off);

		if (reduce)
			sched_recv_reduce(b, peer, out, out, run[k].len, 0);
		else
			sched_recv(b, peer, out, run[k].len);
	}
}

/* The pairs ascending, which is the way back of the recursion that goes down. */
static void allgather(struct sched_builder *b, const struct coll_args *a, int s1)
{
	const int s = halve(s1);

	if (s1 == 1)
		return;
	allgather(b, a, s);
	send_blocks(b, a, rank_add(a, a->rank, -s), 0, s1 - s);
	recv_blocks(b, a, rank_add(a, a->rank, s), s, s1 - s, false);
}

void allreduce_circulant(struct sched_builder *b, const struct coll_args *a)
{
	/* What is sent first is folded first. */
	fold_blocks(b, a, halve(a->size), a->size - halve(a->size));
	fold_blocks(b, a, 0, halve(a->size));
	for (int s1 = a->size, s; s1 > 1; s1 = s) {
		s = halve(s1);
		send_blocks(b, a, rank_add(a, a->rank, s), s, s1 - s);
		recv_blocks(b, a, rank_add(a, a->rank, -s), 0, s1 - s, true);
	}
	allgather(b, a, a->size);
}

/* The blocks of a round lie together on the circle: at its end they are cut in two. */
void allreduce_circulant_cost(const struct coll_args *a, struct coll_cost *c)
{
	const double p = a->size, q = log2_ceil(a->size);

	*c = (struct coll_cost){
	        .rounds = 2 * q,
	        .messages = 4 * q,
	        .sent = 2 * (p - 1) / p,
	        .received = 2 * (p - 1) / p,
	        .reduced = (p - 1) / p,
	};
}
