/* The entries of a folder, for scandir(3). Thread-safe. */
#ifndef COLLCTL_BASE_ENTRY_H
#define COLLCTL_BASE_ENTRY_H

#include <dirent.h>
#include <stdbool.h>
#include <string.h>

#define ENTRY_DEPTH 256 /* folders in folders: each is open while its entries are examined */

/* Is @name "." or ".."? */
static inline bool entry_is_dots(const char *name)
{
	return strcmp(name, ".") == 0 || strcmp(name, "..") == 0;
}

/* The order of the names' bytes, which is the same in every locale. */
static inline int entry_by_bytes(const struct dirent **a, const struct dirent **b)
{
	return strcmp((*a)->d_name, (*b)->d_name);
}

#endif
