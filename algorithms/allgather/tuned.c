/*
 * allgather tuned falls back to the algorithm in the table, which may fall back to another. The
 * table is Open MPI's fixed decision.
 */
#include <limits.h>

#include "algorithms/parts/blocks.h"

/* The first row applies whose limits of ranks and bytes both exceed the arguments. */
static const struct {
	int size;
	uint64_t bytes;
	const char *name;
} decisions[] = {
        {32, UINT64_MAX, "recursive_doubling"},
        {64, 1024, "recursive_doubling"},
        {64, 65536, "neighbor"},
        {64, UINT64_MAX, "ring"},
        {128, 512, "recursive_doubling"},
        {128, 65536, "neighbor"},
        {128, UINT64_MAX, "ring"},
        {256, 512, "recursive_doubling"},
        {256, 131072, "neighbor"},
        {256, 524288, "ring"},
        {256, 1048576, "neighbor"},
        {256, UINT64_MAX, "ring"},
        {512, 32, "recursive_doubling"},
        {512, 128, "bruck"},
        {512, 1024, "recursive_doubling"},
        {512, 131072, "neighbor"},
        {512, 524288, "ring"},
        {512, 1048576, "neighbor"},
        {512, UINT64_MAX, "ring"},
        {1024, 64, "recursive_doubling"},
        {1024, 256, "bruck"},
        {1024, 2048, "recursive_doubling"},
        {1024, UINT64_MAX, "neighbor"},
        {2048, 4, "recursive_doubling"},
        {2048, 8, "bruck"},
        {2048, 16, "recursive_doubling"},
        {2048, 32, "bruck"},
        {2048, 256, "recursive_doubling"},
        {2048, 512, "bruck"},
        {2048, 4096, "recursive_doubling"},
        {2048, UINT64_MAX, "neighbor"},
        {4096, 32, "bruck"},
        {4096, 128, "recursive_doubling"},
        {4096, 512, "bruck"},
        {4096, 4096, "recursive_doubling"},
        {4096, UINT64_MAX, "neighbor"},
        {INT_MAX, 2, "recursive_doubling"},
        {INT_MAX, 8, "bruck"},
        {INT_MAX, 16, "recursive_doubling"},
        {INT_MAX, 512, "bruck"},
        {INT_MAX, 4096, "recursive_doubling"},
        {INT_MAX, UINT64_MAX, "neighbor"},
};

/* The default element size is 4. */
static const char *falls_back(const struct coll_args *a)
{
	const uint64_t esize = a->esize ? a->esize : 4, count = coll_count(a);
	const uint64_t bytes = count < UINT64_MAX / esize ? count * esize : UINT64_MAX - 1;
	size_t i = 0;

	if (a->size == 2)
		return "two_proc";
	while (a->size >= decisions[i].size || bytes >= decisions[i].bytes)
		i++;
	return decisions[i].name;
}

const struct coll_algorithm allgather_tuned = {
        .kind = COLL_ALLGATHER,
        .name = "tuned",
        .help = "the algorithm that Open MPI's decision tree chooses for P and b",
        .steps = "those of the chosen algorithm",
        .bytes = "those of the chosen algorithm",
        .restrictions = "chooses recursive_doubling, bruck, ring, neighbor or two_proc",
        .source = "Open MPI coll_tuned_allgather_decision.c",
        .falls_back = falls_back,
};
