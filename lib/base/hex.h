/* Bytes as hex digits. */
#ifndef COLLCTL_BASE_HEX_H
#define COLLCTL_BASE_HEX_H

#include <stddef.h>
#include <stdint.h>

/* Write two lower-case digits for each of the @n bytes, and a NUL, to @text[2 * n + 1]. Returns
 * @text. */
static inline char *hex_text(const uint8_t *bytes, size_t n, char *text)
{
	static const char digits[] = "0123456789abcdef";

	for (size_t i = 0; i < n; i++) {
		text[2 * i] = digits[bytes[i] >> 4];
		text[2 * i + 1] = digits[bytes[i] & 15];
	}
	text[2 * n] = '\0';
	return text;
}

#endif
