#include "lib/data/files/outfile_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/io.h"

/* ---- one output ---- */

/* Some file systems (NFS) report a failed write only at close. Closing a duplicate reports it while
 * the file can still be discarded. */
static int check_close(const struct outfile *f, struct err *err)
{
	int ret;
	do { /* an interrupted close reports nothing, so close another duplicate */
		int fd = fcntl(f->fd, F_DUPFD_CLOEXEC, 0);
		if (fd < 0)
			return err_errno(err, ERR_RESOURCE, "%s: no file descriptor left", f->path);
		ret = close(fd);
	} while (ret && errno == EINTR);
	return ret ? outfile_write_error(f, "cannot close", err) : 0;
}

static int check_size(const struct outfile *f, struct err *err)
{
	struct stat st;
	if (fstat(f->fd, &st))
		return err_errno(err, ERR_OUTPUT, "%s: cannot examine what was written", f->path);
	if ((uint64_t)st.st_size != f->size)
		return err_set(err, ERR_OUTPUT, "%s: is %llu bytes long after writing, not %llu",
		               f->path, (unsigned long long)st.st_size,
		               (unsigned long long)f->size);
	return 0;
}

/* rename(2) needs a name, so link an unnamed file to a temporary name first. */
static int link_temp(struct outfile *f, struct err *err)
{
	char proc[32];
	outfile_proc_path(f->fd, proc);
	outfile_lock_temp(f);
	int error = outfile_link_to(f, AT_FDCWD, proc, AT_SYMLINK_FOLLOW, &f->temp, err);
	if (error > 0) {
		errno = error;
		err_errno(err, ERR_OUTPUT, "%s: cannot link the file into its folder", f->path);
	}
	return error ? -1 : 0;
}

/* Rename the temporary file @from to @to. NFS has no such flag, and a filter of system calls may
 * refuse renameat2. */
static int rename_temp(const struct outfile *f, const char *from, const char *to)
{
	if (io_retry(renameat2(f->dirfd, from, f->dirfd, to, RENAME_NOREPLACE)) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS && errno != EOPNOTSUPP && errno != EPERM)
		return -1;
	return io_retry(renameat(f->dirfd, from, f->dirfd, to));
}

/* After the seal only the last rename can fail. Try one from a temporary name to another: names may
 * be created, but not changed, in a folder for appending, or by rules of a security module. */
static int try_rename(struct outfile *f, struct err *err)
{
	char *name = outfile_temp_name(f, err);
	if (!name)
		return -1;
	char *before = f->temp;
	const bool renamed = rename_temp(f, before, name) == 0;
	/* The next job looks for a part under its name. */
	const bool back = renamed && f->part && rename_temp(f, name, before) == 0;
	const bool ok = renamed && back == f->part;
	if (!ok)
		err_errno(err, ERR_OUTPUT, "%s: cannot rename a file in its folder", f->path);
	if (renamed && !back) {
		f->temp = name;
		f->part = false;
		name = before;
	}
	free(name);
	return ok ? 0 : -1;
}

/* What outfile_open has checked may have changed since. */
int outfile_check_place(struct outfile *f, struct err *err)
{
	int mode;
	if (outfile_check_target(f, &mode, err))
		return -1;
	return f->shared ? 0 : try_rename(f, err);
}

int outfile_seal(struct outfile *f, struct err *err)
{
	/* If the job ends now, the next one must be able to open it. */
	if (f->part && io_retry(fchmod(f->fd, f->mode | S_IRUSR | S_IWUSR)))
		return err_errno(err, ERR_OUTPUT, "%s: cannot set the permissions", f->path);
	if (f->sync && writeback_sync(&f->back, f->fd, f->size))
		return outfile_write_error(f, "cannot sync to disk", err);
	if (check_close(f, err) || check_size(f, err))
		return -1;
	return (!f->temp && link_temp(f, err)) || outfile_check_place(f, err) ? -1 : 0;
}

/* Check that @name is still our file: a user with write access to the folder may have replaced it.
 */
static int check_ours(const struct outfile *f, const char *name, const char *what, struct err *err)
{
	struct stat ours = {.st_dev = f->device, .st_ino = f->inode}, there;
	if ((f->fd >= 0 && fstat(f->fd, &ours)) ||
	    fstatat(f->dirfd, name, &there, AT_SYMLINK_NOFOLLOW))
		return err_errno(err, ERR_OUTPUT, "%s: cannot examine %s", f->path, what);
	if (!io_same_file(&ours, &there))
		return err_set(err, ERR_OUTPUT, "%s: %s was replaced by another", f->path, what);
	return 0;
}

static int rename_into_place(const struct outfile *f)
{
	return f->absent ? rename_temp(f, f->temp, f->name)
	                 : io_retry(renameat(f->dirfd, f->temp, f->dirfd, f->name));
}

int outfile_place(struct outfile *f, struct err *err)
{
	if (check_ours(f, f->temp, "the temporary file", err))
		return -1;
	if (f->part && (f->mode & 0600) != 0600 && io_retry(fchmod(f->fd, f->mode)))
		return err_errno(err, ERR_OUTPUT, "%s: cannot set the permissions", f->path);
	int ret = rename_into_place(f);
	if (ret && f->absent && f->fresh && errno == EEXIST)
		return err_set(err, ERR_OUTPUT,
		               "%s: a file with this name has appeared meanwhile, and another rank "
		               "has chosen the name: give --force to replace it",
		               f->path);
	if (ret && f->absent && errno == EEXIST) { /* it is not absent any more */
		f->absent = false;
		ret = outfile_keep(f, err) ? -1 : rename_into_place(f);
	}
	if (ret)
		return err_errno(err, ERR_OUTPUT, "%s: cannot rename the new file into place",
		                 f->path);
	f->committed = true;
	outfile_drop_name(&f->temp);
	return 0;
}

int outfile_settle(struct outfile *f, struct err *err)
{
	if (f->kept)
		io_retry(unlinkat(f->dirfd, f->kept, 0));
	outfile_drop_name(&f->kept);
	/* Ignore folders that do not support fsync (EINVAL). */
	if (f->sync && !f->shared && io_retry(fsync(f->dirfd)) && errno != EINVAL)
		return err_errno(err, ERR_OUTPUT, "%s: is in place, but cannot sync its folder",
		                 f->path);
	return 0;
}

int outfile_commit(struct outfile *f, struct err *err)
{
	return outfile_place(f, err) ? -1 : outfile_settle(f, err);
}

/* ---- all or none of several ---- */

void outfile_share_folder(struct outfile *f, const struct outfile *with)
{
	if (!f->shared)
		close(f->dirfd);
	f->dirfd = with->dirfd;
	f->shared = true;
}

int outfile_keep(struct outfile *f, struct err *err)
{
	if (f->absent)
		return 0;
	int error = outfile_link_to(f, f->dirfd, f->name, 0, &f->kept, err);
	f->absent = error == ENOENT;
	switch (error) {
	case 0:
	case ENOENT:
	case EPERM:
	case EOPNOTSUPP:
	case ENOSYS:
	case EMLINK:
		return 0;
	case -1:
		return -1;
	default:
		errno = error;
		return err_errno(err, ERR_OUTPUT, "%s: cannot keep the old file", f->path);
	}
}

/* Remove a placed file that replaced none. */
static int remove_placed(struct outfile *f, struct err *err)
{
	if (io_retry(unlinkat(f->dirfd, f->name, 0)))
		return err_errno(err, ERR_OUTPUT, "%s: cannot remove the new file", f->path);
	return 0;
}

static int put_back(struct outfile *f, struct err *err)
{
	if (!f->kept)
		return err_set(err, ERR_OUTPUT, "%s: is in place: the old file could not be kept",
		               f->path);
	if (!io_retry(renameat(f->dirfd, f->kept, f->dirfd, f->name))) {
		outfile_drop_name(&f->kept);
		return 0;
	}
	err_errno(err, ERR_OUTPUT, "%s: the old file cannot be restored: it has the name '%s'",
	          f->path, f->kept);
	outfile_drop_name(&f->kept); /* keeps the old file under this name */
	return -1;
}

int outfile_undo(struct outfile *f, struct err *err)
{
	if (check_ours(f, f->name, "the file in place", err) ||
	    (f->absent ? remove_placed(f, err) : put_back(f, err)))
		return -1;
	f->committed = false;
	if (f->sync)
		io_retry(fsync(f->dirfd)); /* the error to report is the one that caused the undo */
	return 0;
}
