#include "lib/data/files/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/base/path.h"

#define FOLDER (O_RDONLY | O_DIRECTORY | O_CLOEXEC)
#define LOOK   (O_PATH | O_DIRECTORY | O_CLOEXEC) /* also where it can't be listed */

/* Open the first @len bytes of @path, relative to @at. */
static int open_part(int at, const char *path, size_t len, int flags)
{
	char part[PATH_MAX];
	if (len >= sizeof part) {
		errno = ENAMETOOLONG;
		return -1;
	}
	memcpy(part, path, len);
	part[len] = '\0';
	if (at == AT_FDCWD)
		return io_retry(open(len ? part : ".", FOLDER));
	return io_retry(openat(at, part, FOLDER | flags));
}

int beneath_open(const char *path, size_t top)
{
	const char *last = path_name(path);
	size_t len = (size_t)(last - path);
	if (!top)
		return open_part(AT_FDCWD, path, len > 1 ? len - 1 : len, 0);
	int fd = open_part(AT_FDCWD, path, top, 0);
	for (const char *p = path + top; fd >= 0; p += strcspn(p, "/")) {
		p += strspn(p, "/");
		if (p >= last)
			break;
		int next = open_part(fd, p, strcspn(p, "/"), O_NOFOLLOW);
		int error = errno;
		close(fd);
		fd = next;
		errno = error;
	}
	return fd;
}

int beneath_at(struct beneath *b, const char *path, size_t top)
{
	if (b->fd >= 0 && b->top == top && path_share_folder(b->path, path))
		return b->fd;
	beneath_release(b);
	if ((b->path = strdup(path)))
		b->fd = beneath_open(path, top);
	b->top = top;
	return b->fd;
}

void beneath_release(struct beneath *b)
{
	if (b->fd >= 0)
		close(b->fd);
	free(b->path);
	*b = (struct beneath)BENEATH_INIT;
}

/* Is @folder the home folder, or does it hold it? */
static bool holds_home(const struct stat *folder)
{
	const char *home = getenv("HOME");
	struct stat at = {0}, below;
	int fd = home ? io_retry(open(home, LOOK)) : -1;
	bool holds = false;
	while (fd >= 0 && !holds) {
		below = at;
		if (fstat(fd, &at) || io_same_file(&at, &below)) /* the top */
			break;
		holds = io_same_file(&at, folder);
		int up = io_retry(openat(fd, "..", LOOK));
		close(fd);
		fd = up;
	}
	if (fd >= 0)
		close(fd);
	return holds;
}

bool beneath_is_own(const char *path)
{
	struct stat st;
	size_t end = strlen(path), n = 0;
	while (end && path[end - 1] == '/')
		end--;
	while (n < end && path[end - n - 1] != '/')
		n++;
	const char *last = path + end - n;
	if (!n || (n == 1 && *last == '.') || (n == 2 && memcmp(last, "..", 2) == 0))
		return false;
	return stat(path, &st) < 0 || !holds_home(&st);
}
