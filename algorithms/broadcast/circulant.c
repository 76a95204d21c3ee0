/*
 * broadcast circulant: in each round every rank sends one block and receives one.
 *
 * 1. The vector is divided into n blocks (traeff_blocks), for any length and independent of the
 *    ranks' blocks. In a vector of fewer elements some blocks are empty and skipped on both sides.
 * 2. In round i, with k = i mod q, send a block to the rank skip[k] after me and receive one from
 * the rank skip[k] before me. Träff's schedule (traeff.c) determines the blocks. The root sends
 * blocks 0, 1, 2, .. and the last one q times.
 *
 * Every rank receives each block once. Rounds do not synchronise: a SEND follows the RECV of its
 * block, and a block arrives after at most q + 1 messages. No scratch.
 *
 * P = 5, root 0, only 3 blocks; "1:0>3" is block 1 from rank 0 to rank 3:
 *
 *   skip 2   0:0>2
 *   skip 3   1:0>3
 *   skip 1   2:0>1   0:2>3   1:3>4
 *   skip 2   2:0>2   0:2>4   1:4>1
 *   skip 3   2:0>3   2:1>4   0:3>1   1:4>2
 *
 * Source: Optimal Broadcast Schedules in Logarithmic Time with Applications to Broadcast,
 * All-Broadcast, Reduction and All-Reduction.
 */
#include "algorithms/parts/traeff.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span out = sched_out(b, 0);
	const struct circle c = traeff_circle(a);
	const int n = traeff_blocks(a->size);

	for (int j = 0; a->rank == a->root && j < n; j++)
		work_fold(b, out, traeff_block(whole_range(a), n, j));
	traeff_broadcast(b, &c, out, whole_range(a));
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const double n = traeff_blocks(a->size), q = log2_ceil(a->size);

	*c = (struct coll_cost){
	        .rounds = q > 1 ? q + 1 : 1,
	        .messages = n - 1 + q,
	        .sent = (n - 1 + q) / n,
	        .received = 1,
	};
}

const struct coll_algorithm broadcast_circulant = {
        .kind = COLL_BROADCAST,
        .name = "circulant",
        .help = "a pipeline of n = 16(q-1)+1 blocks in the minimum number of rounds",
        .steps = "n-1+q messages",
        .bytes = "S + S(q-1)/n at the root, others at most that",
        .restrictions = "",
        .source = "Träff, arXiv:2407.18004",
        .cost = cost,
        .emit = emit,
};
