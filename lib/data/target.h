/*
 * Where an output goes, as a number that ranks can compare: two ranks that would write one file
 * have the same, whatever they call it and wherever it is mounted.
 *
 * A place is a folder and a name in it; a folder is its inode, and the file system that has it. A
 * local file system is known by its device and the boot of its machine, so that clones of a disk
 * differ. One of a server (NFS, Ceph, Lustre, ...) is known by what is mounted, so that hosts which
 * mount the same have the same. File systems whose inode numbers or sources may mean something else
 * on another host (FUSE, 9p) count as local.
 */
#ifndef COLLCTL_DATA_TARGET_H
#define COLLCTL_DATA_TARGET_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/base/err.h"

/* The place of the file or folder @path, which need not exist. 0: it can't be told, or it is no
 * place that two could write ("-", a device). @force: a symlink is followed, as outfile_open does.
 */
uint64_t target_place(const char *path, bool force);
/* The place of @name in the folder whose place is @folder; 0 where that is. */
uint64_t target_place_in(uint64_t folder, const char *name);

/* The path at which to put the file: @path itself or, if it is a symlink, what it leads to in the
 * end, which need not exist. Malloced; NULL: ERR_OUTPUT. */
char *target_follow(const char *path, struct err *err);

#endif
