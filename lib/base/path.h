/* Paths as text: splitting, joining and checking them. */
#ifndef COLLCTL_BASE_PATH_H
#define COLLCTL_BASE_PATH_H

#include <stdbool.h>
#include <stddef.h>

#include "lib/base/err.h"

/* The part of @path after the last '/'; the whole path if it has none. */
const char *path_name(const char *path);
/* Do two paths name entries of one folder, by the same text? */
bool path_share_folder(const char *a, const char *b);
/* The length of the first @len bytes of @path without slashes at their end. "/" keeps one. */
size_t path_trim(const char *path, size_t len);
/* Is @name a plain name of a file: not hidden, without '/', and of printable characters
 * (text_is_clean)? For names that come from a file or another rank. */
bool path_is_plain(const char *name);
/* Does a symbolic link at @path, below a folder, lead to something in this folder if its target is
 * @target? The target must be relative; its ".." stand before all names, and are at most as many as
 * the folders in @path. Other symbolic links on its way are not examined. */
bool path_link_stays(const char *path, const char *target);
/* The same as errors: 0, or -1 with code @code and the name. */
int path_check_plain(const char *name, int code, struct err *err);
int path_check_below(const char *path, int code, struct err *err);
int path_check_link(const char *path, const char *target, int code, struct err *err);

/* The caller frees these. NULL: ERR_RESOURCE. */

/* "FOLDER/NAME"; "NAME" where @folder is empty. */
char *path_join(const char *folder, const char *name, struct err *err);
/* @name in the folder in which @path lies. */
char *path_beside(const char *path, const char *name, struct err *err);
/* The folder in which @path lies: "a/b" lies in "a", "/b" in "/", "b" in ".". */
char *path_folder(const char *path, struct err *err);

#endif
