/*
 * The client of an HTTP key-value store that speaks the Consul KV subset (store_server.h): the
 * embedded server (`collctl serve`) and Consul itself. libcurl is opened at run time (dlopen), only
 * by commands that need a store. Calls send a few requests a second at most. Bodies are capped;
 * redirects are not followed; no proxy is used, whatever the environment says: a job's store is
 * inside its network, and the address of the connection to it is the one that a rank advertises.
 *
 * The URL: [consul+]http[s]://HOST[:PORT][/PREFIX]; PREFIX goes before every key. The token is a
 * bearer token (X-Consul-Token). For https the certificates of CURL_CA_BUNDLE or SSL_CERT_FILE are
 * trusted where set, else the system's.
 */
#ifndef COLLCTL_JOB_STORE_HTTP_H
#define COLLCTL_JOB_STORE_HTTP_H

#include "lib/job/store.h"

extern const struct store_ops store_http;

/* The version of libcurl; NULL: it can't be used. */
const char *store_http_library(void);

/* Trust the certificates of the PEM file @ca_file instead. ERR_INPUT if it can't be read. */
int store_http_trust(struct store *, const char *ca_file, struct err *err);

/* The answer to GET of one key, as the store's JSON: an array of one object. Base64 is decoded and
 * the sizes are checked. ERR_RENDEZVOUS. Pure: it is what a hostile store can reach. */
int store_value_parse(struct store_value *out, const char *body, size_t len, struct err *err);

#endif
