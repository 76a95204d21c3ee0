/*
 * The mesh: the connections that a rank's schedule uses, and no others. An edge is a simplex
 * connection from one rank to another for one stream (exec.h); the sender dials. Each edge has its
 * own key, HKDF(key of the pair, "D1|session|from|to|lane"), where lane is the number of the
 * stream. So no connection can be reflected, replayed or misrouted, and no third rank can make one.
 * A connection with another key does not belong to the job, and is dropped. With --insecure, a TCP
 * connection is identified only by its opening record.
 *
 * The receiver answers the opening record with one byte; then the edge is ready. If a connection
 * breaks before that, the sender dials again, with a bounded back-off, until mesh_close or
 * mesh_stop. If a connection is refused or has no route, the edge fails at once.
 *
 * An edge to a near rank, which may share memory with this one, is first tried as a memory lane
 * (conn_shared.h). If that fails for any reason, it becomes a TCP connection.
 *
 * One thread: the one of the loop, which calls all callbacks.
 */
#ifndef COLLCTL_NET_MESH_H
#define COLLCTL_NET_MESH_H

#include <stdbool.h>
#include <stdint.h>

#include "lib/net/gate.h"

#define MESH_SESSION_BYTES 16

struct mesh_conf {
	struct loop *loop; /* outlives the mesh, as tls does */
	struct tls *tls;   /* NULL: --insecure */
	int rank, size;
	uint8_t session[MESH_SESSION_BYTES];
	const uint8_t (*keys)[TLS_KEY_BYTES]; /* keys[size]: of the pair of this rank and each other
	                                         one; only mesh_open reads them */
	const struct addr *addrs; /* of every rank's data listener; must outlive the mesh */
	int listen_fd;            /* the listener for TCP; -1 if nin == 0 */
	bool borrowed;            /* the caller closes listen_fd, after the mesh is settled */
	int lanes_fd;     /* the listener for memory lanes; -1: it accepts none. The mesh owns both
	                     descriptors, also if mesh_open fails */
	const bool *near; /* near[size]: the ranks that may share this one's memory; NULL: none */
	size_t arena_bytes;  /* of this rank's arena, which near ranks map; 0: none */
	const int *out, *in; /* peers to send to and to receive from, ascending */
	int nout, nin;
	int streams;
	size_t buffer;               /* bytes of each connection's buffer; 0: the default */
	uint64_t limit_rate;         /* the most bytes per second that all ready edges send together
	                                (pacer.h); 0: no limit */
	const char *congestion;      /* of TCP connections, as in conn_sock_dial */
	void (*on_ready)(void *ctx); /* the result of mesh_state may have changed */
	/* Called for each edge that is ready or has failed (@conn NULL); a failed edge then fails
	 * the mesh only if the code is ERR_RESOURCE. NULL: the first failed edge fails the mesh. It
	 * may be called again for an edge before mesh_stop: then a new connection has replaced the
	 * former one, which is freed. */
	void (*on_edge)(void *ctx, int peer, bool out, int stream, struct conn *conn,
	                const struct err *err);
	void *ctx;      /* of on_ready */
	void *edge_ctx; /* of on_edge */
};

struct mesh;

/* Listen, and dial all edges to send to. NULL: ERR_RESOURCE, or ERR_PEER_LOST of the rank to which
 * an edge failed at once. */
struct mesh *mesh_open(const struct mesh_conf *, struct err *err);
void mesh_close(struct mesh *); /* frees all connections and the arena; NULL: nothing */
/* 1: every edge is ready; 0: not yet; -1: an edge failed: err->rank is the peer, or ERR_RANK_SELF
 * for ERR_RESOURCE. */
int mesh_state(const struct mesh *, struct err *err);
/* The peer of an edge that is not ready; -1: all are ready. *err (may be NULL): why the edge's last
 * connection broke, if one did. */
int mesh_missing(const struct mesh *, struct err *err);
/* Why the last connection to @peer broke; NULL: none has. *in_handshake: it broke before the peer
 * was authenticated. Owned by the mesh. */
const struct err *mesh_broke(const struct mesh *, int peer, bool *in_handshake);
/* The peer of an edge whose bytes the peer's kernel does not acknowledge (conn_unanswered); -1:
 * none. */
int mesh_unanswered(const struct mesh *);
/* The number of bytes that the peers' kernels have acknowledged, on all edges. */
uint64_t mesh_acknowledged(const struct mesh *);
/* The connection to (@out) or from @peer for @stream, owned by the mesh; NULL: there is none. */
struct conn *mesh_conn(const struct mesh *, int peer, bool out, int stream);
/* This rank's arena, owned by the mesh; NULL: no memory lane is tried. */
struct arena *mesh_arena(const struct mesh *);
/* Why an edge to the near rank @peer is not a memory lane; NULL: it is one, or @peer is not
 * near. */
const char *mesh_no_memory(const struct mesh *, int peer);
/* The numbers of its connections, of both directions, that are memory lanes and that are TCP. */
void mesh_count(const struct mesh *, int *memory, int *tcp);
/* Call it when every edge is ready: it stops listening. From then on the user of a connection
 * handles its events (conn.on_ready). */
void mesh_settle(struct mesh *);
/* Stop admitting and dialling edges, and calling callbacks. Ranks that have called it can still
 * connect by mesh_dial, until mesh_settle. */
void mesh_stop(struct mesh *);
/* Dial one more connection to @peer, to which there is an edge, to measure how it connects. It
 * never becomes an edge. The caller watches it, completes it with conn_handshake, and frees it. */
struct conn *mesh_dial(const struct mesh *, int peer, struct err *err);

#endif
