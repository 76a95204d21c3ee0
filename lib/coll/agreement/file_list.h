/*
 * Lists of a rank's files with sizes and attributes, as in messages (lib/net/PROTOCOL.md): the
 * root's files in a broadcast, every rank's in a gather. No file access; one thread. Encoders and
 * decoders as in agree_wire.h; decoders also check every name. The caller releases a decoded list
 * in either case.
 */
#ifndef COLLCTL_COLL_AGREEMENT_FILE_LIST_H
#define COLLCTL_COLL_AGREEMENT_FILE_LIST_H

#include <limits.h>

#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/base/host_name.h"
#include "lib/data/files/sparse.h"
#include "lib/data/formats/array.h"

#define MODE_NONE            0x8000u
#define FILE_LIST_NAMES_MAX  (16u << 20) /* the most bytes of all names */
#define FILE_LIST_NAME_MAX   (PATH_MAX - 1)
#define FILE_LIST_RANGES_MAX 8192u /* the most ranges of data of all sparse files */

struct listed_file {
	char *name;     /* malloced */
	uint64_t bytes; /* a folder, or linked: 0 */
	unsigned mode;  /* permissions; MODE_NONE: a pipe, without permissions and time */
	int64_t mtime;  /* ns since 1970 */
	bool linked;    /* of a tree: a hard link to the earlier file number */
	int to;
	bool equal;         /* gather --update: the root has it */
	struct sparse data; /* owned */
	char *target;       /* of a symbolic link; malloced */
};
struct file_list {
	const struct format *format;
	bool folder; /* the output is a folder, whose files have these names */
	bool tree;   /* the names are paths relative to this folder */
	struct listed_file *files;
	int nfiles;
	size_t nranges; /* of data, of the files that files_find_holes has examined */
	struct listed_file
	        *folders; /* of a tree; each is before its contents; "": the top folder */
	int nfolders;
	struct listed_file *links; /* of a tree: symbolic links that stay in it */
	int nlinks;
};
void file_list_release(struct file_list *);
/* Bytes that are sent of a file: those that are not in holes. */
static inline uint64_t listed_bytes(const struct listed_file *f)
{
	return f->equal ? 0 : sparse_bytes(&f->data, f->bytes);
}
/* Set *twice to a name that the list has twice, or to NULL. ERR_RESOURCE. */
int file_list_twice(const struct file_list *, const char **twice, struct err *err);
/* Bytes of memory that the list takes. */
uint64_t file_list_memory(const struct file_list *);
void file_list_put(struct buf *, const struct file_list *);
/* Decode a list. With `folder`, each name must be plain (path_is_plain) or, with `tree`, a path
 * below the folder (path_check_below), and no path may have a link as a folder; links must stay in
 * the folder (path_link_stays); else ERR_DISAGREE. All names must differ. */
int file_list_get(struct view *, struct file_list *, struct err *err);

/* The files that a rank contributes to a gather, and its host. */
struct rank_files {
	struct file_list files; /* base names, or a tree: the rank's folder */
	char host[HOST_NAME];
};
static inline bool rank_files_is_folder(const struct rank_files *s)
{
	return s->files.nfolders > 0;
}
void rank_files_release(struct rank_files *);
void rank_files_put(struct buf *, const struct rank_files *);
/* Decode them: a folder, with @n 1, or @n files. ERR_DISAGREE: the name of the host is not valid,
 * or that of a file would leave its folder. Names may be hidden, because the root chooses the names
 * of its outputs. */
int rank_files_get(struct view *, struct rank_files *, int n, struct err *err);
/* Of such files. The bytes of vector @i that the rank sends: of its folder, or of file @i. */
uint64_t file_list_bytes(const struct file_list *, int i);
/* gather --update: encode which files the rank does not send, and what remains of each of its @n
 * vectors. */
void file_list_put_equal(struct buf *, const struct file_list *, int n);
/* Decode that into the files. False: it does not fit them. */
bool file_list_get_equal(struct view *, struct file_list *, int n);

#endif
