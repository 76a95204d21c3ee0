/*
 * What etcd's JSON gateway answers (/v3). Pure: it is what a hostile server can reach. Numbers of
 * 64 bits are strings, as in protobuf's JSON, or integers; fields with their default value may be
 * missing. Errors: ERR_RENDEZVOUS, without the store's URL.
 *
 * Accepted: the answers of etcd 3.4 to 3.6. The releases differ in the HTTP status of some errors
 * and in the name of the error's text ("error" until 3.5, "message" since), but not in its code.
 */
#ifndef COLLCTL_STORE_ETCD_ANSWER_H
#define COLLCTL_STORE_ETCD_ANSWER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/store/store.h"

/* gRPC's codes */
enum etcd_code {
	ETCD_NO_CODE = 0, /* not an error of etcd's gateway */
	ETCD_INVALID_ARGUMENT = 3,
	ETCD_PERMISSION_DENIED = 7,
	ETCD_FAILED_PRECONDITION = 9,
	ETCD_UNAUTHENTICATED = 16,
};

struct etcd_error {
	int code;
	char text[160]; /* printable; of an answer that is not JSON its first line */
};

/* /v3/kv/range of one key. *revision: the store's, at the time of the read. A missing key: 0 with
 * out->index == 0. Free out->data on success. */
int etcd_read_range(struct store_value *out, uint64_t *revision, const char *body, size_t len,
                    struct err *err);
/* /v3/kv/txn. 1: the comparison was true; 0: it was not; -1. */
int etcd_read_txn(const char *body, size_t len, struct err *err);
/* /v3/auth/authenticate. *token: malloced. */
int etcd_read_token(char **token, const char *body, size_t len, struct err *err);
/* An answer with another status than 200. */
void etcd_read_error(struct etcd_error *, const char *body, size_t len);
/* Does the part of the answer to /v3/watch that has come say more than that the watch was created
 * at @revision or later? Then the key may have changed, or the watch has ended. */
bool etcd_watch_woke(const char *body, size_t len, uint64_t revision);

#endif
