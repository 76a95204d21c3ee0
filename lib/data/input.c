#include "lib/data/input.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <unistd.h>

#include "lib/base/io.h"

static int check_regular(int fd, const char *path, struct stat *st, struct err *err)
{
	if (fstat(fd, st))
		return err_errno(err, ERR_INPUT, "%s: cannot examine", path);
	if (S_ISDIR(st->st_mode))
		return err_set(err, ERR_INPUT, "%s: is a directory: expected a file", path);
	if (!S_ISREG(st->st_mode))
		return err_set(err, ERR_INPUT, "%s: is not a regular file: write it to one first",
		               path);
	return 0;
}

int input_open(const char *path, struct stat *st, struct err *err)
{
	/* O_NONBLOCK: opening a FIFO must not wait for its writer. */
	int fd = io_retry(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY));
	if (fd < 0)
		return err_errno(err, errno == EMFILE || errno == ENFILE ? ERR_RESOURCE : ERR_INPUT,
		                 "%s: cannot open", path);
	if (check_regular(fd, path, st, err)) {
		close(fd);
		return -1;
	}
	return fd;
}

int input_pread(int fd, const char *path, void *buf, size_t bytes, uint64_t pos, struct err *err)
{
	char *p = buf;
	size_t left = bytes;
	uint64_t at = pos;
	while (left) {
		ssize_t n = pread(fd, p, left, (off_t)at);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return err_errno(err, ERR_INPUT, "%s: cannot read", path);
		if (n == 0)
			return err_set(
			        err, ERR_INPUT,
			        "%s: became shorter while it was read: expected %zu bytes at "
			        "offset %" PRIu64,
			        path, bytes, pos);
		p += n;
		at += (uint64_t)n;
		left -= (size_t)n;
	}
	return 0;
}
