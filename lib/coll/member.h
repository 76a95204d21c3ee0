/* Makes a job's configuration (rank, size, secret, meeting place) from the settings and the
 * environment. One thread. */
#ifndef COLLCTL_COLL_MEMBER_H
#define COLLCTL_COLL_MEMBER_H

#include "lib/job/job_settings.h"
#include "lib/job/job.h"
#include "lib/job/launch.h"
#include "lib/job/ticket.h"

struct member {
	struct job_conf conf; /* all but note and note_ctx */
	struct launch launch; /* from the environment */
	struct secret secret;
	struct credentials *credentials;
	char *tls_files[4]; /* names: certificate, key, CA, revocation lists */
	struct hostfile hosts;
	char *token;
	char ticket_name[TICKET_JOB], ticket_url[ADDR_TEXT + 32];
	char served_by[128];
};

/* Fill *m. conf points into *m and the settings, so neither may move or be freed before the job is
 * closed. ERR_USAGE: the rank, the size or the meeting place is missing; ERR_AUTH: the secret is
 * missing; ERR_INPUT: of the hostfile. On failure there is nothing to release. */
int member_init(struct member *m, const struct job_settings *, struct err *err);
void member_release(struct member *);
/* Set conf.present from the names of this rank's first input and output, or NULL. With --rank auto
 * they help to order the ranks. Errors: as paths_fill. */
int member_present(struct member *, const char *input, const char *output, struct err *err);

#endif
