/*
 * The phases of the algorithms called hosts, which know which ranks share a host.
 *
 * 1. The vector is cut into L lanes, L the smallest number of ranks on a host. The first L ranks of
 *    each host own one lane each. Inside each host every rank gives its part of a lane to the
 *    lane's owner.
 * 2. The owners of a lane, one of each host, run a phase among themselves (circle.h). So every link
 *    carries L phases side by side, each of them of a part of the vector.
 * 3. Inside each host the owners give what the ranks need of their lanes.
 *
 * A gather, scatter or alltoall has no lanes: whole messages go from host to host, one for each
 * pair, and are put together and taken apart inside (hosts_list).
 *
 * Where the blocks are of the whole vector, a lane is a part of the vector. Where they are of
 * ranks, a lane is a part of the blocks of each host, put one behind the other. If every host has L
 * ranks, lanes are cut where blocks are: lane l is blocks l*N .. l*N+N-1, or the blocks of the l-th
 * ranks. So an element has the same lane whatever the number of windows. Else lanes are cut evenly.
 */
#ifndef COLLCTL_ALGORITHMS_PARTS_HOSTS_H
#define COLLCTL_ALGORITHMS_PARTS_HOSTS_H

#include "algorithms/parts/circle.h"
#include "lib/sched/placement.h"

struct hosts {
	const struct coll_args *a;
	int n, least;
	bool even;        /* every host has L ranks */
	int host, local;  /* this rank's host, and its number among the ranks of the host */
	const int *first; /* [n + 1] */
	const int *ranks; /* [size]: those of host h are at first[h] .. first[h + 1] - 1, ascending;
	                   * the root is the first of its host */
	/* With blocks of ranks, else NULL: */
	const int *number;      /* [size]: the rank's number among those of its host */
	const uint64_t *before; /* [size]: elements of the blocks of the host's ranks before this */
	const uint64_t *total;  /* [n]: elements of the blocks of the host's ranks */
	struct piece *pieces;   /* [size]: of the lane that was made last */
	/* This rank's lane, if it owns one; number 0 is the owner on the root's host. */
	struct circle lane;
};

/* Which part of a lane its owner and a rank of its host hand over. */
enum hosts_part {
	HOSTS_ALL,
	HOSTS_BLOCK,  /* of the rank's own block */
	HOSTS_OTHERS, /* of the other ranks' blocks */
	HOSTS_ROOT,   /* all if the rank is the root, else nothing */
	HOSTS_NOT_ROOT,
};

/* falls_back of the collectives that have circulant: it replaces hosts unless ranks share a host,
 * of several. */
const char *hosts_or_circulant(const struct coll_args *a);

/* The same for gather and scatter, where linear replaces it. */
const char *hosts_or_linear(const struct coll_args *a);

/* The ranks of each host, without lanes. @owned: with blocks of ranks. False: no memory. */
bool hosts_list(struct hosts *h, struct sched_builder *b, const struct coll_args *a, bool owned);

/* The number of ranks of host @i, and the @k-th of them. */
static inline int hosts_ranks(const struct hosts *h, int i)
{
	return h->first[i + 1] - h->first[i];
}
static inline int hosts_rank(const struct hosts *h, int i, int k)
{
	return h->ranks[h->first[i] + k];
}
/* The end of the run of consecutive ranks that begins with number @k of host @i. */
int hosts_run(const struct hosts *h, int i, int k);

/* hosts_list, and the lane of a rank that owns one. */
bool hosts_init(struct hosts *h, struct sched_builder *b, const struct coll_args *a, bool owned);
/* Is this rank the owner of a lane? */
static inline bool hosts_owner(const struct hosts *h)
{
	return h->local < h->least;
}
/* The range of the owner's lane, without blocks of ranks. */
static inline struct range hosts_lane(const struct hosts *h)
{
	return (struct range){h->lane.off[0], h->lane.off[h->n] - h->lane.off[0]};
}
/* Fold the rank's inputs, the whole vector, into their places, lane by lane. */
void hosts_fold(struct sched_builder *b, struct hosts *h, struct sched_span work);
/* Phase 1: the owners receive, or add (@reduce), their host's parts. */
void hosts_to_owners(struct sched_builder *b, struct hosts *h, struct sched_span work,
                     enum hosts_part part, bool reduce);
/* Phase 3. */
void hosts_from_owners(struct sched_builder *b, struct hosts *h, struct sched_span work,
                       enum hosts_part part);

#endif
