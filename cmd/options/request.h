/* Makes the request of a job from the command line. */
#ifndef COLLCTL_CMD_OPTIONS_REQUEST_H
#define COLLCTL_CMD_OPTIONS_REQUEST_H

#include "cmd/commands.h"
#include "lib/coll/request/request.h"

/* Fill @r from @o and the operands, whose memory must outlive it. ERR_USAGE. */
int request_from_options(struct coll_request *r, enum coll_work, const struct command *,
                         const struct options *o, int argc, char **argv, struct err *err);

#endif
