/*
 * Scans JSON from untrusted files, for callers that know its structure. It builds no tree, so it
 * allocates nothing. Strict RFC 8259; strings must be UTF-8 without NUL. One thread.
 */
#ifndef COLLCTL_DATA_FORMATS_JSON_SCAN_H
#define COLLCTL_DATA_FORMATS_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

struct json_scan {
	const char *subject; /* name of the text, for messages: "the header" */
	char *start, *p, *end;
	struct err *err;
};

/* Start scanning @text[len], which must outlive the strings. They are decoded in place, which
 * overwrites the text. Errors are stored in @err: ERR_INPUT. */
void json_scan_init(struct json_scan *, const char *subject, char *text, size_t len, struct err *);

/* Is @c the next character after white space? */
bool json_scan_next_is(struct json_scan *, char c);

/* Scan an object: calls @member for each key, and @member scans the value. Scan an array: calls
 * @element, which scans one element. All functions return 0, or -1: ERR_INPUT names the position,
 * what was found and what was expected. */
int json_scan_object(struct json_scan *, int (*member)(void *ctx, const char *key), void *ctx);
int json_scan_array(struct json_scan *, int (*element)(void *ctx), void *ctx);

/* *out points into the text. */
int json_scan_string(struct json_scan *, const char **out);
/* A non-negative integer without a fraction or an exponent. If it is none, returns -1 without
 * setting an error. */
int json_scan_natural(struct json_scan *, uint64_t *out);
/* Skip any value, without changing it. */
int json_scan_skip(struct json_scan *);
/* Check that only white space is left. */
int json_scan_end(struct json_scan *);

#endif
