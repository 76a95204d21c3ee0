/* Reads regular files at given positions. Errors name the path. */
#ifndef COLLCTL_DATA_FILES_INPUT_H
#define COLLCTL_DATA_FILES_INPUT_H

#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>

#include "lib/base/err.h"

/* Open the regular file @path for reading and fill @st. -1: ERR_INPUT, or ERR_RESOURCE if too many
 * files are open. */
int input_open(const char *path, struct stat *st, struct err *err);

/* Read exactly @bytes at @pos. ERR_INPUT if the file became shorter. */
int input_pread(int fd, const char *path, void *buf, size_t bytes, uint64_t pos, struct err *err);

#endif
