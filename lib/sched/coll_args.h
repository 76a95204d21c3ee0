/*
 * The arguments of a collective: its kind, the ranks, and the blocks of the vector; and which
 * blocks a rank's input and output have. Pure. Units: every offset, length and count is in
 * elements.
 */
#ifndef COLLCTL_SCHED_COLL_ARGS_H
#define COLLCTL_SCHED_COLL_ARGS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum coll_kind {
	COLL_ALLREDUCE,
	COLL_REDUCE,
	COLL_REDUCE_SCATTER,
	COLL_BROADCAST,
	COLL_SCATTER,
	COLL_GATHER,
	COLL_ALLGATHER,
	COLL_ALLTOALL,
	COLL_SCAN,
	COLL_EXSCAN,
	COLL_BARRIER,
	COLL_EXCHANGE,
	COLL_KINDS
};

const char *coll_name(enum coll_kind kind);              /* "allreduce", "reduce-scatter", ... */
int coll_by_name(const char *name, enum coll_kind *out); /* 0, or -1: unknown */

/* The arguments of a collective: the input of an emitter. */
struct coll_args {
	int rank, size, root;
	int ninputs;  /* N local input buffers, >= 1 (a barrier: one element of `band`, as input and
	                 output) */
	int noutputs; /* output files; 0: the output stays in its buffer */
	/* 0: all buffers are in host memory. Else input i and output i are in the memory of device
	 * i mod devices. The algorithm itself runs in host memory: the inputs are folded on device
	 * 0, and copies connect the two (sched_build). Ranks may differ in it. */
	int devices;
	const uint64_t *off; /* off[size+1], off[0] = 0: block j is elements [off[j], off[j+1]).
	                      * alltoall: the part of this rank's input that rank j gets */
	/* alltoall: recv_off[size+1]: where this rank's output has the part from rank j. NULL: off
	 * is the same on every rank. NULL for all other collectives. */
	const uint64_t *recv_off;
	/* host[size]: the host of each rank, 0 .. hosts-1, numbered by their first rank; NULL:
	 * unknown */
	const int *host;
	unsigned base;  /* bcube, bruck: the radix; 0: the algorithm's default */
	unsigned steps; /* exchange: C */
	unsigned esize; /* bytes of an element, for algorithms that choose by size (tuned) */
	/* For a caller that builds the schedules of many ranks. checked: another rank's schedule
	 * was built with the same off and recv_off, so they ascend. loaded: the inputs are in their
	 * buffers, so there are no READ steps. */
	bool checked, loaded;
};

/* The number of elements of all blocks: of the vector or, in an alltoall, of the rank's input. */
static inline uint64_t coll_count(const struct coll_args *a)
{
	return a->off[a->size];
}

/* alltoall: where the part from rank @j begins in the output (j = size: its end). */
static inline uint64_t coll_recv_at(const struct coll_args *a, int j)
{
	return a->recv_off ? a->recv_off[j] : (uint64_t)j * (a->off[a->rank + 1] - a->off[a->rank]);
}

/*
 * The blocks that a rank's input and output cover: [lo, hi), empty if the rank has none. Element 0
 * of the input is element off[in_lo] of the collective. If in_place is set and one range contains
 * the other, a single input and the output share a buffer. The output of an alltoall has its own
 * blocks (coll_recv_at).
 */
struct coll_layout {
	int in_lo, in_hi, out_lo, out_hi;
	bool in_place;
};
struct coll_layout coll_layout(enum coll_kind kind, int rank, int size, int root);

/* The offset of block @j in the rank's input or output, for j in [lo, hi] of its layout. So
 * coll_in_at(.., in_hi) is the input's length. */
uint64_t coll_in_at(enum coll_kind kind, const struct coll_args *, int j);
uint64_t coll_out_at(enum coll_kind kind, const struct coll_args *, int j);

/* Does the collective take an operation? (A barrier has a fixed one.) */
bool coll_reduces(enum coll_kind kind);
/* Does the collective take several local inputs, which are folded into one contribution? Other
 * collectives take one. */
bool coll_takes_several(enum coll_kind kind);

/* For an alltoall that sends @counts[i * size + j] elements from rank i to rank j: the offsets of
 * @rank's parts in its input (@off[size + 1]) and in its output (@recv_off[size + 1]). */
void coll_offsets(const uint64_t *counts, int size, int rank, uint64_t *off, uint64_t *recv_off);

/* The block layout of numpy.array_split: the first n mod size blocks have one element more. The
 * beginning of block @j (j = size: the end of the last), and of all blocks in @off[size + 1].
 */
uint64_t coll_split_at(uint64_t n, int size, int j);
void coll_split(uint64_t n, int size, uint64_t *off);

#endif
