/* From the command line and the environment to a job: rank, size, secret, rendezvous. */
#ifndef COLLCTL_CMD_JOINING_H
#define COLLCTL_CMD_JOINING_H

#include "cmd/options.h"
#include "lib/job/job.h"
#include "lib/job/launch.h"

struct joining {
	struct job_conf conf;
	struct launch launch; /* what the environment says */
	struct secret secret;
	struct hostfile hosts;
	char *token;
	int verbose; /* -v, for the notes of the job */
};

/* Fill @j from @o; conf points into both, so @j stays where it is. ERR_USAGE where rank, size or
 * rendezvous are missing, ERR_AUTH where the secret is. */
int joining_init(struct joining *j, const struct options *o, struct err *err);
void joining_release(struct joining *j);
/* What this rank reads and writes first, or NULL: ranks with --rank auto are sorted by it too. */
int joining_present(struct joining *j, const char *input, const char *output, struct err *err);

#endif
