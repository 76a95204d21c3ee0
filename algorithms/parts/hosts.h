/*
 * The phases of the algorithms called hosts, which use the knowledge of which ranks share a host.
 * In this header a lane is a part of the vector that one rank of each host owns, as in the paper;
 * it is not the lane of sched.h.
 *
 * 1. The vector is cut into L lanes; L is the smallest number of ranks on a host. The first L ranks
 *    of each host own one lane each. Inside each host, every rank sends its part of each lane to
 *    the lane's owner.
 * 2. The owners of a lane, one on each host, run a phase among themselves (circle.h). So L phases
 *    run at the same time between two hosts, each on its part of the vector.
 * 3. Inside each host, the owners send the ranks the elements of their lanes that they need.
 *
 * A gather, scatter or alltoall has no lanes (hosts_list): one message goes from host to host for
 * each pair of hosts. It is assembled inside the sending host and divided inside the receiving
 * host.
 *
 * Which elements belong to lane l, for N hosts:
 * - Blocks do not belong to ranks (owned = false): a range of the vector. If every host has L
 *   ranks, it is the blocks l*N .. l*N+N-1; else the vector is cut evenly.
 * - Blocks belong to ranks (owned = true): a part of the blocks of each host's ranks, concatenated.
 *   If every host has L ranks, it is the block of the l-th rank of each host; else the
 *   concatenation is cut evenly.
 *
 * If every host has L ranks, an element therefore has the same lane for any number of windows.
 *
 * Source: Träff, Hunold, Decomposing MPI Collectives for Exploiting Multi-lane Communication,
 * CLUSTER 2020. The builder owns all arrays below.
 */
#ifndef COLLCTL_ALGORITHMS_PARTS_HOSTS_H
#define COLLCTL_ALGORITHMS_PARTS_HOSTS_H

#include "algorithms/parts/circle.h"
#include "lib/sched/placement.h"

struct hosts {
	const struct coll_args *a;
	int n, least;     /* number of hosts; L */
	bool even;        /* every host has L ranks */
	int host, local;  /* this rank's host, and its number among the ranks of the host */
	const int *first; /* [n + 1]: indices into ranks */
	const int *ranks; /* [size]: the ranks of host h are ranks[first[h]] .. ranks[first[h + 1] -
	                     1], ascending, but the root is the first of its host */
	/* If blocks belong to ranks, else NULL: */
	const int *number;      /* [size]: the rank's number among those of its host */
	const uint64_t *before; /* [size]: elements in the blocks of the lower ranks of its host */
	const uint64_t *total;  /* [n]: elements in the blocks of the host's ranks */
	struct piece *pieces;   /* [size]: room for the pieces of another owner's lane */
	/* If this rank owns a lane (hosts_init): the circle of the lane's owners. Without blocks of
	 * ranks, number 0 is the owner on the root's host. */
	struct circle lane;
};

/* The part of a lane that is sent between its owner and another rank of the host. */
enum hosts_part {
	HOSTS_ALL,
	HOSTS_BLOCK,    /* the elements of that rank's block */
	HOSTS_OTHERS,   /* the elements of all other blocks */
	HOSTS_ROOT,     /* all if that rank is the root, else nothing */
	HOSTS_NOT_ROOT, /* nothing if that rank is the root, else all */
};

/* falls_back for the collectives that have circulant: circulant replaces hosts unless there are
 * several hosts and ranks share one (hosts_shared). */
const char *hosts_or_circulant(const struct coll_args *a);

/* The same for gather and scatter, where linear replaces hosts. */
const char *hosts_or_linear(const struct coll_args *a);

/* List the ranks of each host, without lanes. @owned: blocks belong to ranks, and the hosts must be
 * known; else, where they are not, each rank is a host. False: no memory. */
bool hosts_list(struct hosts *h, struct sched_builder *b, const struct coll_args *a, bool owned);

/* The number of ranks on host @i; its @k-th rank, from 0. */
static inline int hosts_ranks(const struct hosts *h, int i)
{
	return h->first[i + 1] - h->first[i];
}
static inline int hosts_rank(const struct hosts *h, int i, int k)
{
	return h->ranks[h->first[i] + k];
}
/* The end (exclusive) of the run of consecutive ranks that begins with the @k-th rank of host
 * @i. */
int hosts_run(const struct hosts *h, int i, int k);

/* Iterates over the runs of blocks of the ranks of host @i, each as one range: *@k is 0 at first.
 * False: there are no more. */
bool hosts_blocks(const struct hosts *h, int i, int *k, struct range *r);
/* Send the blocks of the ranks of host @of to the first rank of host @to, or receive them from it.
 */
void hosts_send_blocks(struct sched_builder *b, const struct hosts *h, int of, int to,
                       struct sched_span work);
void hosts_recv_blocks(struct sched_builder *b, const struct hosts *h, int of, int from,
                       struct sched_span work);

/* The parts of the vector that the blocks of a host's ranks are: of the root's host, and the
 * largest of the others. Without memory, the largest possible ones. */
struct hosts_parts {
	double root, others;
};
struct hosts_parts hosts_parts(const struct coll_args *a);

/* hosts_list, and the lane if this rank owns one. */
bool hosts_init(struct hosts *h, struct sched_builder *b, const struct coll_args *a, bool owned);
/* The same with one lane, the whole vector: its owners are the first ranks of the hosts. */
bool hosts_init_firsts(struct hosts *h, struct sched_builder *b, const struct coll_args *a);
/* Is this rank the owner of a lane? */
static inline bool hosts_owner(const struct hosts *h)
{
	return h->local < h->least;
}
/* The range of this owner's lane, if blocks do not belong to ranks. */
static inline struct range hosts_lane(const struct hosts *h)
{
	return (struct range){h->lane.off[0], h->lane.off[h->n] - h->lane.off[0]};
}
/* Fold the rank's inputs, which hold the whole vector, into the work area (blocks.h), lane by
 * lane. */
void hosts_fold(struct sched_builder *b, struct hosts *h, struct sched_span work);
/* Phase 1: every rank sends @part of each lane to its owner, which stores it or, with @reduce, adds
 * it. */
void hosts_to_owners(struct sched_builder *b, struct hosts *h, struct sched_span work,
                     enum hosts_part part, bool reduce);
/* Phase 3: the owners send @part of their lanes to the ranks of their host. */
void hosts_from_owners(struct sched_builder *b, struct hosts *h, struct sched_span work,
                       enum hosts_part part);

#endif
