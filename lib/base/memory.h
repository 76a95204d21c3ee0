/*
 * Allocators for libraries that do not distinguish a lack of memory from other failures. They
 * record each failure, so that the caller can report ERR_RESOURCE instead of bad bytes, a wrong
 * secret or a lost peer. Thread-safe.
 */
#ifndef COLLCTL_BASE_MEMORY_H
#define COLLCTL_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* As malloc, realloc and free. A size of 0 counts as 1. */
void *memory_malloc(size_t n);
void *memory_realloc(void *p, size_t n);
void memory_free(void *p);

/* Has an allocation failed? Stays true, because a library may remain incompletely initialised. */
bool memory_lacked(void);

#endif
