#include "lib/base/io.h"
#include "lib/base/private.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

void private_process(struct rlimit *before)
{
	struct rlimit l;
	if (getrlimit(RLIMIT_CORE, &l) == 0) {
		if (before)
			*before = l;
		l.rlim_cur = 0; /* a core helper behind a pipe checks the dumpable flag instead */
		(void)setrlimit(RLIMIT_CORE, &l);
	}
	(void)prctl(PR_SET_DUMPABLE, 0);
}

void wipe(void *p, size_t len)
{
	if (p && len)
		explicit_bzero(p, len);
}

void wipe_text(char *text)
{
	if (text)
		wipe(text, strlen(text));
}

void wipe_free(char *text)
{
	wipe_text(text);
	free(text);
}

char *private_variable(const char *name, struct err *err)
{
	char *value = getenv(name), *copy = NULL;
	if (!value)
		return NULL;
	if (*value)
		copy = err_strdup(value, name, err);
	wipe_text(value);
	return copy;
}

/* Not setenv: it leaves copies on the stack and in libc's own table. */
int private_set_variable(const char *name, const char *value)
{
	char *text;
	if (asprintf(&text, "%s=%s", name, value) < 0)
		return -1;
	if (putenv(text) == 0)
		return 0;
	wipe_free(text);
	return -1;
}

/* Only processes that hold a file without a name (memfd, O_TMPFILE) can open it, whatever its mode.
 */
static int check(const struct stat *st, const char *origin, const char *file, struct err *err)
{
	if (!S_ISREG(st->st_mode) || st->st_nlink == 0)
		return 0;
	if (st->st_uid != geteuid() && st->st_uid != 0)
		return err_set(
		        err, ERR_AUTH,
		        "%s: its owner is user %u, who can read and change it: expected user "
		        "%u or root; chown %u %s",
		        origin, (unsigned)st->st_uid, (unsigned)geteuid(), (unsigned)geteuid(),
		        file);
	if (st->st_mode & 077)
		return err_set(err, ERR_AUTH,
		               "%s: mode %04o lets other users read or write it; chmod 600 %s",
		               origin, (unsigned)st->st_mode & 07777, file);
	return 0;
}

static ssize_t read_all(int fd, const char *origin, void *buf, size_t cap, struct err *err)
{
	ssize_t len = read_full(fd, buf, cap);
	if (len < 0) {
		err_errno(err, ERR_AUTH, "%s", origin);
		wipe(buf, cap);
	}
	return len;
}

/* @pipes NULL: the file may be a pipe, and @origin is not a path. */
static ssize_t read_checked(int fd, const char *origin, const char *pipes, void *buf, size_t cap,
                            struct err *err)
{
	struct stat st;
	if (fstat(fd, &st) < 0)
		return err_errno(err, ERR_AUTH, "%s", origin);
	if (pipes && !S_ISREG(st.st_mode))
		return err_set(err, ERR_AUTH, "%s: not a regular file; %s", origin, pipes);
	if (check(&st, origin, pipes ? origin : "the file", err) < 0)
		return -1;
	return read_all(fd, origin, buf, cap, err);
}

ssize_t private_file(const char *path, const char *pipes, void *buf, size_t cap, struct err *err)
{
	/* With O_NONBLOCK, open does not block on a fifo, which is refused afterwards. Symbolic
	 * links are followed: the check applies to the file that they name. */
	int fd = io_retry(open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK));
	if (fd < 0)
		return err_errno(err, ERR_AUTH, "%s", path);
	ssize_t n = read_checked(fd, path, pipes, buf, cap, err);
	close(fd);
	return n;
}

ssize_t private_fd(int fd, const char *origin, void *buf, size_t cap, struct err *err)
{
	ssize_t n = read_checked(fd, origin, NULL, buf, cap, err);
	close(fd);
	return n;
}

int private_line(const char *path, const char *pipes, char *text, size_t cap, struct err *err)
{
	ssize_t n = private_file(path, pipes, text, cap, err);
	if (n < 0)
		return -1;
	size_t len = strnlen(text, (size_t)n);
	const char *end = memchr(text, '\n', len);
	if (!end && (size_t)n == cap) {
		wipe(text, cap);
		return err_set(err, ERR_AUTH, "%s: its first line has more than %zu bytes", path,
		               cap - 1);
	}
	if (end)
		len = (size_t)(end - text);
	if (len && text[len - 1] == '\r')
		len--;
	wipe(text + len, cap - len);
	return 0;
}
