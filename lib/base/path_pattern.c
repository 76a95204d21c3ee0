#include "lib/base/path_pattern.h"

#include <fnmatch.h>
#include <limits.h>
#include <stddef.h>
#include <string.h>

/* Copy the first component of @path; NULL: it is too long for the name of a file. Returns what
 * follows it. */
static const char *take(const char *path, char component[NAME_MAX + 1])
{
	const size_t n = strcspn(path, "/");
	if (n > NAME_MAX)
		return NULL;
	memcpy(component, path, n);
	component[n] = '\0';
	return path + n + strspn(path + n, "/");
}

/* Does @pattern match the beginning of @path, up to the end or a '/'? */
static bool matches_here(const char *pattern, const char *path, bool folder)
{
	char want[NAME_MAX + 1], found[NAME_MAX + 1];
	while (*pattern) {
		const bool last = !pattern[strcspn(pattern, "/")];
		const bool slash = !last && !pattern[strcspn(pattern, "/") + 1];
		const char *rest = take(pattern, want);
		if (!rest || !*path)
			return false;
		if (strcmp(want, "**") == 0 && *rest) {
			for (; *path; path += strcspn(path, "/"), path += strspn(path, "/"))
				if (matches_here(rest, path, folder))
					return true;
			return false;
		}
		path = take(path, found);
		if (!path || fnmatch(want, found, 0) != 0)
			return false;
		if (slash && !*path && !folder) /* only folders match */
			return false;
		pattern = rest;
	}
	return true;
}

bool path_matches(const char *pattern, const char *path, bool folder)
{
	if (strcmp(pattern, path) == 0)
		return true;
	if (!*pattern || strcmp(pattern, "/") == 0) /* it names nothing */
		return false;
	if (*pattern == '/')
		return matches_here(pattern + 1, path, folder);
	for (; *path; path += strcspn(path, "/"), path += strspn(path, "/"))
		if (matches_here(pattern, path, folder))
			return true;
	return false;
}

bool path_matches_any(const char *const *patterns, int n, const char *path, bool folder, bool *used)
{
	bool any = false;
	for (int i = 0; i < n; i++)
		if (path_matches(patterns[i], path, folder)) {
			any = true;
			if (used)
				used[i] = true;
		}
	return any;
}
