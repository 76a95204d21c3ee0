/* Formats progress: the bar's line, the JSON line, and the rate. Does not print. */
#ifndef COLLCTL_CMD_TEXT_PROGRESS_TEXT_H
#define COLLCTL_CMD_TEXT_PROGRESS_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "lib/coll/coll.h"
#include "lib/job/proto.h"

struct progress_now {
	int rank;            /* -1: none, or unknown */
	const char *phase;   /* a word, for JSON: "run" */
	const char *doing;   /* the same for people: "waiting for ranks" */
	bool counts;         /* moved and total are parts of the work, not bytes */
	uint64_t moved;      /* bytes of the user's files */
	uint64_t total;      /* approximate final value of `moved`; 0: unknown */
	int slowest;         /* the rank with the least progress; -1: unknown */
	double slowest_done; /* its progress, 0 to 1 */
	const struct joined
	        *joined; /* the ranks that have joined, while some are missing; NULL: not known */
	double slowest_left;               /* its remaining seconds; 0: unknown */
	const struct coll_progress *files; /* of a collective whose data move; else NULL */
	bool comparing;    /* the ranks compare these files, and nothing has moved */
	double files_left; /* this rank's remaining seconds; 0: unknown, the rate says it */
};

/* Bytes per second over the last seconds. Unknown when zeroed. */
struct meter {
	int64_t at; /* of the last sample, clock_ns(); 0: none */
	uint64_t moved;
	double sum, weight;
	bool started; /* by meter_start */
};

/* Measure from @at on, even if no byte has moved yet. */
void meter_start(struct meter *, int64_t at);
/* Take a sample at @at. Time before the first byte does not count. */
void meter_add(struct meter *, int64_t at, uint64_t moved);
/* Negative: unknown. */
double meter_rate(const struct meter *);

/* A meter of a fraction, 0 to 1, has samples in parts of METER_WHOLE. The seconds until it is 1; 0:
 * unknown. */
#define METER_WHOLE 1e12
double meter_left(const struct meter *);

/* Meters of what a rank has done: of the stages before the disk, and of what it writes once nothing
 * moves any more, such as pieces of old versions. */
struct files_meters {
	struct meter early, late;
};
/* The seconds that this rank still needs; 0: unknown. The meters get a sample at @at. */
double files_left(struct files_meters *, const struct coll_progress *, int64_t at);

/*
 * "allreduce  [######......]  43%  1.2 of 2.8 GiB  612 MiB/s  2.6 s left  run  slowest: rank 2
 * (38%)" in at most @width - 1 columns (0: any width, and no bar) and @cap bytes: drops fields that
 * do not fit, the least useful first; @rate in bytes per second, negative: unknown. Safe for
 * a terminal. Returns @buf.
 */
char *progress_line(char *buf, size_t cap, int width, const char *what,
                    const struct progress_now *now, double rate);

/* {"progress":{"rank","phase","moved","total","rate","left","slowest":{"rank","done"}}}, null for
 * what is not known; with now->files also "bytes" by stage. A new reference, or NULL. */
json_t *progress_json(const struct progress_now *now, double rate);

#endif
