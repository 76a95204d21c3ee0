/* Opens paths that another rank names, below a folder that the user names. No symbolic link may
 * lead out of that folder. */
#ifndef COLLCTL_DATA_FILES_BENEATH_H
#define COLLCTL_DATA_FILES_BENEATH_H

#include <stdbool.h>
#include <stddef.h>

/* Open the folder that holds the last component of @path. The first @top bytes name the user's
 * folder; symbolic links are followed only in that part. @top 0: the whole path is the user's.
 * Returns a descriptor, or -1 and errno: ENOTDIR or ELOOP for a symbolic link. */
int beneath_open(const char *path, size_t top);

/* Does @path name a folder for what another rank puts there? Not if it ends in "." or "..", is "/",
 * or is the home folder of the user ($HOME) or one that holds it. */
bool beneath_is_own(const char *path);

#endif
