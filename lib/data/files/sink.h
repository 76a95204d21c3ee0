/*
 * A sink: all the files that a rank writes: one, several (several -o, --each), or the files of a
 * sharded set. They are committed all or none: the bytes are written to unnamed or temporary files
 * (outfile.h); sink_commit renames them in the order in which they were added, and if a rename
 * fails, it restores the earlier targets.
 *
 * Order of calls: new -> add ... -> open -> pwrite ... -> seal -> commit -> free. ERR_OUTPUT names
 * the file. Sizes are bytes. A file is identified by its index, from 0 in the order of adding. One
 * thread, except where a function is thread-safe.
 */
#ifndef COLLCTL_DATA_FILES_SINK_H
#define COLLCTL_DATA_FILES_SINK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/stat.h>
#include <time.h>

#include "lib/base/err.h"
#include "lib/base/xxh3.h"
#include "lib/data/dataset/dataset.h"
#include "lib/data/files/beneath.h"
#include "lib/data/files/room.h"
#include "lib/data/files/sparse.h"
#include "lib/data/files/target.h"

struct sink;

/* @sync, @force: as for outfile_open. NULL: out of memory. */
struct sink *sink_new(bool sync, bool force, struct err *err);
/* Remove what was not committed, including created folders. @sink may be NULL. */
void sink_free(struct sink *);

/* Add a file at @path ("-": stdout, to which it is copied at the commit) of @size bytes, which
 * begins with @head[head_len]; @head is copied. Returns the file's index; -1: error. */
int sink_add(struct sink *, const char *path, const void *head, size_t head_len, uint64_t size,
             struct err *err);
/* Add the folder @path, which sink_open creates unless it exists. Its parent must exist or be added
 * before. ERR_USAGE: @path is "-". */
int sink_add_folder(struct sink *, const char *path, struct err *err);
/* Attributes that a copy gets from its original. */
struct sink_attributes {
	bool has_mode, has_time;
	unsigned mode; /* permissions */
	struct timespec modified;
};
void sink_set_attributes(struct sink *, int file, const struct sink_attributes *);
/* The file has holes, to which sink_pwrite writes nothing; @data must outlive the sink. */
void sink_set_data(struct sink *, int file, const struct sparse *data);
/* The file is a hard link to the earlier file @to. It is not written; the sink makes the link when
 * it is sealed or, where that is not possible, a copy. */
void sink_link(struct sink *, int file, int to);
/* Another rank has chosen the part of the file's path after the first @top bytes: do not follow
 * symbolic links there (beneath.h). */
void sink_set_top(struct sink *, int file, size_t top);
/* Rank @by has chosen the file's name: if a file of this name exists, sink_open and sink_check fail
 * with ERR_OUTPUT, unless the sink has @force. */
void sink_expect_none(struct sink *, int file, int by);
/* As sink_add and sink_add_folder, for a @name that another rank has chosen (path_check_below), in
 * the folder @top; symbolic links below it are not followed. A folder gets the attributes only if
 * it is created. The folder "" is @top. */
int sink_add_below(struct sink *, const char *top, const char *name, uint64_t size,
                   const struct sink_attributes *, struct err *err);
int sink_add_folder_below(struct sink *, const char *top, const char *name,
                          const struct sink_attributes *, struct err *err);
/* The same for a symbolic link to @target, which must outlive the sink. If there is one with this
 * target, it is left. */
int sink_add_symlink_below(struct sink *, const char *top, const char *name, const char *target,
                           const struct sink_attributes *, struct err *err);
/* Where another rank has chosen the names, with @force, files replace symbolic links, and links
 * files; without, that is ERR_OUTPUT. */
void sink_replace_symlinks(struct sink *);
/* Before sink_open: a file with the attributes @is already has the bytes to write. If it is the
 * file at the output's path, do not write the output. @fd: the file, which the caller keeps open
 * until sink_free; -1: it is not open. */
void sink_leave_own(struct sink *, int file, const struct stat *is, int fd);
/* Before sink_open: the file for stdout ("-") stays in memory. */
struct sink_capture {
	uint64_t bytes;  /* how many it must have without its head; UINT64_MAX: any number */
	enum dtype want; /* the type that its elements must have; u8: bytes of any; u16: also of f16
	                    and bf16; DTYPE_NONE: any */
	void *memory; /* where its elements are written, and read until sink_free; NULL: to the file
	               */
	enum dtype dtype; /* the type of its elements; by sink_set_dtype */
	int fd; /* set by sink_open: the file, which the caller closes; else it stays -1 */
};
void sink_capture(struct sink *, struct sink_capture *);
/* The file is an array of this type. */
void sink_set_dtype(struct sink *, int file, enum dtype);
/* Before sink_open: write the files to parts (part.h), which stay if they are not committed. */
void sink_resume(struct sink *);
/* Before sink_open: open the file's part, to read it: a descriptor, which the sink closes; -1:
 * there is none that can be used. sink_open goes on with what it contains, and nobody else can use
 * it until sink_free. */
int sink_open_part(struct sink *, int file);
/* After sink_open: the number of files that should have a part, and have none. *path: the first of
 * them, *why: the reason. */
int sink_without_part(const struct sink *, const char **path, const char **why);
/* Before sink_open: open the file that the output would replace, to read it: a descriptor, which
 * the caller closes; -1: there is none, or it is no file, or a symbolic link that the output would
 * not follow. @err, which may be NULL: ERR_RESOURCE if it cannot be known. */
int sink_open_old(const struct sink *, int file, struct err *err);
/* The same without opening it: 0, and its attributes, or -1. @last: the folder of the last one; the
 * caller releases it. */
int sink_stat_old(const struct sink *, int file, struct beneath *last, struct stat *,
                  struct err *err);
/* Before sink_open: the file at the output's path is what it should be: leave it. Nothing is
 * written to the output, or read from it. */
void sink_keep(struct sink *, int file);
/* Before sink_open: another rank writes the same bytes to the same file. This rank writes them to
 * an unnamed file, only to compute the digest. */
void sink_drop(struct sink *, int file);

/* Where the elements of a tensor begin in the outputs. */
struct place {
	int file;        /* index in the sink */
	uint64_t offset; /* bytes */
};
/* Add the files of an output @path with the tensors of @like (perhaps after dataset_select), in the
 * same format. A sharded set has files of the same names, without those that have none of the
 * tensors; the index is added last. Elements are little-endian and keep Fortran order. places[i]:
 * the place of tensor i of @like. ERR_USAGE, with what to do instead: the extension is another
 * format's, a set would be written to a file, or a file to a folder. */
int sink_add_like(struct sink *, const char *path, const struct format *hint,
                  const struct dataset *like, struct place *places, struct err *err);
/* Split the output @path of a set, whose input's index has the name @input_index (NULL: none), into
 * the folder and the name of the index there (NULL: none). Both are malloced, and are set also on
 * failure. ERR_USAGE: @path is a file. */
int sink_split_set(const char *path, const char *input_index, char **folder, char **index,
                   struct err *err);
/* After the files of a set and its @index (NULL: none) were added, for the output @path in @folder:
 * ERR_OUTPUT if a reader of the folder would read another set, because of an index or of files that
 * are already there. sink_add_like calls it. */
int sink_check_set(struct sink *, const char *path, const char *folder, const char *index,
                   struct err *err);
/* After the commit: call @tell for each folder to which this rank has written a set with an index,
 * and that has @n > 0 other .safetensors files; @first is one of them. */
void sink_strays(const struct sink *,
                 void (*tell)(void *ctx, const char *folder, const char *first, int n), void *ctx);
/* As sink_add_like, for a single array (.npy, raw) that @info describes. */
int sink_add_array(struct sink *, const char *path, const struct format *hint,
                   const struct array_info *info, struct place *place, struct err *err);

/* Check that an output of format @want may have the name @path. ERR_USAGE, with what to do
 * instead. */
int sink_check_format(const char *path, const struct format *hint, const struct format *want,
                      struct err *err);

/* What sink_open, sink_seal and sink_commit would do with a file. */
enum sink_fate {
	SINK_CREATE,
	SINK_REPLACE,
	SINK_KEEP,  /* it has the bytes already (sink_leave_own) */
	SINK_EQUAL, /* the same (sink_keep) */
	SINK_LEAVE, /* another rank writes it (sink_drop) */
	SINK_STDOUT,
};
/* Instead of sink_open: find the errors that sink_open and sink_commit would have, as far as
 * possible without creating anything. Afterwards only sink_room, sink_fate, sink_id and sink_free
 * may be called. */
int sink_check(struct sink *, struct err *err);
/* Add what the files need to @room, which borrows their paths. */
int sink_room(const struct sink *, struct room *room, struct err *err);
enum sink_fate sink_fate(const struct sink *, int file);

/* Create all files, allocate their bytes and write their headers. ERR_USAGE: two outputs are the
 * same file, also by different paths. */
int sink_open(struct sink *, struct err *err);

/*
 * Clones: another sink of this machine has files with the same bytes on the same file system. This
 * one makes its files clones of those (outfile_clone) instead of writing them:
 *
 *     sink_defer -> open -> sink_await_clones -> sink_clone each -> seal
 *     sink_defer -> open -> sink_fill -> pwrite ... (it is written after all)
 */

/* Before sink_open: can the files be clones? Not stdout, archives, files that are left as they are,
 * and parts. */
bool sink_may_clone(const struct sink *);
/* Before sink_open: create the files empty. */
void sink_defer(struct sink *);
/* Allocate the bytes of these files, and write their heads. */
int sink_fill(struct sink *, struct err *err);
/* Are all files on one file system, which has clones? *@dev: it. They are empty. */
bool sink_has_clones(const struct sink *, dev_t *dev);
/* Add to @hash what the files have besides what sink_pwrite writes. */
void sink_hash(const struct sink *, XXH3_state_t *hash);
/* From now on sink_pwrite writes nothing. */
void sink_await_clones(struct sink *);
bool sink_awaits_clones(const struct sink *);
/* The descriptor of a file, owned by the sink; -1: it is a link. */
int sink_descriptor(const struct sink *, int file);
/* Make the file a clone of @from, which another rank has passed, or a copy: *@error as of
 * outfile_clone. ERR_INTEGRITY: @from is no regular file of the same size and file system. */
int sink_clone(struct sink *, int file, int from, int *error, struct err *err);

/* Thread-safe for different ranges. */
int sink_pwrite(struct sink *, int file, const void *buf, size_t bytes, uint64_t pos, struct err *);
int sink_pread(struct sink *, int file, void *buf, size_t bytes, uint64_t pos, struct err *err);
/* Do before the renames all that may fail: pack archives, sync and check files, give them temporary
 * names, and keep the files that they replace by other names. Ends early as offload_stopped says.
 */
int sink_seal(struct sink *, struct err *err);
/* Rename all files or none; then copy the output for stdout. After a failure the old files are
 * restored, as far as possible (outfile_keep); the error also names files that were not. If the
 * process is killed meanwhile, each file is complete, old or new. */
int sink_commit(struct sink *, struct err *err);

/* Which files are at the targets after sink_commit, also if it has failed. stdout counts as a
 * file. */
enum sink_state { SINK_NO_FILES, SINK_ALL_OLD, SINK_ALL_NEW, SINK_MIXED };
enum sink_state sink_state(const struct sink *);

/* How far the files are: bytes that sink_pwrite has written, also of a spool; of the files those
 * that are on disk, of these `waited` in as many ns. Without sync none. Thread-safe from sink_open
 * to sink_free. */
struct sink_progress {
	uint64_t written, stored, waited, waited_ns;
};
struct sink_progress sink_progress(const struct sink *);
/* Does this rank write any of the files? Does it wait until they are on disk? */
bool sink_writes(const struct sink *);
bool sink_syncs(const struct sink *);

int sink_files(const struct sink *);
int sink_descriptors(const struct sink *); /* the most that sink_open opens */
uint64_t sink_size(const struct sink *,
                   int file); /* bytes; 0 for an archive that is not packed yet */
bool sink_is_packed(const struct sink *, int file);        /* is it an archive? */
const char *sink_path(const struct sink *, int file);      /* for messages */
const char *sink_points_to(const struct sink *, int file); /* of a symbolic link; NULL: a file */
/* The identity of the file's target, as sink_open or sink_check found it. Not known: of stdout, of
 * SINK_KEEP and SINK_LEAVE, and in a folder that must be created. */
void sink_id(const struct sink *, int file, struct target_id *);

#endif
