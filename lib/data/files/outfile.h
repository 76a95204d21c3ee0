/*
 * Output files, all or nothing. The bytes go to an unnamed file (O_TMPFILE, else a temporary one
 * with O_EXCL|O_NOFOLLOW) in the target's folder; only outfile_commit renames it to the target.
 * Until then the old file is unchanged, also if the process dies. Errors: ERR_OUTPUT with the path
 * and the call that failed.
 *
 * Order of calls: open -> write* -> seal (all bytes are written and, unless no_sync, on disk; the
 * file has a temporary name) -> commit -> release. Release discards a file that was not committed.
 */
#ifndef COLLCTL_DATA_FILES_OUTFILE_H
#define COLLCTL_DATA_FILES_OUTFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "lib/base/err.h"
#include "lib/data/files/writeback.h"

struct outfile {
	int fd, dirfd;
	char *path; /* the target as named, for messages */
	char *name; /* its last component */
	char *temp; /* its temporary name in the folder, or NULL */
	char *kept; /* a temporary name of the file that it replaces, or NULL */
	bool sync;
	bool force;
	bool below;  /* outfile_open_below: no link is followed */
	bool shared; /* dirfd belongs to another outfile */
	bool absent; /* outfile_keep found nothing to replace */
	bool committed;
	uint64_t size;
	struct writeback back;
};

/* @size: the final size in bytes, which is allocated at once with fallocate if the file system
 * supports that. The mode comes from the replaced file or else from the umask. Refuses an existing
 * target that is not a regular file, or that could not be replaced, as far as that can be seen;
 * with
 * @force it follows a symlink (target_find) and replaces or creates the link's target, without
 * changing the link. On failure there is nothing to release.
 */
int outfile_open(struct outfile *f, const char *path, uint64_t size, bool sync, bool force,
                 struct err *err);
/* The same, but the part of @path after the first @top bytes comes from another rank. No symlink is
 * followed there (beneath_open). */
int outfile_open_below(struct outfile *f, const char *path, size_t top, uint64_t size, bool sync,
                       bool force, struct err *err);
/* Create an unnamed file in the folder @top or, if that does not exist yet, in its parent, for
 * bytes that another rank writes at such a path; that rank also creates the folders. The file is
 * written and read, but not sealed or committed.
 */
int outfile_open_aside(struct outfile *f, const char *path, size_t top, uint64_t size,
                       struct err *err);
/* Check what can be checked without creating a file: may @path be written? *exists: it would
 * replace a file. @f has the folder, for outfile_share_folder. On failure there is nothing to
 * release. */
int outfile_probe(struct outfile *f, const char *path, size_t top, bool force, bool *exists,
                  struct err *err);
/* Set the permissions; set the modification time, after the last write. */
int outfile_set_mode(struct outfile *f, unsigned mode, struct err *err);
int outfile_set_time(struct outfile *f, struct timespec modified, struct err *err);
/* Create an unnamed file in the folder of spools for temporary data. It is written and read like
 * others, but not sealed or committed. @name: for messages. */
int outfile_spool(struct outfile *f, const char *name, uint64_t size, struct err *err);
/* Allocate @bytes in a file that was opened with size 0, because its size was unknown, and that is
 * written through f->fd. */
int outfile_reserve(struct outfile *f, uint64_t bytes, struct err *err);
/* Check that the file has its expected size. */
int outfile_measure(struct outfile *f, struct err *err);

/* Thread-safe for different ranges. Starts the write-back early when syncing. */
int outfile_pwrite(struct outfile *f, const void *buf, size_t bytes, uint64_t pos, struct err *err);
/* Bytes written that may not be on disk yet. Thread-safe. */
uint64_t outfile_behind(const struct outfile *f);
int outfile_pread(struct outfile *f, void *buf, size_t bytes, uint64_t pos, struct err *err);
/* fsync (unless !sync), check that the file is complete and that close reports no error, and give
 * it a temporary name. A rename in the folder is tried, and the target examined once more, so that
 * outfile_commit should not fail. */
int outfile_seal(struct outfile *f, struct err *err);
/* Rename over the target and fsync the folder (unless !sync). */
int outfile_commit(struct outfile *f, struct err *err);

/* To commit several files or none: keep each, then place each. If one fails, undo the placed ones,
 * last first; else settle each. If the process dies in between, each file is complete, old or new,
 * and a temporary name may remain.
 *
 * Keeping gives an existing target an additional, temporary name. If that is not possible (a file
 * system without hard links, another user's file), it is not an error, but undo cannot restore that
 * file. */
int outfile_keep(struct outfile *f, struct err *err);
/* The rename of outfile_commit. */
int outfile_place(struct outfile *f, struct err *err);
/* Restore the old file, or remove the new one if there was none. -1: not possible; if the old file
 * was kept, the error tells its temporary name. */
int outfile_undo(struct outfile *f, struct err *err);
/* Remove the old file's temporary name and fsync the folder (unless !sync or shared). */
int outfile_settle(struct outfile *f, struct err *err);
/* If both are in one folder, let @f use @with's descriptor of it. @with must be settled and
 * released after @f. */
bool outfile_share_folder(struct outfile *f, const struct outfile *with);

/* Replace the file at @path by @n bytes, which are on disk on return. A symlink is followed, as by
 * outfile_open with @force. */
int outfile_put(const char *path, const void *data, size_t n, struct err *err);

/* Remove what was not committed, and free. May be called twice or on a zeroed struct. Not for
 * signal handlers. */
void outfile_release(struct outfile *f);

#endif
