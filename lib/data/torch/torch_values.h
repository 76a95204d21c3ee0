/*
 * What the pickle of torch.save holds: tensors, under names, and other values. Names of nested
 * dicts and lists join with '.': {"model": {"w": T}, "all": [T]} has "model.w" and "all.0". One
 * thread.
 */
#ifndef COLLCTL_DATA_TORCH_TORCH_VALUES_H
#define COLLCTL_DATA_TORCH_TORCH_VALUES_H

#include "lib/data/formats/array.h"
#include "lib/data/torch/pickle.h"

#define TORCH_NAME_MAX 4096 /* bytes of a name, with its NUL */

/* A tensor: element (i, j, ...) is at offset + i * stride[0] + j * stride[1] ... of its storage. */
struct torch_tensor {
	enum dtype dtype;
	const char *storage; /* [storage_len]: the key of its storage */
	uint32_t storage_len;
	uint64_t storage_bytes; /* that the pickle says */
	uint64_t offset;        /* in elements, as strides */
	int ndim;
	uint64_t shape[ARRAY_MAX_DIMS], stride[ARRAY_MAX_DIMS];
	uint64_t count; /* elements */
	/* Of a DTensor: the shape of the whole tensor, and where in it these elements begin. */
	bool piece;
	uint64_t whole[ARRAY_MAX_DIMS], first[ARRAY_MAX_DIMS];
};

struct torch_visitor {
	bool pieces; /* take the local tensor of a DTensor; else it is an error */
	int (*tensor)(void *ctx, const char *name, const struct torch_tensor *, struct err *err);
	/* A number, a text or another plain value; may be NULL. */
	int (*other)(void *ctx, const char *name, const struct pickle_value *, struct err *err);
	void *ctx;
};

/* May a pickle of torch.save name it? For pickle_read. */
bool torch_permits(const struct pickle_global *);
/* Call the visitor for all that is in @root, which is a tensor, a dict or a list. @bytes: the
 * length of the pickle, which bounds the steps. Each tensor lies within its storage. ERR_INPUT
 * names the tensor, and no file: it is sparse, quantised, of an unknown type or leaves its storage,
 * or its name is no text. */
int torch_visit(const struct pickle_value *root, size_t bytes, const struct torch_visitor *,
                struct err *err);

/* The numbers >= 0 of a tuple or a torch.Size, at most ARRAY_MAX_DIMS. */
bool torch_numbers(const struct pickle_value *, uint64_t *numbers, int *n);
/* Is it UTF-8 without NUL? */
bool torch_is_text(const char *s, size_t n);

/* "float32" of torch; DTYPE_NONE: unknown, or one that collctl lacks. */
enum dtype torch_dtype(const char *name, size_t len);

#endif
