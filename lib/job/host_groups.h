/*
 * Which ranks share a host. Each rank sends an opaque identity of its host; the coordinator numbers
 * the hosts. It is a hint: ranks with the same identity may be unable to share memory. Thread-safe.
 */
#ifndef COLLCTL_JOB_HOST_GROUPS_H
#define COLLCTL_JOB_HOST_GROUPS_H

#include <stdint.h>

#include "lib/base/buf.h"
#include "lib/base/err.h"

#define HOST_ID 16 /* bytes; zeros: not known; the rank then shares its host with no other */

/* Find the identity: a hash of @given; if that is NULL or "", a hash of the kernel's boot id and of
 * the network namespace. So containers with their own addresses count as hosts. Zeros: the boot id
 * cannot be read. */
void host_id_find(uint8_t id[HOST_ID], const char *given);

struct host_member {
	uint8_t id[HOST_ID];
	int rank;
};

/* Write the number of each rank's host to @host[size]. The hosts are numbered 0, 1, ... in the
 * order of their lowest ranks. Sorts @members[size]. Returns the number of hosts. */
int host_groups(struct host_member *members, int size, int *host);

/* *@host[ncame] (malloced; NULL: each has its own host) has the hosts of the ranks @came[ncame] of
 * @size. Replace it by one [size] with -1 for the others. ERR_RESOURCE: it is freed. */
int host_groups_spread(int **host, const int *came, int ncame, int size, struct err *err);

/* The hosts of the ranks @came[ncame], of those that @host has of all: malloced. NULL:
 * ERR_RESOURCE. */
int *host_groups_of(const int *host, const int *came, int ncame, struct err *err);

/* Encode @host[size] as runs; a run is a sequence of hosts that each have the same number of
 * consecutive ranks. If all hosts have the same number of consecutive ranks, this is one run. Never
 * more than HOST_GROUPS_MOST bytes. @host NULL: every rank has its own host. */
#define HOST_GROUPS_MOST(size) (6u * (size) + 1)
void host_groups_put(struct buf *, const int *host, int size);
/* Decode it; the view advances. *host: malloced, or NULL: every rank has its own host. Returns the
 * number of hosts; -1: ERR_INTEGRITY, ERR_RESOURCE. */
int host_groups_get(struct view *, int size, int **host, struct err *err);

#endif
