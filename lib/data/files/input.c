#include "lib/data/files/input.h"

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
		return err_set(err, ERR_INPUT, "%s: is not a regular file: copy it to one first",
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
	ssize_t got = pread_full(fd, buf, bytes, pos);
	if (got < 0)
		return err_errno(err, ERR_INPUT, "%s: cannot read", path);
	if ((size_t)got < bytes)
		return err_set(err, ERR_INPUT,
		               "%s: became shorter while it was read: expected %zu bytes at "
		               "offset %" PRIu64,
		               path, bytes, pos);
	return 0;
}
