/*
 * The gate of a listening socket: it accepts strangers, authenticates them and reads their opening
 * record; what passes is handed on, what does not is dropped and never disturbs the job. A stranger
 * costs one of a bounded number of slots for a bounded time (10 seconds); when all are taken, who
 * has proved least goes, the oldest first. Nothing that a stranger says is used before the
 * handshake.
 */
#ifndef COLLCTL_NET_GATE_H
#define COLLCTL_NET_GATE_H

#include "lib/net/addr.h"
#include "lib/net/tls.h"

#define GATE_OPENING 64 /* bytes of the record that every connection begins with (PROTOCOL.md) */

struct gate_conf {
	struct loop *loop;
	int fd;          /* listening; becomes the gate's */
	struct tls *tls; /* NULL: plain frames (--insecure) */
	tls_find_key *find;
	size_t buffer;    /* of each connection, as in tls_accept */
	int slots;        /* strangers at a time, and of these from one address: never below the */
	int per_source;   /* job's size, for a whole job may sit behind one address */
	int64_t patience; /* ns that a stranger may take; 0: 10 s */
	/* @conn is authenticated and has said @opening; the callee owns it from here. */
	void (*admit)(void *ctx, struct conn *conn, const uint8_t opening[GATE_OPENING],
	              const struct addr *from);
	/* Memory is lacking here for somebody who came and is turned away. NULL: nobody asks. */
	void (*lacking)(void *ctx, const struct err *err);
	void *ctx; /* of find, admit and lacking */
};

struct gate;

/* The other side of the gate: authenticate, say the opening record. 1: said; 0: not yet; -1. */
struct greeting {
	uint8_t opening[GATE_OPENING];
	bool shaken;
	size_t said;
};
int greeting_advance(struct greeting *, struct conn *conn, struct err *err);

struct gate *gate_open(const struct gate_conf *, struct err *err);
/* Stop listening and drop whoever has not been admitted. NULL is fine. */
void gate_close(struct gate *);
/* Why the last stranger was turned away after speaking the right protocol ("the secrets differ
 * ..."), or "". */
const char *gate_last_refusal(const struct gate *);
/* The address that it listens on. */
int gate_local_addr(const struct gate *, struct addr *out, struct err *err);

#endif
