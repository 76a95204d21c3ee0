#include "lib/exec/shared_space.h"

#include "lib/net/arena.h"

static void *shared_alloc(const struct memory_space *space, size_t bytes, struct err *err)
{
	void *p = arena_alloc(((const struct shared_space *)space)->arena, bytes);
	return p ? p : memory_host.alloc(&memory_host, bytes, err);
}

static void shared_free(const struct memory_space *space, void *p, size_t bytes)
{
	if (p && !arena_release(((const struct shared_space *)space)->arena, p, bytes))
		memory_host.free(&memory_host, p, bytes);
}

void shared_space_init(struct shared_space *s, struct arena *arena)
{
	s->space = memory_host;
	s->space.alloc = shared_alloc;
	s->space.free = shared_free;
	s->arena = arena;
}
