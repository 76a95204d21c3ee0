/*
 * allgather two_proc: two ranks exchange their blocks.
 *
 * 1 round, b bytes, no scratch. Of more ranks ring takes its place.
 *
 *   rank 0: send 0 to 1, receive 1 from 1
 *   rank 1: send 1 to 0, receive 0 from 0
 *
 * Source: Open MPI, ompi_coll_base_allgather_intra_two_procs.
 */
#include "algorithms/blocks.h"
#include "algorithms/emitters.h"

void allgather_two_proc(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span work = work_gather_own(b, a);

	work_send(b, !a->rank, work, block_range(a, a->rank));
	work_recv(b, !a->rank, work, block_range(a, !a->rank));
}

const char *allgather_two_proc_falls_back(const struct coll_args *a)
{
	return a->size > 2 ? "ring" : NULL;
}

void allgather_two_proc_cost(const struct coll_args *a, struct coll_cost *c)
{
	(void)a;
	*c = (struct coll_cost){.rounds = 1, .messages = 1, .sent = 0.5, .received = 0.5};
}
