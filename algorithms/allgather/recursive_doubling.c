/*
 * allgather recursive_doubling
 *
 * For d = 1, 2, .. P/2: rank r has the run of d blocks that begins at r rounded down to a multiple
 * of d; rank r ^ d has the adjacent run. They exchange these runs.
 *
 * No scratch.
 *
 * P = 4:
 *
 *   rank     0             1             2             3
 *   d = 1    0,1           0,1           2,3           2,3
 *   d = 2    0,1,2,3       0,1,2,3       0,1,2,3       0,1,2,3
 *
 * Source: also Thakur, Rabenseifner, Gropp, IJHPCA 2005.
 */
#include "algorithms/parts/blocks.h"

static struct range aligned_run(const struct coll_args *a, int rank, int d)
{
	const int first = rank & ~(d - 1);

	return (struct range){a->off[first], a->off[first + d] - a->off[first]};
}

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span work = work_gather_own(b, a);

	for (int d = 1; d < a->size; d <<= 1) {
		work_send(b, a->rank ^ d, work, aligned_run(a, a->rank, d));
		work_recv(b, a->rank ^ d, work, aligned_run(a, a->rank ^ d, d));
	}
}

static const char *falls_back(const struct coll_args *a)
{
	return a->size & (a->size - 1) ? "bruck" : NULL;
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const double p = a->size, l = log2_floor(a->size);

	*c = (struct coll_cost){
	        .rounds = l,
	        .messages = l,
	        .sent = (p - 1) / p,
	        .received = (p - 1) / p,
	};
}

const struct coll_algorithm allgather_recursive_doubling = {
        .kind = COLL_ALLGATHER,
        .name = "recursive_doubling",
        .help = "partners at doubling distances exchange all their blocks",
        .steps = "log2 P",
        .bytes = "(P-1)b",
        .restrictions = "P must be a power of two; else bruck",
        .source = "Open MPI allgather_intra_recursivedoubling",
        .cost = cost,
        .falls_back = falls_back,
        .emit = emit,
};
