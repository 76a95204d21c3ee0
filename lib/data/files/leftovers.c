#include "lib/data/files/leftovers.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/base/entry.h"
#include "lib/base/io.h"
#include "lib/base/path.h"
#include "lib/base/user.h"
#include "lib/data/files/outfile.h"
#include "lib/data/files/part.h"

static int walk(const struct leftovers *l, int fd, const char *path, int depth, struct err *err);

static void tell(const struct leftovers *l, const char *path, enum leftover_fate fate,
                 uint64_t bytes, const char *why)
{
	l->tell(l->ctx, &(struct leftover){path, fate, bytes, why});
}

static bool is_young(const struct leftovers *l, const struct stat *st)
{
	const double changed =
	        (double)st->st_mtim.tv_sec * (double)NS_PER_SEC + (double)st->st_mtim.tv_nsec;
	return (double)clock_wall_ns() - changed < (double)l->age;
}

/* Locks need write access on some file systems. */
static int open_entry(int parent, const char *name)
{
	const int flags = O_NOFOLLOW | O_NONBLOCK | O_NOCTTY | O_CLOEXEC;
	const int fd = io_retry(openat(parent, name, O_RDWR | flags));
	return fd < 0 && errno == EACCES ? io_retry(openat(parent, name, O_RDONLY | flags)) : fd;
}

/* Remove the file @fd, @name in the folder @parent, unless a job uses it. */
static void remove_locked(const struct leftovers *l, int parent, const char *name, int fd,
                          const char *path)
{
	struct stat st;
	if (io_retry(flock(fd, LOCK_EX | LOCK_NB))) {
		if (errno == EWOULDBLOCK)
			tell(l, path, LEFTOVER_USED, 0, NULL);
		else
			tell(l, path, LEFTOVER_FAILED, 0, strerror(errno));
	} else if (fstat(fd, &st) || is_young(l, &st) || !part_is_at(parent, name, fd)) {
		return; /* a job has used it meanwhile */
	} else if (!l->dry_run && io_retry(unlinkat(parent, name, 0))) {
		tell(l, path, LEFTOVER_FAILED, 0, strerror(errno));
	} else {
		tell(l, path, LEFTOVER_REMOVED, (uint64_t)st.st_size, NULL);
	}
}

static void remove_link(const struct leftovers *l, int parent, const char *name, const char *path)
{
	if (!l->dry_run && io_retry(unlinkat(parent, name, 0)))
		tell(l, path, LEFTOVER_FAILED, 0, strerror(errno));
	else
		tell(l, path, LEFTOVER_REMOVED, 0, NULL);
}

/* Do jobs have temporary files in the folder @fd? Not all of these are locked themselves. */
static bool is_used(int fd)
{
	if (io_retry(flock(fd, LOCK_EX | LOCK_NB)))
		return errno == EWOULDBLOCK;
	io_retry(flock(fd, LOCK_UN));
	return false;
}

/* The file or link @name in the folder @parent has the name of what jobs leave. */
static void examine(const struct leftovers *l, int parent, const char *name, const struct stat *st,
                    const char *path)
{
	if (is_young(l, st) || !(user_is_self(st->st_uid) || user_may_own(st->st_uid)))
		return;
	if (!part_is_name(name) && is_used(parent)) {
		tell(l, path, LEFTOVER_USED, 0, NULL);
		return;
	}
	if (outfile_is_kept(name)) {
		tell(l, path, LEFTOVER_KEPT, (uint64_t)st->st_size, NULL);
		return;
	}
	if (S_ISLNK(st->st_mode)) { /* it has no lock */
		remove_link(l, parent, name, path);
		return;
	}
	const int fd = open_entry(parent, name);
	if (fd >= 0)
		remove_locked(l, parent, name, fd, path);
	else if (errno != ENOENT)
		tell(l, path, LEFTOVER_FAILED, 0, strerror(errno));
	if (fd >= 0)
		close(fd);
}

bool leftovers_is_name(const char *name)
{
	return part_is_name(name) || outfile_is_temp(name) || outfile_is_kept(name);
}

/* A part is a file; a link with its name is the user's. */
static bool is_leftover(const char *name, const struct stat *st)
{
	return leftovers_is_name(name) &&
	       (S_ISREG(st->st_mode) || (S_ISLNK(st->st_mode) && !part_is_name(name)));
}

static int enter(const struct leftovers *l, int parent, const char *name, const char *path,
                 int depth, struct err *err)
{
	const int fd =
	        io_retry(openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
	if (fd >= 0 && depth < ENTRY_DEPTH)
		return walk(l, fd, path, depth + 1, err);
	tell(l, path, LEFTOVER_FAILED, 0, fd < 0 ? strerror(errno) : "too many folders in folders");
	if (fd >= 0)
		close(fd);
	return 0;
}

static int take(const struct leftovers *l, int fd, const char *folder, const char *name, int depth,
                struct err *err)
{
	struct stat st;
	const bool there = fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0;
	const bool is_folder = there && S_ISDIR(st.st_mode);
	if (!there || !(is_folder || is_leftover(name, &st)))
		return 0;
	char *path = path_join(folder, name, err);
	int ret = path ? 0 : -1;
	if (path && is_folder)
		ret = enter(l, fd, name, path, depth, err);
	else if (path)
		examine(l, fd, name, &st, path);
	free(path);
	return ret;
}

static int is_entry(const struct dirent *e)
{
	return !entry_is_dots(e->d_name) &&
	       (e->d_type == DT_DIR || e->d_type == DT_UNKNOWN || leftovers_is_name(e->d_name));
}

/* Takes ownership of the folder @fd. */
static int walk(const struct leftovers *l, int fd, const char *path, int depth, struct err *err)
{
	struct dirent **list = NULL;
	const int n = scandirat(fd, ".", &list, is_entry, entry_by_bytes);
	int ret = 0;
	if (n < 0)
		tell(l, path, LEFTOVER_FAILED, 0, strerror(errno));
	for (int i = 0; i < n; i++) {
		if (ret == 0)
			ret = take(l, fd, path, list[i]->d_name, depth, err);
		free(list[i]);
	}
	free(list);
	close(fd);
	return ret;
}

int leftovers_remove(const struct leftovers *l, const char *folder, struct err *err)
{
	const int fd = io_retry(open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC));
	if (fd < 0)
		return err_errno(err, ERR_INPUT, "%s: cannot open the folder", folder);
	return walk(l, fd, folder, 0, err);
}
