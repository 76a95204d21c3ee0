/*
 * reduce circulant: broadcast circulant backwards: n blocks in n - 1 + ceil(log2 P) rounds.
 *
 * 1. The vector is cut into n blocks (traeff_blocks), whatever its length.
 * 2. The rounds of Träff's schedule (traeff.c) from the last to the first: where a block is sent in
 *    the broadcast, its sum is received and added to mine, and where it is received my sum of it is
 *    sent. Block j stands in the place of block n-1-j of the broadcast: so the vector is read and
 *    written from its beginning.
 *
 * In the broadcast the messages of a block are a tree that reaches every rank once: so here every
 * rank's contribution goes into the root's sum once. The root receives (n-1+q)/n S, the others at
 * most that; every rank sends S. Nothing waits for a round: a block is complete after at most q + 1
 * messages, one after another. Worked in place: scratch only where several inputs are folded.
 *
 * P = 5, root 0, cut into 3 blocks only; "1:3>0" is block 1 from rank 3 to rank 0:
 *
 *   skip 3   0:3>0   0:4>1   2:1>3   1:2>4
 *   skip 2   0:2>0   2:4>2   1:1>4
 *   skip 1   0:1>0   2:3>2   1:4>3
 *   skip 3   1:3>0
 *   skip 2   2:2>0
 *
 * Source: Träff, Optimal Broadcast Schedules in Logarithmic Time with Applications to Broadcast,
 * All-Broadcast, Reduction and All-Reduction, arXiv:2407.18004.
 */
#include "algorithms/emitters.h"
#include "algorithms/traeff.h"

/* Block @j of the broadcast. */
static struct range mirrored(const struct coll_args *a, int n, int j)
{
	return traeff_block(a, n, j < 0 ? -1 : n - 1 - j);
}

void reduce_circulant(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span work = sched_work(b);
	const int n = traeff_blocks(a->size);
	struct traeff t;

	traeff_schedule(a->size, rank_add(a, a->rank, -a->root), &t);
	for (int j = 0; j < n; j++)
		work_fold(b, work, traeff_block(a, n, j));
	for (int i = n - 2 + t.q; i >= 0; i--) {
		const struct traeff_round x = traeff_round(&t, n, i);

		work_add(b, rank_add(a, a->rank, x.skip), work, mirrored(a, n, x.send));
		work_send(b, rank_add(a, a->rank, -x.skip), work, mirrored(a, n, x.recv));
	}
}

void reduce_circulant_cost(const struct coll_args *a, struct coll_cost *c)
{
	const double n = traeff_blocks(a->size), q = log2_ceil(a->size);

	*c = (struct coll_cost){
	        .rounds = q > 1 ? q + 1 : 1,
	        .messages = n,
	        .sent = 1,
	        .received = (n - 1 + q) / n,
	        .reduced = (n - 1 + q) / n,
	};
}
