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

#include "lib/base/err.h"

struct outfile {
	int fd, dirfd;
	char *path; /* the target as named, for messages */
	char *name; /* its last component */
	char *temp; /* its temporary name in the folder, or NULL: it has none */
	bool sync;
	bool force;
	bool committed;
	uint64_t size;
};

/* @size: the final size in bytes, allocated at once (fallocate; a file system that can't is fine).
 * The mode comes from the umask, or from the file that is replaced. A target that is neither a
 * regular file nor absent is refused; with @force a symlink is followed and the file to which it
 * leads is replaced (or made), the link staying as it is. On failure there is nothing to release.
 */
int outfile_open(struct outfile *f, const char *path, uint64_t size, bool sync, bool force,
                 struct err *err);
/* Thread-safe for different ranges. Starts the write-back early when syncing. */
int outfile_pwrite(struct outfile *f, const void *buf, size_t bytes, uint64_t pos, struct err *err);
int outfile_pread(struct outfile *f, void *buf, size_t bytes, uint64_t pos, struct err *err);
/* fsync (unless !sync), check that the file is whole and that a close has nothing to report, and
 * give it a temporary name. Whatever can fail has failed by now, but for the rename itself. */
int outfile_seal(struct outfile *f, struct err *err);
/* Rename over the target and fsync the folder (unless !sync). */
int outfile_commit(struct outfile *f, struct err *err);
/* Remove what was not committed and free. Idempotent, also on a zeroed struct; not for a signal
 * handler. */
void outfile_release(struct outfile *f);

#endif
