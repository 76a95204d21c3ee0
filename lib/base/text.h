/* Text that others write: names of files and hosts, messages of peers. Such text may hold any
 * bytes; some of them change what a terminal shows. */
#ifndef COLLCTL_BASE_TEXT_H
#define COLLCTL_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The bytes of the UTF-8 character at @s; 0: malformed, overlong, a surrogate, or the end of the
 * text. *@c: the character. */
size_t text_char(const char *s, uint32_t *c);
/* Is @c neither a control character (C0, DEL, C1) nor a line separator nor a mark that changes the
 * direction of other text? */
bool text_is_printable(uint32_t c);
/* Are all characters of @s printable? Other bytes that are no UTF-8 are accepted, except those of
 * C1. */
bool text_is_clean(const char *s);

/* Copy @src to @dst; what is no printable character becomes \xNN. Truncates to @cap, never inside
 * an escape or a character. Returns @dst. */
char *text_escape(char *dst, size_t cap, const char *src);
/* The same of @size bytes, which may hold NUL. */
char *text_escape_bytes(char *dst, size_t cap, const void *src, size_t size);

#endif
