/*
 * A virtual array: elements of one type, whose bytes are the concatenation of extents; an extent is
 * a range of bytes in a file of a dataset or of a sink. Adjacent extents are merged. Offsets and
 * lengths are bytes. Any thread may visit extents that do not change.
 */
#ifndef COLLCTL_DATA_FILES_EXTENTS_H
#define COLLCTL_DATA_FILES_EXTENTS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

struct extent {
	uint64_t at; /* offset of its first byte in the virtual array */
	int set;     /* index of the dataset, if there are several */
	int file;
	uint64_t offset; /* offset of its first byte in that file */
	bool swapped;
};

/* Empty when zeroed. */
struct extents {
	struct extent *v;
	size_t n;
	uint64_t bytes;
};

/* Append. -1: out of memory. */
int extents_add(struct extents *, int set, int file, uint64_t offset, uint64_t bytes, bool swapped,
                struct err *err);
void extents_release(struct extents *);

/* Call @visit for each piece of bytes [pos, pos + bytes) in order; .at and .offset of @e are those
 * of the piece's first byte. Stops at the first nonzero result and returns it. */
int extents_visit(const struct extents *, uint64_t pos, uint64_t bytes,
                  int (*visit)(void *ctx, const struct extent *e, uint64_t bytes, struct err *err),
                  void *ctx, struct err *err);

#endif
