/*
 * Static hostfiles: one `host[:port] [slots=N]` per line, IPv6 as [addr]:port, # comments. Lines
 * are in rank order; a line with slots=N stands for N ranks. The first line is the coordinator;
 * only its port matters (default 7766). A line may also be a host list of Slurm, such as
 * `node[01-04,7],x` in SLURM_STEP_NODELIST.
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
	int first; /* rank of its first slot */
};

struct hostfile {
	struct hostfile_host *hosts;
	int nhosts;
	int size; /* ranks: the sum of slots */
};

/* ERR_INPUT naming file and line, for a malformed or unreadable file. @path may be a pipe, or "-":
 * stdin. On failure *h is empty. @own: ERR_AUTH for a file that other users can change. */
int hostfile_read(struct hostfile *, const char *path, bool own, struct err *);
int hostfile_parse(struct hostfile *, const char *text, size_t len, const char *path, struct err *);
/* The hosts that --hostfile @given names: a file, or a list such as "a,b[1-3]". What has a '/' or
 * is
 * "-" is a file; what ends with a comma is a list, also of one host. Anything else is the file of
 * this name, if there is one, else a list. @hosts: a secret goes to these hosts. Then a list may be
 * one host, a name that is also a file is an error, and a file must be the user's own. ERR_USAGE,
 * also for a malformed list; ERR_INPUT and ERR_AUTH as from hostfile_read. */
int hostfile_find(struct hostfile *, const char *given, bool hosts, struct err *);
void hostfile_release(struct hostfile *);

/* The name of the host of @rank; NULL: there is no such rank. */
const char *hostfile_host(const struct hostfile *, int rank);

/* The rank of this machine: the unique host that resolves to a local address and has one slot.
 * Names are resolved only if none is local by its text. -1 with ERR_USAGE
 * if there is none, or several: the message lists them, and suggests --rank. */
int hostfile_local_rank(const struct hostfile *, int *rank, struct err *);

#endif
