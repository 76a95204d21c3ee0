/*
 * struct buf: a growing byte buffer with a maximum size, and little-endian encoding into it. struct
 * view: little-endian decoding of received bytes, which the view does not own. Errors are sticky:
 * after the first failure, `failed` is set and every further call does nothing. The caller checks
 * `failed` once at the end.
 *
 * Sizes are bytes. Each buffer or view is used by one thread at a time.
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

/* An empty buffer of at most @max bytes; nothing is allocated yet. The caller releases it. */
void buf_init(struct buf *, size_t max);
void buf_init_secret(struct buf *, size_t max); /* the same, with `secret` set */
/* Use the caller's memory, which must outlive the buffer; never allocate. */
void buf_init_fixed(struct buf *, void *memory, size_t size);
/* Make room for @n more bytes. -1: out of memory, which does not mark the buffer as failed. */
int buf_reserve(struct buf *, size_t n);
void buf_release(struct buf *); /* frees data unless it is the caller's */
/* Make room for @n more bytes and return their address, or NULL. The caller writes them and adds
 * their number to len. */
uint8_t *buf_room(struct buf *, size_t n);
void buf_put(struct buf *, const void *data, size_t n);
void buf_put_text(struct buf *, const char *);               /* without length and NUL */
void buf_put_json(struct buf *, const char *text, size_t n); /* as a JSON string, in quotes */
void buf_put_digits(struct buf *, uint64_t);                 /* as a decimal number */
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
/* These consume what they return. If too few bytes are left, they set `failed` and return NULL or
 * 0. view_bytes returns a pointer into the message. */
const uint8_t *view_bytes(struct view *, size_t n);
uint8_t view_u8(struct view *);
uint16_t view_u16(struct view *);
uint32_t view_u32(struct view *);
uint64_t view_u64(struct view *);
/* Decode a string (u16 length and bytes) into @out[cap]. Bytes that are not a printable character
 * become \xNN (text.h); what does not fit is cut. */
void view_str(struct view *, char *out, size_t cap);
static inline size_t view_left(const struct view *v)
{
	return (size_t)(v->end - v->p);
}

/* Little-endian numbers at @p, without a check of bounds. */
void put_u32(uint8_t *p, uint32_t x);
void put_u64(uint8_t *p, uint64_t x);
uint32_t get_u32(const uint8_t *p);
uint64_t get_u64(const uint8_t *p);

#endif
