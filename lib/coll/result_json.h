/*
 * The JSON object of a job's result, as --json prints it (collctl-json(5)). Each function returns a
 * new reference; NULL: out of memory. One thread at a time for a result.
 */
#ifndef COLLCTL_COLL_RESULT_JSON_H
#define COLLCTL_COLL_RESULT_JSON_H

#include <jansson.h>

#include "lib/coll/coll.h"

/* The operation that the request names, or the algorithm that ran or was to run; NULL: none. */
const char *result_op(const struct coll_request *, char text[REDUCE_OP_TEXT]);
const char *result_algorithm(const struct coll_result *, const struct coll_request *);

/* Of a collective, barrier or verify, before coll_end. */
json_t *result_json(const struct coll_result *, const struct coll_request *);

/* Of other jobs: make the object with its first members; the caller adds others; add "error".
 * result_json_end passes the reference on. */
json_t *result_json_begin(const char *command, const struct coll_result *);
json_t *result_json_end(json_t *object, const struct coll_result *);
/* An array of the ranks that take no part in the job. */
json_t *result_missing_json(const struct coll_result *);
/* Add the bandwidths, given in bytes per second: "bandwidth" in this unit, and "algbw" and "busbw"
 * in 10^9 bytes per second. */
void result_json_bandwidths(json_t *object, double algbw, double busbw);

#endif
