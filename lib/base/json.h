/* JSON as text with short numbers, over jansson. Any thread may call these, but json_watch_memory
 * comes before the first use of jansson. */
#ifndef COLLCTL_BASE_JSON_H
#define COLLCTL_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

/* json_dumps with two differences. A real is the shortest decimal that reads back as the same
 * double: 0.1, not 0.10000000000000001. A character that is not printable (text.h) becomes \uXXXX,
 * so that a terminal may show it. @flags: json_dumps's. Malloced; NULL: @value is NULL, or
 * json_lacked_memory. */
char *json_text(const json_t *value, size_t flags);
/* A measured time or rate: a real rounded to 6 digits. A new reference; NULL: out of memory, or @x
 * is not finite. */
json_t *json_measured(double x);
/* A number that may be too large for a json_integer, exact in json_text. A new reference; NULL: out
 * of memory. */
json_t *json_u64(uint64_t x);

/* After json_watch_memory, json_lacked_memory says whether an allocation of jansson has failed,
 * until json_forget_memory. If so, a value that was built may be incomplete, and text that could
 * not be parsed may be valid. */
void json_watch_memory(void);
bool json_lacked_memory(void);
void json_forget_memory(void);

#endif
