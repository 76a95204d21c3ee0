/*
 * Memory that libraries allocate. Not all of them say that memory was lacking when something fails
 * for that reason, so they get allocators that note it: an error of theirs is then told as what it
 * is (ERR_RESOURCE), and not as bad bytes, a wrong secret or a lost peer.
 */
#ifndef COLLCTL_BASE_MEMORY_H
#define COLLCTL_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* As malloc and its kin. */
void *memory_malloc(size_t n);
void *memory_realloc(void *p, size_t n);
void memory_free(void *p);

/* Has one of them failed? It stays so: a library may be left without a part of itself for ever. */
bool memory_lacked(void);

#endif
