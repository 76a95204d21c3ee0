/*
 * TLS 1.3 (RFC 8446) by OpenSSL 3. The ends authenticate each other by an external pre-shared key
 * or, on control links, by certificates. No tickets, no early data; X25519 or P-256; AES-128-GCM or
 * ChaCha20-Poly1305; nothing older or weaker. One thread per connection, as conn.h; a struct tls is
 * used by one thread at a time. docs/TLS.md explains the choices.
 */
#ifndef COLLCTL_NET_TLS_TLS_H
#define COLLCTL_NET_TLS_TLS_H

#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/net/conn.h"

#define TLS_KEY_BYTES    32
#define TLS_IDENTITY_MAX 128
#define TLS_HANDSHAKE    22 /* the first byte of a TLS connection */

/* After this number of records the key is updated; AES-GCM allows 2^24.5 full records (RFC 8446,
 * 5.5). Tests set a smaller number. */
extern uint32_t tls_key_records;

struct tls; /* the context of a process */

struct credentials;

/* With pre-shared keys. NULL: ERR_RESOURCE, or ERR_USAGE from tls_records. */
struct tls *tls_new(struct err *err);
/* With certificates instead of keys; the credentials must outlive it. tls_dial and tls_accept then
 * ignore identity, key and find. Certificates that the CA has not signed are refused. The caller
 * checks to whom the certificate belongs (tls_certificate). */
struct tls *tls_new_mutual(const struct credentials *, struct err *err);
void tls_free(struct tls *);

/* The layer of records (docs/TLS.md) of connections that carry data, by COLLCTL_TLS_RECORDS: "own"
 * or "openssl". Control links always use OpenSSL's. NULL: ERR_USAGE: the variable has another
 * value. */
const char *tls_records(struct err *err);

/* Connections made after this call carry data: they have larger buffers, and use the layer
 * tls_records. */
void tls_carry_data(struct tls *);

/* Write the key of @identity (@len bytes, not yet authenticated) to @key. 0; -1: the identity is
 * unknown. @ctx is that of tls_accept. */
typedef int tls_find_key(void *ctx, const uint8_t *identity, size_t len,
                         uint8_t key[TLS_KEY_BYTES]);

/* Make the client's or the server's end of a connection over @fd. The connection owns @fd; on
 * failure the caller still does. @buffer, of a connection that carries data: the bytes of payload
 * that its send buffer holds as records, and the bytes of its receive buffer (0: 256 KiB); they
 * count in --memory. Control links, and all connections before the peer is authenticated, have 12
 * KiB.
 *
 * conn_handshake runs the handshake. ERR_AUTH: the peer reports that the secrets differ, or that it
 * does not know the job or session; or it does not use TLS; or its certificate is refused.
 * ERR_INTEGRITY: the received bytes are not a valid handshake. */
struct conn *tls_dial(struct tls *, int fd, const char *identity, const uint8_t key[TLS_KEY_BYTES],
                      size_t buffer, struct err *err);
struct conn *tls_accept(struct tls *, int fd, tls_find_key *find, void *ctx, size_t buffer,
                        struct err *err);

/* The client's identity; "" until its key is found. With certificates: the subject of the other
 * end's certificate. The connection owns it. */
const char *tls_identity(const struct conn *);
/* The certificate whose key the other end has proved to have, owned by the connection; NULL:
 * pre-shared keys. */
struct x509_st *tls_certificate(const struct conn *);

#endif
