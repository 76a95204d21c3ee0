#include "lib/base/entry.h"
#include "lib/data/files/target.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/vfs.h>
#include <unistd.h>

#include <xxhash.h>

#include "lib/base/boot.h"
#include "lib/base/io.h"
#include "lib/base/path.h"
#include "lib/base/user.h"

#define MAX_SYMLINKS 40
#define MOUNTS       "/proc/self/mountinfo"

/* ---- finding a file ---- */

bool target_trusts(const struct stat *link, const struct stat *folder)
{
	return user_is_known(link->st_uid) &&
	       (link->st_uid == geteuid() || link->st_uid == 0 || link->st_uid == folder->st_uid);
}

int target_refuse(const char *path, const struct stat *link, struct err *err)
{
	return err_set(err, ERR_OUTPUT,
	               "%s: is a symbolic link of user %u, which is not followed: name the file "
	               "itself",
	               path, (unsigned)link->st_uid);
}

/* Go to the folder of @at and to its last component, from where @t is. @path: for messages. */
static int go(struct target *t, const char *at, const char *path, struct err *err)
{
	const char *name = path_name(at);
	if (!*name || entry_is_dots(name))
		return err_set(err, ERR_OUTPUT, "%s: is a directory: expected the name of a file",
		               path);
	char *folder = path_folder(at, err), *copy = err_strdup(name, "a path", err);
	free(t->name);
	t->name = copy;
	if (!folder || !copy) {
		free(folder);
		return -1;
	}
	int from = t->dirfd;
	t->dirfd = io_retry(
	        openat(from < 0 ? AT_FDCWD : from, folder, O_PATH | O_DIRECTORY | O_CLOEXEC));
	int ret = t->dirfd < 0 ? err_errno(err, ERR_OUTPUT, "%s: cannot open the folder '%s'", path,
	                                   folder)
	                       : 0;
	if (from >= 0)
		close(from);
	free(folder);
	return ret;
}

/* The text of the symbolic link @t, which may be followed; 0: it is none, or nothing is there. */
static ssize_t read_link(const struct target *t, const char *path, char text[PATH_MAX],
                         struct err *err)
{
	struct stat link, folder;
	int fd = io_retry(openat(t->dirfd, t->name, O_PATH | O_NOFOLLOW | O_CLOEXEC));
	if (fd < 0 && errno == ENOENT)
		return 0;
	ssize_t n = -1;
	if (fd < 0 || fstat(fd, &link) || fstat(t->dirfd, &folder))
		err_errno(err, ERR_OUTPUT, "%s: cannot examine the target", path);
	else if (!S_ISLNK(link.st_mode))
		n = 0;
	else if (!target_trusts(&link, &folder))
		target_refuse(path, &link, err);
	else if ((n = readlinkat(fd, "", text, PATH_MAX)) < 0)
		err_errno(err, ERR_OUTPUT, "%s: cannot follow the symbolic link", path);
	if (fd >= 0)
		close(fd);
	if (n == PATH_MAX) {
		errno = ENAMETOOLONG;
		return err_errno(err, ERR_OUTPUT, "%s: cannot follow the symbolic link", path);
	}
	if (n > 0)
		text[n] = '\0';
	return n;
}

int target_find(struct target *t, const char *path, bool follow, struct err *err)
{
	char text[PATH_MAX];
	const char *at = path;
	*t = (struct target){.dirfd = -1};
	for (int i = 0; i <= MAX_SYMLINKS; i++) {
		ssize_t n = go(t, at, path, err) ? -1 : follow ? read_link(t, path, text, err) : 0;
		if (n == 0)
			return 0;
		if (n < 0) {
			target_release(t);
			return -1;
		}
		at = text;
	}
	target_release(t);
	errno = ELOOP;
	return err_errno(err, ERR_OUTPUT, "%s: cannot follow the symbolic link", path);
}

void target_release(struct target *t)
{
	if (t->dirfd >= 0)
		close(t->dirfd);
	free(t->name);
	*t = (struct target){.dirfd = -1};
}

int target_check_folder(const char *path, struct err *err)
{
	struct err ignored = ERR_INIT;
	struct target t;
	char text[PATH_MAX];
	int ret = 0;
	char *folder = err_strndup(path, path_trim(path, strlen(path)), "a path", err);
	if (!folder)
		return -1;
	if (target_find(&t, folder, false, &ignored) == 0) { /* else its user finds the error */
		ret = read_link(&t, folder, text, err) < 0 ? -1 : 0;
		target_release(&t);
	}
	free(folder);
	return ret;
}

/* ---- comparing files ---- */

void target_id_at(struct target_id *id, int dirfd, const char *name)
{
	*id = (struct target_id){.name = strdup(name)};
	id->known = id->name && fstat(dirfd, &id->folder) == 0;
	id->exists = id->known && fstatat(dirfd, name, &id->file, AT_SYMLINK_NOFOLLOW) == 0 &&
	             S_ISREG(id->file.st_mode);
}

void target_id(struct target_id *id, const char *path, bool follow)
{
	struct err ignored = ERR_INIT;
	struct target t;
	*id = (struct target_id){.known = false};
	if (strcmp(path, "-") == 0 || target_find(&t, path, follow, &ignored) < 0)
		return;
	target_id_at(id, t.dirfd, t.name);
	target_release(&t);
}

void target_id_release(struct target_id *id)
{
	free(id->name);
	*id = (struct target_id){.known = false};
}

bool target_is_file(const struct target_id *id, const struct stat *file)
{
	return id->exists && io_same_file(&id->file, file);
}

bool target_id_same(const struct target_id *a, const struct target_id *b)
{
	if (!a->known || !b->known)
		return false;
	return (strcmp(a->name, b->name) == 0 && io_same_file(&a->folder, &b->folder)) ||
	       (b->exists && target_is_file(a, &b->file));
}

/* ---- file systems ---- */

/* Does the file system's server assign inode numbers, equal for all clients? */
static bool is_shared(const char *type)
{
	static const char *const types[] = {"nfs", "nfs4", "ceph", "lustre", "gpfs", "afs"};
	for (size_t i = 0; i < sizeof types / sizeof types[0]; i++)
		if (strcmp(type, types[i]) == 0)
			return true;
	return false;
}

/* Is @line of mountinfo the line of @dev? Its format: "ID PARENT MAJOR:MINOR ROOT POINT OPTIONS
 * [FIELDS...] - TYPE SOURCE ...". Sets *type and *source. */
static bool read_mount(char *line, dev_t dev, const char **type, const char **source)
{
	unsigned major, minor;
	char *rest = strstr(line, " - ");
	if (sscanf(line, "%*u %*u %u:%u", &major, &minor) != 2 || makedev(major, minor) != dev ||
	    !rest)
		return false;
	*type = strtok_r(rest + 3, " \n", &rest);
	*source = strtok_r(NULL, " \n", &rest);
	return *type && *source;
}

/* A number for the mount source of @dev; 0: not a shared file system. */
static uint64_t shared_id(dev_t dev)
{
	FILE *f = fopen(MOUNTS, "re");
	char *line = NULL;
	const char *type, *source;
	size_t cap = 0;
	uint64_t id = 0;
	bool found = false;
	while (f && !found && getline(&line, &cap, f) > 0) {
		found = read_mount(line, dev, &type, &source);
		if (found && is_shared(type))
			id = XXH3_64bits(source, strlen(source)) | 1;
	}
	free(line);
	if (f)
		fclose(f);
	return id;
}

/* A number for this boot of this machine; 0: unknown. */
static uint64_t boot_id(void)
{
	char text[BOOT_ID_MAX];
	size_t n = boot_id_read(text);
	return n ? XXH3_64bits(text, n) | 1 : 0;
}

/* ---- places ---- */

uint64_t target_identity(int fd)
{
	struct stat st;
	if (fstat(fd, &st))
		return 0;
	uint64_t id[4] = {shared_id(st.st_dev), 0, 0, (uint64_t)st.st_ino};
	struct statfs fs;
	if (id[0]) { /* a file system with several volumes has an id per volume */
		if (fstatfs(fd, &fs) == 0)
			memcpy(&id[1], &fs.f_fsid, sizeof id[1]);
	} else {
		id[0] = boot_id();
		id[2] = (uint64_t)st.st_dev;
	}
	return id[0] ? XXH3_64bits(id, sizeof id) | 1 : 0;
}

uint64_t target_place_in(uint64_t folder, const char *name)
{
	return folder ? XXH3_64bits_withSeed(name, strlen(name), folder) | 1 : 0;
}

/* The place of a path that is not a folder and has no trailing slash. */
static uint64_t file_place(const char *path, bool force)
{
	struct err ignored = ERR_INIT;
	struct target t;
	struct stat st;
	uint64_t place = 0;
	if (target_find(&t, path, force, &ignored) < 0)
		return 0;
	if (fstatat(t.dirfd, t.name, &st, AT_SYMLINK_NOFOLLOW) || S_ISREG(st.st_mode))
		place = target_place_in(target_identity(t.dirfd), t.name);
	target_release(&t);
	return place;
}

uint64_t target_place(const char *path, bool force)
{
	if (strcmp(path, "-") == 0)
		return 0;
	int fd = io_retry(open(path, O_PATH | O_DIRECTORY | O_CLOEXEC));
	if (fd >= 0) {
		uint64_t place = target_identity(fd);
		close(fd);
		return place;
	}
	char *at = strndup(path, path_trim(path, strlen(path)));
	uint64_t place = at ? file_place(at, force) : 0;
	free(at);
	return place;
}
