#include "lib/base/buf.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/private.h"
#include "lib/base/text.h"
#include "lib/base/units.h"

void buf_init(struct buf *b, size_t max)
{
	*b = (struct buf){.max = max};
}

void buf_init_secret(struct buf *b, size_t max)
{
	*b = (struct buf){.max = max, .secret = true};
}

void buf_release(struct buf *b)
{
	if (b->secret)
		wipe(b->data, b->cap);
	if (!b->fixed)
		free(b->data);
	*b = (struct buf){.max = b->max, .secret = b->secret};
}

void buf_init_fixed(struct buf *b, void *memory, size_t size)
{
	*b = (struct buf){.data = memory, .cap = size, .max = size, .fixed = true};
}

/* realloc may leave a copy at the old place, so a secret buffer is copied and wiped here. */
static uint8_t *grow(struct buf *b, size_t cap)
{
	if (!b->secret)
		return realloc(b->data, cap);
	uint8_t *data = malloc(cap);
	if (!data)
		return NULL;
	if (b->len)
		memcpy(data, b->data, b->len);
	wipe(b->data, b->cap);
	free(b->data);
	return data;
}

uint8_t *buf_room(struct buf *b, size_t n)
{
	if (b->failed || n > b->max - b->len) {
		b->failed = true;
		return NULL;
	}
	if (b->len + n > b->cap) {
		size_t cap = b->cap ? b->cap : 64;
		while (cap < b->len + n)
			cap *= 2;
		if (cap > b->max)
			cap = b->max;
		uint8_t *data = grow(b, cap);
		if (!data) {
			b->failed = b->nomem = true;
			return NULL;
		}
		b->data = data;
		b->cap = cap;
	}
	return b->data + b->len;
}

int buf_reserve(struct buf *b, size_t n)
{
	int ret = buf_room(b, n) ? 0 : -1;
	b->failed = b->nomem = false;
	return ret;
}

void buf_put(struct buf *b, const void *data, size_t n)
{
	const bool there = !b->failed && n <= b->cap - b->len;
	uint8_t *p = !n ? NULL : there ? b->data + b->len : buf_room(b, n);
	if (p) {
		memcpy(p, data, n);
		b->len += n;
	}
}

void put_u32(uint8_t *p, uint32_t x)
{
	for (int i = 0; i < 4; i++)
		p[i] = (uint8_t)(x >> (8 * i));
}

void put_u64(uint8_t *p, uint64_t x)
{
	for (int i = 0; i < 8; i++)
		p[i] = (uint8_t)(x >> (8 * i));
}

uint32_t get_u32(const uint8_t *p)
{
	return (uint32_t)p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
}

uint64_t get_u64(const uint8_t *p)
{
	return (uint64_t)get_u32(p) | (uint64_t)get_u32(p + 4) << 32;
}

void buf_put_text(struct buf *b, const char *text)
{
	buf_put(b, text, strlen(text));
}

void buf_put_digits(struct buf *b, uint64_t x)
{
	char digits[DIGITS_MAX];

	buf_put(b, digits, digits_put(digits, x));
}

void buf_put_json(struct buf *b, const char *text, size_t n)
{
	static const char named[] = "\"\\\b\f\n\r\t", letters[] = "\"\\bfnrt";

	buf_put_text(b, "\"");
	for (const char *s = text, *end = text + n; s < end;) {
		const char *plain = s;
		while (s < end && (unsigned char)*s >= 0x20 && *s != '"' && *s != '\\')
			s++;
		buf_put(b, plain, (size_t)(s - plain));
		if (s == end)
			break;
		char escaped[8];
		const char *at = memchr(named, *s, sizeof named - 1);
		if (at)
			snprintf(escaped, sizeof escaped, "\\%c", letters[at - named]);
		else
			snprintf(escaped, sizeof escaped, "\\u%04x", (unsigned char)*s);
		buf_put_text(b, escaped);
		s++;
	}
	buf_put_text(b, "\"");
}

void buf_put_u8(struct buf *b, uint8_t x)
{
	buf_put(b, &x, 1);
}

void buf_put_u16(struct buf *b, uint16_t x)
{
	uint8_t le[2] = {(uint8_t)x, (uint8_t)(x >> 8)};
	buf_put(b, le, sizeof le);
}

void buf_put_u32(struct buf *b, uint32_t x)
{
	uint8_t le[4];
	put_u32(le, x);
	buf_put(b, le, sizeof le);
}

void buf_put_u64(struct buf *b, uint64_t x)
{
	uint8_t le[8];
	put_u64(le, x);
	buf_put(b, le, sizeof le);
}

void buf_put_str(struct buf *b, const char *s)
{
	size_t n = s ? strlen(s) : 0;
	if (n > UINT16_MAX)
		n = UINT16_MAX;
	buf_put_u16(b, (uint16_t)n);
	buf_put(b, s, n);
}

void buf_drop(struct buf *b, size_t n)
{
	b->len -= n;
	if (b->len)
		memmove(b->data, b->data + n, b->len);
	if (b->secret)
		wipe(b->data + b->len, n);
}

const uint8_t *view_bytes(struct view *v, size_t n)
{
	if (v->failed || n > view_left(v)) {
		v->failed = true;
		return NULL;
	}
	const uint8_t *p = v->p;
	v->p += n;
	return p;
}

uint8_t view_u8(struct view *v)
{
	const uint8_t *p = view_bytes(v, 1);
	return p ? p[0] : 0;
}

uint16_t view_u16(struct view *v)
{
	const uint8_t *p = view_bytes(v, 2);
	if (!p)
		return 0;
	return (uint16_t)(p[0] | p[1] << 8);
}

uint32_t view_u32(struct view *v)
{
	const uint8_t *p = view_bytes(v, 4);
	return p ? get_u32(p) : 0;
}

uint64_t view_u64(struct view *v)
{
	const uint8_t *p = view_bytes(v, 8);
	return p ? get_u64(p) : 0;
}

void view_str(struct view *v, char *out, size_t cap)
{
	const size_t n = view_u16(v);
	const uint8_t *p = view_bytes(v, n);

	text_escape_bytes(out, cap, p ? (const void *)p : "", p ? n : 0);
}
