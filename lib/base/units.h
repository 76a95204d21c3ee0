/* Sizes and durations as text: formatting and parsing. Thread-safe. */
#ifndef COLLCTL_BASE_UNITS_H
#define COLLCTL_BASE_UNITS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define UNITS_TEXT 32

/* Both return @buf. "512 bytes", "1.5 GiB" */
char *size_text(uint64_t bytes, char buf[UNITS_TEXT]);
/* "1.2 Gbit/s", "300 Mbit/s" */
char *bit_rate_text(double bytes_per_second, char buf[UNITS_TEXT]);
/* "142 us", "64 ms" */
char *latency_text(double seconds, char buf[UNITS_TEXT]);
/* "3.2 ms", "19.7 s", "3 min 20 s", "1 h 05 min"; "over 99 h" from 100 hours on. */
char *duration_text(double seconds, char buf[UNITS_TEXT]);

/* Write the decimal digits of @x, without NUL. Returns the number of them. */
#define DIGITS_MAX 20
size_t digits_put(char digits[DIGITS_MAX], uint64_t x);
/* Parse decimal digits at *p into *out, and move *p past them. False: there are none, or the number
 * exceeds 64 bits. */
bool digits_read(const char **p, uint64_t *out);
/* Parse "500ms", "30s", "2m", "1h", "15" (seconds), "0.5s" or "200us" to ns. False: malformed, or
 * more than 63 bits. */
bool duration_read(const char *text, int64_t *ns);

#endif
