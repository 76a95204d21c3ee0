#include "lib/base/io.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sys/resource.h>
#include <unistd.h>

int write_all(int fd, const void *buf, size_t len)
{
	const char *p = buf;
	while (len) {
		ssize_t n = write(fd, p, len);
		if (n < 0 && errno == EAGAIN) {
			struct pollfd room = {.fd = fd, .events = POLLOUT};
			(void)poll(&room, 1, -1);
			continue;
		}
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -1;
		p += n;
		len -= (size_t)n;
	}
	return 0;
}

bool stdout_is_read(void)
{
	struct pollfd end = {.fd = STDOUT_FILENO};
	return poll(&end, 1, 0) <= 0 || !(end.revents & POLLERR);
}

int pwrite_all(int fd, const void *buf, size_t len, uint64_t pos)
{
	const char *p = buf;
	while (len) {
		ssize_t n = io_retry(pwrite(fd, p, len, (off_t)pos));
		if (n == 0)
			errno = ENOSPC; /* undefined by POSIX; treated as a full disk */
		if (n <= 0)
			return -1;
		p += n;
		pos += (uint64_t)n;
		len -= (size_t)n;
	}
	return 0;
}

/* @pos: NULL: where the descriptor stands. */
static ssize_t read_from(int fd, void *buf, size_t len, const uint64_t *pos)
{
	size_t have = 0;
	while (have < len) {
		char *to = (char *)buf + have;
		ssize_t n = io_retry(pos ? pread(fd, to, len - have, (off_t)(*pos + have))
		                         : read(fd, to, len - have));
		if (n < 0)
			return -1;
		if (n == 0)
			break;
		have += (size_t)n;
	}
	return (ssize_t)have;
}

ssize_t read_full(int fd, void *buf, size_t len)
{
	return read_from(fd, buf, len, NULL);
}

ssize_t pread_full(int fd, void *buf, size_t len, uint64_t pos)
{
	return read_from(fd, buf, len, &pos);
}

void event_signal(int fd)
{
	uint64_t one = 1;
	if (io_retry(write(fd, &one, sizeof one)) < 0)
		return; /* the counter is full, so it is readable */
}

void event_clear(int fd)
{
	uint64_t n;
	if (io_retry(read(fd, &n, sizeof n)) < 0)
		return; /* it is not readable */
}

void raise_file_limit(struct rlimit *before)
{
	struct rlimit l;
	if (getrlimit(RLIMIT_NOFILE, &l) < 0)
		return;
	if (before)
		*before = l;
	l.rlim_cur = l.rlim_max;
	setrlimit(RLIMIT_NOFILE, &l);
}

int need_descriptors(int n, const char *what, struct err *err)
{
	struct rlimit l;
	int fd = 0, unused = 0;
	if (getrlimit(RLIMIT_NOFILE, &l) < 0)
		return 0;
	for (; unused < n; fd++) /* inherited descriptors may lie above the limit */
		unused += fcntl(fd, F_GETFD) < 0;
	if ((rlim_t)fd <= l.rlim_cur)
		return 0;
	return err_set(err, ERR_RESOURCE,
	               "too few descriptors: with %s at least %d are needed, 'ulimit -n' allows "
	               "%llu",
	               what, fd, (unsigned long long)l.rlim_cur);
}
