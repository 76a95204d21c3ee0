/*
 * Memory spaces: where window buffers live. One allocator, so that host buffers can later be
 * backed by a memfd (for ranks of one host to map each other's) and device buffers by a plug-in.
 */
#ifndef COLLCTL_EXEC_SPACE_H
#define COLLCTL_EXEC_SPACE_H

#include <stddef.h>

#include "lib/base/err.h"

/* Zeroed host memory, page-aligned, on huge pages where the machine gives them. NULL: ERR_RESOURCE.
 */
void *space_host_alloc(size_t bytes, struct err *err);
void space_host_free(void *p, size_t bytes);

#endif
