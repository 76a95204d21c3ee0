/* Sizes and durations for people. All return @buf, UNITS_TEXT bytes. */
#ifndef COLLCTL_BASE_UNITS_H
#define COLLCTL_BASE_UNITS_H

#include <stdint.h>

#define UNITS_TEXT 32

/* "512 bytes", "1.5 GiB" */
char *size_text(uint64_t bytes, char buf[UNITS_TEXT]);
/* "3.2 ms", "19.7 s", "3 min 20 s", "1 h 05 min"; "over 99 h" from 100 hours on. */
char *duration_text(double seconds, char buf[UNITS_TEXT]);

#endif
