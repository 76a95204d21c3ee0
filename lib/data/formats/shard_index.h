/*
 * The index of a sharded set, *.safetensors.index.json, maps tensors to files. Parsing checks what
 * can be checked by the text alone: file names have no folder, and nothing appears twice. Source:
 * the transformers library, save_pretrained.
 */
#ifndef COLLCTL_DATA_FORMATS_SHARD_INDEX_H
#define COLLCTL_DATA_FORMATS_SHARD_INDEX_H

#include <stddef.h>

#include "lib/base/err.h"

struct shard_entry {
	const char *tensor;
	int file; /* index in shard_index.files */
};

struct shard_index {
	struct shard_entry *entries; /* sorted by tensor */
	size_t nentries;
	const char **files; /* sorted */
	int nfiles;
	char *metadata; /* "metadata" as JSON text, malloced; NULL: none */
};

/* Parse the @len bytes of an index. They are overwritten, and strings point into them. ERR_INPUT;
 * the error names no file. On failure there is nothing to release. */
int shard_index_parse(struct shard_index *, char *json, size_t len, struct err *err);
void shard_index_release(struct shard_index *);

/* The entry of a tensor, or NULL. */
const struct shard_entry *shard_index_find(const struct shard_index *, const char *tensor);

#endif
