/* Files that are read: regular ones, at positions. Errors name the path. */
#ifndef COLLCTL_DATA_INPUT_H
#define COLLCTL_DATA_INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "lib/base/err.h"

/* Open the regular file @path for reading and fill @st; or -1: ERR_INPUT, and ERR_RESOURCE where
 * there are too many open files. */
int input_open(const char *path, struct stat *st, struct err *err);

/* Read exactly @bytes at @pos. A file that has become shorter is ERR_INPUT, not a crash. */
int input_pread(int fd, const char *path, void *buf, size_t bytes, uint64_t pos, struct err *err);

#endif
