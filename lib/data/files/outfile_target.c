#include "lib/data/files/outfile_internal.h"

#include <errno.h>
#include <fcntl.h>
#include <sys/stat.h>

#include "lib/base/user.h"
#include "lib/data/files/target.h"

static const char *kind_of(mode_t mode)
{
	switch (mode & S_IFMT) {
	case S_IFDIR:
		return "a directory";
	case S_IFLNK:
		return "a symbolic link";
	case S_IFIFO:
		return "a FIFO";
	case S_IFSOCK:
		return "a socket";
	default:
		return "a device";
	}
}

static int refuse_kind(const char *path, mode_t mode, const char *expected, struct err *err)
{
	return err_set(err, ERR_OUTPUT, "%s: is %s: expected a %s or none%s", path, kind_of(mode),
	               expected, S_ISFIFO(mode) ? "; only -o - writes to a pipe" : "");
}

int outfile_check_kind(const char *path, struct err *err)
{
	struct stat st;
	if (stat(path, &st) || S_ISREG(st.st_mode) || S_ISDIR(st.st_mode))
		return 0;
	return refuse_kind(path, st.st_mode, "regular file", err);
}

static int refuse_link(const struct outfile *f, const struct stat *link, struct err *err)
{
	struct stat folder;
	if (f->below)
		return err_set(
		        err, ERR_OUTPUT,
		        "%s: is a symbolic link, which is not followed in this folder: remove it",
		        f->path);
	if (fstat(f->dirfd, &folder) || !target_trusts(link, &folder))
		return target_refuse(f->path, link, err);
	return err_set(err, ERR_OUTPUT,
	               "%s: is a symbolic link: name the file itself, or give --force to "
	               "replace the file that it points to",
	               f->path);
}

/* Find by attributes that a rename in the folder, or over the target, would fail. */
static int check_attributes(const struct outfile *f, const char *name, struct err *err)
{
	const char *whose = *name ? "" : "its folder ", *what;
	struct statx sx;
	if (statx(f->dirfd, name, AT_SYMLINK_NOFOLLOW | (*name ? 0 : AT_EMPTY_PATH), 0, &sx))
		return 0;
	if (sx.stx_attributes & STATX_ATTR_IMMUTABLE)
		what = "immutable (chattr -i changes that)";
	else if (sx.stx_attributes & STATX_ATTR_APPEND)
		what = "only for appending (chattr -a changes that)";
	else if (*name && sx.stx_attributes & STATX_ATTR_MOUNT_ROOT)
		what = "a mount point: write into a folder that is mounted";
	else
		return 0;
	return err_set(err, ERR_OUTPUT, "%s: %sis %s", f->path, whose, what);
}

/* In a folder with the sticky bit, only its owner and the file's may replace a file. */
static int check_sticky(const struct outfile *f, const struct stat *target, struct err *err)
{
	struct stat folder;
	if (fstat(f->dirfd, &folder) || !(folder.st_mode & S_ISVTX) ||
	    user_is_self(target->st_uid) || user_is_self(folder.st_uid) ||
	    user_may_own(target->st_uid))
		return 0;
	return err_set(err, ERR_OUTPUT,
	               "%s: belongs to user %u, and its folder lets only that user replace it",
	               f->path, (unsigned)target->st_uid);
}

/* A symbolic link at the target is replaced itself; --force does that below the user's folder
 * alone, elsewhere it follows the link. */
static bool replaces_link(const struct outfile *f)
{
	return f->points_to || (f->below && f->force);
}

/* Check that the target may be replaced. *mode: the permissions of the existing file, or -1. */
int outfile_check_target(struct outfile *f, int *mode, struct err *err)
{
	struct stat st;
	*mode = -1;
	f->absent = false;
	if (!f->shared && check_attributes(f, "", err))
		return -1;
	if (fstatat(f->dirfd, f->name, &st, AT_SYMLINK_NOFOLLOW)) {
		f->absent = errno == ENOENT;
		if (f->absent)
			return 0;
		return err_errno(err, ERR_OUTPUT, "%s: cannot examine the target", f->path);
	}
	if (S_ISLNK(st.st_mode) && !replaces_link(f))
		return refuse_link(f, &st, err);
	if (S_ISREG(st.st_mode) && f->points_to && !f->force)
		return err_set(err, ERR_OUTPUT,
		               "%s: is a file: expected a symbolic link or none: remove it, or "
		               "give --force to replace it",
		               f->path);
	if (!S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		return refuse_kind(f->path, st.st_mode,
		                   f->points_to ? "symbolic link" : "regular file", err);
	if (check_attributes(f, f->name, err) || check_sticky(f, &st, err))
		return -1;
	if (S_ISREG(st.st_mode))
		*mode = (int)(st.st_mode & (S_IRWXU | S_IRWXG | S_IRWXO));
	return 0;
}
