/*
 * All the files that a rank writes: one, several (-o given several times, --each), or a folder of
 * them (a sharded set). All or nothing: what is written goes to unnamed or temporary files in the
 * targets' folders (outfile.h); sink_commit gives them their names in the order in which they were
 * added and, should one fail, gives the earlier ones their old contents back.
 *
 * Life: new -> add* -> open -> pwrite* -> seal -> commit -> free. Errors: ERR_OUTPUT, naming the
 * file.
 */
#ifndef COLLCTL_DATA_SINK_H
#define COLLCTL_DATA_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <time.h>

#include "lib/base/err.h"
#include "lib/data/dataset.h"

struct sink;

/* @sync, @force: as of outfile_open. NULL: out of memory. */
struct sink *sink_new(bool sync, bool force, struct err *err);
/* Remove what was not committed, also a folder that was made. NULL is fine. */
void sink_free(struct sink *);

/* A file at @path ("-": stdout, copied there at the commit) of @size bytes that begins with
 * @head[head_len], which is copied. Returns the file's index, or -1. */
int sink_add(struct sink *, const char *path, const void *head, size_t head_len, uint64_t size,
             struct err *err);
/* sink_open makes the folder @path unless it exists; its parent exists or was added before.
 * ERR_USAGE for "-". */
int sink_add_folder(struct sink *, const char *path, struct err *err);
/* Attributes of the original that its copy gets. */
struct sink_attributes {
	bool has_mode, has_time;
	unsigned mode; /* permissions */
	struct timespec modified;
};
void sink_set_attributes(struct sink *, int file, const struct sink_attributes *);
/* The same for a @name that comes from another rank (path_is_below), in the folder @top: no symlink
 * is followed there. A folder gets its attributes only if it is made; the name "" is @top itself.
 */
int sink_add_below(struct sink *, const char *top, const char *name, uint64_t size,
                   const struct sink_attributes *, struct err *err);
int sink_add_folder_below(struct sink *, const char *top, const char *name,
                          const struct sink_attributes *, struct err *err);
/* Before sink_open: if @fd, which has the bytes to write, is the file at the output's path, leave
 * it alone. The caller keeps @fd open until sink_free. */
void sink_leave_own(struct sink *, int file, int fd);
/* Before sink_open: another rank writes the same bytes to the same place. Here they go to an
 * unnamed file, to be read back for the digest. */
void sink_drop(struct sink *, int file);

/* Where a tensor of an output begins. */
struct place {
	int file;        /* of the sink */
	uint64_t offset; /* bytes */
};
/* Add the files of an output at @path that holds the tensors of @like (which may have been
 * selected), in the same format and, of a sharded set, in files of the same names with the index
 * last; files that hold none of them are left out. Tensors are stored little-endian; Fortran's
 * order is kept. places[i]: where tensor i of @like goes.
 * ERR_USAGE, with the fix: a name whose extension is of another format; a set that is not to go to
 * a folder (or an index's name in one), or one file to a folder. */
int sink_add_like(struct sink *, const char *path, enum array_format hint,
                  const struct dataset *like, struct place *places, struct err *err);
/* What @path says of the output of a set whose index has the name @input_index (NULL: it has none):
 * its folder, and the index's name there or NULL. Both are malloced, and set on failure too.
 * ERR_USAGE: it names a file. */
int sink_split_set(const char *path, const char *input_index, char **folder, char **index,
                   struct err *err);
/* Once the files of a set, and its @index (NULL: it has none), are added for the output @path in
 * @folder: may they go there? ERR_OUTPUT where another set would be read from the folder
 * afterwards, by an index or with files that are left there. sink_add_like has asked. */
int sink_check_set(const struct sink *, const char *path, const char *folder, const char *index,
                   struct err *err);
/* As sink_add_like, for a single array that is described (.npy, raw): of @info->format. */
int sink_add_array(struct sink *, const char *path, enum array_format hint,
                   const struct array_info *info, struct place *place, struct err *err);

/* May an output of format @want go to a file of the name @path? ERR_USAGE, with the fix. */
int sink_check_format(const char *path, enum array_format hint, enum array_format want,
                      struct err *err);

/* Create them all: preallocated, heads written. Two at one path, however it is written, are
 * ERR_USAGE. */
int sink_open(struct sink *, struct err *err);
/* Thread-safe for different ranges. */
int sink_pwrite(struct sink *, int file, const void *buf, size_t bytes, uint64_t pos, struct err *);
int sink_pread(struct sink *, int file, void *buf, size_t bytes, uint64_t pos, struct err *err);
/* Everything that may fail before the names are given: archives are packed, files synced, checked,
 * linked to temporary names, and what they replace kept by another name. */
int sink_seal(struct sink *, struct err *err);
/* All the names, or none; what goes to stdout is copied there when the rest is in place. A failure
 * puts back what was there (outfile_keep says where that can't be), and the error also tells what
 * it could not put back. A process that is killed in between leaves each file old or new, whole. */
int sink_commit(struct sink *, struct err *err);

/* Bytes written but not known to be on disk. Any thread, from sink_open to sink_free. */
uint64_t sink_behind(const struct sink *);

int sink_files(const struct sink *);
uint64_t sink_size(const struct sink *,
                   int file); /* bytes; of an archive, before it is packed: 0 */
const char *sink_path(const struct sink *, int file); /* for messages */

#endif
