/*
 * The mesh: the connections that a rank's schedule uses, and no others. An edge is a simplex
 * connection from one rank to another for one stream; the sender dials. Each edge has a separate
 * key, HKDF(key of the pair, "D1|session|from|to|lane"), so that no connection can be reflected,
 * replayed or misrouted, and no third rank can make one; a connection with another key is a
 * stranger's. With --insecure only the opening record identifies a connection over TCP.
 *
 * The listener answers the opening record with one byte; then the edge is ready for the dialler. If
 * a connection breaks before that, the dialler dials again, with a bounded back-off, as long as the
 * owner waits; a connection that is refused or has no route is a failure at once.
 *
 * An edge to a rank that may share memory is tried as a memory lane first (conn_shared.h); whatever
 * fails, it becomes a connection like the others.
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
	const uint8_t (*keys)[TLS_KEY_BYTES]; /* keys[size]: of the pairs of this rank and each
	                                       * other; only mesh_open reads them */
	const struct addr *addrs; /* of every rank's data listener; must outlive the mesh */
	int listen_fd;            /* the mesh owns it; -1 if nin == 0 */
	int lanes_fd;     /* the listener of memory lanes; the mesh owns it; -1: it accepts none */
	const bool *near; /* near[size]: does the rank share this one's memory? NULL: none does */
	size_t arena_bytes;  /* of the arena that it shares with these ranks */
	const int *out, *in; /* peers to send to and to receive from, ascending */
	int nout, nin;
	int streams;
	size_t buffer;               /* bytes of each connection's buffer; 0: default */
	uint64_t limit_rate;         /* bytes per second that the rank sends over all edges, once
	                              * they are ready (pacer.h); 0: any */
	void (*on_ready)(void *ctx); /* something happened: ask mesh_state */
	/* NULL: if an edge fails, the mesh fails. Else called for each edge that is ready or (@conn
	 * NULL) has failed; the others continue. It may be called again for an edge before
	 * mesh_stop: a new connection replaced the former one, which is freed. */
	void (*on_edge)(void *ctx, int peer, bool out, int stream, struct conn *conn,
	                const struct err *err);
	void *ctx;      /* of on_ready */
	void *edge_ctx; /* of on_edge */
};

struct mesh;

struct mesh *mesh_open(const struct mesh_conf *, struct err *err);
void mesh_close(struct mesh *);
/* 1: every edge is ready; 0: not yet; -1: an edge failed, err->rank is the peer. */
int mesh_state(const struct mesh *, struct err *err);
/* The peer of an edge that is not ready yet; -1: all are ready. *err (may be NULL): how its last
 * connection broke, if one did. */
int mesh_missing(const struct mesh *, struct err *err);
/* How the last connection to @peer broke, and whether that was before the peer was authenticated;
 * NULL: none has. */
const struct err *mesh_broke(const struct mesh *, int peer, bool *in_handshake);
/* The peer of an edge whose bytes are not acknowledged (conn_unanswered), or -1. */
int mesh_unanswered(const struct mesh *);
/* How many bytes the peers' machines have acknowledged, on all edges. */
uint64_t mesh_acknowledged(const struct mesh *);
struct conn *mesh_conn(const struct mesh *, int peer, bool out, int stream);
/* The memory that the receivers of its memory lanes have mapped; NULL: there are none. The mesh's.
 */
struct arena *mesh_arena(const struct mesh *);
/* Why an edge to @peer, which is near, is no memory lane; NULL: it is one, or @peer is not near. */
const char *mesh_no_memory(const struct mesh *, int peer);
/* How many of its connections, in both directions, are memory lanes, and how many are not. */
void mesh_count(const struct mesh *, int *memory, int *tcp);
/* Every edge is ready: stop listening. From now on the users of the connections handle their events
 * (on_ready). */
void mesh_settle(struct mesh *);
/* Admit and dial no more edges; no further callback is called. Until mesh_settle, mesh_dial works
 * between ranks that have done this. */
void mesh_stop(struct mesh *);
/* One more connection to @peer, a peer to send to, for who wants to see how it connects: the caller
 * watches it, completes it with conn_handshake and frees it. It never becomes an edge. */
struct conn *mesh_dial(const struct mesh *, int peer, struct err *err);

#endif
