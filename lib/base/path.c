#include "lib/base/path.h"

#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *path_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

bool path_is_plain(const char *name)
{
	return *name && *name != '.' && !strchr(name, '/');
}

bool path_is_below(const char *path)
{
	for (;; path++) {
		size_t n = strcspn(path, "/");
		if (!n || n > NAME_MAX || (n == 1 && *path == '.') ||
		    (n == 2 && memcmp(path, "..", 2) == 0))
			return false;
		path += n;
		if (!*path)
			return true;
	}
}

/* The first @len bytes of @before, @between and @name. */
static char *put_together(const char *before, size_t len, const char *between, const char *name,
                          struct err *err)
{
	char *path;
	if (asprintf(&path, "%.*s%s%s", (int)len, before, between, name) >= 0)
		return path;
	err_nomem(err, "a path", len + strlen(name));
	return NULL;
}

char *path_join(const char *folder, const char *name, struct err *err)
{
	size_t len = strlen(folder);
	return put_together(folder, len, len && folder[len - 1] != '/' ? "/" : "", name, err);
}

char *path_beside(const char *path, const char *name, struct err *err)
{
	return put_together(path, (size_t)(path_name(path) - path), "", name, err);
}

char *path_folder(const char *path, struct err *err)
{
	size_t len = (size_t)(path_name(path) - path);
	if (!len)
		return put_together(".", 1, "", "", err);
	return put_together(path, len > 1 ? len - 1 : 1, "", "", err);
}
