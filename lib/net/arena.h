/*
 * Memory that ranks of one host share. An arena is a rank's own memory, in a sealed memfd: its rank
 * allocates the windows' buffers from it, and others map all of it, for reading only: one mapping
 * for all lanes and windows, so that a receiver can see what is sent to others, too. Pages that
 * nobody has touched cost nothing.
 *
 * The seals exclude an access beyond the end: nobody can shrink the memory (F_SEAL_SHRINK), and
 * only mappings that exist when it is sealed can write (F_SEAL_FUTURE_WRITE).
 */
#ifndef COLLCTL_NET_ARENA_H
#define COLLCTL_NET_ARENA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/base/err.h"

struct arena;

/* An arena of up to @size bytes. NULL: ERR_RESOURCE. */
struct arena *arena_new(size_t size, struct err *err);
void arena_free(struct arena *); /* NULL: nothing */

/* @bytes of zeroed memory, aligned to 4 KiB. NULL: no range is long enough. Thread-safe, as
 * arena_release. */
void *arena_alloc(struct arena *, size_t bytes);
/* False: @p is not in the arena. The pages stay: the seals forbid to return them. */
bool arena_release(struct arena *, void *p, size_t bytes);

/* The offset of the @n bytes at @p, or -1: they are not in the arena. */
int64_t arena_offset(const struct arena *, const void *p, size_t n);
int arena_fd(const struct arena *); /* the arena's: dup it to keep it */

/* The arenas of others that a rank has mapped. Several users share a mapping. */
struct arena_map {
	const uint8_t *base;
	size_t size; /* bytes */
	dev_t dev;   /* the identity of the memory: ... */
	ino_t ino;
	int users;
	struct arena_map *next;
};
struct arena_maps {
	struct arena_map *first;
};

/* The mapping of the arena @fd, which stays the caller's. NULL: it is no sealed memfd
 * (ERR_INTEGRITY), or there is no address space (ERR_RESOURCE). */
struct arena_map *arena_map(struct arena_maps *, int fd, struct err *err);
void arena_unmap(struct arena_maps *, struct arena_map *); /* one user less; NULL: nothing */

/* A memfd of @size bytes, named @name, with the seals @seals besides those against a change of its
 * size; mapped for reading and writing at *@base. Returns the descriptor, or -1: ERR_RESOURCE. */
int sealed_memory(const char *name, size_t size, int seals, void **base, struct err *err);
/* The size of the memfd @fd that nobody can change, or -1: ERR_INTEGRITY. */
int64_t sealed_size(int fd, struct err *err);

#endif
