/*
 * The client of an HTTP key-value store that speaks the Consul KV subset (FORMATS.md): the embedded
 * server (`collctl serve`) and Consul itself. libcurl is opened at run time (dlopen), so commands
 * that need no store don't pay for it. One easy handle per store, which one thread may use at a
 * time; calls block, bounded by their deadline, and send a few requests a second at most. Bodies
 * are capped; redirects are not followed; no proxy is used, whatever the environment says: a job's
 * store is inside its network, and the address of the connection to it is the one that a rank
 * advertises.
 *
 * Errors: ERR_RENDEZVOUS naming the URL and what came back; ERR_AUTH for a refused token (401, 403)
 * and for a certificate that does not verify; ERR_RESOURCE without libcurl; ERR_USAGE for a URL
 * that can't be used (etcd+http(s):// is recognised and refused with words until it is built).
 */
#ifndef COLLCTL_JOB_STORE_H
#define COLLCTL_JOB_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

#define STORE_VALUE_MAX (64u << 10) /* bytes */

struct store;

/* @url: [consul+]http[s]://HOST[:PORT][/PREFIX]; PREFIX goes before every key. @token: a bearer
 * token (X-Consul-Token), or NULL. Opens no connection yet. For https the certificates of
 * CURL_CA_BUNDLE or SSL_CERT_FILE are trusted where set, else the system's. */
struct store *store_open(const char *url, const char *token, struct err *err);
void store_close(struct store *);
/* Trust the certificates of the PEM file @ca_file instead. ERR_INPUT if it can't be read. */
int store_trust(struct store *, const char *ca_file, struct err *err);

/* Calls fail with ERR_OTHER, "interrupted", within a second of @asked answering true. */
void store_interrupt(struct store *, bool (*asked)(void *ctx), void *ctx);
/* From another thread than the one that is in a call: it asks now. */
void store_wake(struct store *);

struct store_value {
	char *data; /* owned; free() */
	size_t len;
	uint64_t index; /* ModifyIndex, the cas argument; 0: the key is missing */
};

/* The answer to GET of one key, as the store's JSON: an array of one object. Base64 is decoded and
 * the sizes are checked. ERR_RENDEZVOUS. Pure: it is what a hostile store can reach. */
int store_value_parse(struct store_value *out, const char *body, size_t len, struct err *err);

/* Deadlines are absolute, clock_ns(). Transient failures (refused connect, 5xx) are retried with a
 * bounded back-off until the deadline. After a burst, requests are a quarter of a second apart. */

/* Get @key. If @wait_index > 0, block until the key's index differs from it or the deadline (which
 * then is no error); a return does not prove a change. A missing key: 0 with out->index == 0.
 * *@next_wait_index (may be NULL) is the index to wait on next, 0 if the store has begun anew and
 * the next call must not wait. Free out->data on success. */
int store_get(struct store *, const char *key, uint64_t wait_index, struct store_value *out,
              uint64_t *next_wait_index, int64_t deadline, struct err *err);
/* Put @data if the key's index is still @cas (0: only if absent). 1: done; 0: somebody was first;
 * -1: error. If an answer is lost, the value is read back and compared: let it be unique. */
int store_put(struct store *, const char *key, const void *data, size_t len, uint64_t cas,
              int64_t deadline, struct err *err);
/* Delete @key if its index is still @cas (> 0). 1, also if there was none; 0: somebody has changed
 * it; -1: error. */
int store_delete(struct store *, const char *key, uint64_t cas, int64_t deadline, struct err *err);
/* The local address of the connection that the last call used ("192.0.2.7"), for advertising.
 * -1 before the first successful call. */
int store_local_address(struct store *, char *buf, size_t cap);

#endif
