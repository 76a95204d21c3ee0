/* Shared by the files of the sink: sink.c lists and writes files, sink_open.c opens them,
 * sink_clone.c makes them clones, sink_commit.c seals and renames them; sink_like.c and the
 * formats' files determine the files of an output and their contents. */
#ifndef COLLCTL_DATA_FILES_SINK_INTERNAL_H
#define COLLCTL_DATA_FILES_SINK_INTERNAL_H

#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/data/files/names_taken.h"
#include "lib/data/files/outfile.h"
#include "lib/data/files/sink.h"
#include "lib/data/files/sink_folder.h"
#include "lib/data/files/staging.h"
#include "lib/data/formats/npz.h"

/* A tensor as an array of @format in a separate file. */
int sink_tensor_info(const struct tensor *t, const struct format *format, struct array_info *info,
                     struct err *err);
/* Pointers to the tensors of @like, stably sorted by file. Malloced; NULL: an error. */
const struct tensor **sink_by_file(const struct dataset *like, struct err *err);
/* Add a .safetensors file of the tensors @of[n] of @like. Sorts @of. */
int sink_add_safetensors(struct sink *, const char *path, const struct dataset *like,
                         const struct tensor **of, size_t n, const char *metadata,
                         struct place *places, struct err *err);
/* sink_add_like for a sharded set. */
int sink_add_set(struct sink *, const char *path, const struct dataset *like, struct place *places,
                 struct err *err);

/* Mark @file as the index of a set that readers open by its folder. */
void sink_set_index(struct sink *, int file);
/* The .safetensors files in @folder that the sink does not write. @first: the name of one. */
int sink_set_strays(const struct sink *, const char *folder, char *first, size_t cap);

/* The members of an archive, stored consecutively in a spool until they are packed. Empty when
 * zeroed. */
struct archive {
	size_t n;
	struct npz_member *members; /* owns their names */
	struct archive_head {
		void *data; /* the beginning of the member, a .npy header */
		size_t len;
	} * heads;
	uint64_t bytes; /* bytes of all members */
	/* Write the archive of @n members from @spool to @fd. ERR_OUTPUT; the error names no file.
	 */
	int (*pack)(int spool, const struct npz_member *, size_t n, int fd, struct err *err);
};

/* Append a member of @len bytes of header, which are copied, and @bytes of data. */
int archive_add(struct archive *, const char *name, const void *head, size_t len, uint64_t bytes,
                struct err *err);

void archive_release(struct archive *);

/* Add a file that is written as the members of *@a. The sink takes ownership of *@a, also on
 * failure. Returns the file's index, or -1. */
int sink_add_archive(struct sink *, const char *path, struct archive *a, struct err *err);

/* The state: sink.c, sink_open.c, sink_clone.c and sink_commit.c use it. */

struct sink_file {
	char *path;
	size_t top; /* as for beneath_open */
	struct sink_attributes attributes;
	bool is_stdout;
	bool is_index;       /* of a set that is read from its folder */
	bool dropped;        /* another rank writes it */
	bool exists;         /* sink_check has found a file to replace */
	bool fresh;          /* sink_expect_none */
	int named_by;        /* that rank */
	bool own;            /* the file at path already has the bytes to write (sink_leave_own) */
	int own_fd;          /* that file; -1: it is not open */
	bool equal;          /* sink_keep */
	int part;            /* descriptor of the part, until sink_open; -1 */
	const char *no_part; /* sink_resume: why sink_open has opened no part; NULL: it has */
	int to;              /* sink_link: that file; -1 */
	const char *points_to;     /* of a symbolic link; NULL: it is a file */
	bool linked;               /* another file is a link to it */
	bool staged;               /* its bytes are in sink.staging, */
	uint64_t at;               /* from here on; */
	bool synced_alone;         /* not with all others of its file system */
	const struct sparse *data; /* sink_set_data; NULL: there are no holes */
	void *head;
	size_t head_len;
	uint64_t size;
	struct outfile out; /* stdout's is a spool */
	bool packed;        /* an archive with these members */
	struct archive archive;
	struct outfile spool; /* the members, until they are packed into .out */
};

struct sink {
	bool sync, force, committed;
	bool resume;                  /* sink_resume */
	struct sink_capture *capture; /* sink_capture; NULL: stdout is stdout */
	bool symlinks;                /* sink_replace_symlinks */
	bool deferred;                /* sink_defer */
	bool awaits;                  /* sink_await_clones */
	bool complete;                /* sink_commit has placed all files */
	_Atomic uint64_t written;     /* by sink_pwrite */
	struct sink_file *files;
	int nfiles;
	struct sink_folder *folders; /* folders to create, in this order */
	int nfolders;
	struct names_taken taken; /* by the files that sink_open or sink_check has looked at */
	struct staging staging;   /* of many small files */
};

/* Is the file at the path left as it is? */
static inline bool sink_keeps(const struct sink_file *f)
{
	return f->own || f->equal;
}

/* Is it a hard or symbolic link, which the sink makes when it is sealed? */
static inline bool sink_is_link(const struct sink_file *f)
{
	return f->to >= 0 || f->points_to;
}

/* Does this rank rename this file? */
static inline bool sink_places(const struct sink_file *f)
{
	return !f->is_stdout && !f->dropped && !sink_keeps(f);
}

/* Are many small files staged? */
bool sink_stages(const struct sink *);
/* Another rank's name must not replace a file of this user: ERR_OUTPUT if there is one now. */
int sink_check_fresh(const struct sink *, const struct sink_file *, struct err *err);

#endif
