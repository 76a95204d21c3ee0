/* Building datasets, for the code that opens files. */
#ifndef COLLCTL_DATA_DATASET_DATASET_INTERNAL_H
#define COLLCTL_DATA_DATASET_DATASET_INTERNAL_H

#include "lib/data/dataset/dataset.h"

/* Append the open file @fd and take ownership of it, also on failure. Returns its index, or -1. */
int dataset_add_file(struct dataset *, int fd, const char *path, bool spooled, struct err *err);
/* Append a file that is opened when it is read. @was: its attributes. */
int dataset_add_closed(struct dataset *, const char *path, const struct stat *was, struct err *err);
/* Append a deep copy of @t as a tensor of file @file. */
int dataset_add_tensor(struct dataset *, const struct tensor *t, int file, struct err *err);
/* Append a value; @json[len]: its text in JSON. */
int dataset_add_value(struct dataset *, const char *name, const char *json, size_t len,
                      struct err *err);
/* Append the array @info as tensor @name. Its header is at @at in file @file. */
int dataset_add_array(struct dataset *, const char *name, const struct array_info *info,
                      uint64_t at, int file, struct err *err);
/* Add the tensors that the header of .safetensors file @file describes. */
int dataset_add_safetensors(struct dataset *, int file, struct err *err);
/* Sort the tensors by name. */
void dataset_arrange(struct dataset *);
/* The same. ERR_INPUT: a name appears twice. */
int dataset_sort(struct dataset *, struct err *err);

/* Open the files of the index @path, pass each to @add, which adds its tensors, and compare those
 * with the index. */
int dataset_open_index_of(struct dataset *, const char *path,
                          int (*add)(void *ctx, int file, struct err *err), void *ctx,
                          struct err *err);
/* *path, malloced: the index of a set of torch files in the folder; NULL: it has none. ERR_INPUT:
 * it has several, and none of the usual name. */
int dataset_torch_index(const char *folder, char **path, struct err *err);
/* Open the sharded set whose index or folder is d->path. */
int dataset_open_set(struct dataset *, const struct dataset_source *, struct err *err);

/* Open all files in the folder d->path. Their names are paths relative to it, sorted by bytes. */
int dataset_open_tree(struct dataset *, const struct dataset_source *, struct err *err);

/* Check that a reader of @folder would read this set, despite other files in the folder. The set
 * has the files for which @is_ours is true, and the index @index (NULL: none). ERR_OUTPUT names the
 * file that prevents it. */
int dataset_set_alone(const char *folder, const char *index,
                      bool (*is_ours)(void *ctx, const char *name), void *ctx, struct err *err);
/* The number of shards in @folder for which @is_ours is false. *first: the name of one of them. */
int dataset_set_strays(const char *folder, bool (*is_ours)(void *ctx, const char *name), void *ctx,
                       char *first, size_t cap);

#endif
