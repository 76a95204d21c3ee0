/* Prints the result of a job: a line of text or the JSON object.
 */
#ifndef COLLCTL_CMD_TEXT_RESULT_H
#define COLLCTL_CMD_TEXT_RESULT_H

#include "cmd/options/options.h"
#include "lib/coll/coll.h"

/* Print the result of a job: requested statistics and digests, then a line or the JSON object; or
 * the failure. Returns the exit code. */
int result_print(const struct coll_result *, const struct coll_request *, const struct options *);

#endif
