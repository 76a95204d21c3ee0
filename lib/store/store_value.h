/*
 * Values as stores write them in JSON. Pure: it is what a hostile store can reach. Base64 is
 * decoded and the sizes are checked. ERR_RENDEZVOUS, without the store's URL.
 */
#ifndef COLLCTL_STORE_STORE_VALUE_H
#define COLLCTL_STORE_STORE_VALUE_H

#include "lib/store/store.h"

/* Consul's answer to GET of one key: an array of one object. */
int store_value_parse(struct store_value *out, const char *body, size_t len, struct err *err);

/* Base64 to out->data and out->len; an empty value has no data. */
int store_value_decode(struct store_value *out, const char *text, size_t len, struct err *err);

#endif
