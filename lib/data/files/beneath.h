/* Opens paths that another rank has chosen, below a folder that the user has chosen. No symbolic
 * link can lead out of that folder. Thread-safe. */
#ifndef COLLCTL_DATA_FILES_BENEATH_H
#define COLLCTL_DATA_FILES_BENEATH_H

#include <stdbool.h>
#include <stddef.h>

/* Open the folder in which the last component of @path is. The first @top bytes are the user's
 * folder (0: the whole path is the user's); symbolic links are followed only there. Returns a
 * descriptor, which the caller closes; -1: errno, ENOTDIR or ELOOP for a symbolic link. */
int beneath_open(const char *path, size_t top);

/* May another rank choose the names of files in the folder @path? Not if it ends in "." or "..", is
 * "/", or is the user's home folder ($HOME) or a folder above it. */
bool beneath_is_own(const char *path);

#endif
