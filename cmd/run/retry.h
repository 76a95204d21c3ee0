/* --retry: runs a job again, in a new process, if a rank or a link was lost. */
#ifndef COLLCTL_CMD_RUN_RETRY_H
#define COLLCTL_CMD_RUN_RETRY_H

#include <stdbool.h>

#include "lib/base/err.h"

/* One try; returns the exit code. @left: the tries after this one. It sets *again if the same job
 * may begin again, and then leaves stdout as it was. */
typedef int retry_fn(void *ctx, int left, bool *again);

/*
 * Run @once in a child process; if it sets *again, run it again, at most @retries times. Each child
 * has the environment and the open files of this process. So a try finds secrets in the environment
 * that an earlier try has wiped, but not what it has read from a descriptor.
 *
 * Signals that end a job are passed on to the child. If this process is killed, the child gets
 * SIGTERM. Returns the exit code of the last try, in the child and in this process; -1:
 * ERR_RESOURCE, a try cannot begin.
 */
int retry(int retries, retry_fn *once, void *ctx, struct err *err);

#endif
