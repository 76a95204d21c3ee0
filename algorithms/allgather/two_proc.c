/*
 * allgather two_proc
 *
 * No scratch.
 *
 *   rank 0: send 0 to 1, receive 1 from 1
 *   rank 1: send 1 to 0, receive 0 from 0
 */
#include "algorithms/parts/blocks.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span work = work_gather_own(b, a);

	work_send(b, !a->rank, work, block_range(a, a->rank));
	work_recv(b, !a->rank, work, block_range(a, !a->rank));
}

static const char *falls_back(const struct coll_args *a)
{
	return a->size > 2 ? "ring" : NULL;
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	(void)a;
	*c = (struct coll_cost){.rounds = 1, .messages = 1, .sent = 0.5, .received = 0.5};
}

const struct coll_algorithm allgather_two_proc = {
        .kind = COLL_ALLGATHER,
        .name = "two_proc",
        .help = "two ranks exchange their blocks",
        .steps = "1",
        .bytes = "b",
        .restrictions = "P must be 2; else ring",
        .source = "Open MPI allgather_intra_two_procs",
        .cost = cost,
        .falls_back = falls_back,
        .emit = emit,
};
