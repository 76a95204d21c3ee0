/*
 * allreduce ring_chunked (ring.c)
 *
 * 1. Each block is cut in two: 2P chunks. k(i) = (2r - (i & ~1) + (i & 1)) mod 2P walks down the
 *    blocks from my own, both halves of each.
 * 2. Send chunks k(0) and k(1) right.
 * 3. For i = 2 .. 2P-1: receive k(i) from the left, adding it to mine, and send it right. The last
 *    two, chunks 2r+2 and 2r+3 (mod 2P), have now passed every rank: they are complete.
 * 4. For i = 0 .. 2P-3: receive the complete k(i) from the left, and send it right while i < 2P-4:
 *    the right neighbour has completed the last two itself.
 *
 * Every chunk is reduced once, along the ring, and then copied, so all ranks have the same bits.
 * While one half of a block is on the wire, the rank adds the other. 2(P-1) rounds; no scratch.
 * Empty chunks are skipped on both sides.
 *
 * P = 3, chunks 0..5; "+2" receives and adds chunk 2, "=4" receives complete chunk 4:
 *
 *   rank 0: send 0 1   +4 +5 send 4 5   +2 +3 send 2 3   =0 =1 send 0 1   =4 =5
 *   rank 1: send 2 3   +0 +1 send 0 1   +4 +5 send 4 5   =2 =3 send 2 3   =0 =1
 *   rank 2: send 4 5   +2 +3 send 2 3   +0 +1 send 0 1   =4 =5 send 4 5   =2 =3
 *
 * Source: Bandwidth optimal all-reduce algorithms for clusters of workstations.
 */
#include "algorithms/parts/blocks.h"

static void emit(struct sched_builder *b, const struct coll_args *a)
{
	const struct sched_span work = sched_work(b);

	ring_reduce_scatter(b, a, work, a->rank, 2);
	ring_allgather(b, a, work, rank_add(a, a->rank, 1), 2);
}

static void cost(const struct coll_args *a, struct coll_cost *c)
{
	const double p = a->size;

	*c = (struct coll_cost){
	        .rounds = 2 * (p - 1),
	        .messages = 4 * (p - 1),
	        .sent = 2 * (p - 1) / p,
	        .received = 2 * (p - 1) / p,
	        .steady = true,
	        .reduced = (p - 1) / p,
	};
}

const struct coll_algorithm allreduce_ring_chunked = {
        .kind = COLL_ALLREDUCE,
        .name = "ring_chunked",
        .help = "reduce-scatter and allgather on a ring, two chunks in flight",
        .steps = "4(P-1) messages",
        .bytes = "2S(P-1)/P",
        .restrictions = "",
        .source = "Gloo allreduce_ring_chunked; Patarasuk, Yuan, JPDC 2009",
        .cost = cost,
        .emit = emit,
};

/*
 * Against Gloo's cuda_allreduce_ring_chunked, phase by phase:
 *
 * 1. The same: the buffers are reduced into that of GPU 0, and the sum is copied to host memory, a
 *    chunk at a time, in the order in which phase 2 sends or adds them. Gloo reduces by NCCL, in
 *    the order that NCCL chooses; here kernels of the plug-in add the buffers in their order, with
 *    the bits of the host, and NCCL only with --device-path nccl.
 * 2. The same: the steps of ring_chunked. A step begins with the first elements that have been
 *    copied, not with a chunk.
 * 3. Gloo copies chunks to GPU 0 as they become complete, and broadcasts them by NCCL to all GPUs.
 *    Here outputs (-o) are files, and chunks are written from host memory as they become complete.
 *    Without one, as in bench, they are copied to GPU 0.
 */
const struct coll_algorithm allreduce_cuda_ring_chunked = {
        .kind = COLL_ALLREDUCE,
        .name = "cuda_ring_chunked",
        .help = "ring_chunked with GPUs; copies overlap the network, in the order of the steps",
        .steps = "4(P-1) messages",
        .bytes = "2S(P-1)/P",
        .restrictions = "needs --device cuda",
        .source = "Gloo cuda_allreduce_ring_chunked",
        .flags = COLL_DEVICES,
        .cost = cost,
        .emit = emit,
};
