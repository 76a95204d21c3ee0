/*
 * Stores, where ranks meet: small values by key. Each kind of store is a row (store_NAME.c, listed
 * in store_rows.h); the scheme of the URL selects it. One thread may use a store at a time. Calls
 * block until their deadline at most.
 *
 * Errors: ERR_RENDEZVOUS with the URL and the answer; ERR_AUTH if the store refuses the token, or
 * its certificate does not verify; ERR_RESOURCE if a library is missing; ERR_USAGE for an unusable
 * URL; ERR_INPUT if a file of certificates cannot be read.
 */
#ifndef COLLCTL_STORE_STORE_H
#define COLLCTL_STORE_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

#define STORE_VALUE_MAX (64u << 10) /* bytes */

struct store_ops;

struct store_conf {
	const char *url;
	const char *token; /* or NULL */
	/* PEM files for https, or NULL: certificates to trust, in place of those of the environment
	 * or the system, and a certificate and its key to show. */
	const char *ca_file, *cert_file, *key_file;
};

struct store {
	const struct store_ops *ops;
	bool (*asked)(void *ctx); /* true: stop; NULL: never */
	void *asked_ctx;
};

struct store_value {
	char *data; /* owned; free() */
	size_t len;
	uint64_t index; /* of the last change; pass it as cas. 0: the key is missing */
};

/* These have the contracts of the functions below. */
struct store_ops {
	const char *const *schemes; /* of URLs, such as "http://", in lower case; ends with NULL */
	struct store *(*open)(const struct store_conf *, struct err *err);
	void (*close)(struct store *);
	int (*get)(struct store *, const char *key, uint64_t wait_index, struct store_value *out,
	           uint64_t *next_wait_index, int64_t deadline, struct err *err);
	int (*put_if)(struct store *, const char *key, const void *data, size_t len, uint64_t cas,
	              int64_t deadline, struct err *err);
	int (*delete_if)(struct store *, const char *key, uint64_t cas, int64_t deadline,
	                 struct err *err);
	int (*local_address)(struct store *, char *buf, size_t cap);
	void (*wake)(struct store *);
};

/* Does a token reach the store of @url in plain text, over a network? */
bool store_exposes_token(const char *url);

/* Opens no connection yet. */
struct store *store_open(const struct store_conf *, struct err *err);
void store_close(struct store *); /* NULL is fine */

/* Calls fail with ERR_OTHER, "interrupted", at most a second after @asked returns true. */
void store_interrupt(struct store *, bool (*asked)(void *ctx), void *ctx);
bool store_is_interrupted(const struct store *);
/* From another thread than that of a running call: the call checks `asked` now. */
void store_wake(struct store *);

/* Deadlines are absolute, clock_ns(). Transient failures are retried with a bounded back-off until
 * the deadline. */

/* Get @key. If @wait_index > 0, block until the key's index differs from it or the deadline (which
 * then is no error); a return does not prove a change. A missing key: 0 with out->index == 0.
 * *@next_wait_index (may be NULL) is the index to wait on next, 0 if the store has begun anew and
 * the next call must not wait. Free out->data on success. */
int store_get(struct store *, const char *key, uint64_t wait_index, struct store_value *out,
              uint64_t *next_wait_index, int64_t deadline, struct err *err);
/* Put @data if the key's index is still @cas (0: only if absent). 1: done; 0: another client was
 * first; -1: error. If an answer is lost, the value is read back and compared, so it must be
 * unique.
 */
int store_put(struct store *, const char *key, const void *data, size_t len, uint64_t cas,
              int64_t deadline, struct err *err);
/* Delete @key if its index is still @cas (> 0). 1, also if there is none; 0: another client has
 * changed it; -1: error. */
int store_delete(struct store *, const char *key, uint64_t cas, int64_t deadline, struct err *err);
/* Has @key this value? 1, 0, -1: error. For a put whose first try may have succeeded although its
 * answer was lost. */
int store_holds(struct store *, const char *key, const void *data, size_t len, int64_t deadline,
                struct err *err);
/* The local address of the connection that the last call used ("192.0.2.7"), for advertising. -1:
 * there is none, or no call has succeeded yet. */
int store_local_address(struct store *, char *buf, size_t cap);

#endif
