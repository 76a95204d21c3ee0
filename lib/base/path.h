/* Paths as text: what stands in front of the last '/' and what behind it. */
#ifndef COLLCTL_BASE_PATH_H
#define COLLCTL_BASE_PATH_H

#include <stdbool.h>

#include "lib/base/err.h"

/* What lies behind the last '/': all of it, where there is none. */
const char *path_name(const char *path);
/* Is @name that of a file which stays in the folder to which it is added, and is not hidden? For
 * names that come from a file or from another rank. */
bool path_is_plain(const char *name);
/* Does @path, by its text, lead to something below the folder to which it is added? It is relative,
 * and no component is empty, "." or "..". */
bool path_is_below(const char *path);

/* All malloced; NULL: out of memory, in *err. */

/* "FOLDER/NAME"; "NAME" where @folder is empty. */
char *path_join(const char *folder, const char *name, struct err *err);
/* @name in the folder in which @path lies. */
char *path_beside(const char *path, const char *name, struct err *err);
/* The folder in which @path lies: "a/b" lies in "a", "/b" in "/", "b" in ".". */
char *path_folder(const char *path, struct err *err);

#endif
