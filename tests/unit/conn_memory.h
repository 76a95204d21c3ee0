/* Connections in memory: a ring that a writer's and a reader's end share. One thread. */
#ifndef COLLCTL_TESTS_CONN_MEMORY_H
#define COLLCTL_TESTS_CONN_MEMORY_H

#include <stdlib.h>
#include <string.h>

#include "lib/net/conn.h"

struct ring {
	size_t cap, head, len, quantum;
	uint64_t random; /* state of the random stalls; 0: no stalls */
	bool ended;      /* the writer announced its end */
	int ends;        /* connections that use the ring */
	uint8_t data[];
};

struct conn_memory {
	struct conn conn;
	struct ring *ring;
	bool writer; /* one direction only: nothing comes back */
};

static inline struct ring *ring_of(struct conn *c)
{
	return ((struct conn_memory *)c)->ring;
}

/* xorshift64: about every third call stalls. */
static inline bool stalls(struct ring *r)
{
	if (!r->random)
		return false;
	r->random ^= r->random << 13;
	r->random ^= r->random >> 7;
	r->random ^= r->random << 17;
	return r->random % 3 == 0;
}

static inline size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

static inline int memory_handshake(struct conn *c, struct err *err)
{
	(void)c;
	(void)err;
	return 1;
}

static inline ssize_t memory_read(struct conn *c, void *buf, size_t n, struct err *err)
{
	struct ring *r = ring_of(c);
	(void)err;
	if (((struct conn_memory *)c)->writer || stalls(r))
		return 0;
	if (!r->len)
		return r->ended ? CONN_END : 0;
	n = least(least(n, r->len), r->quantum ? r->quantum : n);
	size_t first = least(n, r->cap - r->head);
	memcpy(buf, r->data + r->head, first);
	memcpy((uint8_t *)buf + first, r->data, n - first);
	r->head = (r->head + n) % r->cap;
	r->len -= n;
	return (ssize_t)n;
}

static inline ssize_t memory_write(struct conn *c, const void *buf, size_t n, struct err *err)
{
	struct ring *r = ring_of(c);
	(void)err;
	if (stalls(r))
		return 0;
	n = least(least(n, r->cap - r->len), r->quantum ? r->quantum : n);
	size_t tail = (r->head + r->len) % r->cap;
	size_t first = least(n, r->cap - tail);
	memcpy(r->data + tail, buf, first);
	memcpy(r->data, (const uint8_t *)buf + first, n - first);
	r->len += n;
	return (ssize_t)n;
}

static inline int memory_flush(struct conn *c, struct err *err)
{
	(void)c;
	(void)err;
	return 1;
}

static inline int memory_end(struct conn *c, struct err *err)
{
	(void)err;
	ring_of(c)->ended = true;
	return 1;
}

static inline void memory_free(struct conn *c)
{
	struct ring *r = ring_of(c);
	if (--r->ends == 0)
		free(r);
	free(c);
}

static const struct conn_ops memory_ops = {
        .name = "memory",
        .handshake = memory_handshake,
        .read = memory_read,
        .write = memory_write,
        .flush = memory_flush,
        .end = memory_end,
        .free = memory_free,
};

/* A pair of simplex connections over a ring of @capacity bytes. @quantum: the most bytes of one
 * read or write (0: any). @seed != 0: seeded stalls, where a call may say "not now" though it could
 * go on. */
static inline int conn_memory_pair(struct conn **writer, struct conn **reader, size_t capacity,
                                   size_t quantum, uint64_t seed, struct err *err)
{
	static const char what[] = "an in-memory connection";
	struct ring *r = err_calloc(1, sizeof *r + capacity, what, err);
	struct conn_memory *w = err_calloc(1, sizeof *w, what, err);
	struct conn_memory *d = err_calloc(1, sizeof *d, what, err);
	*writer = *reader = NULL;
	if (!r || !w || !d) {
		free(r);
		free(w);
		free(d);
		return -1;
	}
	*r = (struct ring){.cap = capacity, .quantum = quantum, .random = seed, .ends = 2};
	w->conn = (struct conn){.ops = &memory_ops, .fd = -1, .writable = true};
	d->conn = (struct conn){.ops = &memory_ops, .fd = -1, .readable = true};
	w->ring = d->ring = r;
	w->writer = true;
	*writer = &w->conn;
	*reader = &d->conn;
	return 0;
}

#endif
