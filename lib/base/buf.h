/*
 * A growing byte buffer that declares its maximum, and little-endian encoding into it and out of a
 * view of received bytes. Both are sticky: after the first failure every call does nothing, and
 * the caller checks once at the end.
 */
#ifndef COLLCTL_BASE_BUF_H
#define COLLCTL_BASE_BUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf {
	uint8_t *data;
	size_t len, cap, max;
	bool failed; /* it would have outgrown max, or memory ran out */
	bool nomem;  /* memory ran out */
	bool fixed;  /* the memory is the caller's */
	bool secret; /* its bytes are wiped before their memory is reused or freed */
};

void buf_init(struct buf *, size_t max);
void buf_init_secret(struct buf *, size_t max);
/* Use the caller's memory; never allocate. */
void buf_init_fixed(struct buf *, void *memory, size_t size);
/* Make room for @n more bytes. -1: out of memory, which does not mark the buffer as failed. */
int buf_reserve(struct buf *, size_t n);
void buf_release(struct buf *);
/* Room for @n more bytes; returns where they go (the caller then adds to len), or NULL. */
uint8_t *buf_room(struct buf *, size_t n);
void buf_put(struct buf *, const void *data, size_t n);
void buf_put_text(struct buf *, const char *);               /* its bytes alone */
void buf_put_json(struct buf *, const char *text, size_t n); /* as a JSON string, in quotes */
void buf_put_u8(struct buf *, uint8_t);
void buf_put_u16(struct buf *, uint16_t);
void buf_put_u32(struct buf *, uint32_t);
void buf_put_u64(struct buf *, uint64_t);
void buf_put_str(struct buf *, const char *); /* u16 length and bytes; NULL is "" */
void buf_drop(struct buf *, size_t n);        /* remove n bytes at the front */

struct view {
	const uint8_t *p, *end;
	bool failed; /* something was cut short or out of bounds */
};

static inline struct view view_of(const void *data, size_t n)
{
	const uint8_t *p = data;
	return (struct view){p, n ? p + n : p, false}; /* nothing may be at NULL */
}
const uint8_t *view_bytes(struct view *, size_t n); /* NULL when fewer are left */
uint8_t view_u8(struct view *);
uint16_t view_u16(struct view *);
uint32_t view_u32(struct view *);
uint64_t view_u64(struct view *);
/* A string of at most cap - 1 bytes into @out, in which bytes that are no printable character
 * become \xNN (text.h). */
void view_str(struct view *, char *out, size_t cap);
static inline size_t view_left(const struct view *v)
{
	return (size_t)(v->end - v->p);
}

void put_u32(uint8_t *p, uint32_t x);
void put_u64(uint8_t *p, uint64_t x);
uint32_t get_u32(const uint8_t *p);
uint64_t get_u64(const uint8_t *p);

#endif
