#include "lib/data/formats/json_scan.h"

#include <ctype.h>
#include <string.h>

#define DEPTH 64 /* of skipped values */

void json_scan_init(struct json_scan *s, const char *subject, char *text, size_t len,
                    struct err *err)
{
	*s = (struct json_scan){subject, text, text, text + len, err};
}

static void skip_space(struct json_scan *s)
{
	while (s->p < s->end && (*s->p == ' ' || *s->p == '\n' || *s->p == '\r' || *s->p == '\t'))
		s->p++;
}

static int unexpected(struct json_scan *s, const char *expected)
{
	size_t at = (size_t)(s->p - s->start);
	if (s->p == s->end)
		return err_set(s->err, ERR_INPUT,
		               "%s is not valid JSON: it ends at byte %zu: expected %s", s->subject,
		               at, expected);
	return err_set(s->err, ERR_INPUT,
	               isprint((unsigned char)*s->p)
	                       ? "%s is not valid JSON: byte %zu is '%c': expected %s"
	                       : "%s is not valid JSON: byte %zu is \\x%02x: expected %s",
	               s->subject, at, (unsigned char)*s->p, expected);
}

bool json_scan_next_is(struct json_scan *s, char c)
{
	skip_space(s);
	return s->p < s->end && *s->p == c;
}

static bool accept(struct json_scan *s, char c)
{
	bool is = json_scan_next_is(s, c);
	s->p += is;
	return is;
}

/* ---- strings ---- */

/* The number of bytes of the character at @p; 0: not UTF-8. */
static size_t utf8_length(const char *p, const char *end)
{
	const uint8_t *b = (const uint8_t *)p;
	size_t n = b[0] < 0x80 ? 1 : b[0] < 0xc2 ? 0 : b[0] < 0xe0 ? 2 : b[0] < 0xf0 ? 3 : 4;
	if (n < 2)
		return n;
	if (b[0] > 0xf4 || (size_t)(end - p) < n)
		return 0;
	for (size_t i = 1; i < n; i++)
		if (b[i] >> 6 != 2)
			return 0;
	/* Overlong encodings, surrogates, and values beyond the last character. */
	if ((b[0] == 0xe0 && b[1] < 0xa0) || (b[0] == 0xed && b[1] > 0x9f) ||
	    (b[0] == 0xf0 && b[1] < 0x90) || (b[0] == 0xf4 && b[1] > 0x8f))
		return 0;
	return n;
}

/* The number of bytes at @p that are ASCII and stand for themselves. */
static size_t plain_length(const char *p, const char *end)
{
	const char *q = p;
	while (q < end && (unsigned char)(*q - 0x20) < 0x60 && *q != '"' && *q != '\\')
		q++;
	return (size_t)(q - p);
}

static char *put_utf8(char *to, uint32_t c)
{
	if (c < 0x80) {
		*to++ = (char)c;
		return to;
	}
	int more = c < 0x800 ? 1 : c < 0x10000 ? 2 : 3;
	*to++ = (char)((0xff00 >> (more + 1) & 0xff) | c >> (6 * more));
	while (more--)
		*to++ = (char)(0x80 | (c >> (6 * more) & 0x3f));
	return to;
}

/* Read the four hexadecimal digits after \u; -1: malformed. */
static int hex_at(const struct json_scan *s, uint32_t *out)
{
	if (s->end - s->p < 6 || s->p[0] != '\\' || s->p[1] != 'u')
		return -1;
	*out = 0;
	for (int i = 2; i < 6; i++) {
		unsigned char c = (unsigned char)s->p[i];
		if (!isxdigit(c))
			return -1;
		*out = *out << 4 | (uint32_t)(isdigit(c) ? c - '0' : (c | 0x20) - 'a' + 10);
	}
	return 0;
}

static int scan_escape(struct json_scan *s, uint32_t *out)
{
	static const char letters[] = "\"\\/bfnrt", values[] = "\"\\/\b\f\n\r\t";
	uint32_t low;
	const char *at = NULL;
	if (s->end - s->p > 1 && s->p[1])
		at = strchr(letters, s->p[1]);
	if (at) {
		*out = (uint32_t)values[at - letters];
		s->p += 2;
		return 0;
	}
	if (hex_at(s, out) || *out == 0 || (*out >= 0xdc00 && *out < 0xe000))
		return unexpected(s, "an escaped character");
	s->p += 6;
	if (*out < 0xd800 || *out >= 0xe000)
		return 0;
	if (hex_at(s, &low) || low < 0xdc00 || low >= 0xe000)
		return unexpected(s, "the second half of an escaped character");
	*out = 0x10000 + ((*out - 0xd800) << 10 | (low - 0xdc00));
	s->p += 6;
	return 0;
}

/* *@out: the string, decoded in place. NULL: leave the text unchanged. */
static int scan_string(struct json_scan *s, const char **out)
{
	if (!accept(s, '"'))
		return unexpected(s, "a string");
	char *from = s->p, *to = s->p;
	while (s->p < s->end && *s->p != '"') {
		uint32_t c;
		if (*s->p == '\\') {
			if (scan_escape(s, &c))
				return -1;
			to = out ? put_utf8(to, c) : to;
			continue;
		}
		size_t n = plain_length(s->p, s->end);
		if (!n)
			n = utf8_length(s->p, s->end);
		if (!n || (unsigned char)*s->p < 0x20)
			return unexpected(s, "UTF-8 text without control characters");
		if (out && to != s->p)
			memmove(to, s->p, n);
		to += n;
		s->p += n;
	}
	if (s->p == s->end)
		return unexpected(s, "a closing quote");
	s->p++;
	if (out) {
		*to = '\0';
		*out = from;
	}
	return 0;
}

int json_scan_string(struct json_scan *s, const char **out)
{
	return scan_string(s, out);
}

/* ---- numbers ---- */

int json_scan_natural(struct json_scan *s, uint64_t *out)
{
	skip_space(s);
	const char *from = s->p;
	*out = 0;
	for (; s->p < s->end && isdigit((unsigned char)*s->p); s->p++)
		if (__builtin_mul_overflow(*out, 10, out) ||
		    __builtin_add_overflow(*out, (uint64_t)(*s->p - '0'), out))
			return -1;
	if (s->p == from || (*from == '0' && s->p - from > 1))
		return -1;
	return s->p < s->end && (*s->p == '.' || *s->p == 'e' || *s->p == 'E') ? -1 : 0;
}

static int digits(struct json_scan *s)
{
	const char *from = s->p;
	while (s->p < s->end && isdigit((unsigned char)*s->p))
		s->p++;
	return s->p > from ? 0 : unexpected(s, "a digit");
}

static bool accept_here(struct json_scan *s, const char *set)
{
	bool is = s->p < s->end && *s->p && strchr(set, *s->p);
	s->p += is;
	return is;
}

static int skip_number(struct json_scan *s)
{
	if (!accept_here(s, "-") && !(s->p < s->end && isdigit((unsigned char)*s->p)))
		return unexpected(s, "a value");
	if (!accept_here(s, "0") && digits(s))
		return -1;
	if (accept_here(s, ".") && digits(s))
		return -1;
	if (!accept_here(s, "eE"))
		return 0;
	accept_here(s, "+-");
	return digits(s);
}

/* ---- objects and arrays ---- */

int json_scan_object(struct json_scan *s, int (*member)(void *ctx, const char *key), void *ctx)
{
	const char *key;
	if (!accept(s, '{'))
		return unexpected(s, "'{'");
	if (accept(s, '}'))
		return 0;
	do {
		if (json_scan_string(s, &key))
			return -1;
		if (!accept(s, ':'))
			return unexpected(s, "':'");
		if (member(ctx, key))
			return -1;
	} while (accept(s, ','));
	return accept(s, '}') ? 0 : unexpected(s, "',' or '}'");
}

int json_scan_array(struct json_scan *s, int (*element)(void *ctx), void *ctx)
{
	if (!accept(s, '['))
		return unexpected(s, "'['");
	if (accept(s, ']'))
		return 0;
	do {
		if (element(ctx))
			return -1;
	} while (accept(s, ','));
	return accept(s, ']') ? 0 : unexpected(s, "',' or ']'");
}

/* ---- skipped values ---- */

static int skip_value(struct json_scan *s, int depth);

static int skip_members(struct json_scan *s, char close, int depth)
{
	s->p++;
	if (accept(s, close))
		return 0;
	do {
		if (close == '}' && scan_string(s, NULL))
			return -1;
		if (close == '}' && !accept(s, ':'))
			return unexpected(s, "':'");
		if (skip_value(s, depth + 1))
			return -1;
	} while (accept(s, ','));
	return accept(s, close) ? 0 : unexpected(s, "',' or the end of an object or array");
}

static int skip_value(struct json_scan *s, int depth)
{
	static const char *const words[] = {"true", "false", "null"};
	if (depth > DEPTH)
		return unexpected(s, "fewer levels");
	if (json_scan_next_is(s, '"'))
		return scan_string(s, NULL);
	if (json_scan_next_is(s, '{') || json_scan_next_is(s, '['))
		return skip_members(s, *s->p == '{' ? '}' : ']', depth);
	for (int i = 0; i < 3; i++) {
		size_t n = strlen(words[i]);
		if ((size_t)(s->end - s->p) >= n && !memcmp(s->p, words[i], n)) {
			s->p += n;
			return 0;
		}
	}
	return skip_number(s);
}

int json_scan_skip(struct json_scan *s)
{
	return skip_value(s, 0);
}

int json_scan_end(struct json_scan *s)
{
	skip_space(s);
	return s->p == s->end ? 0 : unexpected(s, "its end");
}
