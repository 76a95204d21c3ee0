/* Text from untrusted sources: names of files and hosts, messages of peers. It may hold any bytes;
 * some of them change what a terminal shows. Thread-safe. */
#ifndef COLLCTL_BASE_TEXT_H
#define COLLCTL_BASE_TEXT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decode the UTF-8 character at @s into *c. Returns its number of bytes; 0: malformed, overlong, a
 * surrogate, or the end of the text. */
size_t text_char(const char *s, uint32_t *c);
/* The next line of *@text, which moves behind it: *@len bytes, without the newline. NULL: there are
 * no more, or *@text is NULL. */
const char *text_line(const char **text, int *len);
/* Is @c neither a control character (C0, DEL, C1) nor a line separator nor a mark that changes the
 * direction of other text? */
bool text_is_printable(uint32_t c);
/* Are all characters of @s printable? Bytes that are not UTF-8 are accepted, except those of C1. */
bool text_is_clean(const char *s);

/* Copy @src to @dst[cap]. Each byte that is not part of a printable character becomes \xNN. Cuts
 * what does not fit, never inside an escape or a character. Returns @dst. */
char *text_escape(char *dst, size_t cap, const char *src);
/* The same for @size bytes, which may include NUL. */
char *text_escape_bytes(char *dst, size_t cap, const void *src, size_t size);

#endif
