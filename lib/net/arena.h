/*
 * Memory that ranks of one host share. An arena is memory of one rank, in a sealed memfd. This rank
 * allocates the buffers of windows from it. Other ranks map the whole arena read-only, once for all
 * lanes and windows. So a receiver can also see what is sent to other ranks. Pages that were never
 * touched use no memory.
 *
 * Nobody can shrink the memory (F_SEAL_SHRINK), so an access cannot go beyond its end. Only the
 * mapping of its rank, which exists before it is sealed, can write (F_SEAL_FUTURE_WRITE). Sizes are
 * bytes.
 */
#ifndef COLLCTL_NET_ARENA_H
#define COLLCTL_NET_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/base/err.h"

struct arena;

/* Make an arena of @size bytes. NULL: ERR_RESOURCE. */
struct arena *arena_new(size_t size, struct err *err);
void arena_free(struct arena *); /* NULL: nothing */

/* Allocate @bytes of zeroed memory, aligned to the system's pages, which it shares with nothing
 * else. NULL: no free range is long enough. arena_alloc and arena_release are thread-safe. */
void *arena_alloc(struct arena *, size_t bytes);
/* Release what arena_alloc returned. False: @p is not in the arena. Its pages stay in memory,
 * because the seals forbid to punch holes. */
bool arena_release(struct arena *, void *p, size_t bytes);
/* A device may access the memory as long as the process lives: arena_free leaves it mapped. */
void arena_keep(struct arena *);

/* The offset of the @n bytes at @p, or -1: they are not in the arena. */
int64_t arena_offset(const struct arena *, const void *p, size_t n);
int arena_fd(const struct arena *); /* owned by the arena; dup it to keep it */

/* The arenas of other ranks that this rank has mapped: one mapping per arena, with a count of
 * users. Empty when zeroed. One thread. */
struct arena_map {
	const uint8_t *base;
	size_t size; /* bytes */
	dev_t dev;   /* with ino: the identity of the memfd */
	ino_t ino;
	int users;
	struct arena_map *next;
};
struct arena_maps {
	struct arena_map *first;
};

/* Map the arena @fd, or add a user to its mapping. The caller still owns @fd. NULL: ERR_INTEGRITY:
 * it is not a sealed memfd; ERR_RESOURCE. */
struct arena_map *arena_map(struct arena_maps *, int fd, struct err *err);
/* Remove one user; the last one unmaps it. NULL: nothing. */
void arena_unmap(struct arena_maps *, struct arena_map *);

/* Make a memfd of @size bytes, named @name, and map it for reading and writing at *@base. It has
 * the seals @seals and those against a change of its size. Returns the descriptor; -1:
 * ERR_RESOURCE. The caller closes and unmaps it. */
int sealed_memory(const char *name, size_t size, int seals, void **base, struct err *err);
/* The size of the memfd @fd; -1: ERR_INTEGRITY: its size is not sealed. */
int64_t sealed_size(int fd, struct err *err);

#endif
