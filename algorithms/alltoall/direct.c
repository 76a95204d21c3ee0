/*
 * alltoall direct
 *
 * 1. Send part r+d to rank r+d, for d = 1 .. P-1. Every rank begins with another one, not all with
 *    rank 0. The sends do not wait for each other.
 * 2. Copy my own part.
 * 3. Receive the parts of r-1, r-2, .. into their places.
 *
 * No scratch; parts may be of any length.
 *
 * P = 3, "01" is the part from rank 0 to rank 1:
 *
 *   rank 0: send 01 to 1, 02 to 2   00 <- 00   receive 20 from 2, 10 from 1
 *   rank 1: send 12 to 2, 10 to 0   11 <- 11   receive 01 from 0, 21 from 2
 *   rank 2: send 20 to 0, 21 to 1   22 <- 22   receive 12 from 1, 02 from 0
 *
 * Source: Optimization of Collective Communication Operations in MPICH, section 4.4.
 */
#include "algorithms/alltoall/parts.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	for (int d = 1; d < a->size; d++)
		alltoall_send(b, a, rank_add(a, a->rank, d));
	alltoall_keep(b, a);
	for (int d = 1; d < a->size; d++)
		alltoall_recv(b, a, rank_add(a, a->rank, -d));
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const double p = a->size;

	*c = (struct coll_cost){
	        .rounds = 1,
	        .messages = p - 1,
	        .sent = (p - 1) / p,
	        .received = (p - 1) / p,
	};
}

const struct coll_algorithm alltoall_direct = {
        .kind = COLL_ALLTOALL,
        .name = "direct",
        .help = "each rank sends a part to every other rank at once",
        .steps = "1",
        .bytes = "S(P-1)/P",
        .restrictions = "",
        .source = "Thakur, Rabenseifner, Gropp, IJHPCA 2005",
        .cost = cost,
        .emit = emit,
};
