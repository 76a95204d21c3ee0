/*
 * Transports: how two ranks are connected. Each is a row (transport_NAME.c, listed in
 * transport_rows.h). An edge uses the first row that can carry it. Both of its ends know the same
 * facts about it, so they use the same row.
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

struct transport_edge {
	/* Of an edge inside a host that is a memory lane (conn_shared.h): */
	const struct arena *arena; /* the end that dials: of what it lends */
	struct arena_maps *maps;   /* the end that listens */
	struct tls *tls;           /* NULL: --insecure */
	size_t buffer;             /* of a connection that carries data, as in tls_dial */
	/* The end that dials: */
	const struct addr *to;
	const char *identity; /* with keys: the identity that it proves */
	const uint8_t *key;   /* [TLS_KEY_BYTES]: the key that proves it */
	/* The end that listens: */
	tls_find_key *find; /* with keys: the key of an identity */
	void *ctx;
};

struct transport {
	const char *name;
	bool (*usable)(const struct transport_edge *);
	/* A new connection; conn_handshake completes it. NULL: ERR_PEER_LOST or ERR_RESOURCE. */
	struct conn *(*dial)(const struct transport_edge *, struct err *err);
	/* The same for @fd, which the listener has accepted. The connection owns @fd; NULL: the
	 * caller still does. */
	struct conn *(*accept)(const struct transport_edge *, int fd, struct err *err);
	/* Checks the first byte of the other end. NULL: it uses this transport; else a text that
	 * says what it does instead. */
	const char *(*refuse)(uint8_t first);
	/* The identity that the other end of an accepted connection has proved; "": none yet.
	 * NULL: this transport proves no identity, so the opening record gives it. */
	const char *(*identity)(const struct conn *);
};

const struct transport *transport_of(const struct transport_edge *);

#endif
