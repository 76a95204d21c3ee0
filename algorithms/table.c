/*
 * The registry: one row per algorithm. Dispatch, help, plan, tests and selection read it. Of those
 * that cost the same selection takes the first: who copies on top of it stands behind.
 */
#include <string.h>

#include "algorithms/blocks.h"
#include "algorithms/emitters.h"

/* ---- the rows ---- */

const struct coll_algorithm coll_algorithms[] = {
        /* allreduce */
        {
                .kind = COLL_ALLREDUCE,
                .name = "ring",
                .help = "whole vectors go round a ring: the order of a sum differs by rank",
                .steps = "P-1",
                .bytes = "(P-1)S",
                .restrictions = "float sum and prod need --allow-divergent",
                .source = "Gloo allreduce_ring",
                .flags = COLL_DIVERGENT,
                .cost = allreduce_ring_cost,
                .emit = allreduce_ring,
        },
        {
                .kind = COLL_ALLREDUCE,
                .name = "ring_chunked",
                .help = "reduce-scatter and allgather on a ring, two chunks in flight",
                .steps = "4(P-1) messages",
                .bytes = "2S(P-1)/P",
                .restrictions = "",
                .source = "Gloo allreduce_ring_chunked; Patarasuk, Yuan, JPDC 2009",
                .cost = allreduce_ring_chunked_cost,
                .emit = allreduce_ring_chunked,
        },
        {
                .kind = COLL_ALLREDUCE,
                .name = "halving_doubling",
                .help = "partners at doubling distances halve the vector, then double it back",
                .steps = "2L (+2 where P is no power of two)",
                .bytes = "2S(P-1)/P (S..2S where P is no power of two)",
                .restrictions = "",
                .source =
                        "Gloo allreduce_halving_doubling; Thakur, Rabenseifner, Gropp, IJHPCA 2005",
                .cost = allreduce_halving_doubling_cost,
                .emit = allreduce_halving_doubling,
        },
        {
                .kind = COLL_ALLREDUCE,
                .name = "bcube",
                .help = "groups of B (--base, 2) cut the vector in B, then put it together",
                .steps = "2 for each factor of P",
                .bytes = "2S(P-1)/P",
                .restrictions = "",
                .source = "Gloo allreduce_bcube",
                .cost = allreduce_bcube_cost,
                .emit = allreduce_bcube,
        },
        {
                .kind = COLL_ALLREDUCE,
                .name = "recursive_doubling",
                .help = "partners at doubling distances exchange whole vectors: small vectors",
                .steps = "L (+2 where P is no power of two)",
                .bytes = "SL (+S where P is no power of two)",
                .restrictions = "",
                .source = "Thakur, Rabenseifner, Gropp, IJHPCA 2005",
                .cost = allreduce_recursive_doubling_cost,
                .emit = allreduce_recursive_doubling,
        },
        {
                .kind = COLL_ALLREDUCE,
                .name = "rabenseifner",
                .help = "halving and doubling among a power of two of the ranks",
                .steps = "2L (+2 where P is no power of two)",
                .bytes = "2S(1-1/2^L) (+S where P is no power of two)",
                .restrictions = "",
                .source = "Rabenseifner, ICCS 2004; Thakur, Rabenseifner, Gropp, IJHPCA 2005",
                .cost = allreduce_rabenseifner_cost,
                .emit = allreduce_rabenseifner,
        },
        {
                .kind = COLL_ALLREDUCE,
                .name = "circulant",
                .help = "reduce-scatter and allgather on a circulant graph: fewest rounds and "
                        "bytes",
                .steps = "2q",
                .bytes = "2S(P-1)/P",
                .restrictions = "",
                .source = "Träff, arXiv:2410.14234",
                .cost = allreduce_circulant_cost,
                .emit = allreduce_circulant,
        },
        {
                .kind = COLL_ALLREDUCE,
                .name = "direct",
                .help = "each rank adds its block of all ranks in rank order, then sends it to all",
                .steps = "2",
                .bytes = "2S(P-1)/P",
                .restrictions = "",
                .source = "Chan, Heimlich, Purkayastha, van de Geijn, CCPE 2007",
                .flags = COLL_ORDERED | COLL_FINAL,
                .cost = allreduce_direct_cost,
                .emit = allreduce_direct,
        },

        /* reduce-scatter */
        {
                .kind = COLL_REDUCE_SCATTER,
                .name = "halving_doubling",
                .help = "partners at doubling distances halve the vector, then reorder it",
                .steps = "L + 1 (+2 where P is no power of two)",
                .bytes = "S",
                .restrictions = "",
                .source = "Gloo reduce_scatter_halving_doubling; Sack, Gropp, PPoPP 2012",
                .cost = reduce_scatter_halving_doubling_cost,
                .emit = reduce_scatter_halving_doubling,
        },
        {
                .kind = COLL_REDUCE_SCATTER,
                .name = "circulant",
                .help = "halving on a circulant graph: fewest rounds and bytes",
                .steps = "q",
                .bytes = "S(P-1)/P",
                .restrictions = "",
                .source = "Träff, arXiv:2410.14234",
                .cost = reduce_scatter_circulant_cost,
                .emit = reduce_scatter_circulant,
        },
        {
                .kind = COLL_REDUCE_SCATTER,
                .name = "ring",
                .help = "blocks go round a ring and gather the contributions",
                .steps = "P-1",
                .bytes = "S(P-1)/P",
                .restrictions = "",
                .source = "Patarasuk, Yuan, JPDC 2009",
                .cost = reduce_scatter_ring_cost,
                .emit = reduce_scatter_ring,
        },
        {
                .kind = COLL_REDUCE_SCATTER,
                .name = "direct",
                .help = "each rank adds its block of all ranks in rank order",
                .steps = "1",
                .bytes = "S(P-1)/P",
                .restrictions = "",
                .source = "Chan, Heimlich, Purkayastha, van de Geijn, CCPE 2007",
                .flags = COLL_ORDERED | COLL_FINAL,
                .cost = reduce_scatter_direct_cost,
                .emit = reduce_scatter_direct,
        },

        /* allgather */
        {
                .kind = COLL_ALLGATHER,
                .name = "linear",
                .help = "all blocks to rank 0, and all of them from there to everyone",
                .steps = "1 + q",
                .bytes = "rank 0 qS",
                .restrictions = "",
                .source = "Open MPI allgather_intra_basic_linear",
                .cost = allgather_linear_cost,
                .emit = allgather_linear,
        },
        {
                .kind = COLL_ALLGATHER,
                .name = "recursive_doubling",
                .help = "partners at doubling distances exchange all they have",
                .steps = "log2 P",
                .bytes = "(P-1)b",
                .restrictions = "P a power of two, else bruck",
                .source = "Open MPI allgather_intra_recursivedoubling",
                .cost = allgather_recursive_doubling_cost,
                .falls_back = allgather_recursive_doubling_falls_back,
                .emit = allgather_recursive_doubling,
        },
        {
                .kind = COLL_ALLGATHER,
                .name = "circulant",
                .help = "doubling on a circulant graph: fewest rounds and bytes, no rotation",
                .steps = "q",
                .bytes = "(P-1)b",
                .restrictions = "",
                .source = "Träff, arXiv:2410.14234",
                .cost = allgather_circulant_cost,
                .emit = allgather_circulant,
        },
        {
                .kind = COLL_ALLGATHER,
                .name = "bruck",
                .help = "what a rank has goes to ranks at distances that grow k-fold (--base, 2)",
                .steps = "ceil(log_k P)",
                .bytes = "(P-1)b",
                .restrictions = "",
                .source = "Bruck, Ho, Kipnis, Upfal, Weathersby, TPDS 1997; Open MPI "
                          "allgather_intra_bruck",
                .cost = allgather_bruck_cost,
                .emit = allgather_bruck,
        },
        {
                .kind = COLL_ALLGATHER,
                .name = "ring",
                .help = "blocks go round a ring",
                .steps = "P-1",
                .bytes = "(P-1)b",
                .restrictions = "",
                .source = "Open MPI allgather_intra_ring",
                .cost = allgather_ring_cost,
                .emit = allgather_ring,
        },
        {
                .kind = COLL_ALLGATHER,
                .name = "direct",
                .help = "each rank sends its block to all",
                .steps = "1",
                .bytes = "(P-1)b",
                .restrictions = "",
                .source = "Chan, Heimlich, Purkayastha, van de Geijn, CCPE 2007",
                .cost = allgather_direct_cost,
                .emit = allgather_direct,
        },
        {
                .kind = COLL_ALLGATHER,
                .name = "neighbor",
                .help = "neighbours on a ring exchange two blocks at a time",
                .steps = "P/2",
                .bytes = "(P-1)b",
                .restrictions = "P even, else ring",
                .source = "Chen, Zhang, Zhang, Yuan, HPCASIA 2005; Open MPI "
                          "allgather_intra_neighborexchange",
                .cost = allgather_neighbor_cost,
                .falls_back = allgather_neighbor_falls_back,
                .emit = allgather_neighbor,
        },
        {
                .kind = COLL_ALLGATHER,
                .name = "two_proc",
                .help = "two ranks exchange their blocks",
                .steps = "1",
                .bytes = "b",
                .restrictions = "P = 2, else ring",
                .source = "Open MPI allgather_intra_two_procs",
                .cost = allgather_two_proc_cost,
                .falls_back = allgather_two_proc_falls_back,
                .emit = allgather_two_proc,
        },
        {
                .kind = COLL_ALLGATHER,
                .name = "sparbit",
                .help = "blocks go to ranks at halving distances: no rotation",
                .steps = "q",
                .bytes = "(P-1)b",
                .restrictions = "",
                .source = "Loch, Koslovski, CLUSTER 2021; Open MPI allgather_intra_sparbit",
                .cost = allgather_sparbit_cost,
                .emit = allgather_sparbit,
        },
        {
                .kind = COLL_ALLGATHER,
                .name = "tuned",
                .help = "what Open MPI's decision tree takes for these ranks and bytes",
                .steps = "of what is taken",
                .bytes = "of what is taken",
                .restrictions = "stands for recursive_doubling, bruck, ring, neighbor or two_proc",
                .source = "Open MPI coll_tuned_allgather_decision.c",
                .falls_back = allgather_tuned_falls_back,
        },

        /* broadcast */
        {
                .kind = COLL_BROADCAST,
                .name = "one_to_all",
                .help = "the root sends the vector to every rank",
                .steps = "1",
                .bytes = "(P-1)S at the root",
                .restrictions = "",
                .source = "Chan, Heimlich, Purkayastha, van de Geijn, CCPE 2007",
                .cost = broadcast_one_to_all_cost,
                .emit = broadcast_one_to_all,
        },
        {
                .kind = COLL_BROADCAST,
                .name = "binomial",
                .help = "a binomial tree: small vectors",
                .steps = "q",
                .bytes = "qS at the root, others less",
                .restrictions = "",
                .source = "Thakur, Rabenseifner, Gropp, IJHPCA 2005",
                .cost = broadcast_binomial_cost,
                .emit = broadcast_binomial,
        },
        {
                .kind = COLL_BROADCAST,
                .name = "ring",
                .help = "the vector streams along a chain of all ranks: large vectors, few ranks",
                .steps = "P-1, streamed",
                .bytes = "S",
                .restrictions = "",
                .source = "bcast_ring, pipelined",
                .cost = broadcast_ring_cost,
                .emit = broadcast_ring,
        },
        {
                .kind = COLL_BROADCAST,
                .name = "scatter_allgather",
                .help = "scatter in a binomial tree, allgather on a circulant graph",
                .steps = "2q",
                .bytes = "2S(P-1)/P at the root, others less",
                .restrictions = "",
                .source = "van de Geijn, Watts, CPE 1997; Träff, arXiv:2410.14234",
                .cost = broadcast_scatter_allgather_cost,
                .emit = broadcast_scatter_allgather,
        },
        {
                .kind = COLL_BROADCAST,
                .name = "circulant",
                .help = "n = 16(q-1)+1 blocks in the fewest rounds that can be",
                .steps = "n-1+q messages",
                .bytes = "S + S(q-1)/n at the root, others at most that",
                .restrictions = "",
                .source = "Träff, arXiv:2407.18004",
                .cost = broadcast_circulant_cost,
                .emit = broadcast_circulant,
        },

        /* reduce */
        {
                .kind = COLL_REDUCE,
                .name = "linear",
                .help = "every rank sends to the root, which adds in rank order",
                .steps = "1",
                .bytes = "S",
                .restrictions = "",
                .source = "Chan, Heimlich, Purkayastha, van de Geijn, CCPE 2007",
                .flags = COLL_ORDERED | COLL_FINAL,
                .cost = reduce_linear_cost,
                .emit = reduce_linear,
        },
        {
                .kind = COLL_REDUCE,
                .name = "binomial",
                .help = "a binomial tree: small vectors",
                .steps = "q",
                .bytes = "S",
                .restrictions = "",
                .source = "Thakur, Rabenseifner, Gropp, IJHPCA 2005",
                .cost = reduce_binomial_cost,
                .emit = reduce_binomial,
        },
        {
                .kind = COLL_REDUCE,
                .name = "ring",
                .help = "the sum streams along a chain of all ranks: large vectors, few ranks",
                .steps = "P-1, streamed",
                .bytes = "S",
                .restrictions = "",
                .source = "bcast_ring, pipelined and backwards",
                .cost = reduce_ring_cost,
                .emit = reduce_ring,
        },
        {
                .kind = COLL_REDUCE,
                .name = "rs_gather",
                .help = "reduce-scatter on a circulant graph, gather in a binomial tree",
                .steps = "2q",
                .bytes = "S",
                .restrictions = "",
                .source = "Rabenseifner, ICCS 2004; Träff, arXiv:2410.14234",
                .cost = reduce_rs_gather_cost,
                .emit = reduce_rs_gather,
        },
        {
                .kind = COLL_REDUCE,
                .name = "circulant",
                .help = "n = 16(q-1)+1 blocks in the fewest rounds that can be",
                .steps = "n-1+q messages",
                .bytes = "S",
                .restrictions = "",
                .source = "Träff, arXiv:2407.18004",
                .cost = reduce_circulant_cost,
                .emit = reduce_circulant,
        },

        /* gather */
        {
                .kind = COLL_GATHER,
                .name = "linear",
                .help = "every rank sends its block to the root",
                .steps = "1",
                .bytes = "b",
                .restrictions = "",
                .source = "Chan, Heimlich, Purkayastha, van de Geijn, CCPE 2007",
                .cost = gather_linear_cost,
                .emit = gather_linear,
        },
        {
                .kind = COLL_GATHER,
                .name = "binomial",
                .help = "blocks come together in a binomial tree: small blocks",
                .steps = "q",
                .bytes = "the blocks of the subtree, at most S/2",
                .restrictions = "",
                .source = "Thakur, Rabenseifner, Gropp, IJHPCA 2005",
                .cost = gather_binomial_cost,
                .emit = gather_binomial,
        },

        /* scatter */
        {
                .kind = COLL_SCATTER,
                .name = "linear",
                .help = "the root sends every rank its block",
                .steps = "1",
                .bytes = "(P-1)b at the root",
                .restrictions = "",
                .source = "Chan, Heimlich, Purkayastha, van de Geijn, CCPE 2007",
                .cost = scatter_linear_cost,
                .emit = scatter_linear,
        },
        {
                .kind = COLL_SCATTER,
                .name = "binomial",
                .help = "blocks part in a binomial tree: small blocks",
                .steps = "q",
                .bytes = "(P-1)b at the root, others less",
                .restrictions = "",
                .source = "Thakur, Rabenseifner, Gropp, IJHPCA 2005",
                .cost = scatter_binomial_cost,
                .emit = scatter_binomial,
        },

        /* alltoall */
        {
                .kind = COLL_ALLTOALL,
                .name = "direct",
                .help = "each rank sends every other its part at once",
                .steps = "1",
                .bytes = "S(P-1)/P",
                .restrictions = "",
                .source = "Thakur, Rabenseifner, Gropp, IJHPCA 2005",
                .cost = alltoall_direct_cost,
                .emit = alltoall_direct,
        },
        {
                .kind = COLL_ALLTOALL,
                .name = "pairwise",
                .help = "in each round a rank sends to one other and receives from one",
                .steps = "P-1",
                .bytes = "S(P-1)/P",
                .restrictions = "",
                .source = "Thakur, Rabenseifner, Gropp, IJHPCA 2005",
                .cost = alltoall_pairwise_cost,
                .emit = alltoall_pairwise,
        },
        {
                .kind = COLL_ALLTOALL,
                .name = "bruck",
                .help = "parts go a digit (--base) of their way at a time: small parts",
                .steps = "ceil(log_k P)",
                .bytes = "~S(k-1)/k ceil(log_k P)",
                .restrictions = "pairwise where the ranks' counts differ",
                .source = "Bruck, Ho, Kipnis, Upfal, Weathersby, IEEE TPDS 1997",
                .cost = alltoall_bruck_cost,
                .falls_back = alltoall_bruck_falls_back,
                .emit = alltoall_bruck,
        },

        /* scan */
        {
                .kind = COLL_SCAN,
                .name = "linear",
                .help = "a chain from rank to rank, streamed: large vectors",
                .steps = "P-1, streamed",
                .bytes = "S",
                .restrictions = "",
                .source = "Open MPI coll_base_scan linear",
                .flags = COLL_ORDERED | COLL_PARTIALS,
                .cost = scan_linear_cost,
                .emit = scan_linear,
        },
        {
                .kind = COLL_SCAN,
                .name = "recursive_doubling",
                .help = "partners at doubling distances exchange the sums of their groups",
                .steps = "q",
                .bytes = "≤ qS",
                .restrictions = "",
                .source = "MPICH scan recursive doubling",
                .cost = scan_recursive_doubling_cost,
                .emit = scan_recursive_doubling,
        },
        {
                .kind = COLL_SCAN,
                .name = "doubling_123",
                .help = "sums from the left with skips 1, 2, 3, 6, 12, ..: fewest additions",
                .steps = "ceil(log2(4(P-1)/3)): q or q+1",
                .bytes = "S a step",
                .restrictions = "",
                .source = "Träff, arXiv:2507.04785",
                .cost = scan_doubling_123_cost,
                .emit = scan_doubling_123,
        },

        /* exscan */
        {
                .kind = COLL_EXSCAN,
                .name = "linear",
                .help = "a chain from rank to rank, streamed: large vectors",
                .steps = "P-1, streamed",
                .bytes = "S",
                .restrictions = "",
                .source = "Open MPI coll_base_exscan linear",
                .flags = COLL_ORDERED | COLL_PARTIALS,
                .cost = exscan_linear_cost,
                .emit = exscan_linear,
        },
        {
                .kind = COLL_EXSCAN,
                .name = "recursive_doubling",
                .help = "partners at doubling distances exchange the sums of their groups",
                .steps = "q",
                .bytes = "≤ qS",
                .restrictions = "",
                .source = "MPICH exscan recursive doubling",
                .cost = exscan_recursive_doubling_cost,
                .emit = exscan_recursive_doubling,
        },
        {
                .kind = COLL_EXSCAN,
                .name = "doubling_123",
                .help = "sums from the left with skips 1, 2, 3, 6, 12, ..: fewest additions",
                .steps = "ceil(log2(4(P-1)/3)): q or q+1",
                .bytes = "S a step",
                .restrictions = "",
                .source = "Träff, arXiv:2507.04785",
                .cost = exscan_doubling_123_cost,
                .emit = exscan_doubling_123,
        },

        /* exchange */
        {
                .kind = COLL_EXCHANGE,
                .name = "pairwise_exchange",
                .help = "the pairs of a halving-doubling reduce-scatter (--steps C)",
                .steps = "C",
                .bytes = "S",
                .restrictions = "2^C must divide P",
                .source = "Gloo pairwise_exchange",
                .cost = exchange_pairwise_exchange_cost,
                .emit = exchange_pairwise_exchange,
        },

        /* barrier */
        {
                .kind = COLL_BARRIER,
                .name = "all_to_all",
                .help = "every rank notifies every other: tries every link",
                .steps = "1",
                .bytes = "P-1 notices",
                .restrictions = "",
                .source = "Gloo barrier_all_to_all",
                .flags = COLL_DIVERGENT,
                .cost = barrier_all_to_all_cost,
                .emit = barrier_all_to_all,
        },
        {
                .kind = COLL_BARRIER,
                .name = "all_to_one",
                .help = "every rank notifies the root, which answers all",
                .steps = "2",
                .bytes = "1 notice; the root P-1",
                .restrictions = "",
                .source = "Gloo barrier_all_to_one",
                .cost = barrier_all_to_one_cost,
                .emit = barrier_all_to_one,
        },
        {
                .kind = COLL_BARRIER,
                .name = "dissemination",
                .help = "in round k rank r tells rank r + 2^k what it has heard",
                .steps = "q",
                .bytes = "q notices",
                .restrictions = "",
                .source = "Hensgen, Finkel, Manber, IJPP 1988",
                .flags = COLL_DIVERGENT | COLL_IDEMPOTENT,
                .cost = barrier_dissemination_cost,
                .emit = barrier_dissemination,
        },
};
const size_t coll_algorithms_len = sizeof(coll_algorithms) / sizeof(coll_algorithms[0]);

static const char *const coll_names[COLL_KINDS] = {
        [COLL_ALLREDUCE] = "allreduce",
        [COLL_REDUCE] = "reduce",
        [COLL_REDUCE_SCATTER] = "reduce-scatter",
        [COLL_BROADCAST] = "broadcast",
        [COLL_SCATTER] = "scatter",
        [COLL_GATHER] = "gather",
        [COLL_ALLGATHER] = "allgather",
        [COLL_ALLTOALL] = "alltoall",
        [COLL_SCAN] = "scan",
        [COLL_EXSCAN] = "exscan",
        [COLL_BARRIER] = "barrier",
        [COLL_EXCHANGE] = "exchange",
};

const char *coll_name(enum coll_kind kind)
{
	return coll_names[kind];
}

int coll_by_name(const char *name, enum coll_kind *out)
{
	for (unsigned k = 0; k < COLL_KINDS; k++)
		if (!strcmp(name, coll_names[k])) {
			*out = (enum coll_kind)k;
			return 0;
		}
	return -1;
}

const struct coll_algorithm *coll_resolve(const struct coll_algorithm *alg,
                                          const struct coll_args *args)
{
	const char *other;

	while (alg->falls_back && (other = alg->falls_back(args)))
		alg = coll_find(alg->kind, other);
	return alg;
}

struct coll_cost coll_cost_of(const struct coll_algorithm *alg, const struct coll_args *args)
{
	struct coll_cost c = {0};

	if (args->size > 1)
		coll_resolve(alg, args)->cost(args, &c);
	return c;
}

const struct coll_algorithm *coll_find(enum coll_kind kind, const char *name)
{
	for (size_t i = 0; i < coll_algorithms_len; i++)
		if (coll_algorithms[i].kind == kind && !strcmp(coll_algorithms[i].name, name))
			return &coll_algorithms[i];
	return NULL;
}
