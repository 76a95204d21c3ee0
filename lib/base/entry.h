/* The entries of a folder. Thread-safe. */
#ifndef COLLCTL_BASE_ENTRY_H
#define COLLCTL_BASE_ENTRY_H

#include <dirent.h>
#include <limits.h>
#include <stdbool.h>
#include <string.h>
#include <unistd.h>

#define ENTRY_DEPTH 256 /* folders in folders: each is open while its entries are examined */

/* Is @name "." or ".."? */
static inline bool entry_is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* For scandir(3): the order of the names' bytes, which is the same in every locale. */
static inline int entry_by_bytes(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

/* Read the target of the symbolic link @name in the folder @fd. -1: errno. */
static inline int entry_read_link(int fd, const char *name, char target[PATH_MAX])
{
	const ssize_t n = readlinkat(fd, name, target, PATH_MAX - 1);
	target[n < 0 ? 0 : n] = '\0';
	return n < 0 ? -1 : 0;
}

#endif
