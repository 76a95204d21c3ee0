/* Prints the result of a job: a line of text or the JSON object.
 */
#ifndef COLLCTL_CMD_TEXT_RESULT_H
#define COLLCTL_CMD_TEXT_RESULT_H

#include <jansson.h>

#include "cmd/options/options.h"
#include "lib/coll/coll.h"

/* Does @rank print the result? Rank 0 does, with -v every rank, with -q none. */
bool result_shown(const struct options *, int rank);
/* Print the result of a job: requested statistics and digests, then a line or the JSON object; or
 * the failure. Returns the exit code. */
int result_print(const struct coll_result *, const struct coll_request *, const struct options *);

/* The JSON object of a result: make it with its first members; the caller adds others; add "error".
 * A new reference, which result_json_end passes on. NULL: out of memory. */
json_t *result_json_begin(const char *command, const struct coll_result *);
json_t *result_json_end(json_t *object, const struct coll_result *);
/* An array of the ranks that take no part in the job. */
json_t *result_missing_json(const struct coll_result *);
/* Add the bandwidths, given in bytes per second: "bandwidth" in this unit, and "algbw" and "busbw"
 * in 10^9 bytes per second. */
void result_json_bandwidths(json_t *object, double algbw, double busbw);

#endif
