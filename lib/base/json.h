/* JSON as text with short numbers. */
#ifndef COLLCTL_BASE_JSON_H
#define COLLCTL_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

/* json_dumps with every real as the shortest decimal that reads back as the same double: 0.1, not
 * 0.10000000000000001. For malloc's free(); NULL: out of memory, as it was built too, or
 * @value is NULL. */
char *json_text(const json_t *value, size_t flags);
/* A number that may be too large for a json_integer, exact in json_text. A new reference; NULL: out
 * of memory. */
json_t *json_u64(uint64_t x);

/* Has jansson lacked memory in this process? Then a value that was built is incomplete, and one
 * that could not be read need not be malformed. Once watched. */
void json_watch_memory(void);
bool json_lacked_memory(void);
void json_forget_memory(void);

#endif
