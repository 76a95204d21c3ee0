/*
 * Which ranks share a host. Each rank sends an opaque identity of its host, and the coordinator
 * numbers the hosts. It is a hint: ranks with one identity may still be unable to share memory.
 */
#ifndef COLLCTL_JOB_HOST_GROUPS_H
#define COLLCTL_JOB_HOST_GROUPS_H

#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/base/err.h"

#define HOST_ID 16 /* bytes; zeros: not known, which no other rank shares */

/* A hash of @given or, if that is NULL or empty, of the kernel's boot id and of the network
 * namespace: containers that have addresses like hosts count as hosts. Zeros if the boot id cannot
 * be read. */
void host_id_find(uint8_t id[HOST_ID], const char *given);

struct host_member {
	uint8_t id[HOST_ID];
	int rank;
};

/* Write the number of each rank's host into @host[size]: 0, 1, ... in the order of their first
 * ranks. Sorts @members[size]. Returns the number of hosts. */
int host_groups(struct host_member *members, int size, int *host);

/* The same in bytes: runs of hosts with equally many consecutive ranks. That is one run if all
 * hosts have equally many ranks, one host after the other, n runs if the ranks are dealt in turn,
 * and never more than HOST_GROUPS_MOST. @host NULL: all hosts differ. */
#define HOST_GROUPS_MOST(size) (6u * (size) + 1)
void host_groups_put(struct buf *, const int *host, int size);
/* Consumes what it reads. *host: malloced, or NULL. Returns the number of hosts, or -1:
 * ERR_INTEGRITY, or out of memory. */
int host_groups_get(struct view *, int size, int **host, struct err *err);

#endif
