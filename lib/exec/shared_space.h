/*
 * Host memory that the other ranks of the host can read: the windows' buffers are in the arena of
 * the mesh, so that memory lanes can lend them. What does not fit is in ordinary host memory, and
 * is copied.
 */
#ifndef COLLCTL_EXEC_SHARED_SPACE_H
#define COLLCTL_EXEC_SHARED_SPACE_H

#include "lib/exec/memory_space.h"

struct arena;

struct shared_space {
	struct memory_space space;
	struct arena *arena;
};

/* The space must stay where it is while it is used; the arena stays the caller's. */
void shared_space_init(struct shared_space *, struct arena *arena);

#endif
