/*
 * The files beside the tensors in the folder of a set: config.json, the tokenizer. They go along
 * with the tensors to another folder (--with-files).
 */
#ifndef COLLCTL_DATA_DATASET_DATASET_BESIDE_H
#define COLLCTL_DATA_DATASET_DATASET_BESIDE_H

#include "lib/data/dataset/dataset.h"

/* May a file of this name go along? It must be a plain name, not hidden, and not that of weights or
 * of an index of weights, in any format: they would be read instead of the output. */
bool dataset_beside_name(const char *name);

/* The entries of a folder that the dataset does not read, in the order of their names. */
struct beside {
	char *folder;
	char **names; /* of regular files that may go along, also through symbolic links */
	int n;
	char *left; /* the name of the first other entry; NULL: there is none */
	int nleft;  /* the number of other entries that are not hidden */
};
/* List the folder of a set, which d->path or the index in it names. ERR_INPUT; ERR_USAGE: the
 * dataset is one file. */
int beside_list(struct beside *, const struct dataset *d, struct err *err);
void beside_release(struct beside *);

/* Open the files as the last ones of d->files, and set d->nbeside. ERR_INPUT, ERR_RESOURCE. */
int dataset_add_beside(struct dataset *d, const struct beside *, struct err *err);

#endif
