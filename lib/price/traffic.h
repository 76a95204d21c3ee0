/*
 * Traffic between hosts: what the messages of a collective carry from one host to another.
 */
#ifndef COLLCTL_PRICE_TRAFFIC_H
#define COLLCTL_PRICE_TRAFFIC_H

#include "lib/sched/sched.h"

struct traffic {
	uint64_t leaves;   /* elements that leave the host that sends most to others ... */
	uint64_t enters;   /* ... and that enter the one that receives most */
	uint64_t sent;     /* elements sent to other hosts by the rank that sends most there ... */
	uint64_t pieces;   /* ... and its messages to there */
	uint64_t received; /* received from other hosts by the rank that receives most from there */
	uint64_t crosses;  /* both together, of the rank that has most */
	uint64_t messages; /* of all ranks */
	uint64_t outer;    /* of these between hosts */
};

/* Of the finished schedules of all ranks. False: no memory. */
bool traffic_of_schedules(struct sched *const *scheds, const int *host, int size,
                          struct traffic *out);

/* The ranks up to which traffic_of counts all ranks. Of more it counts those of some hosts: the
 * first and the last, the root's, one in the middle, and one of those with most ranks. */
#define TRAFFIC_ALL 512

/* Of the schedules that @alg emits for @args (args->rank is ignored), whose hosts are known. False:
 * they cannot be emitted. */
bool traffic_of(const struct coll_algorithm *alg, const struct coll_args *args,
                struct traffic *out);

#endif
