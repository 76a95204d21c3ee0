/*
 * Where an output goes: a name in an open folder. target_find is the one place that follows links.
 *
 * The kernel finds the folder of a path, so links in that part are followed by its rules. If the
 * last component is a symbolic link, it is followed only if it belongs to this user or to the
 * owner of the folder in which it lies, whatever fs.protected_symlinks says: whoever may create
 * names in a folder that others use, such as /tmp, must not choose which of their files is
 * replaced.
 *
 * The place of an output is also a number that ranks can compare: two ranks that would write the
 * same file get the same number, whatever path they use and wherever its file system is mounted.
 *
 * A place is a name in a folder; a folder is identified by its inode and its file system. A local
 * file system is identified by its device and the boot id of its machine, so that clones of a disk
 * differ. A network file system (NFS, Ceph, Lustre, ...) is identified by its mount source, so that
 * hosts which mount the same source agree. File systems whose inode numbers or sources may differ
 * between hosts (FUSE, 9p) count as local.
 */
#ifndef COLLCTL_DATA_FILES_TARGET_H
#define COLLCTL_DATA_FILES_TARGET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "lib/base/err.h"

struct target {
	int dirfd;  /* O_PATH */
	char *name; /* its last component; not "", "." or ".." */
};

/* Find where a file at @path is written. @follow: if it is a symbolic link, where it points to,
 * which need not exist; else the link itself. ERR_OUTPUT; nothing is to be released then. */
int target_find(struct target *, const char *path, bool follow, struct err *err);
void target_release(struct target *);
/* May the link @link, which lies in @folder, be followed? */
bool target_trusts(const struct stat *link, const struct stat *folder);
/* The error that @path, the link @link, is not followed: ERR_OUTPUT. */
int target_refuse(const char *path, const struct stat *link, struct err *err);
/* ERR_OUTPUT if @path, a folder to write to, is a symbolic link that is not followed. */
int target_check_folder(const char *path, struct err *err);

/* What identifies a file that exists or not. */
struct target_id {
	bool known;         /* else the members below are not set */
	struct stat folder; /* in which it is */
	char *name;         /* malloced */
	bool exists;        /* as a regular file: */
	struct stat file;
};
void target_id(struct target_id *, const char *path, bool follow);
/* The same of the name @name in the folder @dirfd. */
void target_id_at(struct target_id *, int dirfd, const char *name);
void target_id_release(struct target_id *);
/* Does the file exist, and is it @file? */
bool target_is_file(const struct target_id *, const struct stat *file);
/* Would writing one of them replace the other, or are they one file by hard links? */
bool target_id_same(const struct target_id *, const struct target_id *);

/* The place of the file or folder @path, which need not exist. 0: unknown, or not a file that two
 * ranks could write ("-", a device). @force: follow a symlink, like outfile_open.
 */
uint64_t target_place(const char *path, bool force);
/* The place of @name in the folder whose place is @folder; 0 if that is 0. */
uint64_t target_place_in(uint64_t folder, const char *name);
/* A number for the open file or folder itself: the same on all ranks that open it, by whatever
 * name. 0: unknown. */
uint64_t target_identity(int fd);

#endif
