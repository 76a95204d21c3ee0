#include "lib/base/pool.h"

#include <stdint.h>
#include <stdlib.h>

#define CHUNK (64u << 10)

struct pool_chunk {
	struct pool_chunk *next;
	size_t used, cap;
	uint64_t data[];
};

void *pool_alloc(struct pool *pool, size_t bytes, const char *what, struct err *err)
{
	struct pool_chunk *c = pool->chunks;
	const size_t n = (bytes + 7) / 8 * 8;
	if (!c || n > c->cap - c->used) {
		const size_t cap = n > CHUNK ? n : CHUNK;
		c = err_malloc(sizeof *c + cap, what, err);
		if (!c)
			return NULL;
		*c = (struct pool_chunk){.next = pool->chunks, .cap = cap};
		pool->chunks = c;
	}
	void *p = (char *)c->data + c->used;
	c->used += n;
	return p;
}

void pool_release(struct pool *pool)
{
	struct pool_chunk *next;
	for (struct pool_chunk *c = pool->chunks; c; c = next) {
		next = c->next;
		free(c);
	}
	pool->chunks = NULL;
}
