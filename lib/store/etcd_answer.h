/*
 * Decodes the answers of etcd's JSON gateway (/v3), which are not trusted. Pure functions. In the
 * answers, numbers of 64 bits are strings, as in protobuf's JSON, or integers; fields with their
 * default value may be missing. Errors: ERR_RENDEZVOUS; the text does not name the store.
 *
 * Source: etcd 3.4 to 3.6, api/etcdserverpb/rpc.proto and its gateway. These releases differ in the
 * HTTP status of some errors, and in the name of the field with the error's text ("error" up to
 * 3.5, "message" in 3.6), but not in the error's code.
 */
#ifndef COLLCTL_STORE_ETCD_ANSWER_H
#define COLLCTL_STORE_ETCD_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/store/store.h"

/* The status codes of gRPC that are used. */
enum etcd_code {
	ETCD_NO_CODE = 0, /* not an error of etcd's gateway */
	ETCD_INVALID_ARGUMENT = 3,
	ETCD_PERMISSION_DENIED = 7,
	ETCD_FAILED_PRECONDITION = 9,
	ETCD_UNAUTHENTICATED = 16,
};

struct etcd_error {
	int code;
	char text[160]; /* printable; if the answer is not JSON, its first line */
};

/* Decode the answer to /v3/kv/range of one key. *revision: the store's revision at the time of the
 * read. If the key is missing, returns 0 with out->index 0. The caller frees out->data on
 * success. */
int etcd_read_range(struct store_value *out, uint64_t *revision, const char *body, size_t len,
                    struct err *err);
/* To /v3/kv/txn. 1: the comparison was true; 0: it was false; -1: error. */
int etcd_read_txn(const char *body, size_t len, struct err *err);
/* To /v3/auth/authenticate. *token is malloced. */
int etcd_read_token(char **token, const char *body, size_t len, struct err *err);
/* Decode an answer whose HTTP status is not 200. */
void etcd_read_error(struct etcd_error *, const char *body, size_t len);
/* @body is the beginning of the answer to /v3/watch. True: the key may have changed, or the watch
 * has ended. False: it says only that the watch was created, at @revision or later. */
bool etcd_watch_woke(const char *body, size_t len, uint64_t revision);

#endif
