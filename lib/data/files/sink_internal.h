/* Shared by the files of the sink: sink.c creates, writes and renames files; sink_like.c and the
 * formats' files determine the files of an output and their contents. */
#ifndef COLLCTL_DATA_FILES_SINK_INTERNAL_H
#define COLLCTL_DATA_FILES_SINK_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/data/files/sink.h"
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

#endif
