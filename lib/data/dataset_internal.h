/* How datasets are put together, for the files that open them. */
#ifndef COLLCTL_DATA_DATASET_INTERNAL_H
#define COLLCTL_DATA_DATASET_INTERNAL_H

#include "lib/data/dataset.h"

/* Append the open file @fd, which is the dataset's from here on, also on failure. Returns its
 * index, or -1. */
int dataset_add_file(struct dataset *, int fd, const char *path, bool spooled, struct err *err);
/* Append a copy of @t, its name and shape included, as of file @file. */
int dataset_add_tensor(struct dataset *, const struct tensor *t, int file, struct err *err);
/* Add the tensors that the header of .safetensors file @file describes. */
int dataset_add_safetensors(struct dataset *, int file, struct err *err);
/* Bring the tensors into the canonical order. ERR_INPUT: a name is there twice. */
int dataset_sort(struct dataset *, struct err *err);

/* A sharded set: by its index or its folder at d->path. */
int dataset_open_set(struct dataset *, struct err *err);

/* Open all files in the folder d->path. Their names are paths relative to it, sorted by bytes. */
int dataset_open_tree(struct dataset *, const struct dataset_source *, struct err *err);

/* Would a set of the files for which @is_ours, whose index is @index (NULL: it has none), be read
 * as such from @folder, whatever else is there? ERR_OUTPUT, naming the file because of which not.
 */
int dataset_set_alone(const char *folder, const char *index,
                      bool (*is_ours)(void *ctx, const char *name), void *ctx, struct err *err);

#endif
