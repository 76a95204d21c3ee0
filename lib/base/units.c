#include "lib/base/units.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include "lib/base/clock.h"

char *size_text(uint64_t bytes, char buf[UNITS_TEXT])
{
	static const char *const units[] = {"bytes", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"};
	double x = (double)bytes;
	size_t u = 0;

	for (; x >= 1024 && u + 1 < sizeof units / sizeof *units; u++)
		x /= 1024;
	snprintf(buf, UNITS_TEXT, u ? "%.1f %s" : "%.0f %s", x, units[u]);
	return buf;
}

char *bit_rate_text(double rate, char text[UNITS_TEXT])
{
	const double bits = 8 * rate;
	const double scale = bits >= 1e9 ? 1e9 : bits >= 1e6 ? 1e6 : 1e3;
	snprintf(text, UNITS_TEXT, "%.3g %s", bits / scale,
	         bits >= 1e9   ? "Gbit/s"
	         : bits >= 1e6 ? "Mbit/s"
	                       : "kbit/s");
	if (bits / scale >= 999.5 && scale < 1e9)
		snprintf(text, UNITS_TEXT, "%.0f %s", bits / scale,
		         bits >= 1e6 ? "Mbit/s" : "kbit/s");
	return text;
}

char *latency_text(double s, char text[UNITS_TEXT])
{
	snprintf(text, UNITS_TEXT, s < 9.995e-4 ? "%.3g us" : "%.3g ms",
	         s < 9.995e-4 ? s * 1e6 : s * 1e3);
	return text;
}

char *duration_text(double seconds, char buf[UNITS_TEXT])
{
	const unsigned s = seconds < 360000 ? (unsigned)lround(seconds) : 360000;

	if (seconds < 0.99995)
		snprintf(buf, UNITS_TEXT, "%.1f ms", seconds * 1e3);
	else if (seconds < 59.95)
		snprintf(buf, UNITS_TEXT, "%.1f s", seconds);
	else if (s < 3600)
		snprintf(buf, UNITS_TEXT, "%u min %02u s", s / 60, s % 60);
	else if (s < 360000)
		snprintf(buf, UNITS_TEXT, "%u h %02u min", s / 3600, s / 60 % 60);
	else
		snprintf(buf, UNITS_TEXT, "over 99 h");
	return buf;
}

size_t digits_put(char digits[DIGITS_MAX], uint64_t x)
{
	char text[DIGITS_MAX];
	size_t at = sizeof text;

	do
		text[--at] = (char)('0' + x % 10);
	while (x /= 10);
	memcpy(digits, text + at, sizeof text - at);
	return sizeof text - at;
}

bool digits_read(const char **p, uint64_t *out)
{
	const char *s = *p;
	uint64_t v = 0;

	for (; *s >= '0' && *s <= '9'; s++)
		if (__builtin_mul_overflow(v, 10u, &v) ||
		    __builtin_add_overflow(v, (unsigned)(*s - '0'), &v))
			return false;
	bool any = s != *p;
	*p = s;
	*out = v;
	return any;
}

/* A fraction is fine ("1.5s"): up to six digits, so that even those of an hour fit 64 bits. */
bool duration_read(const char *text, int64_t *ns)
{
	static const struct {
		const char *name;
		int64_t ns;
	} units[] = {
	        {"us", 1000},     {"ms", NS_PER_MS},      {"s", NS_PER_SEC},
	        {"", NS_PER_SEC}, {"m", 60 * NS_PER_SEC}, {"h", 3600 * NS_PER_SEC},
	};
	const char *s = text;
	uint64_t whole, part = 0;
	int64_t scale = 1;

	if (!digits_read(&s, &whole) || whole > INT64_MAX)
		return false;
	if (*s == '.') {
		const char *start = ++s;
		if (!digits_read(&s, &part) || s - start > 6)
			return false;
		for (ptrdiff_t i = s - start; i > 0; i--)
			scale *= 10;
	}
	for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
		if (strcmp(s, units[i].name) != 0)
			continue;
		return !__builtin_mul_overflow((int64_t)whole, units[i].ns, ns) &&
		       !__builtin_add_overflow(*ns, (int64_t)part * units[i].ns / scale, ns);
	}
	return false;
}
