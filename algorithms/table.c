/*
 * The registry: one row per algorithm. Dispatch, help, plan, tests and selection read it.
 */
#include <string.h>

#include "algorithms/blocks.h"
#include "algorithms/emitters.h"

/* ---- the rows ---- */

const struct coll_algorithm coll_algorithms[] = {
        /* allreduce */
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
                .name = "circulant",
                .help = "halving on a circulant graph: fewest rounds and bytes",
                .steps = "q",
                .bytes = "S(P-1)/P",
                .restrictions = "",
                .source = "Träff, arXiv:2410.14234",
                .cost = reduce_scatter_circulant_cost,
                .emit = reduce_scatter_circulant,
        },

        /* allgather */
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
                .steps = "≤ 1 + ceil(log2 (4(P-1)/3)), q or one more",
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
                .steps = "≤ 1 + ceil(log2 (4(P-1)/3)), q or one more",
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
