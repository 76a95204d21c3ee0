/*
 * The ends of links that a rank tests (probe.h) or measures (meter.h), and how an end fails: the
 * job hears of the link, and its other links continue. A lack of this rank's memory or descriptors
 * is no link's fault: it fails the job.
 */
#ifndef COLLCTL_LINKS_LINK_END_H
#define COLLCTL_LINKS_LINK_END_H

#include "lib/job/job.h"

struct link_ends {
	struct job *job;
	struct mesh *mesh;
	struct err lacking; /* what this rank lacks; code 0: nothing */
};

struct link_end {
	struct link_ends *all;
	struct conn *conn; /* the mesh's; NULL: not connected */
	int peer;
	bool out;  /* this rank has dialled the link */
	bool over; /* failed, or done: its events count no more */
};

/* Its events count no more. */
void link_end_stop(struct link_end *);
/* Stop, and report that the link has failed, unless the end was over or the rank lacks something.
 * True if it was reported. */
bool link_end_fail(struct link_end *, enum link_state, const char *why);
/* The same by the error of its connection; ERR_RESOURCE: all->lacking instead. */
bool link_end_broke(struct link_end *, const struct err *);
/* -1 if this rank lacks something: *err says what. */
int link_ends_check(struct link_ends *, struct err *err);

#endif
