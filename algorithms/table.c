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
