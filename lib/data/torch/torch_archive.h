/*
 * An archive of torch.save (since version 1.6), which may be a part of a file: NAME/data.pkl has
 * the tensors' names, shapes and strides, NAME/data/KEY a storage's elements. One thread.
 */
#ifndef COLLCTL_DATA_TORCH_TORCH_ARCHIVE_H
#define COLLCTL_DATA_TORCH_TORCH_ARCHIVE_H

#include "lib/data/torch/strided.h"
#include "lib/data/torch/torch_values.h"
#include "lib/data/torch/zip_directory.h"

#define TORCH_FOLDER 512 /* bytes of NAME, with its NUL */

struct torch_archive {
	int fd; /* the caller's */
	const char *path;
	struct zip_directory zip;
	char folder[TORCH_FOLDER];
	bool swapped; /* big-endian */
};

/* Open the archive in the @size bytes at @at of @fd. @path must outlive it. ERR_INPUT: it is no
 * archive of torch.save, or a TorchScript program. On failure there is nothing to release. */
int torch_archive_open(struct torch_archive *, int fd, const char *path, uint64_t at, uint64_t size,
                       struct err *err);
void torch_archive_release(struct torch_archive *);

struct torch_archive_visitor {
	bool pieces; /* as in struct torch_visitor */
	/* @of: where its elements lie in the file. */
	int (*tensor)(void *ctx, const char *name, const struct torch_tensor *,
	              const struct strided *of, struct err *err);
	int (*other)(void *ctx, const char *name, const struct pickle_value *, struct err *err);
	void *ctx;
};
/* Call the visitor for all values, as torch_visit does. The elements of each tensor are in the
 * file. Errors name the path. */
int torch_archive_visit(const struct torch_archive *, const struct torch_archive_visitor *,
                        struct err *err);

#endif
