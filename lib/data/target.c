#include "lib/data/target.h"

#include <errno.h>
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
#include "lib/base/path.h"

#define MAX_SYMLINKS 40
#define MOUNTS       "/proc/self/mountinfo"

/* ---- symbolic links ---- */

/* The target of the symlink @path, resolved against its folder. Malloced; NULL: errno. */
static char *symlink_target(const char *path)
{
	char text[PATH_MAX];
	ssize_t n = readlink(path, text, sizeof text);
	if (n < 0)
		return NULL;
	if ((size_t)n == sizeof text) {
		errno = ENAMETOOLONG;
		return NULL;
	}
	size_t folder = text[0] != '/' ? (size_t)(path_name(path) - path) : 0;
	char *target = malloc(folder + (size_t)n + 1);
	if (!target)
		return NULL;
	memcpy(target, path, folder);
	memcpy(target + folder, text, (size_t)n);
	target[folder + (size_t)n] = '\0';
	return target;
}

char *target_follow(const char *path, struct err *err)
{
	struct stat st;
	char *at = strdup(path);
	for (int i = 0; at && i < MAX_SYMLINKS; i++) {
		if (lstat(at, &st) || !S_ISLNK(st.st_mode))
			return at;
		char *next = symlink_target(at);
		free(at);
		at = next;
	}
	if (at)
		errno = ELOOP;
	free(at);
	if (errno == ENOMEM)
		err_nomem(err, "a path", strlen(path));
	else
		err_errno(err, ERR_OUTPUT, "%s: cannot follow the symbolic link", path);
	return NULL;
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

static uint64_t folder_place(const char *path, const struct stat *st)
{
	uint64_t id[4] = {shared_id(st->st_dev), 0, 0, (uint64_t)st->st_ino};
	struct statfs fs;
	if (id[0]) { /* a file system with several volumes has an id per volume */
		if (statfs(path, &fs) == 0)
			memcpy(&id[1], &fs.f_fsid, sizeof id[1]);
	} else {
		id[0] = boot_id();
		id[2] = (uint64_t)st->st_dev;
	}
	return id[0] ? XXH3_64bits(id, sizeof id) | 1 : 0;
}

uint64_t target_place_in(uint64_t folder, const char *name)
{
	return folder ? XXH3_64bits_withSeed(name, strlen(name), folder) | 1 : 0;
}

/* The place of a path that is not a folder and has no trailing slash. */
static uint64_t file_place(const char *path)
{
	struct err ignored = {.rank = ERR_RANK_SELF};
	struct stat st;
	if (lstat(path, &st) == 0 && !S_ISREG(st.st_mode))
		return 0;
	char *folder = path_folder(path, &ignored);
	uint64_t place = 0;
	if (folder && stat(folder, &st) == 0 && S_ISDIR(st.st_mode))
		place = target_place_in(folder_place(folder, &st), path_name(path));
	free(folder);
	return place;
}

uint64_t target_place(const char *path, bool force)
{
	struct err ignored = {.rank = ERR_RANK_SELF};
	struct stat st;
	size_t len = strlen(path);
	if (strcmp(path, "-") == 0)
		return 0;
	if (stat(path, &st) == 0 && S_ISDIR(st.st_mode))
		return folder_place(path, &st);
	while (len > 1 && path[len - 1] == '/')
		len--;
	char *at = strndup(path, len), *target = at;
	if (at && force)
		target = target_follow(at, &ignored);
	uint64_t place = target ? file_place(target) : 0;
	if (target != at)
		free(target);
	free(at);
	return place;
}
