/*
 * alltoall pairwise
 *
 * 1. Copy my own part.
 * 2. In round d = 1 .. P-1 send part r+d to rank r+d and receive mine from rank r-d.
 * 3. A round begins when the message of the previous round has arrived: the first element sent
 *    waits for the last one received (wait_for). So no rank receives from more than one rank at a
 *    time, unlike in direct.
 *
 * Scratch: one element. Parts may be of any length; an empty one is skipped on both sides.
 *
 * P = 4, the destinations:
 *
 *   rank      0    1    2    3
 *   d = 1     1    2    3    0
 *   d = 2     2    3    0    1
 *   d = 3     3    0    1    2
 *
 * Source: Optimization of Collective Communication Operations in MPICH, section 4.4.
 */
#include "algorithms/alltoall/parts.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span spare = sched_scratch(b, SCHED_DATA, 1);
	uint64_t arrived = 0; /* end of the elements that a round has received */

	alltoall_keep(b, a);
	for (int d = 1; d < a->size; d++) {
		const int to = rank_add(a, a->rank, d), from = rank_add(a, a->rank, -d);
		const struct range part = block_range(a, to);

		if (arrived && part.len)
			wait_for(b, sched_in(b, 0, part.off), sched_out(b, arrived - 1), spare);
		alltoall_send(b, a, to);
		alltoall_recv(b, a, from);
		if (coll_recv_at(a, from) < coll_recv_at(a, from + 1))
			arrived = coll_recv_at(a, from + 1);
	}
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const double p = a->size;

	*c = (struct coll_cost){
	        .rounds = p - 1,
	        .messages = p - 1,
	        .sent = (p - 1) / p,
	        .received = (p - 1) / p,
	};
}

const struct coll_algorithm alltoall_pairwise = {
        .kind = COLL_ALLTOALL,
        .name = "pairwise",
        .help = "in each round a rank sends to one rank and receives from one",
        .steps = "P-1",
        .bytes = "S(P-1)/P",
        .restrictions = "",
        .source = "Thakur, Rabenseifner, Gropp, IJHPCA 2005",
        .cost = cost,
        .emit = emit,
};
