/*
 * The mesh: the connections that a rank's schedule uses, and no more. An edge is a simplex
 * connection from one rank to another for one stream; the sender dials. Each is authenticated by a
 * key of its own, HKDF(session key, "D1|session|from|to|lane"), so that none can be reflected,
 * replayed or misrouted; with --insecure it is named by its opening record alone.
 *
 * The listener answers the opening with one byte: the edge stands for the dialler once that has
 * come. A connection that breaks before is dialled again, with a bounded back-off, for as long as
 * the owner waits; one that can't be made at all (refused, no route) is a failure at once.
 */
#ifndef COLLCTL_NET_MESH_H
#define COLLCTL_NET_MESH_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/net/gate.h"

#define MESH_SESSION_BYTES 16

struct mesh_conf {
	struct loop *loop;
	struct tls *tls; /* NULL: --insecure */
	int rank, size;
	uint8_t session[MESH_SESSION_BYTES];
	uint8_t key[TLS_KEY_BYTES]; /* the session key */
	const struct addr *addrs;   /* of every rank's data listener; must live as long */
	int listen_fd;              /* becomes the mesh's; -1 where nin == 0 */
	const int *out, *in;        /* peers to send to and to receive from, ascending */
	int nout, nin;
	int streams;
	size_t buffer;               /* bytes of each connection's buffer; 0: default */
	void (*on_ready)(void *ctx); /* something happened: ask mesh_state */
	/* NULL: an edge that fails is the mesh's failure. Else told of each edge: it stands, or
	 * (@conn NULL) it has failed, and the others go on. An edge may come to stand once more
	 * before mesh_settle: its connection was replaced, and the former is no more. */
	void (*on_edge)(void *ctx, int peer, bool out, int stream, struct conn *conn,
	                const struct err *err);
	void *ctx;      /* of on_ready */
	void *edge_ctx; /* of on_edge */
};

struct mesh;

struct mesh *mesh_open(const struct mesh_conf *, struct err *err);
void mesh_close(struct mesh *);
/* 1: every edge stands; 0: not yet; -1: one failed, err->rank the peer. */
int mesh_state(const struct mesh *, struct err *err);
/* The peer of an edge that does not stand yet, -1: all stand. *err, which may be NULL, if its
 * connections broke: how the last did. */
int mesh_missing(const struct mesh *, struct err *err);
/* The peer of an edge on which what is sent is not acknowledged (conn_unanswered), or -1. */
int mesh_unanswered(const struct mesh *);
/* How many bytes the peers' machines have acknowledged, on all edges. */
uint64_t mesh_acknowledged(const struct mesh *);
struct conn *mesh_conn(const struct mesh *, int peer, bool out, int stream);
/* Every edge stands and nobody else is expected: stop listening. The connections' events are those
 * who use them to hear (on_ready). */
void mesh_settle(struct mesh *);
/* Stop listening and dialling; no callback is called any more. */
void mesh_stop(struct mesh *);

#endif
