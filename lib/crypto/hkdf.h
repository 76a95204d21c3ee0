/* HKDF-SHA256 (RFC 5869) with the salt "collctl 1", which derives every key of a job. Sizes are
 * bytes. Thread-safe. */
#ifndef COLLCTL_CRYPTO_HKDF_H
#define COLLCTL_CRYPTO_HKDF_H

#include <stddef.h>
#include <stdint.h>

/* Derive @out[out_len] from @key and @info. 0; -1: OpenSSL failed. */
int hkdf(const uint8_t *key, size_t key_len, const void *info, size_t info_len, uint8_t *out,
         size_t out_len);

#endif
