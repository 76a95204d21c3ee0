/*
 * The place of an output as a number that ranks can compare: two ranks that would write the same
 * file get the same number, whatever path they use and wherever its file system is mounted.
 *
 * A place is a name in a folder; a folder is identified by its inode and its file system. A local
 * file system is identified by its device and the boot id of its machine, so that clones of a disk
 * differ. A network file system (NFS, Ceph, Lustre, ...) is identified by its mount source, so that
 * hosts which mount the same source agree. File systems whose inode numbers or sources may differ
 * between hosts (FUSE, 9p) count as local.
 */
#ifndef COLLCTL_DATA_TARGET_H
#define COLLCTL_DATA_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"

/* The place of the file or folder @path, which need not exist. 0: unknown, or not a file that two
 * ranks could write ("-", a device). @force: follow a symlink, like outfile_open.
 */
uint64_t target_place(const char *path, bool force);
/* The place of @name in the folder whose place is @folder; 0 if that is 0. */
uint64_t target_place_in(uint64_t folder, const char *name);

/* The path of the file to write: @path or, if it is a symlink, its final target, which need not
 * exist. Malloced; NULL: ERR_OUTPUT. */
char *target_follow(const char *path, struct err *err);

#endif
