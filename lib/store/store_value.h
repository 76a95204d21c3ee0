/*
 * Decodes values from the JSON of stores, which is not trusted: decodes base64, and checks the
 * sizes. Pure functions. Errors: ERR_RENDEZVOUS; the text does not name the store. The caller frees
 * out->data on success.
 */
#ifndef COLLCTL_STORE_STORE_VALUE_H
#define COLLCTL_STORE_STORE_VALUE_H

#include "lib/store/store.h"

/* Decode Consul's answer to GET of one key: an array of one object. */
int store_value_parse(struct store_value *out, const char *body, size_t len, struct err *err);

/* Decode base64 into out->data and out->len. An empty value has data NULL. */
int store_value_decode(struct store_value *out, const char *text, size_t len, struct err *err);

#endif
