/* Patterns of paths below a folder, as rsync has them. Thread-safe. */
#ifndef COLLCTL_BASE_PATH_PATTERN_H
#define COLLCTL_BASE_PATH_PATTERN_H

#include <stdbool.h>

/* Does @pattern match @path, relative to the folder, or a folder in which it lies? @folder: @path
 * is one. As in fnmatch(3), where '*' does not match '/'; a component "**" matches any number of
 * components. A pattern that begins with '/' matches from the top, another from any component on;
 * one that ends in '/' matches folders alone; "/" matches nothing. The path itself matches too. */
bool path_matches(const char *pattern, const char *path, bool folder);
/* Does one of the @n patterns match? Sets used[i], unless @used is NULL, of each that does. */
bool path_matches_any(const char *const *patterns, int n, const char *path, bool folder,
                      bool *used);

#endif
