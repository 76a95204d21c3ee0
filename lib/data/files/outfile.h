/*
 * Output files that are all new or all old. The bytes are written to an unnamed file (O_TMPFILE; if
 * that is not supported, to a temporary file, O_EXCL|O_NOFOLLOW) in the target's folder. Only
 * outfile_commit renames it to the target. Until then the old file is unchanged, also if the
 * process dies. ERR_OUTPUT names the path and the call that failed. Sizes are bytes. One thread,
 * except where a function is thread-safe.
 *
 * Order of calls: open -> pwrite ... -> seal -> commit -> release. After the seal all bytes are
 * written and, with sync, on disk, and the file has a temporary name. Release deletes a file that
 * was not committed.
 *
 * A temporary file is ".NAME.collctl-XXXXXXXXXXXX" and locked (flock), or its folder is (shared);
 * one without a lock was left by a killed process. An old file that is kept has the name
 * ".NAME.collctl-old-XXXXXXXXXXXX".
 */
#ifndef COLLCTL_DATA_FILES_OUTFILE_H
#define COLLCTL_DATA_FILES_OUTFILE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <time.h>

#include "lib/base/err.h"
#include "lib/data/files/sparse.h"
#include "lib/data/files/writeback.h"

struct outfile {
	int fd, dirfd;
	char *path; /* the target as named, for messages */
	char *name; /* its last component */
	char *temp; /* its temporary name in the folder, or NULL */
	char *kept; /* a temporary name of the file that it replaces, or NULL */
	bool sync;
	bool force;
	bool below;            /* outfile_open_below: no link is followed */
	const char *points_to; /* of a symbolic link (outfile_open_link); NULL: it is a file */
	bool shared;           /* dirfd belongs to another outfile */
	bool fresh;  /* nothing may be replaced, also if a file appears before outfile_place */
	bool absent; /* there is nothing to replace, or was not when it was last examined */
	bool committed;
	bool unallocated; /* the file system has not allocated its bytes: room.h says whether it has
	                     room for them */
	uint64_t size;
	/* outfile_take_memory: where its bytes from @head on are; NULL: in the file */
	uint8_t *memory;
	uint64_t head;
	struct writeback back;
	unsigned mode; /* its permissions when it is complete, if has_mode */
	bool has_mode;
	bool staged;  /* outfile_open_staged */
	dev_t device; /* of what is sealed, if it is not open: a staged file, a symbolic link */
	ino_t inode;
	/* outfile_open_part */
	bool part;              /* the file has the name of a part; release keeps it */
	_Atomic uint64_t reach; /* its bytes that are written, up to the last of them */
};

/* Open an output for the target @path. @size: the final size, which is allocated at once by
 * fallocate if the file system supports it; on a tmpfs only if much of what is left is needed. The
 * mode is that of the replaced file; if there is none, by the umask. Refuses an existing target
 * that is not a regular file, or that apparently cannot be replaced. @force: follow a symbolic link
 * (target_find), and replace or create the file that it points to; the link is unchanged. On
 * failure there is nothing to release. */
int outfile_open(struct outfile *f, const char *path, uint64_t size, bool sync, bool force,
                 struct err *err);
/* The same, but another rank has chosen the part of @path after the first @top bytes: no symbolic
 * link is followed there (beneath_open). @force: one at @path is replaced itself. */
int outfile_open_below(struct outfile *f, const char *path, size_t top, uint64_t size, bool sync,
                       bool force, struct err *err);
/* ERR_OUTPUT: no file can replace what @path is: a FIFO, such as a shell's >(COMMAND), a socket, a
 * device. */
int outfile_check_kind(const char *path, struct err *err);
/* As outfile_open_below, but the bytes are written to a part (part.h), and release keeps what was
 * written. @part: the part, open (outfile_find_part), owned by @f from now on; -1: open it, or
 * create it. A part is cut to @size. If it cannot be used, *why says why (else NULL), and the file
 * is opened as by outfile_open_below. */
int outfile_open_part(struct outfile *f, const char *path, size_t top, uint64_t size, bool sync,
                      bool force, int part, const char **why, struct err *err);
/* Open and lock the part of the target @path. The caller closes the descriptor; -1: there is none
 * that can be used. */
int outfile_find_part(const char *path, size_t top, bool force);
/* Remove @part, an open part of that target. */
void outfile_remove_part(const char *path, size_t top, bool force, int part);
/* Create an unnamed file for bytes that another rank writes to such a path: in the folder of @path
 * or, if it does not exist, in that of its first @top bytes, or in its parent. The other rank
 * creates the folders. The file may be written and read, but not sealed or committed. @name: for
 * messages. */
int outfile_open_aside(struct outfile *f, const char *name, const char *path, size_t top,
                       uint64_t size, struct err *err);
/* Open an output that becomes a symbolic link to @points_to, which must outlive @f, or, if this is
 * NULL, a hard link to a file of this job. It is not written; instead of outfile_seal call
 * outfile_seal_symlink or outfile_seal_link. A symbolic link replaces another, and with @force also
 * a file; it is tried here whether it can be made. */
int outfile_open_link(struct outfile *f, const char *path, size_t top, const char *points_to,
                      bool sync, bool force, struct err *err);
/* Open an output below the first @top bytes of @path whose bytes lie elsewhere (staging.h): instead
 * of outfile_seal call outfile_seal_staged. @beside: an open output in the same folder, whose
 * descriptor of the folder this one shares (outfile_share_folder); NULL: none. */
int outfile_open_staged(struct outfile *f, const char *path, size_t top, uint64_t size, bool sync,
                        bool force, const struct outfile *beside, struct err *err);
/* Allocate the data of a sparse file that was opened with size 0, and give it @size bytes. */
int outfile_make_sparse(struct outfile *f, uint64_t size, const struct sparse *data,
                        struct err *err);
/* Check, without creating a file, that @path may be written. @points_to: as for outfile_open_link.
 * *exists: a file or a link would be replaced. Afterwards *f has only the open folder, for
 * outfile_share_folder. On failure there is nothing to release. */
int outfile_probe(struct outfile *f, const char *path, size_t top, const char *points_to,
                  bool force, bool *exists, struct err *err);
/* Set the permissions; set the modification time, after the last write. */
int outfile_set_mode(struct outfile *f, unsigned mode, struct err *err);
int outfile_set_time(struct outfile *f, struct timespec modified, struct err *err);
/* Create an unnamed file for temporary data, in the folder of spools (spool.h). It may be written
 * and read, but not sealed or committed. @name: for messages. */
int outfile_spool(struct outfile *f, const char *name, uint64_t size, struct err *err);
/* The same for the file @fd, which the outfile closes. Its bytes from @head on are written to
 * @memory: the file has its head alone, and the right length. @memory NULL: all are in the file. */
int outfile_take_memory(struct outfile *f, int fd, const char *name, uint64_t head, void *memory,
                        uint64_t size, struct err *err);
/* Allocate a file that was opened with size 0, and give it @size bytes. */
int outfile_allocate(struct outfile *f, uint64_t size, struct err *err);
/* Can the file system of the file, which is empty, make a file a clone of another: share its blocks
 * until one of the two is changed? */
bool outfile_may_clone(const struct outfile *f);
/* Make the file, which was opened with size 0, a clone of the file @from of @size bytes, whose data
 * are @data. If that fails, copy the data; *@error: why, errno; 0: it is a clone. Ends early as
 * offload_stopped says. */
int outfile_clone(struct outfile *f, int from, uint64_t size, const struct sparse *data, int *error,
                  struct err *err);
/* Allocate @bytes in a file whose size was not known, so that it was opened with size 0; the caller
 * writes it by f->fd. */
int outfile_reserve(struct outfile *f, uint64_t bytes, struct err *err);
/* Check that the file has its expected size. */
int outfile_measure(struct outfile *f, struct err *err);

/* Write. Thread-safe for different ranges. With sync it also starts the write-back
 * (writeback.h). */
int outfile_pwrite(struct outfile *f, const void *buf, size_t bytes, uint64_t pos, struct err *err);
int outfile_pread(struct outfile *f, void *buf, size_t bytes, uint64_t pos, struct err *err);
/* fsync (unless !sync), check that the file is complete and that close reports no error, and give
 * it a temporary name. A rename in the folder is tried, and the target examined once more, so that
 * outfile_commit should not fail. */
int outfile_seal(struct outfile *f, struct err *err);
/* The same for an output of outfile_open_link: link it to the file @to, or, where the file system
 * does not allow that, make it a copy. */
int outfile_seal_link(struct outfile *f, int to, struct err *err);
/* The same for a symbolic link: make it. @modified: its time; NULL: now. */
int outfile_seal_symlink(struct outfile *f, const struct timespec *modified, struct err *err);
/* The same for an output of outfile_open_staged: create a file with its bytes, @data, and with the
 * time @modified (NULL: now), and close it. @sync: fsync it. */
int outfile_seal_staged(struct outfile *f, const void *data, const struct timespec *modified,
                        bool sync, struct err *err);
/* Rename over the target and fsync the folder (unless !sync). */
int outfile_commit(struct outfile *f, struct err *err);

/* To commit several files, all or none: keep each, then place each. If one fails, undo those that
 * were placed, the last one first; else settle each. If the process dies in between, each file is
 * complete, old or new, and a temporary name may remain.
 *
 * outfile_keep gives an existing target an additional, temporary name. If that is not possible (a
 * file system without hard links, another user's file), this is not an error, but outfile_undo
 * cannot restore the file. */
int outfile_keep(struct outfile *f, struct err *err);
/* The rename of outfile_commit. */
int outfile_place(struct outfile *f, struct err *err);
/* Restore the old file; if there was none, remove the new one. -1: it is not possible; if the old
 * file was kept, the error names its temporary name. */
int outfile_undo(struct outfile *f, struct err *err);
/* Remove the old file's temporary name and fsync the folder (unless !sync or shared). */
int outfile_settle(struct outfile *f, struct err *err);
/* Make @f use the descriptor that @with, which is in the same folder, has of it. @with must be
 * settled and released after @f. */
void outfile_share_folder(struct outfile *f, const struct outfile *with);

/* Is @name the name of a temporary file, or of an old file that was kept? */
bool outfile_is_temp(const char *name);
bool outfile_is_kept(const char *name);

/* Replace the file @path by @data[n], and sync it. A symbolic link is followed, as by outfile_open
 * with @force. */
int outfile_put(const char *path, const void *data, size_t n, struct err *err);

/* Remove what was not committed, but for a part, and free. May be called twice or on a zeroed
 * struct. Not for signal handlers. */
void outfile_release(struct outfile *f);

#endif
