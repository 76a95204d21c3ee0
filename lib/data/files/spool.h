/* Spools: unnamed files, in TMPDIR or else /tmp, for the data of inputs that cannot seek, and other
 * temporary data. */
#ifndef COLLCTL_DATA_FILES_SPOOL_H
#define COLLCTL_DATA_FILES_SPOOL_H

#include <stdint.h>

#include "lib/base/err.h"

/* Create a spool for reading and writing. The caller closes it. -1: ERR_RESOURCE. */
int spool_open(struct err *err);
/* The folder of spools. */
const char *spool_folder(void);

/* Copy from @from to its end to @to. A failed read is ERR_INPUT and names @from_name; a failed
 * write is @to_code and names @to_name. Calls @await (may be NULL) before each read, as
 * dataset_source.await. */
int spool_copy(int from, const char *from_name, int to, const char *to_name, int to_code,
               int (*await)(void *ctx, int fd, struct err *err), void *ctx, struct err *err);

#endif
