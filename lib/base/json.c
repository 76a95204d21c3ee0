#include "lib/base/json.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* The key of an object that stands for a number too large for jansson, whose value is its digits;
 * and how it is written. */
#define U64_KEY  "\001u64"
#define U64_TEXT "\"\\u0001u64\""

static atomic_bool lacked;

#define REAL_TEXT 32 /* "-2.2250738585072014e-308" and ".0" */

static bool reads_back(const char *text, double x)
{
	const double back = strtod(text, NULL);

	return memcmp(&back, &x, sizeof x) == 0;
}

/* The shortest text of @x as a JSON real: plain where 17 digits would be too, else with an
 * exponent as jansson writes it, without '+' and leading zeros. */
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

/* Behind the string that begins at @s. */
static const char *skip_string(const char *s)
{
	for (s++; *s != '"'; s++)
		s += *s == '\\';
	return s + 1;
}

/* The digits in the object whose key begins at *@from, which is moved behind the object. */
static size_t skip_u64(const char **from, const char **digits)
{
	const char *s = strchr(*from + strlen(U64_TEXT), '"') + 1;
	const size_t n = strspn(s, "0123456789");

	*digits = s;
	*from = strchr(s + n, '}') + 1;
	return n;
}

/* jansson prints all reals of a value with one precision: 17 digits keep every bit, and here each
 * gets as few as it needs. No number becomes longer. */
static void shorten(char *text)
{
	char *to = text;

	for (const char *from = text; *from;) {
		size_t n = strspn(from, "+-.0123456789eE");
		const char *start = from;
		char real[REAL_TEXT];

		if (strncmp(from, U64_TEXT, strlen(U64_TEXT)) == 0) {
			while (*--to != '{')
				;
			n = skip_u64(&from, &start);
			memmove(to, start, n);
			to += n;
			continue;
		}
		if (*from == '"') {
			from = skip_string(from);
		} else if (strchr("-0123456789", *from)) {
			from += n;
			if (memchr(start, '.', n) || memchr(start, 'e', n)) {
				n = shortest(strtod(start, NULL), real);
				start = real;
			}
			memmove(to, start, n);
			to += n;
			continue;
		} else {
			from++;
		}
		n = (size_t)(from - start);
		memmove(to, start, n);
		to += n;
	}
	*to = '\0';
}

json_t *json_u64(uint64_t x)
{
	char digits[24];

	if (x <= INT64_MAX)
		return json_integer((json_int_t)x);
	snprintf(digits, sizeof digits, "%" PRIu64, x);
	return json_pack("{s:s}", U64_KEY, digits);
}

char *json_text(const json_t *value, size_t flags)
{
	char *text = value && !lacked ? json_dumps(value, flags | JSON_REAL_PRECISION(17)) : NULL;

	if (text && lacked) { /* what lacks a part may be JSON all the same */
		free(text);
		text = NULL;
	}
	if (text)
		shorten(text);
	return text;
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
