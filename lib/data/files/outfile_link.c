/* Outputs that are symbolic links, or hard links to other outputs. See outfile.h. */
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/data/files/outfile_internal.h"

static int make_symlink(struct outfile *f, const char *name, void *ctx)
{
	(void)ctx;
	return symlinkat(f->points_to, f->dirfd, name);
}

/* Make the symbolic link, with a temporary name. */
static int make_named(struct outfile *f, struct err *err)
{
	const int error = outfile_make_temp(f, &f->temp, make_symlink, NULL, err);
	if (error <= 0)
		return error;
	errno = error;
	return err_errno(err, ERR_OUTPUT, "%s: cannot make a symbolic link in its folder", f->path);
}

/* Find before data move whether the folder, and the file system, take the link. */
static int try_symlink(struct outfile *f, struct err *err)
{
	if (make_named(f, err))
		return -1;
	io_retry(unlinkat(f->dirfd, f->temp, 0));
	free(f->temp);
	f->temp = NULL;
	return 0;
}

int outfile_open_link(struct outfile *f, const char *path, size_t top, const char *points_to,
                      bool sync, bool force, struct err *err)
{
	int mode, ret = outfile_find_target(f, path, top, 0, sync, force, err);
	f->points_to = points_to;
	if (ret == 0)
		ret = outfile_check_target(f, &mode, err);
	if (ret == 0 && points_to)
		ret = try_symlink(f, err);
	if (ret)
		outfile_release(f);
	return ret;
}

static const struct sparse no_holes;

/* Make it a copy of the file @from, with the same attributes. */
static int copy(struct outfile *f, int from, struct err *err)
{
	struct stat st;
	if (fstat(from, &st))
		return err_errno(err, ERR_OUTPUT, "%s: cannot examine the file to link to",
		                 f->path);
	f->size = (uint64_t)st.st_size;
	f->has_mode = true;
	f->mode = st.st_mode & 0777;
	if (outfile_open_named(f, err) || outfile_copy(f, from, &no_holes, err) ||
	    outfile_set_mode(f, st.st_mode & 0777, err) || outfile_set_time(f, st.st_mtim, err))
		return -1;
	return f->sync && io_retry(fsync(f->fd))
	               ? outfile_write_error(f, "cannot sync to disk", err)
	               : 0;
}

/* Does linkat fail with this because the file system has no such links, or rules forbid this one?
 * ENOENT: there is no /proc. */
static bool needs_copy(int error)
{
	return error == ENOENT || error == EPERM || error == EXDEV || error == EMLINK ||
	       error == EOPNOTSUPP || error == ENOSYS;
}

int outfile_seal_symlink(struct outfile *f, const struct timespec *modified, struct err *err)
{
	struct stat st;
	if (make_named(f, err))
		return -1;
	if (modified) {
		const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, *modified};
		if (io_retry(utimensat(f->dirfd, f->temp, times, AT_SYMLINK_NOFOLLOW)))
			return err_errno(err, ERR_OUTPUT, "%s: cannot set the modification time",
			                 f->path);
	}
	if (fstatat(f->dirfd, f->temp, &st, AT_SYMLINK_NOFOLLOW))
		return err_errno(err, ERR_OUTPUT, "%s: cannot examine the link", f->path);
	f->device = st.st_dev;
	f->inode = st.st_ino;
	return outfile_check_place(f, err);
}

int outfile_seal_link(struct outfile *f, int to, struct err *err)
{
	char proc[32];
	outfile_proc_path(to, proc);
	const int error = outfile_link_to(f, AT_FDCWD, proc, AT_SYMLINK_FOLLOW, &f->temp, err);
	if (needs_copy(error))
		return copy(f, to, err) ? -1 : outfile_check_place(f, err);
	if (error > 0) {
		errno = error;
		return err_errno(err, ERR_OUTPUT, "%s: cannot link the file into its folder",
		                 f->path);
	}
	if (error < 0)
		return -1;
	f->fd = io_retry(openat(f->dirfd, f->temp, O_PATH | O_NOFOLLOW | O_CLOEXEC));
	if (f->fd < 0)
		return err_errno(err, ERR_OUTPUT, "%s: cannot open the link", f->path);
	return outfile_check_place(f, err);
}
