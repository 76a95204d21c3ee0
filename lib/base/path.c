#include "lib/base/path.h"

#include <limits.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/text.h"

#define NAME_TEXT 300 /* of a name in a message */

const char *path_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

bool path_share_folder(const char *a, const char *b)
{
	const size_t n = (size_t)(path_name(a) - a);

	return n == (size_t)(path_name(b) - b) && memcmp(a, b, n) == 0;
}

size_t path_trim(const char *path, size_t len)
{
	while (len > 1 && path[len - 1] == '/')
		len--;
	return len;
}

bool path_is_plain(const char *name)
{
	return *name && *name != '.' && !strchr(name, '/') && strlen(name) <= NAME_MAX &&
	       text_is_clean(name);
}

static bool is_below(const char *path)
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

bool path_link_stays(const char *path, const char *target)
{
	bool named = false;
	int up = 0;
	if (!*target || *target == '/')
		return false;
	for (const char *p = path; (p = strchr(p, '/')); p++)
		up++;
	for (const char *p = target; *p; p += strspn(p, "/")) {
		const size_t n = strcspn(p, "/");
		const bool dots = n == 2 && memcmp(p, "..", 2) == 0;
		if (dots && (named || up-- == 0))
			return false;
		named |= !dots && !(n == 1 && *p == '.');
		p += n;
	}
	return true;
}

int path_check_plain(const char *name, int code, struct err *err)
{
	char shown[NAME_TEXT];
	if (path_is_plain(name))
		return 0;
	return err_set(err, code,
	               "'%s' is no plain name of a file: expected one that is not hidden, without "
	               "'/' and control characters, of at most %d bytes",
	               text_escape(shown, sizeof shown, name), NAME_MAX);
}

int path_check_below(const char *path, int code, struct err *err)
{
	char shown[NAME_TEXT];
	if (is_below(path))
		return 0;
	return err_set(
	        err, code,
	        "'%s' is no path below a folder: expected a relative one, without '..', whose "
	        "names have at most %d bytes",
	        text_escape(shown, sizeof shown, path), NAME_MAX);
}

int path_check_link(const char *path, const char *target, int code, struct err *err)
{
	char shown[NAME_TEXT], to[NAME_TEXT];
	if (path_link_stays(path, target))
		return 0;
	return err_set(
	        err, code,
	        "'%s' is a symbolic link to '%s', which may lead out of the folder: expected "
	        "a relative target, whose '..' come first and stay in the folder",
	        text_escape(shown, sizeof shown, path), text_escape(to, sizeof to, target));
}

/* The first @len bytes of @before, @between and @name. */
static char *put_together(const char *before, size_t len, const char *between, const char *name,
                          struct err *err)
{
	return err_asprintf("a path", err, "%.*s%s%s", (int)len, before, between, name);
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
