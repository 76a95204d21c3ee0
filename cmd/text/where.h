/* How the time of a collective was spent, by stage and resource, in text and in JSON. */
#ifndef COLLCTL_CMD_TEXT_WHERE_H
#define COLLCTL_CMD_TEXT_WHERE_H

#include <jansson.h>

#include "lib/coll/coll.h"

/* For a result whose spent.threads is not 0. A new reference; NULL: out of memory. */
json_t *where_json(const struct coll_result *);
/* Print two lines: the times, and what limited the job with what the user could change. On the rank
 * that planned a third, if the prediction was off by a factor of more than 2, with the reason. */
void where_print(const struct coll_result *, const struct coll_request *);

#endif
