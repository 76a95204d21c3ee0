/* Rank, size and the job's name from the environment variables of a launcher. */
#ifndef COLLCTL_JOB_LAUNCH_H
#define COLLCTL_JOB_LAUNCH_H

#include "lib/base/err.h"

#define JOB_NAME_MAX 64 /* characters of a job's name */

struct launch {
	int rank, size;                    /* -1: not given */
	int local_rank;                    /* -1: not given */
	const char *launcher;              /* "torchrun", "Open MPI", ...; NULL: none found */
	const char *rank_from, *size_from; /* the names of the variables; NULL: not given */
	char id[JOB_NAME_MAX +
	        1]; /* the launcher's id of this launch, made a valid name of a job; "": none */
	unsigned char tag[8]; /* a hash of the original id; zeros: no id */
	const char *id_from;  /* "SLURM_JOB_ID.SLURM_STEP_ID" */
	struct err conflict;  /* two launchers disagree about rank or size */
};

/* Fill *out from the environment. ERR_USAGE: a value is malformed; names the variable. If launchers
 * disagree, the call succeeds and sets out->conflict, which a caller reports if it needs the rank
 * or the size. COLLCTL_RANK and COLLCTL_SIZE are options; they are not read here. @getenv_fn:
 * getenv, or a test's function. Constant strings. */
int launch_detect(struct launch *, char *(*getenv_fn)(const char *), struct err *);

#endif
