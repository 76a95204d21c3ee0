/*
 * allreduce ring: every rank's whole vector goes once round the ring, and each adds what passes.
 *
 * 1. acc = out = my vector.
 * 2. P-1 times: send out right, receive in from the left, acc += in, out = in.
 *
 * P-1 rounds, (P-1)S bytes; scratch: S for what passes (none for P = 2), which is forwarded while
 * it still arrives. Rank r adds r, r-1, r-2, ...: an order that differs by rank, so the bits of
 * floating-point sums and products do as well.
 *
 * P = 3, what stands in acc:
 *
 *   rank      0         1         2
 *   step 1    0+2       1+0       2+1      out: 2, 0, 1
 *   step 2    0+2+1     1+0+2     2+1+0
 *
 * Source: Gloo, docs/algorithms.md, allreduce_ring.
 */
#include "algorithms/blocks.h"
#include "algorithms/emitters.h"

void allreduce_ring(struct sched_builder *b, const struct coll_args *a)
{
	const int left = rank_add(a, a->rank, -1), right = rank_add(a, a->rank, 1);
	const struct range all = whole_range(a);
	const struct sched_span acc = sched_work(b);
	struct sched_span passing = {SCHED_NONE, 0};

	work_fold(b, acc, all);
	work_send(b, right, acc, all);
	if (a->size > 2)
		passing = sched_scratch(b, SCHED_DATA, all.len);
	for (int i = 1; i < a->size - 1; i++) {
		work_recv(b, left, passing, all);
		work_send(b, right, passing, all);
		sched_reduce(b, acc, passing, all.len, 0);
	}
	work_add(b, left, acc, all); /* the last goes no further */
}

void allreduce_ring_cost(const struct coll_args *a, struct coll_cost *c)
{
	const double p = a->size;

	*c = (struct coll_cost){
	        .rounds = p - 1,
	        .messages = p - 1,
	        .sent = p - 1,
	        .received = p - 1,
	        .reduced = p - 1,
	};
}
