/* JSON as text with short numbers. */
#ifndef COLLCTL_BASE_JSON_H
#define COLLCTL_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

/* json_dumps with every real as the shortest decimal that reads back as the same double: 0.1, not
 * 0.10000000000000001; and with every character of a string that is not printable (text.h) as
 * \uXXXX, so that a terminal may show it. Malloced; NULL: memory ran out here or while @value was
 * built, or @value is NULL. */
char *json_text(const json_t *value, size_t flags);
/* A measured time or rate: a real rounded to 6 digits. A new reference; NULL: out of memory, or @x
 * is not finite. */
json_t *json_measured(double x);
/* A number that may be too large for a json_integer, exact in json_text. A new reference; NULL: out
 * of memory. */
json_t *json_u64(uint64_t x);

/* After json_watch_memory, json_lacked_memory is true if an allocation of jansson has failed: a
 * value built since then may be incomplete, and text that could not be parsed may be valid. */
void json_watch_memory(void);
bool json_lacked_memory(void);
void json_forget_memory(void);

#endif
