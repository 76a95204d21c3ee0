/*
 * broadcast one_to_all
 *
 * 1. The root sends the vector to r + 1, r + 2, .. around the ranks, to all at once.
 *
 * The root has one port: (P-1)(L + m/B) if messages go one by one. No scratch.
 *
 * P = 4, root 1:
 *
 *   rank 1: send to 2, send to 3, send to 0
 *   others: receive from 1
 *
 * Source: Collective communication: theory, practice, and experience.
 */
#include "algorithms/parts/blocks.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct range all = whole_range(a);
	const struct sched_span out = sched_out(b, 0);

	if (a->rank != a->root) {
		work_recv(b, a->root, out, all);
		return;
	}
	work_fold(b, out, all);
	for (int d = 1; d < a->size; d++)
		work_send(b, rank_add(a, a->rank, d), out, all);
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const double p = a->size;

	*c = (struct coll_cost){
	        .rounds = 1, .messages = p - 1, .sent = p - 1, .received = 1, .steady = true};
}

const struct coll_algorithm broadcast_one_to_all = {
        .kind = COLL_BROADCAST,
        .name = "one_to_all",
        .help = "the root sends the vector to every rank",
        .steps = "1",
        .bytes = "(P-1)S at the root",
        .restrictions = "",
        .source = "Chan, Heimlich, Purkayastha, van de Geijn, CCPE 2007",
        .cost = cost,
        .emit = emit,
};

/*
 * Against Gloo's broadcast_one_to_all, to which its CUDA variant adds copies at both ends:
 *
 * 1. The root's buffer, on GPU 0, is copied to host memory. The SENDs begin with the first elements
 *    that have been copied.
 * 2. The same step: the root sends to all others at once, (P-1)S bytes; Gloo counts P S.
 * 3. Gloo copies what arrives to the GPUs. Here outputs (-o) are files, written from host memory
 *    while the rest arrives. Without one, as in bench, the others copy it to GPU 0.
 */
const struct coll_algorithm broadcast_cuda_broadcast_one_to_all = {
        .kind = COLL_BROADCAST,
        .name = "cuda_broadcast_one_to_all",
        .help = "one_to_all with GPUs; copies overlap the network",
        .steps = "1",
        .bytes = "(P-1)S at the root",
        .restrictions = "needs --device cuda",
        .source = "Gloo cuda_broadcast_one_to_all",
        .flags = COLL_DEVICES,
        .cost = cost,
        .emit = emit,
};
