#include "lib/base/units.h"

#include <math.h>
#include <stddef.h>
#include <stdio.h>

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
