/*
 * A connection: a non-blocking byte stream between two ranks. It is one of three kinds with one
 * interface: TLS 1.3 (tls.h), plain TCP in checksummed frames (conn_tcp_new), and memory lanes
 * (conn_shared.h). Each kind detects corruption (ERR_INTEGRITY). Each distinguishes an announced
 * end (CONN_END) from a connection that was cut: ERR_PEER_LOST or, if the stream stops without an
 * announced end, ERR_INTEGRITY. An end that detects corruption sends an alert, so that the other
 * end reports ERR_INTEGRITY, too.
 *
 * Sockets are watched edge-triggered. `readable` and `writable` are set by events, and stay set
 * until a read or write finds that nothing is possible. So a reader may stop at any byte. Bytes
 * that TLS has decrypted and not yet returned count as readable.
 *
 * One thread: the one whose loop watches the connection, which also calls on_ready. Only wire_out
 * may be read by other threads. Sizes are bytes. All functions of a connection report
 * ERR_PEER_LOST, ERR_INTEGRITY or ERR_RESOURCE; a handshake also ERR_AUTH.
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
 * Lending: a memory lane can send a reference to bytes instead of the bytes. The peer reads them
 * from the sender's memory.
 */
struct conn_lending {
	size_t least; /* bytes; fewer should be written, because that is faster than lending them */
	/* Can the peer read the @n bytes at @p? */
	bool (*reaches)(const struct conn *, const void *p, size_t n);
	/* Lend up to @n bytes at @p, for which reaches() is true. Returns as write does. The bytes
	 * must not change until the peer has consumed them. */
	ssize_t (*lend)(struct conn *, const void *p, size_t n, struct err *);
	/* The number of bytes, of all that were written or lent, that the peer has consumed; -1:
	 * error. */
	int64_t (*consumed)(struct conn *, struct err *);
	/* Set *p to up to @n bytes that have arrived. They stay valid until give_back. Returns as
	 * read does. */
	ssize_t (*borrow)(struct conn *, const void **p, size_t n, struct err *);
	/* Mark the first @n borrowed bytes as consumed. */
	void (*give_back)(struct conn *, size_t n);
	/* Pass the file descriptor @fd to the receiver, beside the stream. 1: passed; 0: not now,
	 * because the receiver has not taken the last one: an event will come; -1: error. */
	int (*pass)(struct conn *, int fd, struct err *);
	/* Take a descriptor that the sender has passed. 1: *@fd, which the caller owns; 0: none has
	 * come, an event will; -1: error. */
	int (*take)(struct conn *, int *fd, struct err *);
};

struct conn_ops {
	const char *name; /* "tls", "tcp", "memory" */
	bool sums;        /* it protects its bytes by checksums */
	/* Continue connecting and authenticating. 1: done; 0: not yet; -1: error. */
	int (*handshake)(struct conn *, struct err *);
	/* Read up to @n bytes. > 0: how many; 0: none now; -1: error; CONN_END. */
	ssize_t (*read)(struct conn *, void *buf, size_t n, struct err *);
	/* Accept up to @n bytes of @buf for sending. > 0: how many; 0: none now; -1: error. A
	 * connection can buffer at least 8 bytes, one element; an exchange in place depends on it.
	 * The next call must begin with the bytes that were not accepted, unchanged (a frame may
	 * include them). */
	ssize_t (*write)(struct conn *, const void *buf, size_t n, struct err *);
	/* Pass the accepted bytes to the kernel. 1: it has them all; 0: not yet; -1: error. */
	int (*flush)(struct conn *, struct err *);
	/* Announce the end of the stream that this end sends, and flush. Returns as flush does. */
	int (*end)(struct conn *, struct err *);
	void (*free)(struct conn *);
	const struct conn_lending *lending; /* NULL: it cannot lend */
};

struct conn {
	const struct conn_ops *ops;
	struct loop *loop; /* NULL: not watched */
	struct loop_watch watch;
	struct loop_poll poll;   /* of a memory lane, whose events no descriptor reports */
	struct loop_timer again; /* conn_again */
	int fd;                  /* owned */
	bool readable, writable;
	bool timed;        /* measure system_ns */
	int64_t system_ns; /* time in system calls that send or receive; the user resets it to 0 */
	bool hung_up;      /* the peer has closed its socket: read to the end */
	bool cut;          /* with ERR_INTEGRITY of read: the stream stopped without its end */
	bool alerted;      /* with ERR_INTEGRITY: the peer reports that it received corrupt bytes */
	bool connected;    /* TCP is connected; after a later failure a new connection may work */
	uint64_t wire_in;  /* bytes read from the socket; of a memory lane, consumed */
	_Atomic uint64_t wire_out; /* bytes written to the socket; of a memory lane, published */
	struct {                   /* for its pacer (pacer.h) */
		struct pacer *by;  /* NULL: none */
		struct conn *next;
		bool waits;     /* in the queue */
		uint64_t grant; /* bytes that it may send at its next write; 0: none */
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

/* Watch the socket of @c on @loop, and call @on_ready for its events. @loop must outlive @c or
 * conn_unwatch. The members on_ready and ctx may be changed at any time. A second call passes @c to
 * another user on the same loop: its on_ready is also called for events that were already
 * reported. */
int conn_watch(struct conn *c, struct loop *loop, void (*on_ready)(void *ctx), void *ctx,
               struct err *err);
/* Call on_ready in the next turn of the loop: for a user that stops reading before it has read all
 * bytes, so that other connections have their turn. */
void conn_again(struct conn *c);
/* Stop watching @c. Afterwards conn_watch may pass it to another loop. */
void conn_unwatch(struct conn *c);
/* Add @n bytes to wire_out. Only the connection's thread may call this; any thread may read it with
 * conn_wire_out. */
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

/* For the kinds over sockets: recv and sendmsg that handle EINTR, update `readable` and `writable`,
 * and count the bytes. > 0: bytes; 0: it would block, or the pacer allows nothing now; -1:
 * ERR_PEER_LOST; readv: CONN_END at the end of the stream. writev: @n is at most 2. */
struct iovec;
ssize_t conn_sock_readv(struct conn *c, struct iovec *iov, int n, struct err *err);
ssize_t conn_sock_writev(struct conn *c, const struct iovec *iov, int n, struct err *err);

/* How long an answer of the peer may take before it is late, ns: by TCP's estimate, which grows
 * with the queues on the path. 0: not known. */
int64_t conn_round_trip(const struct conn *c);

/* The shortest round trip to the peer's kernel so far, ns, as ping would measure it. 0: not
 * known. */
int64_t conn_least_round_trip(const struct conn *c);

/* Is the kernel retransmitting bytes that the peer's kernel does not acknowledge? False if the peer
 * only has no room for more. */
bool conn_unanswered(const struct conn *c);

/* Has connect() ended? 1: yes; 0: not yet; -1: ERR_PEER_LOST, refused or lost. */
int conn_sock_connected(struct conn *c, struct err *err);
/* Shut down sending, so that a peer that waits for more bytes, because of a corrupt length, stops
 * waiting. */
void conn_sock_end(struct conn *c);
/* Discard received bytes before closing. Unread bytes would make the kernel reset the connection,
 * and an alert that was sent might be lost. */
void conn_sock_drain(struct conn *c);
struct addr;
/* Begin to connect a socket to @to, with the congestion control @congestion (congestion.h); NULL:
 * that of the kernel, but none that paces inside this machine. Returns the descriptor; -1:
 * ERR_RESOURCE, ERR_PEER_LOST. */
int conn_sock_dial(const struct addr *to, const char *congestion, struct err *err);

/* Plain TCP in frames over @fd, which is connecting or accepted. The connection owns @fd; on
 * failure the caller still does. */
struct conn *conn_tcp_new(int fd, struct err *err);

#define CONN_FRAME_MAX (256u << 10)

#endif
