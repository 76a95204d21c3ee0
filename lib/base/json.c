#include "lib/base/json.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

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

/* jansson prints all reals of a value with one precision: 17 digits keep every bit, and here each
 * gets as few as it needs. No number becomes longer. */
static void shorten(char *text)
{
	char *to = text;

	for (const char *from = text; *from;) {
		size_t n = strspn(from, "+-.0123456789eE");
		const char *start = from;
		char real[REAL_TEXT];

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

char *json_text(const json_t *value, size_t flags)
{
	char *text = value ? json_dumps(value, flags | JSON_REAL_PRECISION(17)) : NULL;

	if (text)
		shorten(text);
	return text;
}
