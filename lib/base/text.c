#include "lib/base/text.h"

#include <string.h>

size_t text_char(const char *text, uint32_t *c)
{
	static const uint32_t least[] = {0, 0, 0x80, 0x800, 0x10000};
	const unsigned char *s = (const unsigned char *)text;
	const size_t n = s[0] < 0x80 ? 1 : s[0] < 0xe0 ? 2 : s[0] < 0xf0 ? 3 : 4;

	if (!s[0] || (s[0] >= 0x80 && s[0] < 0xc0) || s[0] >= 0xf8)
		return 0;
	*c = n == 1 ? s[0] : s[0] & (0x7fu >> n);
	for (size_t i = 1; i < n; i++) { /* stops at the terminating NUL */
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		*c = *c << 6 | (s[i] & 0x3f);
	}
	return *c < least[n] || (*c >= 0xd800 && *c < 0xe000) || *c > 0x10ffff ? 0 : n;
}

const char *text_line(const char **text, int *len)
{
	const char *line = *text;

	if (!line || !*line)
		return NULL;
	*len = (int)strcspn(line, "\n");
	*text += *len + (line[*len] == '\n');
	return line;
}

bool text_is_printable(uint32_t c)
{
	const bool control = c < 0x20 || (c >= 0x7f && c < 0xa0);
	const bool line = c == 0x2028 || c == 0x2029;
	const bool direction = c == 0x061c || c == 0x200e || c == 0x200f ||
	                       (c >= 0x202a && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069);

	return !control && !line && !direction;
}

bool text_is_clean(const char *s)
{
	uint32_t c;

	for (size_t n; *s; s += n ? n : 1) {
		n = text_char(s, &c);
		if (!n)
			c = (unsigned char)*s; /* Latin-1, as it may be in old names of files */
		if (!text_is_printable(c))
			return false;
	}
	return true;
}

char *text_escape_bytes(char *dst, size_t cap, const void *src, size_t size)
{
	static const char hex[] = "0123456789abcdef";
	const unsigned char *s = src, *end = s + size;
	size_t at = 0;
	uint32_t c;

	while (s < end) {
		char next[5] = {0};
		const size_t left = (size_t)(end - s);
		memcpy(next, s, left < 4 ? left : 4);
		size_t n = text_char(next, &c);
		if (n && !text_is_printable(c))
			n = 0;
		if (at + (n ? n : 4) >= cap)
			break;
		if (n) {
			memcpy(dst + at, s, n);
			at += n;
			s += n;
			continue;
		}
		dst[at++] = '\\';
		dst[at++] = 'x';
		dst[at++] = hex[*s >> 4];
		dst[at++] = hex[*s & 15];
		s++;
	}
	if (cap)
		dst[at] = '\0';
	return dst;
}

char *text_escape(char *dst, size_t cap, const char *src)
{
	return text_escape_bytes(dst, cap, src, strlen(src));
}
