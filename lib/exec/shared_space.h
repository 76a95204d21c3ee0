/*
 * A memory space for host memory that the other ranks of the host can read: it allocates from the
 * mesh's arena (arena.h), so that memory lanes can lend the elements. If the arena has no room, it
 * allocates ordinary host memory, whose elements are copied. Thread-safe.
 */
#ifndef COLLCTL_EXEC_SHARED_SPACE_H
#define COLLCTL_EXEC_SHARED_SPACE_H

#include "lib/exec/memory_space.h"

struct arena;

struct shared_space {
	struct memory_space space;
	struct arena *arena;
};

/* The space must not move while it is used. The caller still owns the arena, which must outlive
 * it. */
void shared_space_init(struct shared_space *, struct arena *arena);

#endif
