/* Each block stores its size in front of it, because the bytes up to malloc_usable_size must not be
 * written. */
#include "lib/base/private.h"

#include <stdalign.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define HEAD alignof(max_align_t)
_Static_assert(HEAD >= sizeof(size_t), "the size stands in front of the block");

static size_t *size_of(void *p)
{
	return (size_t *)(void *)((char *)p - HEAD);
}

void *private_malloc(size_t n)
{
	char *block = n <= SIZE_MAX - HEAD ? malloc(HEAD + n) : NULL;
	if (!block)
		return NULL;
	*(size_t *)(void *)block = n;
	return block + HEAD;
}

void *private_calloc(size_t count, size_t size)
{
	size_t n;
	void *p = __builtin_mul_overflow(count, size, &n) ? NULL : private_malloc(n);
	if (p)
		memset(p, 0, n);
	return p;
}

void *private_realloc(void *p, size_t n)
{
	void *more = private_malloc(n);
	if (p && more) {
		size_t old = *size_of(p);
		memcpy(more, p, old < n ? old : n);
		private_free(p);
	}
	return more;
}

char *private_strdup(const char *text)
{
	size_t n = strlen(text) + 1;
	char *copy = private_malloc(n);
	return copy ? memcpy(copy, text, n) : NULL;
}

void private_free(void *p)
{
	if (!p)
		return;
	size_t *head = size_of(p);
	wipe(p, *head);
	free(head);
}
