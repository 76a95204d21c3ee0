#include "lib/data/files/extra.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "lib/base/entry.h"
#include "lib/base/io.h"
#include "lib/base/offload.h"
#include "lib/base/path.h"
#include "lib/data/files/leftovers.h"

#define FOLDER (O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC)

struct search {
	struct extras *extras;
	const struct extra_rules *rules;
	const char *top;
	dev_t device;
	bool ended;
};

/* Does what was examined stay, so that its folder does? */
enum found { FAILED = -1, GOES, STAYS };

static enum found walk(struct search *s, int fd, const char *path, int depth, struct err *err);

static enum found add(struct search *s, const char *path, const struct stat *st, struct err *err)
{
	struct extras *x = s->extras;
	struct extra *list = err_grow(x->list, x->n, sizeof *list, "the files to delete", err);
	if (!list)
		return FAILED;
	x->list = list;
	char *copy = err_strdup(path, "a path", err);
	if (!copy)
		return FAILED;
	list[x->n++] = (struct extra){copy, *st};
	return GOES;
}

static enum found refuse(const struct search *s, const char *path, const char *what,
                         struct err *err)
{
	err_errno(err, ERR_OUTPUT, "%s/%s: --delete cannot %s the folder", s->top, path, what);
	return FAILED;
}

/* Also the root of a mount of the same file system. */
static bool is_mount(const struct search *s, int fd)
{
	struct statx x;
	return statx(fd, "", AT_EMPTY_PATH, STATX_INO, &x) ||
	       (x.stx_attributes & STATX_ATTR_MOUNT_ROOT) ||
	       makedev(x.stx_dev_major, x.stx_dev_minor) != s->device;
}

/* Takes the folder @name of @parent, which is @path. */
static enum found enter(struct search *s, int parent, const char *name, const char *path, int depth,
                        struct err *err)
{
	struct stat st;
	if (s->rules->shuts(s->rules->ctx, path))
		return STAYS;
	const int fd = io_retry(openat(parent, name, FOLDER));
	if (fd < 0)
		return refuse(s, path, "open", err);
	if (depth == ENTRY_DEPTH) {
		close(fd);
		errno = ELOOP;
		return refuse(s, path, "enter", err);
	}
	if (fstat(fd, &st) || is_mount(s, fd)) {
		close(fd);
		return STAYS;
	}
	const enum found found = walk(s, fd, path, depth + 1, err);
	if (found != GOES || s->rules->listed(s->rules->ctx, path) ||
	    s->rules->protects(s->rules->ctx, path, true))
		return found == FAILED ? FAILED : STAYS;
	return add(s, path, &st, err);
}

/* May the symbolic link @name of the folder @fd be removed? */
static bool may_go(const struct search *s, int fd, const char *name, const char *path)
{
	char target[PATH_MAX];
	return s->rules->links && entry_read_link(fd, name, target) == 0 &&
	       path_link_stays(path, target);
}

static enum found take(struct search *s, int fd, const char *folder, const char *name, int depth,
                       struct err *err)
{
	struct stat st;
	if (leftovers_is_name(name))
		return STAYS;
	if (fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW))
		return errno == ENOENT ? GOES : refuse(s, folder, "examine all of", err);
	if (!S_ISDIR(st.st_mode) && !S_ISREG(st.st_mode) && !S_ISLNK(st.st_mode))
		return STAYS;
	char *path = path_join(folder, name, err);
	enum found found = path ? STAYS : FAILED;
	if (path && S_ISDIR(st.st_mode))
		found = enter(s, fd, name, path, depth, err);
	else if (path && !(S_ISLNK(st.st_mode) && !may_go(s, fd, name, path)) &&
	         !s->rules->listed(s->rules->ctx, path) &&
	         !s->rules->protects(s->rules->ctx, path, false))
		found = add(s, path, &st, err);
	free(path);
	return found;
}

static int is_entry(const struct dirent *e)
{
	return !entry_is_dots(e->d_name);
}

/* Takes ownership of the folder @fd. */
static enum found walk(struct search *s, int fd, const char *path, int depth, struct err *err)
{
	struct dirent **list = NULL;
	enum found all = GOES;
	s->ended = s->ended || !s->rules->enters(s->rules->ctx, fd);
	const int n = s->ended ? 0 : scandirat(fd, ".", &list, is_entry, entry_by_bytes);
	if (n < 0)
		all = refuse(s, path, "list", err);
	for (int i = 0; i < n; i++) {
		if (all != FAILED && offload_stopped(err))
			all = FAILED;
		const enum found one = all == FAILED || s->ended
		                               ? STAYS
		                               : take(s, fd, path, list[i]->d_name, depth, err);
		all = one == FAILED || all == FAILED ? FAILED : one == STAYS ? STAYS : all;
		free(list[i]);
	}
	free(list);
	close(fd);
	return all;
}

static void forget(struct extras *x)
{
	for (size_t i = 0; i < x->n; i++)
		free(x->list[i].path);
	free(x->list);
	x->list = NULL;
	x->n = 0;
}

int extras_find(struct extras *x, const char *folder, const struct extra_rules *rules, bool *ended,
                struct err *err)
{
	struct search s = {.extras = x, .rules = rules, .top = folder};
	struct stat st;
	*x = (struct extras){.fd = io_retry(open(folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC))};
	*ended = false;
	if (x->fd < 0 && errno == ENOENT)
		return 0;
	const int fd = x->fd < 0 ? -1 : io_retry(fcntl(x->fd, F_DUPFD_CLOEXEC, 0));
	if (fd < 0 || fstat(fd, &st)) {
		err_errno(err, ERR_OUTPUT, "%s: --delete cannot open the folder", folder);
		if (fd >= 0)
			close(fd);
		return -1;
	}
	s.device = st.st_dev;
	if (walk(&s, fd, "", 0, err) == FAILED)
		return -1;
	if (s.ended)
		forget(x);
	*ended = s.ended;
	return 0;
}

/* ---- removal ---- */

/* Open the folder in which @path is, below @top. */
static int open_parent(int top, const char *path)
{
	char name[NAME_MAX + 1];
	int fd = io_retry(fcntl(top, F_DUPFD_CLOEXEC, 0));
	for (const char *end; fd >= 0 && (end = strchr(path, '/')); path = end + 1) {
		memcpy(name, path, (size_t)(end - path)); /* the walk found a folder of this name */
		name[end - path] = '\0';
		const int next = io_retry(openat(fd, name, FOLDER));
		const int error = errno;
		close(fd);
		errno = error;
		fd = next;
	}
	return fd;
}

/* A file that was written or replaced meanwhile is another, also if it has got the same inode. */
static bool is_same(const struct stat *a, const struct stat *b)
{
	return io_same_file(a, b) && (a->st_mode & S_IFMT) == (b->st_mode & S_IFMT) &&
	       (S_ISDIR(a->st_mode) ||
	        (a->st_size == b->st_size && a->st_mtim.tv_sec == b->st_mtim.tv_sec &&
	         a->st_mtim.tv_nsec == b->st_mtim.tv_nsec));
}

/* Returns 1: removed; 0: left, because it has changed; -1: errno. */
static int remove_one(int top, const struct extra *e)
{
	struct stat st;
	const int fd = open_parent(top, e->path);
	const char *name = path_name(e->path);
	int ret = -1;
	if (fd >= 0 && fstatat(fd, name, &st, AT_SYMLINK_NOFOLLOW) == 0)
		ret = !is_same(&st, &e->was)                                                 ? 0
		      : io_retry(unlinkat(fd, name, S_ISDIR(st.st_mode) ? AT_REMOVEDIR : 0)) ? -1
		                                                                             : 1;
	const int error = errno;
	if (fd >= 0)
		close(fd);
	errno = error;
	const bool changed = error == ENOENT || error == ENOTDIR || error == ELOOP ||
	                     (S_ISDIR(e->was.st_mode) && (error == ENOTEMPTY || error == EEXIST));
	return ret < 0 && changed ? 0 : ret;
}

void extras_remove(struct extras *x)
{
	const size_t most = sizeof x->failures / sizeof *x->failures;
	for (size_t i = 0; i < x->n; i++) {
		const int ret = remove_one(x->fd, &x->list[i]);
		x->removed += ret > 0;
		if (ret >= 0)
			continue;
		if (x->failed < most)
			x->failures[x->failed] = (struct extra_failure){x->list[i].path, errno};
		x->failed++;
	}
}

void extras_release(struct extras *x)
{
	if (x->fd > 0)
		close(x->fd);
	x->fd = -1;
	forget(x);
}
