/*
 * How the time of a collective was spent, by stage and resource. One thread at a time for a result.
 */
#ifndef COLLCTL_COLL_TIME_SPENT_H
#define COLLCTL_COLL_TIME_SPENT_H

#include <jansson.h>

#include "lib/coll/coll.h"

/* The resources of the stages; those of the run are enum spent. */
enum time_resource {
	TIME_PROCESSOR = SPENT_KINDS, /* part of the others */
	TIME_JOIN_RANKS,
	TIME_CONNECT_FILES,
	TIME_CONNECT_LINKS,
	TIME_COMMIT_DISK,
	TIME_COMMIT_RANKS,
	TIME_COMMIT_NAMES,
	TIME_RESOURCES
};

/* For results whose spent.threads is not 0: the seconds of each resource. */
void time_spent(const struct coll_result *, double out[TIME_RESOURCES]);
double time_sum(const double *times);
/* What a user could shorten: ranks that start together, or a job of one rank, join in no time that
 * is worth a word. */
int time_limit(const struct coll_result *, const double *times);
/* Is it the time of other ranks? */
bool time_is_others(int resource);
/* The rank for which this one waited longest; -1: for none. */
int time_slowest_peer(const struct coll_result *);
/* The part of a rank's own numbers, or of those that another rank has sent. */
double time_share(uint64_t part, uint64_t whole);
/* "where" of --json. A new reference; NULL: out of memory. */
json_t *time_json(const struct coll_result *);

#endif
