/*
 * Memory lanes: connections between ranks of one host, through memory that both ends map
 * (conn_shared.c). They are simplex: the dialling end sends. A unix socket is used for the
 * handshake, to wake the other end, and to notice its end. Processes of other users are refused; so
 * there is no encryption.
 */
#ifndef COLLCTL_NET_CONN_SHARED_H
#define COLLCTL_NET_CONN_SHARED_H

#include "lib/net/arena.h"
#include "lib/net/tls/tls.h"

#define CONN_SHARED_RING_MAX (256u << 10)
#define CONN_SHARED_FIRST    'C' /* the first byte that the dialling end sends */

/* The sending end, over the unix socket @fd. The connection owns @fd; on failure the caller still
 * does. conn_handshake completes it. @identity, @key: what it proves to the other end. @arena: it
 * can lend memory of this arena, which must outlive the connection. @ring: bytes of the ring; 0:
 * the most. */
struct conn *conn_shared_dial(int fd, const char *identity, const uint8_t key[TLS_KEY_BYTES],
                              const struct arena *arena, size_t ring, struct err *err);
/* The receiving end; @fd as above. @find(ctx, ...) gives the key of the other end's identity.
 * @maps: the list in which it maps the sender's arena; it must outlive the connection. */
struct conn *conn_shared_accept(int fd, tls_find_key *find, void *ctx, struct arena_maps *maps,
                                struct err *err);
/* The identity that the sender has proved; "": none yet. Valid as long as the connection. */
const char *conn_shared_identity(const struct conn *);

#endif
