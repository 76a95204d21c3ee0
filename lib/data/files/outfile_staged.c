/* Outputs whose bytes are staged: files are created when they are sealed. See outfile.h. */
#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/data/files/outfile_internal.h"

int outfile_open_staged(struct outfile *f, const char *path, size_t top, uint64_t size, bool sync,
                        bool force, const struct outfile *beside, struct err *err)
{
	int mode;
	const int found = beside ? outfile_find_beside(f, path, size, sync, force, beside, err)
	                         : outfile_find_target(f, path, top, size, sync, force, err);
	if (found == 0 && outfile_check_target(f, &mode, err) == 0 &&
	    (beside || outfile_check_folder(f, err) == 0)) {
		f->staged = true;
		if (mode >= 0)
			outfile_set_mode(f, (unsigned)mode, err);
		return 0;
	}
	outfile_release(f);
	return -1;
}

static int fill(struct outfile *f, const void *data, const struct timespec *modified, bool sync,
                struct err *err)
{
	struct stat st;
	if (pwrite_all(f->fd, data, f->size, 0) < 0)
		return outfile_write_error(f, "cannot write", err);
	if (fstat(f->fd, &st))
		return err_errno(err, ERR_OUTPUT, "%s: cannot examine what was written", f->path);
	/* The umask may have left some out. */
	if (f->has_mode && (st.st_mode & 07777) != f->mode && io_retry(fchmod(f->fd, f->mode)))
		return err_errno(err, ERR_OUTPUT, "%s: cannot set the permissions", f->path);
	if (modified && outfile_set_time(f, *modified, err))
		return -1;
	if (sync && io_retry(fsync(f->fd)))
		return outfile_write_error(f, "cannot sync to disk", err);
	f->device = st.st_dev;
	f->inode = st.st_ino;
	return 0;
}

int outfile_seal_staged(struct outfile *f, const void *data, const struct timespec *modified,
                        bool sync, struct err *err)
{
	if (outfile_open_named(f, err) || fill(f, data, modified, sync, err))
		return -1;
	const int fd = f->fd;
	f->fd = -1;
	/* Linux has closed it, also if a signal interrupted that. */
	if (close(fd) && errno != EINTR)
		return outfile_write_error(f, "cannot close", err);
	return outfile_check_place(f, err);
}
