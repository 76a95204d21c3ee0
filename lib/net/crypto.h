/* OpenSSL: its start, its errors, and the few primitives that are used outside TLS. */
#ifndef COLLCTL_NET_CRYPTO_H
#define COLLCTL_NET_CRYPTO_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

/* First of all calls of OpenSSL in this process: it may not have allocated yet. */
void crypto_watch_memory(void);
/* Before any other use, checked: OpenSSL 3.0 crashes later where its own start fails. */
int crypto_begin(struct err *err);

/* Was memory lacking for what failed in OpenSSL? Takes all its errors of this thread. */
bool crypto_lacked_memory(void);
/* @what has failed: ERR_RESOURCE where memory was lacking, else @code with OpenSSL's reason. */
int crypto_failed(struct err *err, int code, const char *what);

int crypto_sha256(const void *data, size_t len, uint8_t sum[32], struct err *err);
int crypto_random(void *buf, size_t len, struct err *err);
/* For what stays secret. */
int crypto_random_key(void *buf, size_t len, struct err *err);

#endif
