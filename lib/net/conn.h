/*
 * A connection: a byte stream between two ranks, non-blocking. Three kinds behind one small
 * interface: TLS 1.3 with a pre-shared key, plain TCP in checksummed frames, and in-memory rings
 * for tests. Each detects corruption (ERR_INTEGRITY) and distinguishes an announced end (CONN_END)
 * from a connection that was cut (ERR_PEER_LOST or, if the stream just stops, ERR_INTEGRITY). The
 * side that detects corruption sends an alert, so that the other side reports ERR_INTEGRITY too.
 *
 * Sockets are watched edge-triggered: `readable` and `writable` stay set until a call finds
 * nothing, so a reader that stops in the middle loses nothing and needs no re-arming; bytes that
 * TLS holds decrypted count as readable.
 */
#ifndef COLLCTL_NET_CONN_H
#define COLLCTL_NET_CONN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "lib/base/err.h"
#include "lib/net/loop.h"

#define CONN_END (-2) /* read: the peer announced its end, and all bytes before it have come */

struct conn;

/*
 * Lending: a connection to a rank that shares memory with this one can send a reference to bytes
 * instead of the bytes. The peer reads them where they are.
 */
struct conn_lending {
	size_t least; /* bytes; to copy fewer is faster than to wait until they are consumed */
	/* Can the peer read the @n bytes at @p? */
	bool (*reaches)(const struct conn *, const void *p, size_t n);
	/* Offer the @n bytes at @p, which reaches() allows. Returns as write does. They must not
	 * change before the peer has consumed them. */
	ssize_t (*lend)(struct conn *, const void *p, size_t n, struct err *);
	/* How many bytes of the stream, written or lent, the peer has consumed; -1: error. */
	int64_t (*consumed)(struct conn *, struct err *);
	/* Up to @n bytes that have arrived, at *@p; they stay there until give_back. Returns as
	 * read does. */
	ssize_t (*borrow)(struct conn *, const void **p, size_t n, struct err *);
	/* The first @n borrowed bytes are consumed. */
	void (*give_back)(struct conn *, size_t n);
};

struct conn_ops {
	const char *name; /* "tls", "tcp", "memory" */
	bool sums;        /* it has checksums for its bytes */
	/* Connect and authenticate. 1: done; 0: not yet; -1: error. */
	int (*handshake)(struct conn *, struct err *);
	/* Up to @n bytes. > 0: how many; 0: none now; -1: error; CONN_END. */
	ssize_t (*read)(struct conn *, void *buf, size_t n, struct err *);
	/* Accept up to @n bytes of @buf. > 0: how many; 0: none now; -1: error. A connection has
	 * room for at least 8 bytes, one element: an exchange in place depends on it. The next call
	 * must offer the bytes that were not accepted, unchanged (a frame may contain them). */
	ssize_t (*write)(struct conn *, const void *buf, size_t n, struct err *);
	/* Send the accepted bytes. 1: the kernel has them all; 0: not yet; -1: error. */
	int (*flush)(struct conn *, struct err *);
	/* Announce the end of this side's stream, and flush. Returns as flush does. */
	int (*end)(struct conn *, struct err *);
	void (*free)(struct conn *);
	const struct conn_lending *lending; /* NULL: it copies all bytes */
};

struct conn {
	const struct conn_ops *ops;
	struct loop *loop; /* NULL: not watched */
	struct loop_watch watch;
	struct loop_poll poll; /* of a connection whose events no descriptor reports */
	struct loop_timer again;
	int fd;
	bool readable, writable;
	bool timed;        /* count system_ns */
	int64_t system_ns; /* in system calls that send or receive, since the owner read it and set
	                    * it to 0 */
	bool hung_up;      /* the peer has ended its stream: read to the end */
	bool cut;          /* with ERR_INTEGRITY of read: the stream stopped without its end */
	bool alerted;      /* with ERR_INTEGRITY: the peer reports that it received corrupt bytes */
	bool connected;    /* the TCP connection was established; a later failure may be a fault of
	                    * the path that a new connection avoids */
	uint64_t wire_in;  /* bytes read from the socket, or consumed */
	_Atomic uint64_t
	        wire_out;         /* bytes written to it, or published; other threads may read it */
	struct {                  /* of its pacer (pacer.h) */
		struct pacer *by; /* NULL: none */
		struct conn *next;
		bool waits;     /* in the queue */
		uint64_t grant; /* bytes of its turn, until the next write; 0: none */
	} pace;
	/* Called when the connection may have become readable or writable. */
	void (*on_ready)(void *ctx);
	void *ctx;
};

static inline int conn_handshake(struct conn *c, struct err *err)
{
	return c->ops->handshake(c, err);
}
static inline ssize_t conn_read(struct conn *c, void *buf, size_t n, struct err *err)
{
	return c->ops->read(c, buf, n, err);
}
static inline ssize_t conn_write(struct conn *c, const void *buf, size_t n, struct err *err)
{
	return c->ops->write(c, buf, n, err);
}
static inline int conn_flush(struct conn *c, struct err *err)
{
	return c->ops->flush(c, err);
}
static inline int conn_end(struct conn *c, struct err *err)
{
	return c->ops->end(c, err);
}

/* Watch the socket of @c on @loop; on_ready and ctx may be changed later at any time. A second call
 * passes it to a new owner, whose on_ready is also called for earlier events. */
int conn_watch(struct conn *c, struct loop *loop, void (*on_ready)(void *ctx), void *ctx,
               struct err *err);
/* Its owner stops reading before all that has arrived is read, so that others have their turn:
 * on_ready is called in the next turn of the loop. */
void conn_again(struct conn *c);
/* Its loop reports no more events; conn_watch may pass it to another loop. */
void conn_unwatch(struct conn *c);
/* Count @n bytes in wire_out, which only the connection's thread writes. */
static inline void conn_count_out(struct conn *c, uint64_t n)
{
	uint64_t before = atomic_load_explicit(&c->wire_out, memory_order_relaxed);
	atomic_store_explicit(&c->wire_out, before + n, memory_order_relaxed);
}
static inline uint64_t conn_wire_out(const struct conn *c)
{
	return atomic_load_explicit(&c->wire_out, memory_order_relaxed);
}
void conn_free(struct conn *c); /* closes the socket; @c may be NULL */

/* For the kinds over sockets: recv and sendmsg with EINTR, counting and readable/writable kept.
 * > 0; 0: would block, or the pacer allows nothing now; -1: error, ERR_PEER_LOST; recv: CONN_END at
 * the end of the stream. writev: @n is at most 2. */
struct iovec;
ssize_t conn_sock_readv(struct conn *c, struct iovec *iov, int n, struct err *err);
ssize_t conn_sock_writev(struct conn *c, const struct iovec *iov, int n, struct err *err);

/* How long an answer may take without being late, ns: TCP's estimate, which grows with the queues
 * on the path. 0: not known. */
int64_t conn_round_trip(const struct conn *c);

/* The shortest time, ns, in which the peer's machine has answered, without its processes: what ping
 * would measure. 0: not known. */
int64_t conn_least_round_trip(const struct conn *c);

/* Does the system retransmit bytes that the peer's machine does not acknowledge? (False if the peer
 * only has no room for more.) */
bool conn_unanswered(const struct conn *c);

/* Has connect() ended? 1: yes (and paths within this machine are made unpaced); 0: not yet; -1:
 * refused or lost. */
int conn_sock_connected(struct conn *c, struct err *err);
/* Shut down sending, so that a peer that waits for bytes of a corrupt length stops waiting. */
void conn_sock_end(struct conn *c);
/* Discard the received bytes: unread bytes would reset the connection when it is closed, and the
 * alert that was sent might be lost. */
void conn_sock_drain(struct conn *c);
struct addr;
int conn_sock_dial(const struct addr *to, struct err *err); /* a connecting descriptor, or -1 */

/* Plain TCP in frames. @fd, connecting or accepted, becomes the connection's. */
struct conn *conn_tcp_new(int fd, struct err *err);

#define CONN_FRAME_MAX (256u << 10)

#endif
