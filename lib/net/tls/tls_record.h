/*
 * Records of TLS 1.3 (RFC 8446, sections 5 and 7): their encryption with the keys of a finished
 * handshake. A struct tls_keys is used by one thread at a time. Sizes are bytes.
 *
 * OpenSSL runs the handshake; this code makes and opens the records after it, as the kernel does
 * with kTLS. OpenSSL's record layer copies each byte twice when it sends (into its buffer, then
 * into the BIO) and once when it receives; this takes a third of the time of a large allreduce.
 * Here a record is encrypted from the caller's memory into the send buffer, and decrypted from the
 * receive buffer into the caller's memory. The bytes on the wire are the same. OpenSSL or ipsec-mb
 * computes the ciphers.
 *
 * Kernel TLS would avoid these copies, too, but it is a module that few containers can use, and its
 * AES-GCM is slower than ipsec-mb's.
 */
#ifndef COLLCTL_NET_TLS_TLS_RECORD_H
#define COLLCTL_NET_TLS_TLS_RECORD_H

#include <openssl/types.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"

#define TLS_SECRET        32 /* bytes of a traffic secret: those of SHA-256 */
#define TLS_NONCE         12
#define TLS_RECORD_TEXT   16384 /* the most bytes of text in a record, with padding */
#define TLS_RECORD_HEADER 5
#define TLS_RECORD_EXTRA  (TLS_RECORD_HEADER + 1 + 16) /* header, type and tag */
#define TLS_RECORD_MAX    (TLS_RECORD_TEXT + TLS_RECORD_EXTRA)

enum tls_type { TLS_TYPE_ALERT = 21, TLS_TYPE_HANDSHAKE = 22, TLS_TYPE_DATA = 23 };

/* The keys of one direction. */
struct tls_keys {
	const char *cipher; /* OpenSSL's name of the cipher */
	size_t key_len;
	bool sends;
	uint8_t secret[TLS_SECRET], iv[TLS_NONCE];
	uint64_t sequence;    /* the number of records so far with this key */
	struct tls_gcm *wide; /* ipsec-mb; NULL: OpenSSL, in ctx */
	EVP_CIPHER_CTX *ctx;
};

/* @suite: the number of the cipher suite, 0x1301 or 0x1303; any other: ERR_OTHER. ERR_RESOURCE:
 * OpenSSL failed. The caller releases the keys in either case. */
int tls_keys_init(struct tls_keys *, unsigned suite, const uint8_t secret[TLS_SECRET], bool sends,
                  struct err *err);
void tls_keys_release(struct tls_keys *); /* wipes them; valid for zeroed keys, too */
/* Replace the keys by the next ones, after a KeyUpdate. ERR_RESOURCE. */
int tls_keys_update(struct tls_keys *, struct err *err);

/* Encrypt @text[n] followed by the byte @last into @out, and append the tag; @out has room for n +
 * 17. False: OpenSSL failed. */
bool tls_keys_seal(struct tls_keys *, const uint8_t nonce[TLS_NONCE], const uint8_t *aad,
                   size_t aad_len, const uint8_t *text, size_t n, uint8_t last, uint8_t *out);
/* The reverse. False: the bytes are not authentic, and the output must not be used. */
bool tls_keys_open(struct tls_keys *, const uint8_t nonce[TLS_NONCE], const uint8_t *aad,
                   size_t aad_len, const uint8_t *in, size_t n, uint8_t *text, uint8_t *last);
/* Use @key[key_len] instead of the key that was derived from the secret. -1: OpenSSL failed. */
int tls_keys_set(struct tls_keys *, const uint8_t *key);

/* Make a record of @text[n] at @record. Its length is n + TLS_RECORD_EXTRA. -1: OpenSSL failed. */
int tls_record_seal(struct tls_keys *, enum tls_type type, const void *text, size_t n,
                    uint8_t *record);

/* The length of the record that begins with @header, with its header. Negative: the header is
 * invalid; minus the number of the alert to send (RFC 8446, 6.2). */
int tls_record_length(const uint8_t header[TLS_RECORD_HEADER]);

/* Decrypt the record of @len bytes (tls_record_length) into @text, which has room for len -
 * TLS_RECORD_EXTRA bytes and may be record + TLS_RECORD_HEADER. Sets *type and *n, the length of
 * the text. 0; -1: it is not authentic. */
int tls_record_open(struct tls_keys *, const uint8_t *record, size_t len, uint8_t *text, size_t *n,
                    uint8_t *type);

#endif
