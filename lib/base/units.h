/* Sizes and durations, for people and from them. */
#ifndef COLLCTL_BASE_UNITS_H
#define COLLCTL_BASE_UNITS_H

#include <stdbool.h>
#include <stdint.h>

#define UNITS_TEXT 32

/* These two return @buf. "512 bytes", "1.5 GiB" */
char *size_text(uint64_t bytes, char buf[UNITS_TEXT]);
/* "3.2 ms", "19.7 s", "3 min 20 s", "1 h 05 min"; "over 99 h" from 100 hours on. */
char *duration_text(double seconds, char buf[UNITS_TEXT]);

/* Read decimal digits at *p into *out, moving *p behind them. False: none, or too many. */
bool digits_read(const char **p, uint64_t *out);
/* "500ms", "30s", "2m", "1h", "15" (seconds), "0.5s", "200us" as ns. False: malformed, or more than
 * 63 bits. */
bool duration_read(const char *text, int64_t *ns);

#endif
