/* Copies a view of an array, with any strides, to C order. Thread-safe: it has no state. */
#ifndef COLLCTL_DATA_TORCH_STRIDED_H
#define COLLCTL_DATA_TORCH_STRIDED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/data/dtype.h"

/* Element (i, j, ...) lies dtype_size(@dtype) * (i * stride[0] + j * stride[1] ...) bytes after @at
 * in @in. An axis of stride 0 repeats its elements. */
struct strided {
	int ndim;
	const uint64_t *shape, *stride; /* [ndim]; strides in elements */
	enum dtype dtype;
	bool swapped; /* big-endian: the copy is not */
	uint64_t at;  /* bytes */
};

/* Are the elements consecutive, in C order? */
bool strided_is_c_order(const struct strided *);

/* Write the elements in C order to offset @out_at of @out, with about @memory bytes. The caller has
 * checked that all lie in @in. ERR_INPUT: @in became shorter; ERR_RESOURCE. Errors name no file. */
int strided_to_c(const struct strided *, int in, int out, uint64_t out_at, size_t memory,
                 struct err *err);

#endif
