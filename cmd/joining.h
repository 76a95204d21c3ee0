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

/* Fill @j from @o; conf points into both, so @j stays where it is. ERR_USAGE if the rank, the
 * size or the rendezvous is missing, ERR_AUTH if the secret is. */
int joining_init(struct joining *j, const struct options *o, struct err *err);
void joining_release(struct joining *j);
/* The first input and output of this rank, or NULL: ranks with --rank auto are sorted by them too.
 */
int joining_present(struct joining *j, const char *input, const char *output, struct err *err);

#endif
