/*
 * allgather linear: everything to rank 0, and from there to everyone.
 *
 * 1. Every rank sends its block to rank 0.
 * 2. Rank 0 sends the whole vector to every rank, while it still arrives.
 *
 * 2 rounds; rank 0 sends (P-1)S, the others b. No scratch.
 *
 * P = 3, rank 0:
 *
 *   receive 1 from 1, receive 2 from 2;  send 0,1,2 to 1, send 0,1,2 to 2
 *
 * Source: Open MPI, ompi_coll_base_allgather_intra_basic_linear.
 */
#include "algorithms/blocks.h"
#include "algorithms/emitters.h"

void allgather_linear(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span work = work_gather_own(b, a);

	if (a->rank) {
		work_send(b, 0, work, block_range(a, a->rank));
		work_recv(b, 0, work, whole_range(a));
		return;
	}
	for (int r = 1; r < a->size; r++)
		work_recv(b, r, work, block_range(a, r));
	for (int r = 1; r < a->size; r++)
		work_send(b, r, work, whole_range(a));
}

void allgather_linear_cost(const struct coll_args *a, struct coll_cost *c)
{
	*c = (struct coll_cost){
	        .rounds = 2,
	        .messages = a->size - 1,
	        .sent = a->size - 1,
	        .received = 1,
	};
}
