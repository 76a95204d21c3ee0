/*
 * Traffic between hosts: counts the elements and messages of a collective that go from one host to
 * another. Pure functions; any thread.
 */
#ifndef COLLCTL_PRICE_TRAFFIC_H
#define COLLCTL_PRICE_TRAFFIC_H

#include "lib/price/price.h"
#include "lib/sched/sched.h"

struct traffic {
	uint64_t leaves; /* elements that leave the host that sends most to other hosts */
	uint64_t enters; /* elements that enter the host that receives most from other hosts */
	uint64_t sent;   /* elements to other hosts, of the rank that sends most there */
	uint64_t pieces; /* messages of that rank to other hosts */
	uint64_t
	        received; /* elements from other hosts, of the rank that receives most from there */
	uint64_t crosses; /* elements to and from other hosts, of the rank that has most */
	uint64_t messages; /* of all ranks */
	uint64_t outer;    /* number of these that are between hosts */
	/* With ports, in elements * s/B: the longest time of what leaves a host, at its port out,
	 * and of what enters one, at its port in. */
	double out, in;
};

/* Count in the finished schedules of all ranks. False: no memory. */
bool traffic_of_schedules(struct sched *const *scheds, const int *host, int size,
                          struct traffic *out);

/* Up to this number of ranks, traffic_of counts all ranks. Above, it counts only the ranks of some
 * hosts: the first, the last, the root's, one in the middle, and one of those with most ranks. With
 * ports it does so above TRAFFIC_PORTS, and counts those of the slowest ports, too. */
#define TRAFFIC_ALL   512
#define TRAFFIC_PORTS 64

/* Count in the schedules that @alg emits for @args (args->rank is ignored). If args->host is NULL,
 * every rank has its own host. @ports: as in struct price_model, or NULL. False: they cannot be
 * emitted. */
bool traffic_of(const struct coll_algorithm *alg, const struct coll_args *args,
                const struct price_port *ports, struct traffic *out);

#endif
