/*
 * Transports: how two ranks are connected. A row each (transport_NAME.c), which transport.c lists
 * by transport_rows.h. An edge takes the first row that can serve it; its two ends know the same
 * facts of it, and so take the same one.
 */
#ifndef COLLCTL_NET_TRANSPORT_H
#define COLLCTL_NET_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/net/addr.h"
#include "lib/net/tls.h"

struct transport_edge {
	struct tls *tls; /* NULL: --insecure */
	size_t buffer;   /* bytes of each buffer of the connection; 0: default */
	/* The end that dials: */
	const struct addr *to;
	const char *identity; /* with tls: what it proves to be, */
	const uint8_t *key;   /* [TLS_KEY_BYTES]: by this key */
	/* The end that listens: */
	tls_find_key *find; /* with tls: the key of an identity */
	void *ctx;
};

struct transport {
	const char *name;
	bool (*usable)(const struct transport_edge *);
	/* A connection that is being made: conn_handshake goes on. NULL: ERR_PEER_LOST or
	 * ERR_RESOURCE. */
	struct conn *(*dial)(const struct transport_edge *, struct err *err);
	/* The same for @fd, which the listener has accepted and which becomes the connection's.
	 * NULL: it is still the caller's. */
	struct conn *(*accept)(const struct transport_edge *, int fd, struct err *err);
	/* The first byte of the other end: NULL if it speaks this transport, else what it does. */
	const char *(*refuse)(uint8_t first);
	/* Which identity the other end of an accepted connection has proved to have, "" before.
	 * NULL: this transport proves none, and what the opening record says counts. */
	const char *(*identity)(const struct conn *);
};

const struct transport *transport_of(const struct transport_edge *);

#endif
