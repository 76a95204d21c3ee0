/*
 * All the files that a rank writes: one, several (several -o, --each), or a folder of files (a
 * sharded set). All or nothing: the bytes go to unnamed or temporary files in the targets' folders
 * (outfile.h). sink_commit renames them in the order in which they were added; if a rename fails,
 * it restores the earlier targets.
 *
 * Order of calls: new -> add* -> open -> pwrite* -> seal -> commit -> free. Errors: ERR_OUTPUT,
 * naming the file.
 */
#ifndef COLLCTL_DATA_FILES_SINK_H
#define COLLCTL_DATA_FILES_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "lib/base/err.h"
#include "lib/data/dataset/dataset.h"
#include "lib/data/files/target.h"

struct sink;

/* @sync, @force: as for outfile_open. NULL: out of memory. */
struct sink *sink_new(bool sync, bool force, struct err *err);
/* Remove what was not committed, including created folders. @sink may be NULL. */
void sink_free(struct sink *);

/* A file at @path ("-": stdout, copied there at the commit) of @size bytes that begins with
 * @head[head_len], which is copied. Returns the file's index, or -1. */
int sink_add(struct sink *, const char *path, const void *head, size_t head_len, uint64_t size,
             struct err *err);
/* sink_open creates the folder @path unless it exists; its parent exists or was added before.
 * ERR_USAGE for "-". */
int sink_add_folder(struct sink *, const char *path, struct err *err);
/* Attributes that a copy gets from its original. */
struct sink_attributes {
	bool has_mode, has_time;
	unsigned mode; /* permissions */
	struct timespec modified;
};
void sink_set_attributes(struct sink *, int file, const struct sink_attributes *);
/* What follows the first @top bytes of the file's path comes from another rank: do not follow
 * symlinks there (beneath.h). */
void sink_set_top(struct sink *, int file, size_t top);
/* Rank @by has chosen the file's name: ERR_OUTPUT from sink_open and sink_check, unless forced, if
 * a file has it. */
void sink_expect_none(struct sink *, int file, int by);
/* The same for a @name from another rank (path_is_below), in the folder @top, without following
 * symlinks there. A folder gets its attributes only if it is created; the name "" is @top.
 */
int sink_add_below(struct sink *, const char *top, const char *name, uint64_t size,
                   const struct sink_attributes *, struct err *err);
int sink_add_folder_below(struct sink *, const char *top, const char *name,
                          const struct sink_attributes *, struct err *err);
/* Before sink_open: if @fd, which has the bytes to write, is the file at the output's path, do not
 * write that file. The caller keeps @fd open until sink_free. */
void sink_leave_own(struct sink *, int file, int fd);
/* Before sink_open: another rank writes the same bytes to the same place. This rank writes them to
 * an unnamed file, from which it computes the digest. */
void sink_drop(struct sink *, int file);

/* Where a tensor of an output begins. */
struct place {
	int file;        /* of the sink */
	uint64_t offset; /* bytes */
};
/* Add the files of an output at @path that holds the tensors of @like (which may have been
 * selected), in the same format and, for a sharded set, in files of the same names with the index
 * last; files without any of these tensors are omitted. Tensors are stored little-endian and keep
 * Fortran order. places[i]: the place of tensor i of @like. ERR_USAGE, with the fix: the extension
 * belongs to another format, a set would go to a file, or one file would go to a folder. */
int sink_add_like(struct sink *, const char *path, const struct format *hint,
                  const struct dataset *like, struct place *places, struct err *err);
/* For the output @path of a set whose index has the name @input_index (NULL: none): the folder, and
 * the name of the index in it or NULL. Both are malloced, and set on failure too. ERR_USAGE: @path
 * names a file. */
int sink_split_set(const char *path, const char *input_index, char **folder, char **index,
                   struct err *err);
/* After the files of a set and its @index (NULL: none) are added for the output @path in @folder:
 * ERR_OUTPUT if a reader of the folder would then read another set, because of an index or of files
 * that are in it. sink_add_like calls it. */
int sink_check_set(struct sink *, const char *path, const char *folder, const char *index,
                   struct err *err);
/* After the commit: call @tell for each folder of a set with an index that this rank has written
 * and that holds @n other .safetensors files, @first among them. */
void sink_strays(const struct sink *,
                 void (*tell)(void *ctx, const char *folder, const char *first, int n), void *ctx);
/* As sink_add_like, for a single array (.npy, raw) that @info describes. */
int sink_add_array(struct sink *, const char *path, const struct format *hint,
                   const struct array_info *info, struct place *place, struct err *err);

/* Check that an output of format @want may have the name @path. ERR_USAGE, with the fix. */
int sink_check_format(const char *path, const struct format *hint, const struct format *want,
                      struct err *err);

/* What sink_open, sink_seal and sink_commit would do with a file. */
enum sink_fate {
	SINK_CREATE,
	SINK_REPLACE,
	SINK_KEEP,  /* it has the bytes already (sink_leave_own) */
	SINK_LEAVE, /* another rank writes it (sink_drop) */
	SINK_STDOUT,
};
/* Instead of sink_open: find the errors that sink_open and sink_commit would have, as far as they
 * can be found without creating anything. Whether there is room on the disk is not looked at.
 * Afterwards only sink_fate and sink_free may be called. */
int sink_check(struct sink *, struct err *err);
enum sink_fate sink_fate(const struct sink *, int file);

/* Create all files: preallocate them and write their headers. ERR_USAGE if two outputs are the same
 * file, also by different spellings of the path. */
int sink_open(struct sink *, struct err *err);
/* Thread-safe for different ranges. */
int sink_pwrite(struct sink *, int file, const void *buf, size_t bytes, uint64_t pos, struct err *);
int sink_pread(struct sink *, int file, void *buf, size_t bytes, uint64_t pos, struct err *err);
/* Do all that may fail before the renames: pack archives, sync and check files, link them to
 * temporary names, and keep the files that they replace under other names. */
int sink_seal(struct sink *, struct err *err);
/* Rename all files, or none; then copy the output to stdout, if any. After a failure the old files
 * are restored (outfile_keep says where that is not possible), and the error also names those that
 * could not be restored. If the process is killed meanwhile, each file is complete, old or new. */
int sink_commit(struct sink *, struct err *err);

/* Which files this rank has after sink_commit, also if it failed. stdout counts as a file. */
enum sink_state { SINK_NO_FILES, SINK_ALL_OLD, SINK_ALL_NEW, SINK_MIXED };
enum sink_state sink_state(const struct sink *);

/* Bytes written that may not be on disk yet. Thread-safe from sink_open to sink_free. */
uint64_t sink_behind(const struct sink *);

int sink_files(const struct sink *);
int sink_descriptors(const struct sink *); /* the most that sink_open opens */
uint64_t sink_size(const struct sink *,
                   int file); /* bytes; 0 for an archive that is not packed yet */
bool sink_is_packed(const struct sink *, int file);   /* is it an archive? */
const char *sink_path(const struct sink *, int file); /* for messages */
/* Where sink_open or sink_check has found the file's place; not known of stdout, of a file that is
 * left as it is, and in a folder that is to be created. */
void sink_id(const struct sink *, int file, struct target_id *);

#endif
