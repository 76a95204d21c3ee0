/* OpenSSL: its start, its errors, and the few primitives that are used outside TLS. OpenSSL keeps
 * one queue of errors per thread; any thread may call these functions, except crypto_own_process
 * and crypto_begin. */
#ifndef COLLCTL_CRYPTO_CRYPTO_H
#define COLLCTL_CRYPTO_CRYPTO_H

#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

/* The process has no other user of OpenSSL: make it allocate by memory.h, and free nothing at exit,
 * which would take a fifteenth of the instructions of a small job. Call it once, before any other
 * function of OpenSSL. */
void crypto_own_process(void);
/* Initialise OpenSSL before its first use. ERR_RESOURCE. A failed initialisation must be noticed
 * here, because OpenSSL 3.0 would crash later. */
int crypto_begin(struct err *err);

/* Did OpenSSL fail because memory ran out? Empties this thread's queue of errors. */
bool crypto_lacked_memory(void);
/* Report that @what failed: ERR_RESOURCE if memory ran out, else @code with OpenSSL's reason.
 * Returns -1. */
int crypto_failed(struct err *err, int code, const char *what);

/* Open a file for PEM_read_bio_*; the caller frees it with BIO_free. NULL: @code with the system's
 * error, or ERR_RESOURCE. */
BIO *crypto_open(const char *path, int code, struct err *err);

/* Sizes are bytes. ERR_RESOURCE. */
int crypto_sha256(const void *data, size_t len, uint8_t sum[32], struct err *err);
int crypto_random(void *buf, size_t len, struct err *err);
/* The same for secret data. */
int crypto_random_key(void *buf, size_t len, struct err *err);

#endif
