/*
 * The spool of a dataset of torch's files: tensors that are not in C order in the files, or of
 * which the parts lie in different places, are copied there. One thread.
 */
#ifndef COLLCTL_DATA_TORCH_TORCH_SPOOL_H
#define COLLCTL_DATA_TORCH_TORCH_SPOOL_H

#include "lib/data/dataset/dataset_internal.h"
#include "lib/data/torch/strided.h"

struct torch_spool {
	struct dataset *dataset;
	const struct dataset_source *source; /* with heads_only nothing is copied */
	int file;                            /* of the dataset; -1: none yet */
	uint64_t size;                       /* bytes that are reserved */
};

void torch_spool_init(struct torch_spool *, struct dataset *, const struct dataset_source *);
/* *at: where @bytes may be written in the spool. ERR_INPUT: the copies have more than
 * TORCH_EXPANDS times the bytes of the dataset's files, and more than --memory, as only a file can
 * say that repeats elements; ERR_RESOURCE. */
#define TORCH_EXPANDS 100
int torch_spool_reserve(struct torch_spool *, uint64_t bytes, uint64_t *at, struct err *err);
/* Are the elements @of, @bytes together, in another order than C order, or big-endian, so that
 * torch_spool_place copies them? */
bool torch_spool_copies(const struct strided *of, uint64_t bytes);
/* Where the elements @of in file *@file lie in C order, *@offset: there, or copied to the spool
 * (*@file changes). @bytes: of all elements. */
int torch_spool_place(struct torch_spool *, const struct strided *of, uint64_t bytes, int *file,
                      uint64_t *offset, struct err *err);
/* Run @fn, which may copy many bytes: by source->aside, or here if that is NULL. */
int torch_spool_aside(const struct torch_spool *, int (*fn)(void *arg, struct err *), void *arg,
                      struct err *err);
/* All is copied: set the sizes of the dataset, and the metadata of its outputs. */
int torch_spool_end(struct torch_spool *, struct err *err);

#endif
