/*
 * Allocators for libraries that do not report a lack of memory as such. They record each failure,
 * so that the error becomes ERR_RESOURCE and not bad bytes, a wrong secret or a lost peer.
 */
#ifndef COLLCTL_BASE_MEMORY_H
#define COLLCTL_BASE_MEMORY_H

#include <stdbool.h>
#include <stddef.h>

/* As malloc and its kin. */
void *memory_malloc(size_t n);
void *memory_realloc(void *p, size_t n);
void memory_free(void *p);

/* Has one of them failed? Stays true: a library may remain incompletely initialised. */
bool memory_lacked(void);

#endif
