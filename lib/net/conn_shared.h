/*
 * Memory lanes: connections to ranks of the same host, through memory that both map
 * (conn_shared.c). They are simplex; the dialler sends. Every process of another user is refused.
 * There is no encryption: the kernel keeps other users out.
 */
#ifndef COLLCTL_NET_CONN_SHARED_H
#define COLLCTL_NET_CONN_SHARED_H

#include "lib/net/arena.h"
#include "lib/net/tls/tls.h"

#define CONN_SHARED_RING_MAX (256u << 10)
#define CONN_SHARED_FIRST    'C' /* the first byte of who dials a memory lane */

/* The sending end over the unix socket @fd, which it owns: conn_handshake makes the lane. @arena:
 * of what it lends; it must outlive the connection. @ring: bytes of the ring; 0: the most. */
struct conn *conn_shared_dial(int fd, const char *identity, const uint8_t key[TLS_KEY_BYTES],
                              const struct arena *arena, size_t ring, struct err *err);
/* The receiving end. @maps: where it shares the mapping of the sender's arena; it must outlive the
 * connection. */
struct conn *conn_shared_accept(int fd, tls_find_key *find, void *ctx, struct arena_maps *maps,
                                struct err *err);
/* The identity that the sender has proved; "": none yet. */
const char *conn_shared_identity(const struct conn *);

#endif
