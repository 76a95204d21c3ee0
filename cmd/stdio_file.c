#include "cmd/stdio_file.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/io.h"

#define CHUNK (256u << 10)

static const char *spool_folder(void)
{
	const char *dir = getenv("TMPDIR");
	return dir && *dir ? dir : "/tmp";
}

static int spool_fd(struct err *err)
{
	char path[4096];
	int fd = open(spool_folder(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd < 0) { /* a file system without unnamed files */
		snprintf(path, sizeof path, "%s/collctl-spool-XXXXXX", spool_folder());
		fd = mkostemp(path, O_CLOEXEC);
		if (fd >= 0)
			unlink(path);
	}
	if (fd < 0)
		return err_errno(err, ERR_RESOURCE, "%s: a spool file", spool_folder());
	return fd;
}

/* Copy to the end of @from. */
static int copy(int from, int to, const char *from_name, const char *to_name, int to_code,
                stdio_await *await, void *ctx, struct err *err)
{
	char *buf = malloc(CHUNK);
	ssize_t got = 0;
	if (!buf)
		return err_nomem(err, "copying", CHUNK);
	for (;;) {
		got = await ? await(ctx, from, err) : 0;
		if (got < 0)
			break;
		got = read(from, buf, CHUNK);
		if (got == 0)
			break;
		if (got < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (got < 0) {
			err_errno(err, ERR_INPUT, "%s", from_name);
			break;
		}
		if (write_all(to, buf, (size_t)got) < 0) {
			got = err_errno(err, to_code, "%s", to_name);
			break;
		}
	}
	free(buf);
	return got < 0 ? -1 : 0;
}

/* Spool all that comes from @from, and open the spool as the file @name. */
static int open_spooled(struct array_file *f, int from, const char *name,
                        const struct array_hints *hints, stdio_await *await, void *ctx,
                        struct err *err)
{
	char proc[64];
	int fd = spool_fd(err);
	if (fd < 0)
		return -1;
	snprintf(proc, sizeof proc, "/proc/self/fd/%d", fd);
	int ret = copy(from, fd, name, "the spool of what came", ERR_RESOURCE, await, ctx, err);
	if (ret == 0)
		ret = array_open(f, proc, hints, err);
	close(fd);
	if (ret < 0)
		return -1;
	free(f->path);
	f->path = strdup(name);
	return f->path ? 0 : err_nomem(err, "a name", strlen(name));
}

int stdio_array_open(struct array_file *f, const char *path, const struct array_hints *hints,
                     stdio_await *await, void *ctx, struct err *err)
{
	struct array_hints h = *hints;
	struct err no_name = {.rank = ERR_RANK_SELF};
	struct stat st;
	bool is_stdin = strcmp(path, "-") == 0;
	if (!is_stdin && (stat(path, &st) < 0 || !S_ISFIFO(st.st_mode)))
		return array_open(f, path, hints, err);
	if (h.format == ARRAY_FORMAT_AUTO &&
	    (is_stdin || array_format_of(path, ARRAY_FORMAT_AUTO, &h.format, &no_name) < 0))
		h.format = h.dtype == DTYPE_NONE || h.dtype == DTYPE_BF16 ? ARRAY_NPY : ARRAY_RAW;
	if (is_stdin)
		return open_spooled(f, STDIN_FILENO, "stdin", &h, await, ctx, err);
	int fd = open(path, O_RDONLY | O_NONBLOCK | O_CLOEXEC); /* nor waits for a writer */
	if (fd < 0)
		return err_errno(err, ERR_INPUT, "%s: cannot open", path);
	int ret = open_spooled(f, fd, path, &h, await, ctx, err);
	close(fd);
	return ret;
}

int stdio_spool_open(struct outfile *f, uint64_t size, struct err *err)
{
	char path[4096];
	snprintf(path, sizeof path, "%s/collctl-stdout", spool_folder());
	return outfile_open(f, path, size, false, false, err);
}

int stdio_spool_copy(struct outfile *f, struct err *err)
{
	if (lseek(f->fd, 0, SEEK_SET) < 0)
		return err_errno(err, ERR_OUTPUT, "the spool of stdout");
	return copy(f->fd, STDOUT_FILENO, "the spool of stdout", "stdout", ERR_OUTPUT, NULL, NULL,
	            err);
}
