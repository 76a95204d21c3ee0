/*
 * What the kernel may do and seldom does, preloaded. FLAKY names it:
 *
 *   eintr   every odd call of each of the functions below is interrupted: it fails with EINTR
 *   byte    reads and writes of files move one byte a call
 *   small   sockets have the smallest buffers, so that they are full and empty all the time
 * (EAGAIN) clock   the wall clock jumps: each look at it is hours away from the last, either way
 *   fsync   fsync of a file waits until somebody has opened the FIFO $FLAKY_GO for writing and
 * closed it again
 *
 * FLAKY_REPORT names a file that is created when something was done.
 */
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/time.h>
#include <sys/uio.h>
#include <time.h>
#include <unistd.h>

static bool is(const char *mode)
{
	const char *flaky = getenv("FLAKY");
	return flaky && strcmp(flaky, mode) == 0;
}

static void *real(const char *name)
{
	return dlsym(RTLD_NEXT, name);
}

static void report(void)
{
	static atomic_bool done;
	const char *path = getenv("FLAKY_REPORT");
	if (!path || atomic_exchange(&done, true))
		return;
	int (*open_file)(const char *, int, ...) = (int (*)(const char *, int, ...))real("open");
	int (*close_file)(int) = (int (*)(int))real("close");
	int fd = open_file(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
	if (fd >= 0)
		close_file(fd);
}

static bool interrupted(atomic_uint *calls)
{
	if (!is("eintr") || atomic_fetch_add(calls, 1) % 2)
		return false;
	report();
	errno = EINTR;
	return true;
}

static size_t cut(size_t len)
{
	if (!is("byte") || len <= 1)
		return len;
	report();
	return 1;
}

#define WRAP(type, name, parameters, ...)                               \
	type name parameters                                            \
	{                                                               \
		static atomic_uint calls;                               \
		type(*fn) parameters = (type(*) parameters)real(#name); \
		return interrupted(&calls) ? -1 : fn(__VA_ARGS__);      \
	}

WRAP(ssize_t, read, (int fd, void *buf, size_t len), fd, buf, cut(len))
WRAP(ssize_t, write, (int fd, const void *buf, size_t len), fd, buf,
     len == sizeof(uint64_t) ? len : cut(len)) /* an eventfd takes 8 bytes */
WRAP(ssize_t, pread, (int fd, void *buf, size_t len, off_t at), fd, buf, cut(len), at)
WRAP(ssize_t, pread64, (int fd, void *buf, size_t len, off_t at), fd, buf, cut(len), at)
WRAP(ssize_t, pwrite, (int fd, const void *buf, size_t len, off_t at), fd, buf, cut(len), at)
WRAP(ssize_t, pwrite64, (int fd, const void *buf, size_t len, off_t at), fd, buf, cut(len), at)
WRAP(ssize_t, recv, (int fd, void *buf, size_t len, int flags), fd, buf, len, flags)
WRAP(ssize_t, readv, (int fd, const struct iovec *iov, int n), fd, iov, n)
WRAP(ssize_t, sendmsg, (int fd, const struct msghdr *m, int flags), fd, m, flags)
WRAP(int, ftruncate, (int fd, off_t len), fd, len)
WRAP(int, ftruncate64, (int fd, off_t len), fd, len)
WRAP(int, fallocate, (int fd, int mode, off_t at, off_t len), fd, mode, at, len)
WRAP(int, fallocate64, (int fd, int mode, off_t at, off_t len), fd, mode, at, len)
WRAP(int, linkat, (int from, const char *a, int to, const char *b, int flags), from, a, to, b,
     flags)
WRAP(int, renameat, (int from, const char *a, int to, const char *b), from, a, to, b)
WRAP(int, renameat2, (int from, const char *a, int to, const char *b, unsigned flags), from, a, to,
     b, flags)
WRAP(int, rename, (const char *a, const char *b), a, b)
WRAP(int, unlinkat, (int dir, const char *name, int flags), dir, name, flags)
WRAP(int, epoll_wait, (int fd, struct epoll_event *e, int n, int ms), fd, e, n, ms)

#define OPEN(name, parameters, ...)                                               \
	int name parameters                                                       \
	{                                                                         \
		static atomic_uint calls;                                         \
		va_list ap;                                                       \
		va_start(ap, flags);                                              \
		int mode = flags & (O_CREAT | __O_TMPFILE) ? va_arg(ap, int) : 0; \
		va_end(ap);                                                       \
		int(*fn) parameters = (int(*) parameters)real(#name);             \
		return interrupted(&calls) ? -1 : fn(__VA_ARGS__, mode);          \
	}

OPEN(open, (const char *path, int flags, ...), path, flags)
OPEN(open64, (const char *path, int flags, ...), path, flags)
OPEN(openat, (int dir, const char *path, int flags, ...), dir, path, flags)
OPEN(openat64, (int dir, const char *path, int flags, ...), dir, path, flags)

/* Linux has closed the descriptor all the same. */
int close(int fd)
{
	static atomic_uint calls;
	int (*fn)(int) = (int (*)(int))real("close");
	int ret = fn(fd);
	return ret == 0 && interrupted(&calls) ? -1 : ret;
}

/* The connection comes about all the same. */
int connect(int fd, const struct sockaddr *to, socklen_t len)
{
	static atomic_uint calls;
	int (*fn)(int, const struct sockaddr *, socklen_t) =
	        (int (*)(int, const struct sockaddr *, socklen_t))real("connect");
	int ret = fn(fd, to, len);
	return (ret == 0 || errno == EINPROGRESS) && interrupted(&calls) ? -1 : ret;
}

static void shrink(int fd)
{
	int bytes = 1;
	if (fd < 0 || !is("small"))
		return;
	report();
	setsockopt(fd, SOL_SOCKET, SO_SNDBUF, &bytes, sizeof bytes);
	setsockopt(fd, SOL_SOCKET, SO_RCVBUF, &bytes, sizeof bytes);
}

int accept4(int fd, struct sockaddr *from, socklen_t *len, int flags)
{
	static atomic_uint calls;
	int (*fn)(int, struct sockaddr *, socklen_t *, int) =
	        (int (*)(int, struct sockaddr *, socklen_t *, int))real("accept4");
	int got = interrupted(&calls) ? -1 : fn(fd, from, len, flags);
	shrink(got);
	return got;
}

int socket(int domain, int type, int protocol)
{
	int (*fn)(int, int, int) = (int (*)(int, int, int))real("socket");
	int fd = fn(domain, type, protocol);
	if (domain != AF_UNIX)
		shrink(fd);
	return fd;
}

int fsync(int fd)
{
	static atomic_uint calls;
	int (*fn)(int) = (int (*)(int))real("fsync");
	struct stat st;
	if (is("fsync") && fstat(fd, &st) == 0 && S_ISREG(st.st_mode)) {
		int (*open_file)(const char *, int, ...) =
		        (int (*)(const char *, int, ...))real("open");
		int go = open_file(getenv("FLAKY_GO"), O_RDONLY | O_CLOEXEC);
		char end;
		if (go >= 0 && read(go, &end, 1) == 0)
			close(go);
	}
	return interrupted(&calls) ? -1 : fn(fd);
}

/* ---- the wall clock ---- */

static time_t jump(void)
{
	static atomic_uint looks;
	unsigned n = atomic_fetch_add(&looks, 1);
	if (!is("clock"))
		return 0;
	report();
	return (time_t)(n % 2 ? -1 : 1) * 3600 * (time_t)(1 + n % 100);
}

int clock_gettime(clockid_t clock, struct timespec *t)
{
	int (*fn)(clockid_t, struct timespec *) =
	        (int (*)(clockid_t, struct timespec *))real("clock_gettime");
	int ret = fn(clock, t);
	if (ret == 0 && (clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE))
		t->tv_sec += jump();
	return ret;
}

int gettimeofday(struct timeval *restrict t, void *restrict zone)
{
	int (*fn)(struct timeval *, void *) =
	        (int (*)(struct timeval *, void *))real("gettimeofday");
	int ret = fn(t, zone);
	if (ret == 0)
		t->tv_sec += jump();
	return ret;
}

time_t time(time_t *to)
{
	time_t (*fn)(time_t *) = (time_t(*)(time_t *))real("time");
	time_t t = fn(NULL) + jump();
	if (to)
		*to = t;
	return t;
}
