/* What a collective tells when it is over: a line for people, or the JSON object of the contract.
 */
#ifndef COLLCTL_CMD_RESULT_H
#define COLLCTL_CMD_RESULT_H

#include <jansson.h>

#include "cmd/options.h"
#include "lib/data/digest.h"
#include "lib/exec/exec.h"
#include "lib/exec/select.h"

/* clock_ns() at the end of each phase; 0: not reached. */
struct times {
	int64_t start, join, connect, run, commit;
};

struct result {
	const char *command;
	int rank, size;                    /* rank -1: not known */
	const char *requested, *algorithm; /* the one that ran; NULL: none */
	const char *op, *dtype, *output;   /* NULL: none */
	uint64_t count, bytes;
	size_t tensors;           /* with names; 0: an array */
	json_t *found;            /* --stats; NULL: not asked for. Taken over by result_print */
	json_t *files;            /* --json of verify: their digests; NULL. Taken over likewise */
	char digest[DIGEST_TEXT]; /* "": none */
	struct exec_stats stats;
	int peers;
	uint32_t windows, streams;
	struct times times;
	const char *remark; /* in parentheses behind the line; NULL: none */
	double bus_factor;  /* bus bandwidth is algorithm bandwidth times this */
};

/* Does @rank say what was done? Rank 0, or with -v every one; with -q none. */
bool result_shown(const struct options *, int rank);
/* Print it; @err: the failure, or NULL. Takes over @inputs (a JSON array). Returns the exit code.
 */
int result_print(const struct result *, const struct options *, const struct err *err,
                 const char *phase, json_t *inputs);

/* What is to be said of an algorithm: that it is taken and why, or why it may not be; "". */
void price_remark(const struct selection *, const struct select_price *, char *text, size_t cap);
/* --explain: the algorithms with their prices, which one is taken and why, and why others may not
 * be; on stderr. */
void explain_selection(const struct select_args *, const struct selection *);

#endif
