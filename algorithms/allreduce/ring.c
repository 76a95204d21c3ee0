/*
 * allreduce ring
 *
 * 1. acc = out = my vector.
 * 2. P-1 times: send out right, receive in from the left, acc += in, out = in.
 *
 * Scratch: S for the passing vector (none for P = 2), which is forwarded while it arrives. Rank r
 * adds r, r-1, r-2, ...
 *
 * P = 3, the content of acc:
 *
 *   rank      0         1         2
 *   step 1    0+2       1+0       2+1      out: 2, 0, 1
 *   step 2    0+2+1     1+0+2     2+1+0
 */
#include "algorithms/parts/blocks.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
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
	work_add(b, left, acc, all); /* the last is not forwarded */
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const double p = a->size;

	*c = (struct coll_cost){
	        .rounds = p - 1,
	        .messages = p - 1,
	        .sent = p - 1,
	        .received = p - 1,
	        .steady = true,
	        .reduced = p - 1,
	};
}

const struct coll_algorithm allreduce_ring = {
        .kind = COLL_ALLREDUCE,
        .name = "ring",
        .help = "ranks pass whole vectors round a ring; each adds in a different order",
        .steps = "P-1",
        .bytes = "(P-1)S",
        .restrictions = "sum, prod and avg of floats need --allow-divergent",
        .source = "Gloo allreduce_ring",
        .flags = COLL_DIVERGENT | COLL_COPIES,
        .cost = cost,
        .emit = emit,
};

/*
 * Against Gloo's cuda_allreduce_ring, phase by phase:
 *
 * 1. Gloo copies every GPU's buffer to host memory, in parallel, and adds there. Here GPU 0 adds
 *    all buffers, in their order, and one sum is copied: a GPU adds faster than the host, and the
 *    link to the host carries one buffer, not N. The bits are those of the host.
 * 2. The same: the steps of ring, which begin when the copy has ended.
 * 3. Gloo copies the result to all GPUs, in parallel. Here outputs (-o) are files, written from
 *    host memory. Without one, as in bench, the result is copied to GPU 0.
 */
const struct coll_algorithm allreduce_cuda_ring = {
        .kind = COLL_ALLREDUCE,
        .name = "cuda_ring",
        .help = "ring with GPUs; copies do not overlap the network",
        .steps = "P-1",
        .bytes = "(P-1)S",
        .restrictions = "needs --device cuda; sum, prod and avg of floats need --allow-divergent",
        .source = "Gloo cuda_allreduce_ring",
        .flags = COLL_DIVERGENT | COLL_COPIES | COLL_DEVICES | COLL_APART,
        .cost = cost,
        .emit = emit,
};
