/*
 * AES-128-GCM by the processor's wide vector instructions (VAES), three to five times as fast as
 * OpenSSL 3.0's, which limits large transfers over TLS. It uses Intel's ipsec-mb (Debian:
 * libipsec-mb1), which is opened at run time. A struct tls_gcm is used by one thread at a time.
 * Sizes are bytes.
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

/* The version of ipsec-mb; NULL: the processor or the library lacks support. Then the caller must
 * use OpenSSL, and tls_gcm_new must not be called. Not thread-safe. */
const char *tls_gcm_library(void);

/* For tests: treat the library as missing. */
extern bool tls_gcm_disabled;

struct tls_gcm *tls_gcm_new(const uint8_t key[TLS_GCM_KEY]); /* NULL: no memory */
void tls_gcm_free(struct tls_gcm *);                         /* wipes the key */

/* Encrypt @text[n] followed by the byte @last into @out, and append the tag; @out has room for n +
 * 1 + TLS_GCM_TAG. Never use a nonce twice. @out may be @text. */
void tls_gcm_seal(struct tls_gcm *, const uint8_t nonce[12], const uint8_t *aad, size_t aad_len,
                  const uint8_t *text, size_t n, uint8_t last, uint8_t *out);
/* The reverse: decrypt @n bytes into @text and one more into *last. False: the tag is wrong, and
 * the output must not be used. @text may be @in. */
bool tls_gcm_open(struct tls_gcm *, const uint8_t nonce[12], const uint8_t *aad, size_t aad_len,
                  const uint8_t *in, size_t n, uint8_t *text, uint8_t *last);

#endif
