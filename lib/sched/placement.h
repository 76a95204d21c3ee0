/*
 * Placement: which ranks share a host (coll_args.host).
 */
#ifndef COLLCTL_SCHED_PLACEMENT_H
#define COLLCTL_SCHED_PLACEMENT_H

#include "lib/sched/sched.h"

/* The number of hosts; 0: unknown. */
int hosts_count(const struct coll_args *a);
/* Are there several hosts, and do ranks share one? */
bool hosts_shared(const struct coll_args *a);

/* How many ranks the hosts have. All zero: not hosts_shared. Without memory the widest range that
 * is possible. */
struct hosts_sizes {
	int n;           /* number of hosts */
	int least, most; /* of ranks on a host */
	bool together;   /* the ranks of each host are consecutive */
};
struct hosts_sizes hosts_sizes(const struct coll_args *a);

#endif
