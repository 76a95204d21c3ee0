/*
 * A part: what a job with --resume has written of an output. Its name is ".NAME.collctl-part", in
 * the output's folder. It has a name from the beginning, so a process that is killed leaves it. Its
 * permissions are 0600 until it is complete.
 *
 * Who uses a part has locked it (flock), so that two jobs never write to one. A part is used only
 * if it is a regular file of this user, without other names; no symbolic link is followed. What it
 * contains is not trusted: its pieces are compared by their digests. Thread-safe.
 */
#ifndef COLLCTL_DATA_FILES_PART_H
#define COLLCTL_DATA_FILES_PART_H

#include <stdbool.h>
#include <sys/stat.h>

#include "lib/base/err.h"

/* The name of the part of output @name. Malloced; NULL: no memory, or the name would be too long.
 */
char *part_name(const char *name);
/* Is @name the name of a part? */
bool part_is_name(const char *name);

/* Open the part @name in the folder @dirfd to read and write it, and lock it. @create: create it
 * unless it exists. Returns a descriptor; -1: it cannot be used, and *why says why, NULL: there is
 * none. */
int part_open(int dirfd, const char *name, bool create, const char **why);
/* Is @name in the folder @dirfd still the file @fd? */
bool part_is_at(int dirfd, const char *name, int fd);

/* The permissions of a folder that a job with --resume has created, until it is complete. Users'
 * private folders do not have this bit, so no later job takes one of them for such a folder. */
#define PART_FOLDER_MODE (S_IRWXU | S_ISVTX)
/* Has such a job, which was ended, left the folder @name in @parent? */
bool part_left_folder(int parent, const char *name);

#endif
