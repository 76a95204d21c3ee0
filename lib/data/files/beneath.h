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

/* The folder that beneath_at has opened last, for paths of one folder that come one after another.
 */
struct beneath {
	int fd;
	char *path; /* in this folder; malloced */
	size_t top;
};
#define BENEATH_INIT     \
	{                \
		.fd = -1 \
	}

/* As beneath_open, but @b owns the descriptor, and the next call closes it if its folder is
 * another one. */
int beneath_at(struct beneath *b, const char *path, size_t top);
void beneath_release(struct beneath *b);

/* May another rank choose the names of files in the folder @path? Not if it ends in "." or "..", is
 * "/", or is the user's home folder ($HOME) or a folder above it. */
bool beneath_is_own(const char *path);

#endif
