/* HKDF-SHA256 (RFC 5869) with the salt "collctl 1": every key of a job comes from it. */
#ifndef COLLCTL_CRYPTO_HKDF_H
#define COLLCTL_CRYPTO_HKDF_H

#include <stddef.h>
#include <stdint.h>

/* 0, or -1 when OpenSSL fails. */
int hkdf(const uint8_t *key, size_t key_len, const void *info, size_t info_len, uint8_t *out,
         size_t out_len);

#endif
