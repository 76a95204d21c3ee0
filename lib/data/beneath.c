#include "lib/data/beneath.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <string.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/base/path.h"

#define FOLDER (O_RDONLY | O_DIRECTORY | O_CLOEXEC)

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
