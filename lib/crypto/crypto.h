/* OpenSSL: its start, its errors, and the few primitives that are used outside TLS. */
#ifndef COLLCTL_CRYPTO_CRYPTO_H
#define COLLCTL_CRYPTO_CRYPTO_H

#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

/* Call it before any other function of OpenSSL, which must not have allocated memory yet. */
void crypto_watch_memory(void);
/* Start OpenSSL before any other use, and check the result: if its own start fails, OpenSSL 3.0
 * crashes later. */
int crypto_begin(struct err *err);

/* Did OpenSSL fail because memory ran out? Removes all its errors of this thread. */
bool crypto_lacked_memory(void);
/* @what has failed: ERR_RESOURCE if memory ran out, else @code with OpenSSL's reason. */
int crypto_failed(struct err *err, int code, const char *what);

/* Open a file for PEM_read_bio_*. NULL: the system's error, with @code, or ERR_RESOURCE. */
BIO *crypto_open(const char *path, int code, struct err *err);

int crypto_sha256(const void *data, size_t len, uint8_t sum[32], struct err *err);
int crypto_random(void *buf, size_t len, struct err *err);
/* For secret data. */
int crypto_random_key(void *buf, size_t len, struct err *err);

#endif
