/*
 * The registry: one row per algorithm. Dispatch, help, plan, tests and selection read it.
 */
#include <string.h>

#include "algorithms/blocks.h"
#include "algorithms/emitters.h"

/* ---- closed forms: rounds, and bytes sent in units of S by the rank that sends most ---- */

static bool power_of_two(int p)
{
	return !(p & (p - 1));
}

static uint64_t rounds_1(int p)
{
	return p > 1;
}

static uint64_t rounds_2(int p)
{
	return p > 1 ? 2 : 0;
}

static uint64_t rounds_2_ring(int p)
{
	return 2 * (uint64_t)(p - 1);
}

static uint64_t rounds_q(int p)
{
	return (uint64_t)log2_ceil(p);
}

static uint64_t rounds_2q(int p)
{
	return 2 * (uint64_t)log2_ceil(p);
}

static uint64_t rounds_doubling(int p)
{
	return (uint64_t)log2_floor(p) + (power_of_two(p) ? 0 : 2);
}

static double volume_optimal(int p)
{
	return 2.0 * (p - 1) / p;
}

/* A core rank with an extra one below it returns the result as well. */
static double volume_doubling(int p)
{
	return log2_floor(p) + !power_of_two(p);
}

static double volume_others(int p)
{
	return p - 1;
}

static double volume_q(int p)
{
	return log2_ceil(p);
}

/* Messages sent by the rank that sends most. */
static uint64_t messages_ring_chunked(int p)
{
	return 4 * (uint64_t)(p - 1);
}

/* The blocks of a round lie together on the circle: at its end they are cut in two. */
static uint64_t messages_circulant(int p)
{
	return 4 * (uint64_t)log2_ceil(p);
}

static uint64_t messages_others(int p)
{
	return (uint64_t)(p - 1);
}

static uint64_t messages_2_others(int p)
{
	return 2 * (uint64_t)(p - 1);
}

/* ---- the rows ---- */

const struct coll_algorithm coll_algorithms[] = {
        {
                .kind = COLL_ALLREDUCE,
                .name = "ring_chunked",
                .help = "reduce-scatter and allgather on a ring, two chunks in flight",
                .steps = "4(P-1) messages",
                .bytes = "2S(P-1)/P",
                .restrictions = "",
                .source = "Gloo allreduce_ring_chunked; Patarasuk, Yuan, JPDC 2009",
                .rounds = rounds_2_ring,
                .volume = volume_optimal,
                .messages = messages_ring_chunked,
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
                .rounds = rounds_doubling,
                .volume = volume_doubling,
                .messages = rounds_doubling,
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
                .rounds = rounds_2q,
                .volume = volume_optimal,
                .messages = messages_circulant,
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
                .rounds = rounds_2,
                .volume = volume_optimal,
                .messages = messages_2_others,
                .emit = allreduce_direct,
        },
        {
                .kind = COLL_BARRIER,
                .name = "all_to_all",
                .help = "every rank notifies every other: tries every link",
                .steps = "1",
                .bytes = "P-1 notices",
                .restrictions = "",
                .source = "Gloo barrier_all_to_all",
                .flags = COLL_DIVERGENT,
                .rounds = rounds_1,
                .volume = volume_others,
                .messages = messages_others,
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
                .rounds = rounds_2,
                .volume = volume_others,
                .messages = messages_others,
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
                .rounds = rounds_q,
                .volume = volume_q,
                .messages = rounds_q,
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

const struct coll_algorithm *coll_find(enum coll_kind kind, const char *name)
{
	for (size_t i = 0; i < coll_algorithms_len; i++)
		if (coll_algorithms[i].kind == kind && !strcmp(coll_algorithms[i].name, name))
			return &coll_algorithms[i];
	return NULL;
}
