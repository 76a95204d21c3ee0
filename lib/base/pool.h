/* Memory for many small things that are freed together. One thread. */
#ifndef COLLCTL_BASE_POOL_H
#define COLLCTL_BASE_POOL_H

#include <stddef.h>

#include "lib/base/err.h"

struct pool_chunk;

/* {0}: empty. */
struct pool {
	struct pool_chunk *chunks;
};

/* Allocate @bytes, aligned for 8 bytes, until pool_release. NULL: as err_malloc of @what. */
void *pool_alloc(struct pool *, size_t bytes, const char *what, struct err *err);
/* Idempotent. */
void pool_release(struct pool *);

#endif
