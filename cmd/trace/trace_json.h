/* Writes the ranks' records in the Chrome trace event format, a JSON that Perfetto and
 * chrome://tracing open. Source: Trace Event Format, Google. */
#ifndef COLLCTL_CMD_TRACE_TRACE_JSON_H
#define COLLCTL_CMD_TRACE_TRACE_JSON_H

#include <stdio.h>

#include "lib/coll/coll.h"

/* A rank is a process of the trace; its stages, files, lanes and waits are threads. Times are
 * microseconds of the coordinator's monotonic clock. The k-th message of a lane is an arrow from
 * the sender's step to the receiver's. */
void trace_json_begin(FILE *);
void trace_json_add(FILE *, const struct coll_traced *);
/* @error: [size] seconds, by which each rank's times may be wrong; @missed: events that the ranks
 * did not keep. */
void trace_json_end(FILE *, const char *command, const struct coll_result *, const double *error,
                    uint64_t missed);

#endif
