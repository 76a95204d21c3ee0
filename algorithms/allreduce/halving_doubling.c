/*
 * allreduce halving_doubling: binary blocks for any P (halving_doubling.c).
 *
 * 1. Each block of 2^k ranks halves the vector, until each rank has a piece of its block's sum.
 * 2. The blocks' sums are added, the smallest block's first, up to the largest block.
 * 3. The complete pieces go down again, block by block.
 * 4. Each block doubles its ranks' pieces.
 *
 * No scratch. The only rank of a block of one rank exchanges a piece with every rank of the next
 * block.
 *
 * P = 4, pieces 0..3, the pieces that a rank processes:
 *
 *   rank      0                  1                  2                  3
 *   halve     0,1 with 1         2,3 with 0         0,1 with 3         2,3 with 2
 *             0 with 2           2 with 3           1 with 0           3 with 1
 *   double    0,1 with 2         2,3 with 3         0,1 with 0         2,3 with 1
 *             0..3 with 1        0..3 with 0        0..3 with 3        0..3 with 2
 *
 * Source: Optimization of Collective Communication Operations in MPICH.
 */
#include "algorithms/parts/blocks.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span work = sched_work(b);

	halving_doubling_reduce(b, a, work);
	halving_doubling_return(b, a, work);
}

/* A rank of a block of B sends 2(1 - 1/B), and 1/B to each of the larger and the smaller block, if
 * they exist; it receives the same. */
static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const int l = log2_floor(a->size), rest = a->size - (1 << l);
	const double piece = 1.0 / (1 << l);
	const double sent = 2 - piece * (!rest ? 2 : rest & (rest - 1) ? 0 : 1);

	*c = (struct coll_cost){
	        .rounds = 2 * l + (rest ? 2 : 0),
	        .messages = halving_doubling_messages(a, true),
	        .sent = sent,
	        .received = sent,
	        .reduced = rest ? 1 : 1 - piece,
	        .pairs = true,
	};
}

const struct coll_algorithm allreduce_halving_doubling = {
        .kind = COLL_ALLREDUCE,
        .name = "halving_doubling",
        .help = "reduce-scatter by recursive halving, allgather by recursive doubling",
        .steps = "2L (+2 if P is not a power of two)",
        .bytes = "2S(P-1)/P (S..2S if P is not a power of two)",
        .restrictions = "",
        .source = "Gloo allreduce_halving_doubling; Thakur, Rabenseifner, Gropp, IJHPCA 2005",
        .cost = cost,
        .emit = emit,
};

/*
 * Against Gloo's cuda_allreduce_halving_doubling, phase by phase:
 *
 * 1. The same: the buffers are reduced on GPU 0, and the whole sum is copied to host memory before
 *    phase 2 begins. The kernels are the plug-in's, with the bits of the host.
 * 2. The same steps as halving_doubling. Gloo notifies a peer that a buffer may be written again.
 *    Here each rank writes what it receives, in the order of its schedule.
 * 3. Gloo copies the whole result to GPU 0 when phase 2 has ended, and from there to the others.
 *    Here outputs (-o) are files, written from host memory. Without one, as in bench, the result is
 *    copied to GPU 0, also when phase 2 has ended.
 */
const struct coll_algorithm allreduce_cuda_halving_doubling = {
        .kind = COLL_ALLREDUCE,
        .name = "cuda_halving_doubling",
        .help = "halving_doubling with GPUs; copies do not overlap the network",
        .steps = "2L (+2 if P is not a power of two)",
        .bytes = "2S(P-1)/P (S..2S if P is not a power of two)",
        .restrictions = "needs --device cuda",
        .source = "Gloo cuda_allreduce_halving_doubling",
        .flags = COLL_DEVICES | COLL_APART,
        .cost = cost,
        .emit = emit,
};

/*
 * Against Gloo's cuda_allreduce_halving_doubling_pipelined, phase by phase:
 *
 * 1. The same two parts, if P is a power of two: the half that the first step sends is reduced and
 *    copied to host memory first, then the other half. For another P there are as many parts as
 *    first steps that need different elements.
 * 2. The same steps as halving_doubling.
 * 3. The same lg P parts, one for each receive of the allgather, and one more, the piece that the
 *    rank itself completes. Gloo copies them to GPU 0, and broadcasts them from there. Here outputs
 *    (-o) are files, and each part is written from host memory; without one it is copied to GPU 0.
 */
const struct coll_algorithm allreduce_cuda_halving_doubling_pipelined = {
        .kind = COLL_ALLREDUCE,
        .name = "cuda_halving_doubling_pipelined",
        .help = "halving_doubling with GPUs; copies overlap the network, in the order of the steps",
        .steps = "2L (+2 if P is not a power of two)",
        .bytes = "2S(P-1)/P (S..2S if P is not a power of two)",
        .restrictions = "needs --device cuda",
        .source = "Gloo cuda_allreduce_halving_doubling_pipelined",
        .flags = COLL_DEVICES,
        .cost = cost,
        .emit = emit,
};
