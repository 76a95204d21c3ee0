/*
 * The target of an output: a name in an open folder. Only target_find follows symbolic links.
 * Thread-safe.
 *
 * Symbolic links in the folder part of a path are followed by the kernel. If the last component is
 * a symbolic link, it is followed only if it belongs to this user or to the owner of the folder in
 * which it is, independently of fs.protected_symlinks. Otherwise, in a shared folder such as /tmp,
 * one user could choose which file of another user is replaced.
 *
 * The place of an output is a number that ranks compare: two ranks that would write the same file
 * get the same number, whatever path they use and wherever the file system is mounted. It is
 * computed from the folder's file system and inode, and the name. A local file system is identified
 * by its device and the boot id of the machine, so that clones of a disk differ. A network file
 * system (NFS, Ceph, Lustre, ...) is identified by its mount source, which is the same on all
 * hosts. File systems whose inode numbers or sources may differ between hosts (FUSE, 9p) count as
 * local.
 */
#ifndef COLLCTL_DATA_FILES_TARGET_H
#define COLLCTL_DATA_FILES_TARGET_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/stat.h>

#include "lib/base/err.h"

struct target {
	int dirfd;  /* the folder, opened with O_PATH; owned */
	char *name; /* the last component; malloced; not "", "." or ".." */
};

/* Find the target of the output @path. @follow: if it is a symbolic link, the file that it points
 * to, which need not exist; else the link itself. ERR_OUTPUT; on failure there is nothing to
 * release. */
int target_find(struct target *, const char *path, bool follow, struct err *err);
void target_release(struct target *);
/* May the symbolic link @link in @folder be followed? */
bool target_trusts(const struct stat *link, const struct stat *folder);
/* Set the error that the symbolic link @path is not followed: ERR_OUTPUT. Returns -1. */
int target_refuse(const char *path, const struct stat *link, struct err *err);
/* ERR_OUTPUT if @path, a folder to write to, is a symbolic link that is not followed. */
int target_check_folder(const char *path, struct err *err);

/* The identity of a file, which may not exist. */
struct target_id {
	bool known;         /* the members below are set */
	struct stat folder; /* the folder in which it is */
	char *name;         /* malloced */
	bool exists;        /* it is an existing regular file, with the attributes: */
	struct stat file;
};
void target_id(struct target_id *, const char *path, bool follow);
/* The same for @name in the folder @dirfd. */
void target_id_at(struct target_id *, int dirfd, const char *name);
void target_id_release(struct target_id *);
/* Does the file exist, and is it @file? */
bool target_is_file(const struct target_id *, const struct stat *file);
/* Would writing one replace the other, or are they hard links to one file? */
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
