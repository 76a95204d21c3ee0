/* Rank, size and the job's name from the environment that a launcher sets. */
#ifndef COLLCTL_JOB_LAUNCH_H
#define COLLCTL_JOB_LAUNCH_H

#include "lib/base/err.h"

#define JOB_NAME_MAX 64 /* characters of a job's name */

struct launch {
	int rank, size;                    /* -1: not given */
	int local_rank;                    /* -1: not given */
	const char *launcher;              /* "torchrun", "Open MPI", ...; NULL: none found */
	const char *rank_from, *size_from; /* the variables; NULL: not given */
	char id[JOB_NAME_MAX + 1];         /* the launcher's name of this launch, as a job's name;
	                                    * "": none */
	unsigned char tag[8];              /* of the id before it became a name; zeros: no id */
	const char *id_from;               /* "SLURM_JOB_ID.SLURM_STEP_ID" */
	struct err conflict;               /* two launchers disagree about rank or size */
};

/* COLLCTL_RANK and COLLCTL_SIZE are options and not read here. A malformed value is ERR_USAGE
 * with the name of the variable. If launchers disagree, the call succeeds and sets out->conflict,
 * for a caller that needs the rank or the size. @getenv_fn: getenv, or a function of a test. */
int launch_detect(struct launch *, char *(*getenv_fn)(const char *), struct err *);

#endif
