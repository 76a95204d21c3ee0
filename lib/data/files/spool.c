#include "lib/data/files/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "lib/base/io.h"

#define CHUNK (256u << 10)

const char *spool_folder(void)
{
	const char *dir = getenv("TMPDIR");
	return dir && *dir ? dir : "/tmp";
}

int spool_open(struct err *err)
{
	char path[4096];
	int fd = io_retry(open(spool_folder(), O_TMPFILE | O_RDWR | O_CLOEXEC, 0600));
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

/* Wait for data, because a FIFO without a writer looks like one at its end. */
static int await_data(int fd, const char *name, struct err *err)
{
	struct pollfd in = {.fd = fd, .events = POLLIN};
	while (poll(&in, 1, -1) < 0)
		if (errno != EINTR)
			return err_errno(err, ERR_INPUT, "%s", name);
	return 0;
}

int spool_copy(int from, const char *from_name, int to, const char *to_name, int to_code,
               int (*await)(void *ctx, int fd, struct err *err), void *ctx, struct err *err)
{
	char *buf = err_malloc(CHUNK, "copying", err);
	ssize_t got = 0;
	if (!buf)
		return -1;
	for (;;) {
		got = await ? await(ctx, from, err) : await_data(from, from_name, err);
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
