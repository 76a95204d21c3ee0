/*
 * The tensors of an output, where they differ from those of the input: other element types
 * (--output-dtype), other files (--max-shard-size). One thread.
 */
#ifndef COLLCTL_DATA_DATASET_DATASET_OUTPUT_H
#define COLLCTL_DATA_DATASET_DATASET_OUTPUT_H

#include "lib/data/dataset/dataset.h"

struct dataset_output {
	/* What sink_add_like lays out. tensors[i] is tensor i of the input. Borrows from the input;
	 * it has no open files. */
	struct dataset like;
	struct tensor *tensors;     /* owned */
	struct dataset_file *files; /* owned; NULL: the input's */
	char *names;                /* owned: the names of the files */
	char *index;                /* owned: the name of the set's index */
};

/* Begin with the tensors of @in, which must outlive @out. Floats, but not complex numbers, get the
 * type @dtype, if it is not DTYPE_NONE. */
int dataset_output_of(struct dataset_output *out, const struct dataset *in, enum dtype dtype,
                      struct err *err);
/*
 * Divide the tensors into files of at most @bytes of elements, in the order of their names; a
 * larger tensor has a file alone. The output @path is a folder, with the files
 * model-00001-of-0000N.safetensors and the index model.safetensors.index.json, or with one file
 * model.safetensors; or it is the name of the index, STEM.safetensors.index.json, and then the
 * files' names begin with STEM, and there is always an index. ERR_USAGE: @path is another name, or
 * the tensors cannot be a set.
 */
int dataset_output_cut(struct dataset_output *out, const char *path, uint64_t bytes,
                       struct err *err);
void dataset_output_release(struct dataset_output *);

#endif
