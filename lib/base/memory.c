#include "lib/base/memory.h"

#include <stdatomic.h>
#include <stdlib.h>

static atomic_bool lacked;

static void *noted(void *p)
{
	if (!p)
		lacked = true;
	return p;
}

void *memory_malloc(size_t n)
{
	return noted(malloc(n ? n : 1));
}

void *memory_realloc(void *p, size_t n)
{
	return noted(realloc(p, n ? n : 1));
}

void memory_free(void *p)
{
	free(p);
}

bool memory_lacked(void)
{
	return lacked;
}
