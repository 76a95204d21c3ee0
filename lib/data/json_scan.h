/*
 * JSON from files that nobody trusts, token by token, where the caller knows what should come: no
 * tree is built, so that memory does not grow with what a file holds beyond its own text. Strict
 * as RFC 8259 is; strings are UTF-8 without NUL.
 */
#ifndef COLLCTL_DATA_JSON_SCAN_H
#define COLLCTL_DATA_JSON_SCAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

struct json_scan {
	const char *subject; /* what it is, for messages: "the header" */
	char *start, *p, *end;
	struct err *err;
};

/* Scan @text[len], which is overwritten: strings are decoded where they stand. */
void json_scan_init(struct json_scan *, const char *subject, char *text, size_t len, struct err *);

/* Is @c the next character that is no white space? */
bool json_scan_next_is(struct json_scan *, char c);

/* An object: @member is called for each key, to scan its value. An array: @element for each. They
 * and what follows return 0, or -1: ERR_INPUT, what was found where and what was expected. */
int json_scan_object(struct json_scan *, int (*member)(void *ctx, const char *key), void *ctx);
int json_scan_array(struct json_scan *, int (*element)(void *ctx), void *ctx);

/* *out lasts as long as the text. */
int json_scan_string(struct json_scan *, const char **out);
/* A whole number from 0, without a fraction or an exponent; -1 without an error. */
int json_scan_natural(struct json_scan *, uint64_t *out);
/* Any value, which is left as it stands. */
int json_scan_skip(struct json_scan *);
/* Nothing is left but white space. */
int json_scan_end(struct json_scan *);

#endif
