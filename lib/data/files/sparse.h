/* Sparse files: their data, which are what is sent, and their holes, which read as zeros. Sizes are
 * bytes. Thread-safe. */
#ifndef COLLCTL_DATA_FILES_SPARSE_H
#define COLLCTL_DATA_FILES_SPARSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

/* A part of a file. */
struct file_range {
	uint64_t offset, bytes;
};

/* The data of a file. Zeroed: a file without holes. */
struct sparse {
	bool sparse;              /* there are holes: data is all that is not one */
	struct file_range *range; /* ascending, not empty, with a hole between two; malloced */
	size_t n;
};
void sparse_release(struct sparse *);

/* Find the holes in the first @size bytes of @fd (SEEK_HOLE). At most @most ranges: if there are
 * more, the smallest holes count as data. A file system that knows of no holes has none. The file
 * offset of @fd changes. ERR_RESOURCE. */
int sparse_find(struct sparse *, int fd, uint64_t size, size_t most, struct err *err);
/* Bytes of data in a file of @size bytes. */
uint64_t sparse_bytes(const struct sparse *, uint64_t size);
/* Call @fn for each part of the @bytes from @offset on that is data, in order. Stops at the first
 * nonzero result, and returns it. */
int sparse_visit(const struct sparse *, uint64_t offset, uint64_t bytes,
                 int (*fn)(void *ctx, uint64_t offset, uint64_t bytes, struct err *err), void *ctx,
                 struct err *err);

#endif
