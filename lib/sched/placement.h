/*
 * Placement: which ranks share a host (coll_args.host). Pure functions; any thread.
 */
#ifndef COLLCTL_SCHED_PLACEMENT_H
#define COLLCTL_SCHED_PLACEMENT_H

#include "lib/sched/sched.h"

/* The number of hosts; 0: unknown. */
int hosts_count(const struct coll_args *a);
/* Where @host is NULL, each rank counts as a host. */
static inline int host_of_rank(const int *host, int rank)
{
	return host ? host[rank] : rank;
}
int hosts_or_ranks(const int *host, int size);
/* Are there several hosts, of which at least one has several ranks? */
bool hosts_shared(const struct coll_args *a);

/* The numbers of ranks on the hosts. All members are 0 unless hosts_shared. If memory runs out,
 * least and most are the widest possible range, and together is false. */
struct hosts_sizes {
	int n;           /* number of hosts */
	int least, most; /* of ranks on a host */
	bool together;   /* the ranks of each host are consecutive */
};
struct hosts_sizes hosts_sizes(const struct coll_args *a);

#endif
