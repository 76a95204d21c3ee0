/* JSON as text with short numbers. */
#ifndef COLLCTL_BASE_JSON_H
#define COLLCTL_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

/* json_dumps with every real as the shortest decimal that reads back as the same double: 0.1, not
 * 0.10000000000000001. Malloced; NULL: memory ran out here or
 * while @value was built, or @value is NULL. */
char *json_text(const json_t *value, size_t flags);
/* A number that may be too large for a json_integer, exact in json_text. A new reference; NULL: out
 * of memory. */
json_t *json_u64(uint64_t x);

/* From json_watch_memory on, json_lacked_memory tells whether an allocation of jansson has failed:
 * a value built since may be incomplete, and text that could not be parsed may be well formed. */
void json_watch_memory(void);
bool json_lacked_memory(void);
void json_forget_memory(void);

#endif
