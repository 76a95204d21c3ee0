/*
 * The gate of a listening socket: it accepts connections, authenticates them and reads their
 * opening record. It passes valid connections to its owner, and drops the others, which do not
 * affect the job. It uses no byte that a connection sends before the handshake is complete, except
 * to recognise the protocol.
 *
 * Limits: a connection that is not yet passed on is pending. It takes one of a bounded number of
 * slots, for a bounded time (patience). If all slots, or those of one address, are taken, the gate
 * drops a pending connection: the one that has got least far (no byte, right protocol, proven
 * identity), of several the oldest. If no descriptor is left, it calls `spare`, else drops a
 * pending connection by the same rule, but only one that has been pending for a hundredth of
 * patience or longer, else pauses for 100 ms.
 *
 * One thread: the one of the loop, which calls all callbacks. admit and starved may close the gate;
 * the others must not.
 */
#ifndef COLLCTL_NET_GATE_H
#define COLLCTL_NET_GATE_H

#include "lib/net/addr.h"
#include "lib/net/transport.h"

#define GATE_REFUSAL 240 /* bytes of the text of gate_last_refusal */
#define GATE_OPENING 64  /* bytes of the opening record of every connection (PROTOCOL.md) */

struct gate_conf {
	struct loop *loop; /* outlives the gate, as tls and maps do */
	int fd;        /* listening; unless `borrowed`, the gate owns it, also if gate_open fails */
	bool borrowed; /* the caller closes fd, after the gate */
	struct tls *tls;    /* NULL: plain frames (--insecure) */
	tls_find_key *find; /* the key of an identity; not used with certificates or plain TCP */
	struct arena_maps *maps; /* the socket accepts memory lanes; NULL: TCP connections */
	size_t buffer;           /* bytes, of each connection, as in tls_accept */
	const char *congestion;  /* as in conn_sock_dial, of the connections that it accepts */
	int slots;               /* the most pending connections */
	int per_source; /* the most from one address: at least the ranks of the job, because all may
	                   have the same address */
	int64_t patience; /* ns that a connection may be pending; 0: GATE_PATIENCE */
	/* @conn is authenticated and has sent @opening. The callee owns @conn from here on; it is
	 * watched on the loop, without an on_ready. */
	void (*admit)(void *ctx, struct conn *conn, const uint8_t opening[GATE_OPENING],
	              const struct addr *from);
	/* The gate drops a connection because memory ran out (ERR_RESOURCE). May be NULL. */
	void (*lacking)(void *ctx, const struct err *err);
	/* No descriptor is left for a connection. Close a connection that was passed to `admit` and
	 * that the owner does not need. False: there is none. May be NULL. */
	bool (*spare)(void *ctx);
	/* No descriptor is left for a connection, no connection is pending, and a pause has not
	 * helped. Unless the callee closes the gate, it pauses again. May be NULL. */
	void (*starved)(void *ctx, const struct err *err);
	void *ctx; /* of find and the callbacks */
};

#define GATE_PATIENCE (10 * NS_PER_SEC)

struct gate;

/* The dialling end's part: authenticate, and send `opening`, which the caller has filled; the other
 * members are zero. Call it when the connection is ready. 1: sent; 0: not yet; -1: as
 * conn_handshake and conn_write. */
struct greeting {
	uint8_t opening[GATE_OPENING];
	bool authenticated;
	size_t sent;
};
int greeting_advance(struct greeting *, struct conn *conn, struct err *err);

/* Start accepting. *conf is copied. NULL: ERR_RESOURCE. */
struct gate *gate_open(const struct gate_conf *, struct err *err);
/* Close the socket, drop the pending connections and free the gate. NULL: nothing. */
void gate_close(struct gate *);
/* The identity that an admitted connection has proved; the connection owns it. NULL: its transport
 * proves none. */
const char *gate_identity(const struct gate *, const struct conn *);
/* Why the gate last refused a connection that failed to authenticate or used another protocol ("the
 * secrets differ ..."), or "". Owned by the gate. */
const char *gate_last_refusal(const struct gate *);
/* The address on which it listens. ERR_OTHER. */
int gate_local_addr(const struct gate *, struct addr *out, struct err *err);

#endif
