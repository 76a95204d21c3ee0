/*
 * Hostfiles: one `host[:port] [slots=N]` per line, IPv6 as [addr]:port, # comments. The lines are
 * in rank order; a line with slots=N stands for N consecutive ranks. The first line is the
 * coordinator's host; other ports than its are ignored (default 7766). A line may also be a host
 * list of Slurm, such as `node[01-04,7],x` in SLURM_STEP_NODELIST. One thread.
 */
#ifndef COLLCTL_STORE_HOSTFILE_H
#define COLLCTL_STORE_HOSTFILE_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"

#define HOSTFILE_PORT      7766
#define HOSTFILE_RANKS_MAX 65536

struct hostfile_host {
	char *name;
	int port;  /* 0: not given */
	int slots; /* >= 1 */
	int first; /* the rank of its first slot */
};

struct hostfile {
	struct hostfile_host *hosts;
	int nhosts;
	int size; /* ranks: the sum of slots */
};

/* Read the file @path, which may be a pipe, or "-": stdin; parse @text of a file @path. ERR_INPUT
 * names file and line: the file is malformed or unreadable. @own: a file that other users can
 * change is ERR_AUTH. On failure *h is empty. */
int hostfile_read(struct hostfile *, const char *path, bool own, struct err *);
int hostfile_parse(struct hostfile *, const char *text, size_t len, const char *path, struct err *);
/* Read the hosts of --hostfile @given, which is a file or a list such as "a,b[1-3]". If @given has
 * a '/' or is "-", it is a file. If it ends with a comma, it is a list, which may be one host. Else
 * it is the file of this name if that exists; else a list. @hosts: a secret will be sent to the
 * hosts. Then @given may be one host without a comma; it is an error if it could be a list and a
 * file of this name exists; and a file must pass hostfile_read's @own. ERR_USAGE, also for a
 * malformed list; ERR_INPUT and ERR_AUTH as hostfile_read. */
int hostfile_find(struct hostfile *, const char *given, bool hosts, struct err *);
void hostfile_release(struct hostfile *); /* idempotent */

/* The name of @rank's host, owned by the hostfile; NULL: there is no such rank. */
const char *hostfile_host(const struct hostfile *, int rank);

/* Set *rank to the rank of this machine: that of the only host that resolves to a local address, if
 * it has one slot. Names are resolved, which may block, only if no host is local by its text.
 * ERR_USAGE: no host is local, or several ranks are; the message lists them and suggests --rank. */
int hostfile_local_rank(const struct hostfile *, int *rank, struct err *);

#endif
