/* The kinds of collectives, and the blocks of each rank. See coll_args.h. */
#include <string.h>

#include "lib/sched/coll_args.h"

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

uint64_t coll_split_at(uint64_t n, int size, int j)
{
	const uint64_t p = (uint64_t)size, k = (uint64_t)j;

	return n / p * k + (k < n % p ? k : n % p);
}

void coll_split(uint64_t n, int size, uint64_t *off)
{
	for (int j = 0; j <= size; j++)
		off[j] = coll_split_at(n, size, j);
}

struct coll_layout coll_layout(enum coll_kind kind, int rank, int size, int root)
{
	struct coll_layout x = {0, size, 0, size, true}; /* all in, all out */
	const bool is_root = rank == root;

	switch (kind) {
	case COLL_REDUCE:
		x.out_hi = is_root ? size : 0;
		break;
	case COLL_BROADCAST:
		x.in_hi = is_root ? size : 0;
		break;
	case COLL_REDUCE_SCATTER:
		x.out_lo = rank;
		x.out_hi = rank + 1;
		break;
	case COLL_SCATTER:
		x.in_hi = is_root ? size : 0;
		x.out_lo = rank;
		x.out_hi = rank + 1;
		break;
	case COLL_GATHER:
		x.in_lo = rank;
		x.in_hi = rank + 1;
		x.out_hi = is_root ? size : 0;
		break;
	case COLL_ALLGATHER:
		x.in_lo = rank;
		x.in_hi = rank + 1;
		break;
	case COLL_ALLTOALL:
		x.in_place = false;
		break;
	case COLL_EXCHANGE:
		x.out_hi = 0;
		x.in_place = false;
		break;
	default:
		break;
	}
	return x;
}

uint64_t coll_in_at(enum coll_kind kind, const struct coll_args *a, int j)
{
	return a->off[j] - a->off[coll_layout(kind, a->rank, a->size, a->root).in_lo];
}

uint64_t coll_out_at(enum coll_kind kind, const struct coll_args *a, int j)
{
	if (kind == COLL_ALLTOALL)
		return coll_recv_at(a, j);
	return a->off[j] - a->off[coll_layout(kind, a->rank, a->size, a->root).out_lo];
}

bool coll_reduces(enum coll_kind kind)
{
	return coll_takes_several(kind) || kind == COLL_SCAN || kind == COLL_EXSCAN;
}

int coll_inputs(const struct coll_args *a, int rank)
{
	return a->joint ? (int)a->joint[rank] : a->ninputs;
}

uint64_t coll_contributions(const struct coll_args *a)
{
	uint64_t n = 0;

	for (int r = 0; a->joint && r < a->size; r++)
		n += a->joint[r];
	return n;
}

bool coll_takes_several(enum coll_kind kind)
{
	return kind == COLL_ALLREDUCE || kind == COLL_REDUCE || kind == COLL_REDUCE_SCATTER;
}

void coll_offsets(const uint64_t *counts, int size, int rank, uint64_t *off, uint64_t *recv_off)
{
	const size_t p = (size_t)size, r = (size_t)rank;

	off[0] = recv_off[0] = 0;
	for (size_t j = 0; j < p; j++) {
		off[j + 1] = off[j] + counts[r * p + j];
		recv_off[j + 1] = recv_off[j] + counts[j * p + r];
	}
}
