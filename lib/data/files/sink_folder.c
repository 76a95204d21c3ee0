#include "lib/data/files/sink_folder.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/base/path.h"
#include "lib/data/files/beneath.h"
#include "lib/data/files/part.h"
#include "lib/data/files/target.h"

/* Sync the parent, so that the folder itself is on disk. */
static int sync_parent(const char *path, struct err *err)
{
	char *parent = path_join(path, "..", err);
	if (!parent)
		return -1;
	int fd = io_retry(open(parent, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	/* Ignore folders that cannot be opened or do not support fsync. */
	int ret = fd >= 0 && io_retry(fsync(fd)) && errno != EINVAL ? -1 : 0;
	if (ret)
		err_errno(err, ERR_OUTPUT, "%s: cannot sync the folder", parent);
	if (fd >= 0)
		close(fd);
	free(parent);
	return ret;
}

/* @st: of what has its name; zeros, if a symbolic link cannot be followed. */
static int no_folder(const struct sink_folder *f, const struct stat *st, struct err *err)
{
	return err_set(err, ERR_OUTPUT, "%s: is %s: expected a folder or none", f->path,
	               !st->st_mode           ? "a symbolic link that leads nowhere"
	               : S_ISLNK(st->st_mode) ? "a symbolic link"
	                                      : "a file");
}

/* By errno. */
static int cannot_create(const struct sink_folder *f, struct err *err)
{
	if (errno == ENOENT)
		return err_set(err, ERR_OUTPUT,
		               "%s: cannot create the folder: the folder around it does not exist; "
		               "create that first",
		               f->path);
	return err_errno(err, ERR_OUTPUT, "%s: cannot create the folder", f->path);
}

/* Create the folder @name in @parent. */
static int make_at(struct sink_folder *f, int parent, const char *name, bool sync, bool resume,
                   struct err *err)
{
	struct stat st = {0};
	/* sink_folder_finish sets the permissions of the original when the contents are complete.
	 */
	const mode_t mode = !f->attributes.has_mode ? 0777 : resume ? PART_FOLDER_MODE : 0700;
	if (io_retry(mkdirat(parent, name, mode)) == 0) {
		f->made = true;
		return sync ? sync_parent(f->path, err) : 0;
	}
	int error = errno;
	if (error == EEXIST && fstatat(parent, name, &st, f->top ? AT_SYMLINK_NOFOLLOW : 0) == 0 &&
	    S_ISDIR(st.st_mode)) {
		f->left = resume && part_left_folder(parent, name);
		return 0;
	}
	if (error == EEXIST)
		return no_folder(f, &st, err);
	errno = error;
	return cannot_create(f, err);
}

int sink_folder_make(struct sink_folder *f, bool sync, bool resume, struct err *err)
{
	if (!f->top)
		return target_check_folder(f->path, err)
		               ? -1
		               : make_at(f, AT_FDCWD, f->path, sync, resume, err);
	int parent = beneath_open(f->path, f->top);
	if (parent < 0)
		return cannot_create(f, err);
	int ret = make_at(f, parent, path_name(f->path), sync, resume, err);
	close(parent);
	return ret;
}

/* Find whether the folder @f exists in the folder @in. */
static int check_folder_in(struct sink_folder *f, int in, struct err *err)
{
	struct stat st;
	const char *name = path_name(f->path);
	if (!*name) /* the root */
		return 0;
	f->absent = fstatat(in, name, &st, AT_SYMLINK_NOFOLLOW) && errno == ENOENT;
	if (f->absent) {
		if (faccessat(in, ".", W_OK | X_OK, AT_EACCESS) == 0)
			return 0;
		return cannot_create(f, err);
	}
	if (fstatat(in, name, &st, f->top ? AT_SYMLINK_NOFOLLOW : 0))
		return err_errno(err, ERR_OUTPUT, "%s: cannot examine the folder", f->path);
	return S_ISDIR(st.st_mode) ? 0 : no_folder(f, &st, err);
}

int sink_folder_check(struct sink_folder *f, struct err *err)
{
	if (!f->top && target_check_folder(f->path, err))
		return -1;
	int in = beneath_open(f->path, f->top);
	if (in < 0)
		return cannot_create(f, err);
	int ret = check_folder_in(f, in, err);
	close(in);
	return ret;
}

int sink_folder_finish(const struct sink_folder *f, struct err *err)
{
	const struct sink_attributes *as = &f->attributes;
	const struct timespec times[2] = {{.tv_nsec = UTIME_OMIT}, as->modified};
	if ((!f->made && !f->left) || !as->has_mode)
		return 0;
	int parent = f->top ? beneath_open(f->path, f->top) : AT_FDCWD;
	int fd = parent == -1 ? -1
	                      : openat(parent, f->top ? path_name(f->path) : f->path,
	                               O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	int ret = fd < 0 || io_retry(fchmod(fd, as->mode)) ||
	                          (as->has_time && io_retry(futimens(fd, times)))
	                  ? -1
	                  : 0;
	if (ret)
		err_errno(err, ERR_OUTPUT, "%s: is complete, but its attributes cannot be set",
		          f->path);
	if (fd >= 0)
		close(fd);
	if (f->top && parent >= 0)
		close(parent);
	return ret;
}

void sink_folder_remove(const struct sink_folder *f)
{
	int parent = f->top ? beneath_open(f->path, f->top) : AT_FDCWD;
	if (parent == -1)
		return;
	io_retry(unlinkat(parent, f->top ? path_name(f->path) : f->path, AT_REMOVEDIR));
	if (f->top)
		close(parent);
}
