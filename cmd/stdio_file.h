/* "-" and pipes as files: what can't seek is spooled to an unnamed file, and stdout is copied from
 * one after the verdict. Unnamed files lie in TMPDIR, else /tmp. */
#ifndef COLLCTL_CMD_STDIO_FILE_H
#define COLLCTL_CMD_STDIO_FILE_H

#include "lib/data/array.h"
#include "lib/data/outfile.h"

/* array_open, with "-" for stdin, and pipes: what no name tells, --format does, else --dtype says
 * raw.
 * @await is called before each read of @fd, to return once it will not block; -1 ends it. */
typedef int stdio_await(void *ctx, int fd, struct err *err);
int stdio_array_open(struct array_file *f, const char *path, const struct array_hints *hints,
                     stdio_await *await, void *ctx, struct err *err);
int stdio_spool_open(struct outfile *f, uint64_t size, struct err *err);
int stdio_spool_copy(struct outfile *f, struct err *err);

#endif
