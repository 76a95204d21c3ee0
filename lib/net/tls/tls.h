/*
 * TLS 1.3 (OpenSSL 3), with external pre-shared keys or, for control links, certificates of both
 * ends: no tickets, no early data, X25519 or P-256, AES-128-GCM or ChaCha20-Poly1305, never
 * anything older or weaker.
 */
#ifndef COLLCTL_NET_TLS_TLS_H
#define COLLCTL_NET_TLS_TLS_H

#include <stddef.h>
#include <stdint.h>

#include "lib/base/err.h"
#include "lib/net/conn.h"

#define TLS_KEY_BYTES    32
#define TLS_IDENTITY_MAX 128
#define TLS_HANDSHAKE    22 /* the first byte of who speaks TLS */

/* Records per key: AES-GCM allows 2^24.5 full records (RFC 8446, 5.5). Tests set a smaller number.
 */
extern uint32_t tls_key_records;

struct tls; /* the two contexts (client, server) of a process */

struct credentials;

struct tls *tls_new(struct err *err);
/* With certificates (credentials.h, which must stay valid) in place of keys: dial and accept take
 * none. An end whose certificate the CA has not signed is refused; whose it is, is for the caller
 * to check. */
struct tls *tls_new_mutual(const struct credentials *, struct err *err);
void tls_free(struct tls *);

/* Whose layer of records (docs/TLS.md) carries data: "own" or "openssl". Control links always have
 * OpenSSL's. NULL: ERR_USAGE, COLLCTL_TLS_RECORDS is neither. */
const char *tls_records(struct err *err);

/* Connections made from now on carry data: they have larger buffers, and the records of
 * tls_records. */
void tls_carry_data(struct tls *);

/* Server side: the key of @identity (@len bytes, not authenticated) into @key. 0, or -1: unknown.
 * @ctx is that of tls_accept. */
typedef int tls_find_key(void *ctx, const uint8_t *identity, size_t len,
                         uint8_t key[TLS_KEY_BYTES]);

/* A connection over @fd, which it owns. @buffer, if it carries data: bytes whose records fit its
 * send buffer, and bytes of its receive buffer (0: the default, 256 KiB); they count in --memory.
 * Control links, and all connections before the peer is authenticated, have 12 KiB. conn_handshake
 * runs the handshake. ERR_AUTH: the peer reports that the secrets differ or that it knows no such
 * job or session, or it does not use TLS; ERR_INTEGRITY: the received bytes are not a valid
 * handshake. */
struct conn *tls_dial(struct tls *, int fd, const char *identity, const uint8_t key[TLS_KEY_BYTES],
                      size_t buffer, struct err *err);
struct conn *tls_accept(struct tls *, int fd, tls_find_key *find, void *ctx, size_t buffer,
                        struct err *err);

/* The client's identity, NUL-terminated; empty until its key is found. With certificates, the
 * subject of the other end's. */
const char *tls_identity(const struct conn *);
/* The certificate that the other end has proved to own; NULL: pre-shared keys. The connection's. */
struct x509_st *tls_certificate(const struct conn *);

#endif
