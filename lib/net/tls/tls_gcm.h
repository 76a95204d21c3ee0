/*
 * AES-128-GCM with the wide vectors of the processor (VAES): three to five times as fast as that of
 * OpenSSL 3.0, which limits large transfers over TLS. Intel's ipsec-mb (Debian: libipsec-mb1),
 * opened at run time, does the arithmetic.
 *
 * Source: https://github.com/intel/intel-ipsec-mb; NIST SP 800-38D.
 */
#ifndef COLLCTL_NET_TLS_TLS_GCM_H
#define COLLCTL_NET_TLS_TLS_GCM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define TLS_GCM_KEY 16
#define TLS_GCM_TAG 16

struct tls_gcm; /* one key */

/* The version of the library; NULL if the processor or the library does not support it. Then
 * OpenSSL must do the work, and tls_gcm_new must not be called. Not thread-safe. */
const char *tls_gcm_library(void);

/* Tests set it: the library counts as missing. */
extern bool tls_gcm_disabled;

struct tls_gcm *tls_gcm_new(const uint8_t key[TLS_GCM_KEY]); /* NULL: memory is lacking */
void tls_gcm_free(struct tls_gcm *);                         /* wipes the key */

/* Encrypt the @n bytes @text and the byte @last to @out, which has room for n + 1 + TLS_GCM_TAG:
 * the tag follows. A nonce is valid for one message. @out may be @text. */
void tls_gcm_seal(struct tls_gcm *, const uint8_t nonce[12], const uint8_t *aad, size_t aad_len,
                  const uint8_t *text, size_t n, uint8_t last, uint8_t *out);
/* The reverse: @n bytes to @text and one more to *last. False: the tag is wrong, and what was
 * written must not be used. @text may be @in. */
bool tls_gcm_open(struct tls_gcm *, const uint8_t nonce[12], const uint8_t *aad, size_t aad_len,
                  const uint8_t *in, size_t n, uint8_t *text, uint8_t *last);

#endif
