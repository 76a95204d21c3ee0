/* JSON as text with short numbers, over jansson. Any thread may call these, but json_watch_memory
 * comes before the first use of jansson. */
#ifndef COLLCTL_BASE_JSON_H
#define COLLCTL_BASE_JSON_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <jansson.h>

#include "lib/base/err.h"

/* json_dumps with two differences. A real is the shortest decimal that reads back as the same
 * double: 0.1, not 0.10000000000000001. A character that is not printable (text.h) becomes \uXXXX,
 * so that a terminal may show it. @flags: json_dumps's. Malloced; NULL: @value is NULL, or
 * json_lacked_memory. Numbers are those of the C locale, whatever the thread's is. */
char *json_text(const json_t *value, size_t flags);
/* A measured time or rate: a real rounded to 6 digits. A new reference; NULL: out of memory, or @x
 * is not finite. */
json_t *json_measured(double x);
/* A number that may be too large for a json_integer, exact in json_text. A new reference; NULL: out
 * of memory. */
json_t *json_u64(uint64_t x);

/* A file name as a JSON string; the name need not be UTF-8. A new reference; NULL: out of memory.
 */
json_t *json_path(const char *path);
/* The value of "error" in --json: {"code","name","rank","host","phase","subject","message"}. @rank:
 * this process's rank, if @e names no culprit (-1: none); host: null unless the ranks are on
 * several and the culprit's is known; @phase: "start", "join", "connect", "run", "commit". A new
 * reference; NULL: out of memory. */
json_t *json_error(const struct err *e, int rank, const char *phase);

/* After json_watch_memory, json_lacked_memory says whether an allocation of jansson has failed,
 * until json_forget_memory. If so, a value that was built may be incomplete, and text that could
 * not be parsed may be valid. */
void json_watch_memory(void);
bool json_lacked_memory(void);
void json_forget_memory(void);

#endif
