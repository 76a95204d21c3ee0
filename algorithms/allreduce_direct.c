/*
 * allreduce direct: every rank sends block j to rank j, which adds them in rank order; then every
 * rank sends its block to everyone.
 *
 * 1. Send block j to rank j, from r+1 on round the ranks, so that not all begin with rank 0.
 * 2. The owner of a block adds the contributions in the order 0, 1, .. P-1, its own in its turn,
 *    in the wider type, whenever they arrive; then it applies the operation's last function and
 *    rounds once. The order, and with it the bits, depend on nothing else: --order rank.
 * 3. Send the block to everyone, round the ranks again; receive the others'.
 *
 * 2 rounds, 2S(P-1)/P bytes, P-1 peers; scratch: one block in the wider type. A rank's contribution
 * is the fold of its inputs rounded to their type, its own as well: who owns a block makes no
 * difference.
 *
 * P = 3, the blocks of rank 1; acc is the scratch:
 *
 *   send 2 to 2, send 0 to 0
 *   acc = block 1 of rank 0;  acc += my block 1;  acc += block 1 of rank 2;  block 1 = acc
 *   send 1 to 2, send 1 to 0;  receive 0 from 0, receive 2 from 2
 *
 * Source: the reduce-scatter and allgather by direct exchange; Chan, Heimlich, Purkayastha,
 * van de Geijn, Collective communication: theory, practice, and experience, CCPE 2007.
 */
#include "algorithms/blocks.h"
#include "algorithms/emitters.h"

/* Add rank @q's contribution to my block; rank 0's is the first. */
static void contribute(struct sched_builder *b, const struct coll_args *a, int q,
                       struct sched_span acc, struct range own)
{
	const struct sched_span mine = sched_out(b, own.off);

	if (q == a->rank && q == 0)
		sched_copy(b, acc, mine, own.len, 0);
	else if (q == a->rank)
		sched_reduce(b, acc, mine, own.len, 0);
	else if (q == 0)
		sched_recv(b, q, acc, own.len);
	else
		sched_recv_reduce(b, q, acc, acc, own.len, 0);
}

void allreduce_direct(struct sched_builder *b, const struct coll_args *a)
{
	const struct range own = block_range(a, a->rank);
	const struct sched_span acc = sched_scratch(b, SCHED_ACC, own.len);

	for (int d = 1; d < a->size; d++) {
		const int peer = rank_add(a, a->rank, d);
		const struct range r = block_range(a, peer);

		sched_fold_inputs(b, sched_out(b, r.off), r.off, r.len);
		sched_send(b, peer, sched_out(b, r.off), r.len);
	}
	sched_fold_inputs(b, sched_out(b, own.off), own.off, own.len);
	for (int q = 0; q < a->size; q++)
		contribute(b, a, q, acc, own);
	sched_copy(b, sched_out(b, own.off), acc, own.len, SCHED_FINAL);
	for (int d = 1; d < a->size; d++)
		sched_send(b, rank_add(a, a->rank, d), sched_out(b, own.off), own.len);
	for (int d = 1; d < a->size; d++) {
		const int peer = rank_add(a, a->rank, -d);
		const struct range r = block_range(a, peer);

		sched_recv(b, peer, sched_out(b, r.off), r.len);
	}
}

void allreduce_direct_cost(const struct coll_args *a, struct coll_cost *c)
{
	const double p = a->size;

	*c = (struct coll_cost){
	        .rounds = 2,
	        .messages = 2 * (p - 1),
	        .sent = 2 * (p - 1) / p,
	        .received = 2 * (p - 1) / p,
	        .reduced = (p - 1) / p,
	};
}
