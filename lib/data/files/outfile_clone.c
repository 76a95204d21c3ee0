/* Outputs that are clones of other files, or copies. See outfile.h. */
#include <errno.h>
#include <linux/fs.h>
#include <stdlib.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/base/offload.h"
#include "lib/data/files/outfile_internal.h"

#define COPY_BYTES (256u << 10)

struct copy {
	struct outfile *f;
	int from;
	char *buf;
};

static int copy_range(void *ctx, uint64_t offset, uint64_t bytes, struct err *err)
{
	const struct copy *c = ctx;
	for (uint64_t n; bytes; offset += n, bytes -= n) {
		n = bytes < COPY_BYTES ? bytes : COPY_BYTES;
		errno = 0;
		if (offload_stopped(err))
			return -1;
		if (pread_full(c->from, c->buf, n, offset) != (ssize_t)n)
			return err_errno(err, ERR_OUTPUT, "%s: cannot read the file to copy",
			                 c->f->path);
		if (outfile_pwrite(c->f, c->buf, n, offset, err))
			return -1;
	}
	return 0;
}

int outfile_copy(struct outfile *f, int from, const struct sparse *data, struct err *err)
{
	struct copy c = {f, from, err_malloc(COPY_BYTES, "staging", err)};
	const int ret = c.buf ? sparse_visit(data, 0, f->size, copy_range, &c, err) : -1;
	free(c.buf);
	return ret;
}

/* An empty file can be a clone of itself: the call succeeds where the file system has clones, and
 * changes nothing. */
bool outfile_may_clone(const struct outfile *f)
{
	return ioctl(f->fd, FICLONE, f->fd) == 0;
}

/* With a length, a clone of a part is an error, and not a success. Returns 0 or errno. */
static int share_blocks(int to, int from, uint64_t size)
{
	const struct file_clone_range all = {.src_fd = from, .src_length = size};
	struct stat st;
	if (size == 0)
		return 0;
	if (io_retry(ioctl(to, FICLONERANGE, &all)) || fstat(to, &st))
		return errno;
	return (uint64_t)st.st_size == size ? 0 : EIO;
}

int outfile_clone(struct outfile *f, int from, uint64_t size, const struct sparse *data, int *error,
                  struct err *err)
{
	*error = share_blocks(f->fd, from, size);
	f->size = size;
	if (!*error)
		return 0;
	if (io_retry(ftruncate(f->fd, 0)))
		return outfile_write_error(f, "cannot cut a clone that has failed", err);
	const int ret = data->sparse ? outfile_make_sparse(f, size, data, err)
	                             : outfile_allocate(f, size, err);
	return ret ? -1 : outfile_copy(f, from, data, err);
}
