/*
 * The links that a rank tests (probe.h) or measures (meter.h). If a link fails, it is reported to
 * the job, and the other links continue. If this rank lacks memory or descriptors, this is not a
 * fault of the link: the job fails. One thread: the job's.
 */
#ifndef COLLCTL_LINKS_LINK_END_H
#define COLLCTL_LINKS_LINK_END_H

#include "lib/job/job.h"

struct link_ends {
	struct job *job;
	struct mesh *mesh;
	struct err lacking; /* ERR_RESOURCE of this rank; code 0: none */
};

struct link_end {
	struct link_ends *all;
	struct conn *conn; /* the mesh's; NULL: not connected */
	int peer;
	bool out;  /* this rank is the dialling end */
	bool over; /* failed or done: its events are ignored */
};

/* Set `over`. */
void link_end_stop(struct link_end *);
/* Stop, and report the failed link (job_link_failed), unless it was over or all->lacking is set.
 * True: it was reported. */
bool link_end_fail(struct link_end *, enum link_state, const char *why);
/* The same, with state and reason from the error of its connection. ERR_RESOURCE sets all->lacking
 * instead. */
bool link_end_broke(struct link_end *, const struct err *);
/* -1: all->lacking is set; it is passed to *err. */
int link_ends_check(struct link_ends *, struct err *err);

#endif
