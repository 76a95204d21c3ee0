#include "lib/base/json.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/c_locale.h"
#include "lib/base/text.h"

/* jansson has no integers above INT64_MAX: they are kept as an object {U64_KEY: "DIGITS"}. U64_TEXT
 * is the key as JSON text. */
#define U64_KEY  "\001u64"
#define U64_TEXT "\"\\u0001u64\""

static atomic_bool lacked;

#define REAL_TEXT 32 /* "-2.2250738585072014e-308" and ".0" */

static bool reads_back(const char *text, double x)
{
	return strtod(text, NULL) == x; /* the sign of 0 is in every text */
}

/* The shortest text of @x as a JSON real: in plain form where 17 digits would be plain too, else
 * with an exponent as jansson writes it, without '+' and leading zeros. */
static size_t shortest(double x, char text[REAL_TEXT])
{
	int digits = 0, exponent;

	do {
		snprintf(text, REAL_TEXT, "%.*e", digits, x);
	} while (!reads_back(text, x) && ++digits < 17);
	char *e = strchr(text, 'e');
	exponent = atoi(e + 1);
	if (exponent >= -4 && exponent < 17) {
		const int decimals = digits > exponent ? digits - exponent : 1;
		return (size_t)snprintf(text, REAL_TEXT, "%.*f", decimals, x);
	}
	return (size_t)(e - text) + (size_t)snprintf(e, 8, "e%d", exponent);
}

/* The end of the string that begins at @s. */
static const char *skip_string(const char *s)
{
	for (s++; *s != '"'; s++)
		s += *s == '\\';
	return s + 1;
}

static const char *skip_space(const char *s)
{
	return s + strspn(s, " \n");
}

/* If the object of a json_u64 begins at @s: its end, with its digits in @digits[@n]. Else NULL:
 * names in a file may look like its key. */
static const char *u64_end(const char *s, const char **digits, size_t *n)
{
	if (*s != '{')
		return NULL;
	s = skip_space(s + 1);
	if (strncmp(s, U64_TEXT, strlen(U64_TEXT)) != 0)
		return NULL;
	s = skip_space(s + strlen(U64_TEXT));
	if (*s++ != ':')
		return NULL;
	s = skip_space(s);
	if (*s++ != '"')
		return NULL;
	const char *first = s;
	s += strspn(s, "0123456789");
	const size_t len = (size_t)(s - first);
	if (!len || *s++ != '"')
		return NULL;
	s = skip_space(s);
	if (*s != '}')
		return NULL;
	*digits = first;
	*n = len;
	return s + 1;
}

/* jansson prints all reals of a value with one precision, and 17 digits keep every bit. This gives
 * each real as few digits as it needs. No number becomes longer. */
static void shorten(char *text)
{
	char *to = text, real[REAL_TEXT];

	for (const char *from = text, *end; *from; from = end) {
		const char *start = from;
		size_t n = strspn(from, "+-.0123456789eE");

		if ((end = u64_end(from, &start, &n))) {
			; /* the digits are already the number */
		} else if (*from == '"') {
			end = skip_string(from);
			n = (size_t)(end - from);
		} else if (strchr("-0123456789", *from)) {
			end = from + n;
			if (memchr(from, '.', n) || memchr(from, 'e', n)) {
				n = shortest(strtod(from, NULL), real);
				start = real;
			}
		} else {
			end = from + 1;
			n = 1;
		}
		memmove(to, start, n);
		to += n;
	}
	*to = '\0';
}

json_t *json_measured(double x)
{
	char text[REAL_TEXT];

	snprintf(text, sizeof text, "%.6g", x);
	return json_real(strtod(text, NULL));
}

json_t *json_u64(uint64_t x)
{
	char digits[24];

	if (x <= INT64_MAX)
		return json_integer((json_int_t)x);
	snprintf(digits, sizeof digits, "%" PRIu64, x);
	return json_pack("{s:s}", U64_KEY, digits);
}

/* Is the character at @s one that jansson leaves as it is, but no terminal should get? Then *@c, of
 * @n bytes, is not ASCII, or it is DEL. */
static bool is_raw(const char *s, uint32_t *c, size_t *n)
{
	*n = text_char(s, c);
	return *n && *c >= 0x7f && !text_is_printable(*c);
}

/* Text with \uXXXX in place of such characters: @text, or a new text, and @text is freed. NULL: no
 * memory. */
static char *escape(char *text)
{
	size_t raw = 0, at = 0, n, len = strlen(text);
	uint32_t c;

	for (const char *s = text; *s; s += n ? n : 1)
		raw += is_raw(s, &c, &n);
	if (!raw)
		return text;
	char *out = malloc(len + raw * 6 + 1);
	for (const char *s = text; out && *s; s += n ? n : 1) {
		if (is_raw(s, &c, &n)) {
			at += (size_t)sprintf(out + at, "\\u%04" PRIX32, c);
			continue;
		}
		memcpy(out + at, s, n ? n : 1);
		at += n ? n : 1;
	}
	if (out)
		out[at] = '\0';
	free(text);
	return out;
}

static char *dump(const json_t *value, size_t flags)
{
	char *text = value && !lacked ? json_dumps(value, flags | JSON_REAL_PRECISION(17)) : NULL;

	if (text && lacked) { /* an incomplete text may still be valid JSON */
		free(text);
		text = NULL;
	}
	if (!text)
		return NULL;
	shorten(text);
	return escape(text);
}

char *json_text(const json_t *value, size_t flags)
{
	const locale_t c = c_locale(), before = c ? uselocale(c) : c;
	char *const text = dump(value, flags);

	if (c)
		uselocale(before);
	return text;
}

json_t *json_path(const char *path)
{
	char text[4096];

	return json_string(text_escape(text, sizeof text, path));
}

json_t *json_error(const struct err *e, int rank, const char *phase)
{
	char text[4 * sizeof e->text], host[4 * sizeof e->host];
	char subject[sizeof e->text];

	rank = err_blames(e, rank);
	text_escape(host, sizeof host, e->host);
	snprintf(subject, sizeof subject, "%.*s", e->subject, e->text);
	json_t *about = *subject ? json_path(subject) : json_null();
	return json_pack("{s:i, s:s, s:o, s:o, s:s, s:o, s:s}", "code", e->code, "name",
	                 err_name(e->code), "rank", rank >= 0 ? json_integer(rank) : json_null(),
	                 "host", *host ? json_string(host) : json_null(), "phase", phase, "subject",
	                 about, "message", text_escape(text, sizeof text, e->text));
}

static void *watched_malloc(size_t n)
{
	void *p = malloc(n);
	if (!p && n)
		lacked = true;
	return p;
}

void json_watch_memory(void)
{
	json_set_alloc_funcs(watched_malloc, free);
}

bool json_lacked_memory(void)
{
	return lacked;
}

void json_forget_memory(void)
{
	lacked = false;
}
