/*
 * Output files, all or nothing. What is written goes to an unnamed file (O_TMPFILE, else a
 * temporary one with O_EXCL|O_NOFOLLOW) in the target's folder; only outfile_commit gives it the
 * target's name, by rename. Until then the old file is untouched, and a process that dies leaves
 * it so. Errors: ERR_OUTPUT with the path and what failed.
 *
 * Life: open -> write* -> seal (all bytes are there and, unless no_sync, on disk; linked to a
 * temporary name) -> commit or discard -> release. A file that is not committed is discarded.
 */
#ifndef COLLCTL_DATA_OUTFILE_H
#define COLLCTL_DATA_OUTFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "lib/base/err.h"
#include "lib/data/writeback.h"

struct outfile {
	int fd, dirfd;
	char *path; /* the target as named, for messages */
	char *name; /* its last component */
	char *temp; /* its temporary name in the folder, or NULL: it has none */
	char *kept; /* a name of the file that it replaces, or NULL: there is none */
	bool sync;
	bool force;
	bool shared; /* dirfd is another's */
	bool absent; /* outfile_keep found nothing to replace */
	bool committed;
	uint64_t size;
	struct writeback back;
};

/* @size: the final size in bytes, allocated at once (fallocate; a file system that can't is fine).
 * The mode comes from the umask, or from the file that is replaced. A target that is neither a
 * regular file nor absent is refused; with @force a symlink is followed and the file to which it
 * leads is replaced (or made), the link staying as it is. On failure there is nothing to release.
 */
int outfile_open(struct outfile *f, const char *path, uint64_t size, bool sync, bool force,
                 struct err *err);
/* The same; after its first @top bytes @path comes from another rank, and no symlink is followed
 * there (beneath_open). */
int outfile_open_below(struct outfile *f, const char *path, size_t top, uint64_t size, bool sync,
                       bool force, struct err *err);
/* What another rank writes at such a path, and makes the folders for: an unnamed file in the folder
 * @top or, until that is there, in its parent. It is written and read, but not sealed or committed.
 */
int outfile_open_aside(struct outfile *f, const char *path, size_t top, uint64_t size,
                       struct err *err);
/* Set other permissions; set the modification time, when everything is written. */
int outfile_set_mode(struct outfile *f, unsigned mode, struct err *err);
int outfile_set_time(struct outfile *f, struct timespec modified, struct err *err);
/* An unnamed file in the folder of spools, for data on their way: it is written and read as others
 * are, but not sealed or committed. @name: for messages. */
int outfile_spool(struct outfile *f, const char *name, uint64_t size, struct err *err);
/* Room for @bytes in a file that was opened with size 0 because its size is not known yet, and that
 * is written through f->fd. */
int outfile_reserve(struct outfile *f, uint64_t bytes, struct err *err);
/* Its length is what it is to be. */
int outfile_measure(struct outfile *f, struct err *err);

/* Thread-safe for different ranges. Starts the write-back early when syncing. */
int outfile_pwrite(struct outfile *f, const void *buf, size_t bytes, uint64_t pos, struct err *err);
/* Bytes written but not known to be on disk. Any thread. */
uint64_t outfile_behind(const struct outfile *f);
int outfile_pread(struct outfile *f, void *buf, size_t bytes, uint64_t pos, struct err *err);
/* fsync (unless !sync), check that the file is whole and that a close has nothing to report, and
 * give it a temporary name. Whatever can fail has failed by now, but for the rename itself. */
int outfile_seal(struct outfile *f, struct err *err);
/* Rename over the target and fsync the folder (unless !sync). */
int outfile_commit(struct outfile *f, struct err *err);

/* Files of which all are to be had, or none: keep each, then place each; if one fails, undo those
 * that were placed, last first; else settle each. A process that dies in between leaves each file
 * old or new, both whole, and perhaps a temporary name.
 *
 * Keeping gives the file at the target's name, if there is one, a temporary name more. Where that
 * can't be (a file system without hard links, a file of somebody else's) it is not an error, but
 * such a file can't be put back. */
int outfile_keep(struct outfile *f, struct err *err);
/* The rename of outfile_commit. */
int outfile_place(struct outfile *f, struct err *err);
/* Give the name back to what had it, or to nothing. -1: it can't be, and the old file has, if it
 * was kept, the name that the error tells. */
int outfile_undo(struct outfile *f, struct err *err);
/* Drop the old file and fsync the folder (unless !sync, or it is shared). */
int outfile_settle(struct outfile *f, struct err *err);
/* If both are in one folder, let @f use @with's descriptor of it; @with lives longer, and is
 * settled later. */
bool outfile_share_folder(struct outfile *f, const struct outfile *with);

/* Remove what was not committed and free. Idempotent, also on a zeroed struct; not for a signal
 * handler. */
void outfile_release(struct outfile *f);

#endif
