/* Unnamed files for what can't seek, in TMPDIR, else /tmp. */
#ifndef COLLCTL_DATA_SPOOL_H
#define COLLCTL_DATA_SPOOL_H

#include <stdint.h>

#include "lib/base/err.h"

/* A new one, for reading and writing; or -1: ERR_RESOURCE. The caller's to close. */
int spool_open(struct err *err);
/* The folder in which they lie. */
const char *spool_folder(void);

/* Copy all that is left of @from to @to. @from_name, @to_name and @to_code say whose failure a
 * write is; a failed read is ERR_INPUT. @await (may be NULL) is called before each read of @from.
 */
int spool_copy(int from, const char *from_name, int to, const char *to_name, int to_code,
               int (*await)(void *ctx, int fd, struct err *err), void *ctx, struct err *err);

#endif
