/* From the settings and the environment to a job's configuration: rank, size, secret, meeting
 * place. */
#ifndef COLLCTL_COLL_MEMBER_H
#define COLLCTL_COLL_MEMBER_H

#include "lib/job/job_settings.h"
#include "lib/job/job.h"
#include "lib/job/launch.h"

struct member {
	struct job_conf conf; /* without note and note_ctx */
	struct launch launch; /* from the environment */
	struct secret secret;
	struct credentials *credentials;
	char *tls_files[4]; /* certificate, key, CA, revocation lists */
	struct hostfile hosts;
	char *token;
};

/* Fill @m. conf points into @m and the settings, so neither may move. ERR_USAGE if the rank, the
 * size or the meeting place is missing; ERR_AUTH if the secret is missing. */
int member_init(struct member *m, const struct job_settings *, struct err *err);
void member_release(struct member *);
/* @input, @output: this rank's first, or NULL. With --rank auto they help to order the ranks.
 */
int member_present(struct member *, const char *input, const char *output, struct err *err);

#endif
