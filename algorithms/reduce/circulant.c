/*
 * reduce circulant: broadcast circulant backwards.
 *
 * 1. The vector is divided into n blocks (traeff_blocks), for any length.
 * 2. The rounds of Träff's schedule (traeff.c) from the last to the first: a rank that sends a
 *    block in the broadcast receives its sum and adds it; a rank that receives the block sends its
 *    sum. Block j replaces block n-1-j of the broadcast, so that the vector is read and written
 *    from its beginning.
 *
 * In the broadcast the messages of a block form a tree that reaches every rank once, so here the
 * root's sum has every rank's contribution once. The root receives (n-1+q)/n S, the others at most
 * that. Nothing waits for a round: a block is complete after at most q + 1 messages, one after
 * another. In place: scratch only if several inputs are folded.
 *
 * P = 5, root 0, only 3 blocks; "1:3>0" is block 1 from rank 3 to rank 0:
 *
 *   skip 3   0:3>0   0:4>1   2:1>3   1:2>4
 *   skip 2   0:2>0   2:4>2   1:1>4
 *   skip 1   0:1>0   2:3>2   1:4>3
 *   skip 3   1:3>0
 *   skip 2   2:2>0
 *
 * Source: Optimal Broadcast Schedules in Logarithmic Time with Applications to Broadcast,
 * All-Broadcast, Reduction and All-Reduction.
 */
#include "algorithms/parts/traeff.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span work = sched_work(b);
	const struct circle c = traeff_circle(a);
	const int n = traeff_blocks(a->size);

	for (int j = 0; j < n; j++)
		work_fold(b, work, traeff_block(whole_range(a), n, j));
	traeff_reduce(b, &c, work, whole_range(a));
}

static void cost(const struct coll_args *a, struct coll_cost *c)
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

const struct coll_algorithm reduce_circulant = {
        .kind = COLL_REDUCE,
        .name = "circulant",
        .help = "a pipeline of n = 16(q-1)+1 blocks in the minimum number of rounds",
        .steps = "n-1+q messages",
        .bytes = "S",
        .restrictions = "",
        .source = "Träff, arXiv:2407.18004",
        .cost = cost,
        .emit = emit,
};
