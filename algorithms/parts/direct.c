/*
 * Reduce-scatter and allgather by direct exchange: every rank with every other (see blocks.h).
 *
 * 1. Reduce-scatter: send block j to rank j, beginning with r+1, so that not all ranks begin
 *    with rank 0.
 * 2. The owner of a block adds the contributions in the order 0, 1, .. P-1, including its own, in
 *    the wider type, whatever the order of arrival; then it applies the operation's final function
 * and rounds once. So the order and the bits are always the same: --order rank.
 * 3. Allgather: send the block to all ranks, in the same order; receive those of the others.
 *
 * Each 1 round, S(P-1)/P bytes, P-1 peers; scratch of the reduce-scatter: one block in the wider
 * type. A rank's contribution is the fold of its inputs, rounded to their type, also in its own
 * block: the result does not depend on the owner of a block.
 *
 * A joint operation needs the contributions themselves: a rank sends the block of each of its
 * inputs, and the owner has a scratch buffer for each contribution of its block, in the order of
 * ranks and inputs (joint_reduce_scatter).
 *
 * P = 3, the blocks of rank 1; acc is the scratch:
 *
 *   send 2 to 2, send 0 to 0
 *   acc = block 1 of rank 0;  acc += my block 1;  acc += block 1 of rank 2;  block 1 = acc
 *   send 1 to 2, send 1 to 0;  receive 0 from 0, receive 2 from 2
 *
 * Source: Chan, Heimlich, Purkayastha, van de Geijn, Collective communication: theory, practice,
 * and experience, CCPE 2007.
 */
#include "algorithms/parts/blocks.h"

void direct_add(struct sched_builder *b, const struct coll_args *a, int q, bool first,
                struct sched_span acc, struct sched_span mine, uint64_t len)
{
	if (q == a->rank && first)
		sched_copy(b, acc, mine, len, 0);
	else if (q == a->rank)
		sched_reduce(b, acc, mine, len, 0);
	else if (first)
		sched_recv(b, q, acc, len);
	else
		sched_recv_reduce(b, q, acc, acc, len, 0);
}

void direct_sum(struct sched_builder *b, const struct coll_args *a, struct sched_span mine,
                uint64_t len, struct sched_span result)
{
	const struct sched_span acc = sched_scratch(b, SCHED_ACC, len);

	for (int q = 0; q < a->size; q++)
		direct_add(b, a, q, q == 0, acc, mine, len);
	sched_copy(b, result, acc, len, SCHED_FINAL);
}

void direct_reduce_scatter(struct sched_builder *b, const struct coll_args *a,
                           struct sched_span work, struct sched_span result)
{
	const struct range own = block_range(a, a->rank);

	for (int d = 1; d < a->size; d++) {
		const int peer = rank_add(a, a->rank, d);

		work_fold(b, work, block_range(a, peer));
		work_send(b, peer, work, block_range(a, peer));
	}
	work_fold(b, work, own);
	direct_sum(b, a, span_add(work, own.off), own.len, result);
}

/* ---- joint operations ---- */

void joint_send(struct sched_builder *b, const struct coll_args *a, int peer, struct range r)
{
	for (int k = 0; k < coll_inputs(a, a->rank); k++)
		sched_send(b, peer, sched_in(b, k, r.off), r.len);
}

void joint_take(struct sched_builder *b, const struct coll_args *a, struct range r,
                struct sched_span result)
{
	const struct sched_span first = sched_scratch(b, SCHED_DATA, r.len);
	struct sched_span at = first;

	for (int q = 0; q < a->size; q++)
		for (int k = 0; k < coll_inputs(a, q); k++) {
			if (q || k)
				at = sched_scratch(b, SCHED_DATA, r.len);
			if (q == a->rank)
				sched_copy(b, at, sched_in(b, k, r.off), r.len, 0);
			else
				sched_recv(b, q, at, r.len);
		}
	sched_joint(b, result, first, r.len);
}

void joint_reduce_scatter(struct sched_builder *b, const struct coll_args *a,
                          struct sched_span result)
{
	for (int d = 1; d < a->size; d++) {
		const int peer = rank_add(a, a->rank, d);

		joint_send(b, a, peer, block_range(a, peer));
	}
	joint_take(b, a, block_range(a, a->rank), result);
}

struct joint_load joint_load_of(const struct coll_args *a, int without)
{
	struct joint_load l = {.all = (double)coll_contributions(a), .least = INT32_MAX};

	for (int r = 0; r < a->size; r++) {
		const double n = coll_inputs(a, r);

		if (r == without)
			continue;
		l.least = n < l.least ? n : l.least;
		l.most = n > l.most ? n : l.most;
	}
	return l;
}

void direct_allgather(struct sched_builder *b, const struct coll_args *a, struct sched_span work)
{
	for (int d = 1; d < a->size; d++)
		work_send(b, rank_add(a, a->rank, d), work, block_range(a, a->rank));
	for (int d = 1; d < a->size; d++) {
		const int peer = rank_add(a, a->rank, -d);

		work_recv(b, peer, work, block_range(a, peer));
	}
}

/* ---- allreduce ---- */

void direct_allreduce(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span work = sched_work(b), own = span_add(work, a->off[a->rank]);

	if (a->joint)
		joint_reduce_scatter(b, a, own);
	else
		direct_reduce_scatter(b, a, work, own);
	direct_allgather(b, a, work);
}

void direct_allreduce_cost(const struct coll_args *a, double part, struct coll_cost *c)
{
	const double p = a->size;
	struct joint_load l = {.all = p, .least = 1, .most = 1};

	if (a->joint)
		l = joint_load_of(a, -1);
	*c = (struct coll_cost){
	        .rounds = 2,
	        .messages = (l.most + 1) * (p - 1),
	        .sent = l.most * (1 - part) + (p - 1) * part,
	        .received = (l.all - l.least) * part + 1 - part,
	        .reduced = (l.all - 1) * part,
	};
}
