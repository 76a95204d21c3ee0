/*
 * The files that a check writes. Internal to lib/coll. One thread.
 */
#ifndef COLLCTL_COLL_CHECK_FILES_H
#define COLLCTL_COLL_CHECK_FILES_H

#include "lib/links/link_matrix.h"
#include "lib/price/tuning.h"

/* What was measured between which hosts. */
struct check_hosts {
	const struct link_matrix *links; /* after link_matrix_end */
	int n;                           /* hosts */
	const int *host; /* of each rank of the job, as in the plan; NULL: each has its own */
	const char *(*name)(void *ctx, int rank); /* of its host; "": not known */
	void *ctx;
};

/* Set the rates of @t, those of each host and the round trips of each two. Hosts without a name, or
 * of which no link with another was measured both ways, are left out. ERR_RESOURCE. */
int check_rates(const struct check_hosts *, struct select_tuning *t, struct err *err);

/* Write the largest set of hosts all of whose links work and are as fast as demanded (clique.h), to
 * @path, as a hostfile (hostfile.h). Returns their number; -1: ERR_OUTPUT, ERR_RESOURCE. */
int check_write_hosts(const struct check_hosts *, const char *path, struct err *err);

#endif
