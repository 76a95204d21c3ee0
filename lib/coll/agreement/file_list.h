/*
 * Lists of a rank's files with sizes and attributes, as in messages (lib/net/PROTOCOL.md): the
 * root's files in a broadcast, every rank's in a gather. Pure: no file access. Decoders check every
 * bound and every name and return ERR_INTEGRITY for malformed input. They consume what they read.
 * They allocate at most a constant times the bytes of the message.
 */
#ifndef COLLCTL_COLL_AGREEMENT_FILE_LIST_H
#define COLLCTL_COLL_AGREEMENT_FILE_LIST_H

#include <limits.h>

#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/base/host_name.h"
#include "lib/data/formats/array.h"

#define MODE_NONE           0x8000u
#define FILE_LIST_NAMES_MAX (16u << 20) /* bytes of all names */
#define FILE_LIST_NAME_MAX  (PATH_MAX - 1)

struct listed_file {
	char *name;
	uint64_t bytes; /* 0 for a folder */
	unsigned mode;  /* permissions; MODE_NONE: a pipe, without permissions and time */
	int64_t mtime;  /* ns since 1970 */
};
struct file_list {
	const struct format *format;
	bool folder; /* the output is a folder and file names are kept */
	bool tree;   /* names are paths relative to that folder */
	struct listed_file *files;
	int nfiles;
	struct listed_file *folders; /* of a tree, each before its contents; "": the top folder */
	int nfolders;
};
void file_list_release(struct file_list *);
/* *twice: a name that the list has twice, or NULL. */
int file_list_twice(const struct file_list *, const char **twice, struct err *err);
void file_list_put(struct buf *, const struct file_list *);
/* If names are kept (folder), each must be a plain name (path_is_plain); in a tree, a path below
 * the folder: else ERR_DISAGREE. All names must differ. */
int file_list_get(struct view *, struct file_list *, struct err *err);

/* The files that a rank contributes to a gather, and its host. */
struct rank_files {
	struct file_list files; /* base names */
	char host[HOST_NAME];
};
void rank_files_release(struct rank_files *);
void rank_files_put(struct buf *, const struct rank_files *);
/* @nfiles: the expected number. ERR_DISAGREE: the host has no name, or a file none that stays in
 * its folder. A name may be hidden: whether it becomes a name here is the root's choice. */
int rank_files_get(struct view *, struct rank_files *, int nfiles, struct err *err);

#endif
