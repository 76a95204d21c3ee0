/*
 * The arguments of a collective: its kind, the ranks, and the blocks of the vector; and which
 * blocks a rank's input and output cover. Pure functions; any thread. Every offset, length and
 * count is in elements.
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

/* The arguments of a collective, from which an algorithm emits one rank's schedule. The caller owns
 * the arrays, which must outlive the call that gets them. */
struct coll_args {
	int rank, size, root;
	int ninputs; /* N, the number of local input buffers, >= 1. A barrier's input and output are
	                one element */
	/* Of a joint operation, which needs all contributions at once (SCHED_JOINT): joint[size],
	 * the number of inputs of each rank, at least 1; ninputs is then ignored. NULL: the
	 * operation is a fold of pairs. */
	const uint32_t *joint;
	bool stores; /* the output is written to a file; else it stays in its buffer */
	/* The number of devices of the rank; ranks may differ in it. 0: all buffers are in host
	 * memory. Else input i is in the memory of device i mod devices (but see unlinked), and the
	 * output in that of device 0. The algorithm still runs in host memory: sched_build adds a
	 * fold of the inputs on device 0, and copies between device and host memory. */
	int devices;
	/* The devices have no access to each other's memory: all inputs are in that of device 0, so
	 * that none goes through host memory to be folded. */
	bool unlinked;
	const uint64_t *
	        off; /* off[size+1], off[0] = 0: block j is elements [off[j], off[j+1]). In an
	                alltoall, block j is the part of this rank's input that is sent to rank j */
	/* Only alltoall: recv_off[size+1]: in this rank's output, the part from rank j is
	 * [recv_off[j], recv_off[j+1]). NULL: off is the same on every rank. */
	const uint64_t *recv_off;
	/* host[size]: the host of each rank. The hosts are numbered 0 .. hosts-1 in the order of
	 * their lowest ranks. NULL: not known */
	const int *host;
	unsigned base;  /* bcube, bruck: the radix; 0: the algorithm's default */
	unsigned steps; /* exchange: the number C of a rank's partners */
	unsigned esize; /* bytes of an element, for algorithms that choose by size (tuned) */
	/* For a caller that builds the schedules of many ranks. checked: off and recv_off are known
	 * to ascend, because another rank's schedule was built with them. loaded: the inputs are
	 * already in their buffers, so no READ steps are added. */
	bool checked, loaded;
	/* Contributions must be added in rank order (--order rank), for algorithms that else add
	 * first inside hosts. */
	bool ordered;
};

/* The number of elements in all blocks: the length of the vector; in an alltoall, of the rank's
 * input. */
static inline uint64_t coll_count(const struct coll_args *a)
{
	return a->off[a->size];
}

/* alltoall: the offset in the output of the part from rank @j (j = size: the end of the output). */
static inline uint64_t coll_recv_at(const struct coll_args *a, int j)
{
	return a->recv_off ? a->recv_off[j] : (uint64_t)j * (a->off[a->rank + 1] - a->off[a->rank]);
}

/*
 * The range of blocks [lo, hi) that a rank's input and output cover; empty if the rank has none.
 * Element 0 of the input is element off[in_lo] of the vector. If in_place is set and one of the two
 * ranges contains the other, a single input and the output share a buffer. The blocks of an
 * alltoall's output are not those of its input (coll_recv_at).
 */
struct coll_layout {
	int in_lo, in_hi, out_lo, out_hi;
	bool in_place;
};
struct coll_layout coll_layout(enum coll_kind kind, int rank, int size, int root);

/* The offset of block @j in the rank's input or output, for lo <= j <= hi of its layout. So
 * coll_in_at(.., in_hi) is the length of the input. */
uint64_t coll_in_at(enum coll_kind kind, const struct coll_args *, int j);
uint64_t coll_out_at(enum coll_kind kind, const struct coll_args *, int j);

/* Does the user choose an operation for the collective? (A barrier's is fixed.) */
bool coll_reduces(enum coll_kind kind);
/* The number of inputs of @rank; of a joint operation, the contributions of all ranks. */
int coll_inputs(const struct coll_args *, int rank);
uint64_t coll_contributions(const struct coll_args *);
/* May a rank have several local inputs, which are folded into one? Otherwise it has at most one. */
bool coll_takes_several(enum coll_kind kind);

/* For an alltoall in which rank i sends @counts[i * size + j] elements to rank j, compute @rank's
 * offsets: of its input into @off[size + 1], of its output into @recv_off[size + 1]. */
void coll_offsets(const uint64_t *counts, int size, int rank, uint64_t *off, uint64_t *recv_off);

/* Divide @n elements as numpy.array_split does: the first n mod size blocks have one element more
 * than the others. coll_split_at returns the offset of block @j (j = size: @n); coll_split writes
 * all offsets to @off[size + 1]. */
uint64_t coll_split_at(uint64_t n, int size, int j);
void coll_split(uint64_t n, int size, uint64_t *off);

#endif
