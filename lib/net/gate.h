/*
 * The gate of a listening socket: it accepts connections, authenticates them and reads their
 * opening record. It passes valid connections to the owner and drops the others, which never
 * affect the job. A pending connection takes one of a bounded number of slots for a bounded time
 * (10 seconds). When all slots are taken, the gate drops the connection that has proved least, the
 * oldest first; so it does when no descriptor is left, but then it spares connections that have
 * been pending for less than a hundredth of that time. It uses nothing that a connection sends
 * before the handshake.
 */
#ifndef COLLCTL_NET_GATE_H
#define COLLCTL_NET_GATE_H

#include "lib/net/addr.h"
#include "lib/net/transport.h"

#define GATE_REFUSAL 240 /* bytes of the text of gate_last_refusal */
#define GATE_OPENING 64  /* bytes of the record that every connection begins with (PROTOCOL.md) */

struct gate_conf {
	struct loop *loop;
	int fd;          /* listening; becomes the gate's */
	struct tls *tls; /* NULL: plain frames (--insecure) */
	tls_find_key *find;
	struct arena_maps *maps; /* the socket is for memory lanes; NULL: for TCP */
	size_t buffer;           /* of each connection, as in tls_accept */
	int slots;        /* pending connections, and those of one address: at least the job's */
	int per_source;   /* size, because all ranks may have the same address */
	int64_t patience; /* ns that a connection may be pending; 0: GATE_PATIENCE */
	/* @conn is authenticated and has sent @opening; the callee owns it from here. */
	void (*admit)(void *ctx, struct conn *conn, const uint8_t opening[GATE_OPENING],
	              const struct addr *from);
	/* The gate dropped a connection because memory ran out. May be NULL. */
	void (*lacking)(void *ctx, const struct err *err);
	/* No descriptor is left for a connection: close one of those that have left the gate and
	 * that the owner can do without. False: there is none. May be NULL. */
	bool (*spare)(void *ctx);
	/* No descriptor is left for a connection, none is pending, and a pause has changed nothing.
	 * The callee may close the gate; else the gate tries again. May be NULL. */
	void (*starved)(void *ctx, const struct err *err);
	void *ctx; /* of find and the callbacks */
};

#define GATE_PATIENCE (10 * NS_PER_SEC)

struct gate;

/* The dialler's side: authenticate and send the opening record. 1: sent; 0: not yet; -1. */
struct greeting {
	uint8_t opening[GATE_OPENING];
	bool authenticated;
	size_t sent;
};
int greeting_advance(struct greeting *, struct conn *conn, struct err *err);

struct gate *gate_open(const struct gate_conf *, struct err *err);
/* Stop listening and drop the pending connections. @gate may be NULL. */
void gate_close(struct gate *);
/* The proven identity of an admitted connection. NULL: its transport proves none. */
const char *gate_identity(const struct gate *, const struct conn *);
/* Why the gate last refused a connection that used the right protocol ("the secrets differ ..."),
 * or "". */
const char *gate_last_refusal(const struct gate *);
/* The address on which it listens. */
int gate_local_addr(const struct gate *, struct addr *out, struct err *err);

#endif
