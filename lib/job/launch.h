/* Rank and size from the environment that a launcher leaves (FORMATS.md, "Launch environments"). */
#ifndef COLLCTL_JOB_LAUNCH_H
#define COLLCTL_JOB_LAUNCH_H

#include "lib/base/err.h"

struct launch {
	int rank, size;       /* -1: not given */
	int local_rank;       /* -1: not given */
	const char *launcher; /* "torchrun", "Open MPI", ...; NULL: none found */
};

/* COLLCTL_RANK and COLLCTL_SIZE are options and not read here. A malformed value is ERR_USAGE
 * naming the variable. @getenv_fn: getenv, or a test's own. */
int launch_detect(struct launch *, char *(*getenv_fn)(const char *), struct err *);

#endif
