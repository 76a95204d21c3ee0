/* Between the parts of the sink: sink.c is its life; sink_like.c and the formats' files say which
 * files an output consists of, and what stands in them. */
#ifndef COLLCTL_DATA_SINK_INTERNAL_H
#define COLLCTL_DATA_SINK_INTERNAL_H

#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/data/npz.h"
#include "lib/data/sink.h"

/* A tensor as an array of @format in a file of its own. */
int sink_tensor_info(const struct tensor *t, enum array_format format, struct array_info *info,
                     struct err *err);
/* Pointers to the tensors of @like, sorted by file, and else in their order. Malloced; NULL: an
 * error. */
const struct tensor **sink_by_file(const struct dataset *like, struct err *err);
/* A .safetensors file of @n tensors of @like; @of: pointers to them, which are sorted anew. */
int sink_add_safetensors(struct sink *, const char *path, const struct dataset *like,
                         const struct tensor **of, size_t n, const char *metadata,
                         struct place *places, struct err *err);
/* sink_add_like of a sharded set. */
int sink_add_set(struct sink *, const char *path, const struct dataset *like, struct place *places,
                 struct err *err);

/* sink_add_like of an .npz. */
int sink_add_npz(struct sink *, const char *path, const struct dataset *like, struct place *places,
                 struct err *err);

/* Zeroed: empty. An archive's members, which lie one after another in a spool until they are
 * packed. */
struct archive {
	size_t n, cap;
	struct npz_member *members; /* their names are the archive's */
	struct archive_head {
		void *data; /* the beginning of the member, a .npy header */
		size_t len;
	} * heads;
	uint64_t bytes; /* of all members */
};

void archive_release(struct archive *);

/* A file that is written as the members of *@a, which is taken over, also on failure. Returns its
 * index, or -1. */
int sink_add_archive(struct sink *, const char *path, struct archive *a, struct err *err);

#endif
