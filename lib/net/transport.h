/*
 * Transports: the kinds of connections between two ranks. Each is a struct transport, in
 * transport_NAME.c, and has a row in transport_rows.h. A connection uses the first row that is
 * usable for it. Both ends decide by the same facts, so they use the same row. One thread, as
 * conn.h.
 */
#ifndef COLLCTL_NET_TRANSPORT_H
#define COLLCTL_NET_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/net/addr.h"
#include "lib/net/tls/tls.h"

struct arena;
struct arena_maps;

/* The facts about a connection. The caller owns what the members point to. */
struct transport_edge {
	/* Of a memory lane (conn_shared.h); both NULL: it is none. */
	const struct arena *arena; /* the dialling end: the arena that it lends from */
	struct arena_maps *maps;   /* the accepting end */
	struct tls *tls;           /* NULL: --insecure */
	size_t buffer;             /* bytes; of a connection that carries data, as in tls_dial */
	/* The dialling end: */
	const struct addr *to;
	const char *identity;   /* the identity that it proves; not used with certificates */
	const uint8_t *key;     /* [TLS_KEY_BYTES]: the key that proves it */
	const char *congestion; /* as in conn_sock_dial; not used by a memory lane */
	/* The accepting end: */
	tls_find_key *find; /* gives the key of an identity; not used with certificates */
	void *ctx;
};

struct transport {
	/* Can it carry this connection? */
	bool (*usable)(const struct transport_edge *);
	/* Make a connection, which conn_handshake completes and the caller frees. NULL:
	 * ERR_PEER_LOST or ERR_RESOURCE. */
	struct conn *(*dial)(const struct transport_edge *, struct err *err);
	/* The same for the accepted descriptor @fd. The connection owns @fd; on failure the caller
	 * still does. */
	struct conn *(*accept)(const struct transport_edge *, int fd, struct err *err);
	/* Check the first byte that the other end has sent. NULL: it uses this transport; else
	 * words that say what it does instead. */
	const char *(*refuse)(uint8_t first);
	/* The identity that the other end of an accepted connection has proved; "": none yet.
	 * NULL: this transport proves no identity, so the opening record gives it. */
	const char *(*identity)(const struct conn *);
};

/* The first usable row; there is always one. */
const struct transport *transport_of(const struct transport_edge *);

#endif
