/* How the time of a collective was spent, in text. */
#ifndef COLLCTL_CMD_TEXT_WHERE_H
#define COLLCTL_CMD_TEXT_WHERE_H

#include "lib/coll/coll.h"

/* For a result whose spent.threads is not 0, print two lines: the times, and what limited the job
 * with what the user could change. On the rank that planned a third, if the prediction was off by a
 * factor of more than 2, with the reason. */
void where_print(const struct coll_result *, const struct coll_request *);

#endif
