/*
 * Stores, where ranks meet: servers that keep small values by key. Each kind of store is a struct
 * store_ops, in store_NAME.c, and has a row in store_rows.h; the scheme of the URL selects it. One
 * thread may use a store at a time, except store_wake. Calls block at most until their deadline.
 *
 * Errors: ERR_RENDEZVOUS names the URL and the answer; ERR_AUTH: the store refuses the token, or
 * its certificate does not verify; ERR_RESOURCE, also if a library is missing; ERR_USAGE: the URL
 * or a key is not usable; ERR_INPUT: a file of certificates cannot be read; ERR_OTHER,
 * "interrupted": see store_interrupt.
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
	/* PEM files for https, or NULL: the certificates to trust, instead of those of the
	 * environment or the system; this rank's certificate; its key. */
	const char *ca_file, *cert_file, *key_file;
};

struct store {
	const struct store_ops *ops;
	bool (*asked)(void *ctx); /* true: stop; NULL: never */
	void *asked_ctx;
	void (*tell)(void *ctx, const char *why); /* or NULL */
	void *tell_ctx;
};

struct store_value {
	char *data; /* owned; free() */
	size_t len;
	uint64_t index; /* the store's number of the key's last change, for cas; 0: the key is
	                   missing */
};

/* A kind of store. The functions have the contracts of those below with these names; put_if is
 * store_put, delete_if store_delete. wake may be called from any thread. */
struct store_ops {
	const char *const *schemes; /* of its URLs, "http://", in lower case; ends with NULL */
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

/* Would a token be sent to the store of @url in plain text over a network? */
bool store_exposes_token(const char *url);

/* Opens no connection yet. */
struct store *store_open(const struct store_conf *, struct err *err);
void store_close(struct store *); /* NULL: nothing */

/* Call @asked during calls, at least once a second; once it returns true, calls fail with
 * ERR_OTHER, "interrupted". NULL: never. */
void store_interrupt(struct store *, bool (*asked)(void *ctx), void *ctx);
bool store_is_interrupted(const struct store *);
/* Call @tell at the first transient failure, in the thread of the call. NULL: never. */
void store_tell(struct store *, void (*tell)(void *ctx, const char *why), void *ctx);
/* For kinds of stores: there was one. */
void store_failed(struct store *, const char *why);
/* Make a running call check `asked` at once. Any thread may call this. */
void store_wake(struct store *);

/* Deadlines are absolute, clock_ns(). Transient failures are retried with a bounded back-off until
 * the deadline. */

/* Get @key. If @wait_index > 0, first wait until the key's index differs from it; then the deadline
 * is not an error, and a return does not prove a change. 0, also if the key is missing: out->index
 * is 0; -1: error. *@next_wait_index (may be NULL): the wait_index for the next call; 0: the store
 * has lost its history, and the next call must not wait. The caller frees out->data on success. */
int store_get(struct store *, const char *key, uint64_t wait_index, struct store_value *out,
              uint64_t *next_wait_index, int64_t deadline, struct err *err);
/* Put @data if the key's index is @cas (0: if the key is missing). 1: done; 0: another client was
 * first; -1: error. If an answer is lost, the value is read and compared; so each value must be
 * unique. */
int store_put(struct store *, const char *key, const void *data, size_t len, uint64_t cas,
              int64_t deadline, struct err *err);
/* Delete @key if its index is @cas (> 0). 1: done, or the key was missing; 0: another client has
 * changed it; -1: error. */
int store_delete(struct store *, const char *key, uint64_t cas, int64_t deadline, struct err *err);
/* Has @key this value? 1: yes; 0: no; -1: error. For a put whose answer was lost. */
int store_holds(struct store *, const char *key, const void *data, size_t len, int64_t deadline,
                struct err *err);
/* Write to @buf the local address of the last call's connection ("192.0.2.7"), which a rank may
 * advertise. 0; -1: no call has succeeded yet, or it does not fit. */
int store_local_address(struct store *, char *buf, size_t cap);

#endif
