/*
 * Memory lanes: connections between ranks that share memory. The bytes of the stream are in the
 * sender's memory, and the receiver reads them there: either in the sender's arena (lent), or in
 * the ring of the lane (copied; short messages, and bytes that are outside the arena). The lane is
 * a memfd that both map:
 *
 *     control words | table of references | ring
 *
 * The sender appends references; the receiver counts the bytes that it has consumed. Each end
 * trusts neither the words nor the references of the other: a value that is impossible is
 * ERR_INTEGRITY, and no access leaves the mappings, whose size is sealed.
 *
 * A unix socket comes before the lane. Over it the ends prove to each other that they know the
 * edge's key, and the dialler, who is the sender, passes the descriptors (PROTOCOL.md). Later it
 * carries the bytes that wake an end that sleeps, and descriptors of files; and its end says that
 * the other process is gone.
 */
#include <errno.h>
#include <openssl/crypto.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/io.h"
#include "lib/base/user.h"
#include "lib/crypto/crypto.h"
#include "lib/crypto/hkdf.h"
#include "lib/net/conn_shared.h"

#define REFERENCES 256 /* of a lane that are not consumed */
#define RING_LEAST (16u << 10)
#define LEND_LEAST (16u << 10)
#define LINE       64   /* bytes of a cache line */
#define WAKE       0xff /* the byte that wakes the other end */
#define PASSED     0xfe /* by the sender: the byte that has a descriptor */
#define TAKEN      0xfd /* the receiver's answer */

#define NONCE 16
#define PROOF 32

enum kind { COPIED = 1, LENT, END };

struct reference {
	_Atomic uint64_t at; /* offset in the ring or the arena, bytes */
	_Atomic uint32_t n;  /* bytes */
	_Atomic uint32_t kind;
};

/* The beginning of a lane's memory. Each group of words has one writer. */
struct lane_words {
	uint8_t nonce[NONCE]; /* the listener's: the lane is the one that it asked for */
	_Alignas(LINE) _Atomic uint64_t published; /* references, by the sender */
	_Atomic uint32_t sender_sleeps;            /* set by the sender, cleared by the receiver */
	_Alignas(LINE) _Atomic uint64_t consumed;  /* bytes of the stream, by the receiver */
	_Atomic uint32_t receiver_sleeps;          /* the other way round */
	_Alignas(LINE) struct reference references[REFERENCES];
	_Alignas(LINE) uint8_t ring[];
};

_Static_assert(ATOMIC_LLONG_LOCK_FREE == 2 && ATOMIC_INT_LOCK_FREE == 2,
               "a lock would be in one process alone");

/* What the sender has published: where the stream and the ring were then. */
struct published {
	uint64_t stream, ring;
};

/* The messages before the lane. */
struct hello {
	char magic[8];
	uint8_t nonce[NONCE];
	char identity[TLS_IDENTITY_MAX];
};
struct reply {
	uint8_t nonce[NONCE], proof[PROOF];
};
#define MAGIC "CCTLMEM1"

enum stage { STAGE_HELLO, STAGE_REPLY, STAGE_PROOF, STAGE_READY, STAGE_DONE };

struct conn_shared {
	struct conn conn;
	bool sends; /* the dialler's end */
	enum stage stage;
	uint8_t message[sizeof(struct hello)]; /* that arrives */
	size_t have;
	struct hello hello;
	struct reply reply;
	uint8_t key[TLS_KEY_BYTES];
	tls_find_key *find; /* of the listener */
	void *find_ctx;
	struct lane_words *lane;
	size_t lane_bytes, ring_bytes;
	bool ended;    /* END is published or has been read */
	uint64_t seen; /* the other end's counter at the last poll */
	/* the sender */
	const struct arena *arena;
	uint64_t count, stream, ring;         /* published: references, bytes, bytes of the ring */
	uint64_t oldest, consumed, ring_free; /* not consumed: the first reference; and the values
	                                       * of the counters */
	uint64_t waits_for;                   /* the position in the stream whose consumption is an
	                                       * event: the end of what is lent, or any progress if
	                                       * there was no room */
	struct published *sent;               /* [REFERENCES] */
	uint8_t said[4]; /* bytes that the receiver sent over the socket: its answers */
	size_t nsaid;
	bool passed; /* a descriptor that the receiver has not taken, as far as is known */
	/* the receiver */
	struct arena_maps *maps;
	struct arena_map *map;
	uint64_t taken;       /* references */
	const uint8_t *bytes; /* what is left of the last one */
	size_t left;
	int came;  /* a descriptor that was passed; -1: none */
	bool lost; /* the kernel has dropped one: this process can have no more */
};

/* Space for the descriptors of one message. */
union control {
	char bytes[CMSG_SPACE(2 * sizeof(int))];
	struct cmsghdr align;
};

static struct conn_shared *of(const struct conn *c)
{
	return (struct conn_shared *)c;
}

static size_t least(size_t a, size_t b)
{
	return a < b ? a : b;
}

/* ---- the socket beside the lane ---- */

static int gone(struct err *err)
{
	return err_set(err, ERR_PEER_LOST, "the connection was closed");
}

static int send_all(struct conn_shared *c, const void *buf, size_t n, const int *fds, int nfds,
                    struct err *err)
{
	struct iovec iov = {(void *)buf, n};
	union control control = {0};
	struct msghdr msg = {.msg_iov = &iov, .msg_iovlen = 1};
	if (nfds) {
		msg.msg_control = control.bytes;
		msg.msg_controllen = CMSG_SPACE((size_t)nfds * sizeof(int));
		struct cmsghdr *h = CMSG_FIRSTHDR(&msg);
		h->cmsg_level = SOL_SOCKET;
		h->cmsg_type = SCM_RIGHTS;
		h->cmsg_len = CMSG_LEN((size_t)nfds * sizeof(int));
		memcpy(CMSG_DATA(h), fds, (size_t)nfds * sizeof(int));
	}
	/* The messages are shorter than any socket's buffer. */
	ssize_t put = io_retry(sendmsg(c->conn.fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT));
	if (put == (ssize_t)n)
		return 0;
	return put < 0 ? err_errno(err, ERR_PEER_LOST, "the socket of a memory lane") : gone(err);
}

static void wake(struct conn_shared *c)
{
	static const uint8_t byte = WAKE;
	/* If the socket is full, the other end has bytes to wake for; if it is closed, it reads no
	 * more. */
	(void)io_retry(send(c->conn.fd, &byte, 1, MSG_NOSIGNAL | MSG_DONTWAIT));
}

/* The own counter has changed: wake the other end if it sleeps. The fences here and in poll make
 * sure that either this end sees the flag or the other one sees the counter. */
static void wake_if(struct conn_shared *c, _Atomic uint32_t *sleeps)
{
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load_explicit(sleeps, memory_order_relaxed) &&
	    atomic_exchange_explicit(sleeps, 0, memory_order_relaxed))
		wake(c);
}

static bool poll_lane(void *ctx, bool sleeps)
{
	struct conn_shared *c = ctx;
	if (c->stage != STAGE_DONE || (c->sends && c->seen >= c->waits_for))
		return false;
	struct lane_words *l = c->lane;
	_Atomic uint64_t *counter = c->sends ? &l->consumed : &l->published;
	_Atomic uint32_t *flag = c->sends ? &l->sender_sleeps : &l->receiver_sleeps;
	if (sleeps) {
		atomic_store_explicit(flag, 1, memory_order_relaxed);
		atomic_thread_fence(memory_order_seq_cst);
	}
	uint64_t now = atomic_load_explicit(counter, memory_order_relaxed);
	if (now == c->seen)
		return false;
	c->seen = now;
	if (sleeps) /* no wake is needed */
		atomic_store_explicit(flag, 0, memory_order_relaxed);
	if (c->conn.on_ready)
		c->conn.on_ready(c->conn.ctx);
	return true;
}

/* Read at most @n bytes, and up to two descriptors into @fds (-1: none). */
static ssize_t receive_bytes(const struct conn_shared *c, void *buf, size_t n, int fds[2])
{
	union control control;
	struct iovec iov = {buf, n};
	struct msghdr msg = {.msg_iov = &iov,
	                     .msg_iovlen = 1,
	                     .msg_control = fds ? control.bytes : NULL,
	                     .msg_controllen = fds ? sizeof control.bytes : 0};
	ssize_t got = io_retry(recvmsg(c->conn.fd, &msg, MSG_DONTWAIT | MSG_CMSG_CLOEXEC));
	struct cmsghdr *h = got > 0 && fds ? CMSG_FIRSTHDR(&msg) : NULL;
	for (; h; h = CMSG_NXTHDR(&msg, h))
		if (h->cmsg_level == SOL_SOCKET && h->cmsg_type == SCM_RIGHTS)
			memcpy(fds, CMSG_DATA(h),
			       least(h->cmsg_len - CMSG_LEN(0), 2 * sizeof(int)));
	return got;
}

static void close_fds(const int fds[2])
{
	for (int i = 0; i < 2; i++)
		if (fds[i] >= 0)
			close(fds[i]);
}

/* A byte beside the lane, which came with the descriptor *@fd (-1: none). */
static int hear_byte(struct conn_shared *c, uint8_t byte, int *fd, struct err *err)
{
	if (byte == WAKE)
		return 0;
	if (c->sends && c->nsaid < sizeof c->said) {
		c->said[c->nsaid++] = byte;
		return 0;
	}
	if (c->sends || byte != PASSED || c->came >= 0 || c->lost)
		return err_set(err, ERR_INTEGRITY, "unknown byte %u beside a memory lane", byte);
	c->lost = *fd < 0;
	c->came = *fd;
	*fd = -1;
	return 0;
}

/* Read what the other end has sent over the socket: bytes that wake, descriptors, and the
 * receiver's answers. */
static int hear(struct conn_shared *c, struct err *err)
{
	uint8_t bytes[64];
	int ret = 0;
	while (c->conn.readable && ret == 0) {
		int fds[2] = {-1, -1};
		const ssize_t got = receive_bytes(c, bytes, sizeof bytes, fds);
		const bool with = fds[0] >= 0;
		if (got < 0 && errno != EAGAIN && errno != ECONNRESET)
			return err_errno(err, ERR_PEER_LOST, "the socket of a memory lane");
		if (got == 0 || (got < 0 && errno == ECONNRESET))
			c->conn.hung_up = true;
		/* Bytes after a descriptor come with the next call. The rest, if any, causes an
		 * event. */
		c->conn.readable = with || got == (ssize_t)sizeof bytes;
		for (ssize_t i = 0; i < got && ret == 0; i++)
			ret = hear_byte(c, bytes[i], &fds[0], err);
		if (ret == 0 && (fds[0] >= 0 || fds[1] >= 0))
			ret = err_set(err, ERR_INTEGRITY,
			              "an unknown descriptor beside a memory lane");
		close_fds(fds);
	}
	return ret;
}

/* ---- sending ---- */

/* Take back what the receiver has consumed. */
static int collect(struct conn_shared *c, struct err *err)
{
	uint64_t consumed = atomic_load_explicit(&c->lane->consumed, memory_order_acquire);
	if (consumed < c->consumed || consumed > c->stream)
		return err_set(
		        err, ERR_INTEGRITY,
		        "the words of a memory lane are corrupt: %llu of %llu bytes consumed",
		        (unsigned long long)consumed, (unsigned long long)c->stream);
	c->consumed = consumed;
	while (c->oldest < c->count && c->sent[c->oldest % REFERENCES].stream <= consumed)
		c->ring_free = c->sent[c->oldest++ % REFERENCES].ring;
	return 0;
}

static void publish(struct conn_shared *c, uint64_t at, size_t n, enum kind kind)
{
	struct reference *r = &c->lane->references[c->count % REFERENCES];
	atomic_store_explicit(&r->at, at, memory_order_relaxed);
	atomic_store_explicit(&r->n, (uint32_t)n, memory_order_relaxed);
	atomic_store_explicit(&r->kind, (uint32_t)kind, memory_order_relaxed);
	c->stream += n;
	conn_count_out(&c->conn, n);
	c->sent[c->count++ % REFERENCES] = (struct published){c->stream, c->ring};
	atomic_store_explicit(&c->lane->published, c->count, memory_order_release);
	wake_if(c, &c->lane->receiver_sleeps);
}

/* Any consumption is an event. */
static void wait_for_room(struct conn_shared *c)
{
	c->seen = c->consumed;
	if (c->waits_for <= c->consumed)
		c->waits_for = c->consumed + 1;
}

/* May the sender append a reference? 1: yes; 0: the table is full; -1: error. */
static int may_publish(struct conn_shared *c, struct err *err)
{
	if (hear(c, err) < 0)
		return -1;
	if (c->conn.hung_up)
		return gone(err);
	if (c->count - c->oldest == REFERENCES && collect(c, err) < 0)
		return -1;
	if (c->count - c->oldest < REFERENCES)
		return 1;
	wait_for_room(c);
	return 0;
}

static ssize_t copy_out(struct conn_shared *c, const void *buf, size_t n, struct err *err)
{
	int may = may_publish(c, err);
	if (may <= 0)
		return may;
	if (c->ring_bytes - (c->ring - c->ring_free) < n && collect(c, err) < 0)
		return -1;
	size_t at = (size_t)(c->ring % c->ring_bytes);
	/* A quarter at a time, so that the receiver reads while the sender writes. */
	size_t room = least(c->ring_bytes - (size_t)(c->ring - c->ring_free),
	                    least(c->ring_bytes - at, c->ring_bytes / 4));
	n = least(n, room); /* a multiple of LINE, so elements stay whole */
	if (n == 0) {
		wait_for_room(c);
		return 0;
	}
	memcpy(c->lane->ring + at, buf, n);
	c->ring += (n + LINE - 1) & ~(size_t)(LINE - 1);
	publish(c, at, n, COPIED);
	return (ssize_t)n;
}

/* The receiver says little: the answer to the opening record, and that it took a descriptor. */
static ssize_t say(struct conn_shared *c, const void *buf, size_t n, struct err *err)
{
	ssize_t put = io_retry(send(c->conn.fd, buf, n, MSG_NOSIGNAL | MSG_DONTWAIT));
	if (put < 0 && errno != EAGAIN)
		return gone(err);
	return put < 0 ? 0 : put;
}

static ssize_t shared_write(struct conn *conn, const void *buf, size_t n, struct err *err)
{
	struct conn_shared *c = of(conn);
	return c->sends ? copy_out(c, buf, n, err) : say(c, buf, n, err);
}

static bool shared_reaches(const struct conn *conn, const void *p, size_t n)
{
	const struct conn_shared *c = of(conn);
	return c->arena && arena_offset(c->arena, p, n) >= 0;
}

static ssize_t shared_lend(struct conn *conn, const void *p, size_t n, struct err *err)
{
	struct conn_shared *c = of(conn);
	int may = may_publish(c, err);
	if (may <= 0)
		return may;
	n = least(n, UINT32_MAX & ~(uint32_t)(LINE - 1));
	publish(c, (uint64_t)arena_offset(c->arena, p, n), n, LENT);
	c->waits_for = c->stream;
	return (ssize_t)n;
}

static int64_t shared_consumed(struct conn *conn, struct err *err)
{
	struct conn_shared *c = of(conn);
	if (collect(c, err) < 0 || hear(c, err) < 0)
		return -1;
	/* What it consumed before its end counts. */
	if (c->conn.hung_up && (collect(c, err) < 0 || (c->consumed < c->stream && gone(err) < 0)))
		return -1;
	return (int64_t)c->consumed;
}

static int shared_flush(struct conn *conn, struct err *err)
{
	(void)conn, (void)err; /* nothing waits in this process */
	return 1;
}

static int shared_end(struct conn *conn, struct err *err)
{
	struct conn_shared *c = of(conn);
	if (c->ended)
		return 1;
	int may = may_publish(c, err);
	if (may <= 0)
		return may;
	publish(c, 0, 0, END);
	c->ended = true;
	return 1;
}

/* ---- receiving ---- */

static int corrupt(const struct conn_shared *c, struct err *err)
{
	return err_set(err, ERR_INTEGRITY, "reference %llu of a memory lane is corrupt",
	               (unsigned long long)c->taken);
}

/* Take the next reference. 1: there are bytes; 0: none now; -1: error; CONN_END. */
static ssize_t take(struct conn_shared *c, struct err *err)
{
	if (hear(c, err) < 0)
		return -1;
	uint64_t published = atomic_load_explicit(&c->lane->published, memory_order_acquire);
	if (published == c->taken)
		return c->ended ? CONN_END : c->conn.hung_up ? gone(err) : 0;
	if (c->ended || published - c->taken > REFERENCES)
		return corrupt(c, err);
	struct reference *r = &c->lane->references[c->taken % REFERENCES];
	uint64_t at = atomic_load_explicit(&r->at, memory_order_relaxed);
	uint32_t n = atomic_load_explicit(&r->n, memory_order_relaxed);
	uint32_t kind = atomic_load_explicit(&r->kind, memory_order_relaxed);
	if (kind == END && n == 0) {
		c->taken++;
		c->ended = true;
		return CONN_END;
	}
	size_t size = kind == COPIED ? c->ring_bytes : kind == LENT ? c->map->size : 0;
	if (n == 0 || n > size || at > size - n)
		return corrupt(c, err);
	c->bytes = (kind == COPIED ? c->lane->ring : c->map->base) + at;
	c->left = n;
	c->taken++;
	return 1;
}

static ssize_t shared_borrow(struct conn *conn, const void **p, size_t n, struct err *err)
{
	struct conn_shared *c = of(conn);
	ssize_t ret = c->left ? 1 : take(c, err);
	if (ret <= 0)
		return ret;
	*p = c->bytes;
	return (ssize_t)least(n, c->left);
}

static void shared_give_back(struct conn *conn, size_t n)
{
	struct conn_shared *c = of(conn);
	c->bytes += n;
	c->left -= n;
	c->conn.wire_in += n;
	atomic_store_explicit(&c->lane->consumed, c->conn.wire_in, memory_order_release);
	wake_if(c, &c->lane->sender_sleeps);
}

/* The sender reads what the receiver said. */
static ssize_t listen_to(struct conn_shared *c, uint8_t *buf, size_t n, struct err *err)
{
	if (hear(c, err) < 0)
		return -1;
	if (c->nsaid == 0)
		return c->conn.hung_up ? CONN_END : 0;
	n = least(n, c->nsaid);
	memcpy(buf, c->said, n);
	c->nsaid -= n;
	memmove(c->said, c->said + n, c->nsaid);
	return (ssize_t)n;
}

static ssize_t shared_read(struct conn *conn, void *buf, size_t n, struct err *err)
{
	struct conn_shared *c = of(conn);
	size_t done = 0;
	if (c->sends)
		return listen_to(c, buf, n, err);
	while (done < n) {
		const void *p;
		ssize_t got = shared_borrow(conn, &p, n - done, err);
		if (got <= 0)
			return done ? (ssize_t)done : got;
		memcpy((uint8_t *)buf + done, p, (size_t)got);
		shared_give_back(conn, (size_t)got);
		done += (size_t)got;
	}
	return (ssize_t)done;
}

/* ---- descriptors of files ---- */

/* Has the receiver taken the last descriptor? 1: yes; 0: not yet; -1: error. */
static int may_pass(struct conn_shared *c, struct err *err)
{
	uint8_t answer;
	if (!c->passed)
		return 1;
	const ssize_t got = listen_to(c, &answer, 1, err);
	if (got <= 0)
		return got == CONN_END ? gone(err) : (int)got;
	if (answer != TAKEN)
		return err_set(err, ERR_INTEGRITY, "unknown byte %u beside a memory lane", answer);
	c->passed = false;
	return 1;
}

static int shared_pass(struct conn *conn, int fd, struct err *err)
{
	static const uint8_t byte = PASSED;
	struct conn_shared *c = of(conn);
	const int may = may_pass(c, err);
	if (may <= 0)
		return may;
	/* No more than one is on its way, so the socket has room. */
	if (send_all(c, &byte, 1, &fd, 1, err) < 0)
		return -1;
	c->passed = true;
	return 1;
}

static int shared_take(struct conn *conn, int *fd, struct err *err)
{
	static const uint8_t taken = TAKEN;
	struct conn_shared *c = of(conn);
	if (hear(c, err) < 0)
		return -1;
	if (c->lost)
		return err_set(err, ERR_RESOURCE,
		               "no file descriptor left: raise the limit (ulimit -n)");
	if (c->came < 0)
		return c->conn.hung_up ? gone(err) : 0;
	const ssize_t put = say(c, &taken, 1, err);
	if (put <= 0)
		return (int)put;
	*fd = c->came;
	c->came = -1;
	return 1;
}

/* ---- the handshake ---- */

static int make_proof(const struct conn_shared *c, const char *whose, uint8_t proof[PROOF],
                      struct err *err)
{
	struct {
		char whose[16];
		uint8_t dialler[NONCE], listener[NONCE];
		char identity[TLS_IDENTITY_MAX];
	} said = {0};
	strncpy(said.whose, whose, sizeof said.whose - 1);
	memcpy(said.dialler, c->hello.nonce, NONCE);
	memcpy(said.listener, c->reply.nonce, NONCE);
	memcpy(said.identity, c->hello.identity, sizeof said.identity);
	if (hkdf(c->key, TLS_KEY_BYTES, &said, sizeof said, proof, PROOF) == 0)
		return 0;
	return crypto_failed(err, ERR_RESOURCE, "HKDF failed");
}

static int check_proof(const struct conn_shared *c, const char *whose, const uint8_t proof[PROOF],
                       struct err *err)
{
	uint8_t want[PROOF];
	if (make_proof(c, whose, want, err) < 0)
		return -1;
	if (CRYPTO_memcmp(want, proof, PROOF) != 0)
		return err_set(err, ERR_AUTH, "the %s of a memory lane has another key", whose);
	return 0;
}

/* Only processes of this user get the key's lanes: the kernel says who the other end is. */
static int check_user(const struct conn_shared *c, struct err *err)
{
	struct ucred other;
	socklen_t len = sizeof other;
	if (getsockopt(c->conn.fd, SOL_SOCKET, SO_PEERCRED, &other, &len) < 0)
		return err_errno(err, ERR_PEER_LOST, "SO_PEERCRED");
	if (other.uid != geteuid())
		return err_set(err, ERR_PEER_LOST, "it runs as another user (uid %u)", other.uid);
	if (!user_is_known(other.uid))
		return err_set(err, ERR_PEER_LOST,
		               "this user namespace does not tell which user it runs as");
	return 0;
}

/* Receive the rest of a message of @n bytes, with up to two descriptors in @fds (-1: none). 1: it
 * is complete; 0: not yet; -1. */
static int receive(struct conn_shared *c, size_t n, int fds[2], struct err *err)
{
	if (!c->conn.readable)
		return 0;
	const ssize_t got = receive_bytes(c, c->message + c->have, n - c->have, fds);
	if (got < 0 && errno == EAGAIN) {
		c->conn.readable = false;
		return 0;
	}
	if (got < 0)
		return err_errno(err, ERR_PEER_LOST, "the socket of a memory lane");
	if (got == 0)
		return gone(err);
	c->have += (size_t)got;
	if (c->have < n)
		return fds && fds[0] >= 0 ? gone(err) : 0; /* they come with the whole message */
	c->have = 0;
	return 1;
}

static size_t lane_size(size_t ring_bytes)
{
	return sizeof(struct lane_words) + ring_bytes;
}

/* The dialler: make the lane, and pass it and the arena with the proof. */
static int pass_lane(struct conn_shared *c, struct err *err)
{
	uint8_t proof[PROOF];
	void *base;
	if (make_proof(c, "dialler", proof, err) < 0)
		return -1;
	int fd = sealed_memory("collctl lane", lane_size(c->ring_bytes), 0, &base, err);
	if (fd < 0)
		return -1;
	c->lane = base;
	c->lane_bytes = lane_size(c->ring_bytes);
	memcpy(c->lane->nonce, c->reply.nonce, NONCE);
	const int fds[2] = {fd, arena_fd(c->arena)};
	int ret = send_all(c, proof, sizeof proof, fds, 2, err);
	close(fd);
	return ret;
}

/* The listener: map the lane and the dialler's arena. */
static int take_lane(struct conn_shared *c, const int fds[2], struct err *err)
{
	if (fds[0] < 0 || fds[1] < 0)
		return err_set(err, ERR_RESOURCE, "no descriptors came for a memory lane");
	int64_t size = sealed_size(fds[0], err);
	if (size < 0)
		return -1;
	if (size < (int64_t)lane_size(RING_LEAST) ||
	    size > (int64_t)lane_size(CONN_SHARED_RING_MAX) || ((size_t)size - lane_size(0)) % LINE)
		return err_set(err, ERR_INTEGRITY, "a memory lane of %lld bytes", (long long)size);
	void *base = mmap(NULL, (size_t)size, PROT_READ | PROT_WRITE, MAP_SHARED, fds[0], 0);
	if (base == MAP_FAILED)
		return err_errno(err, ERR_RESOURCE, "%lld bytes of shared memory", (long long)size);
	c->lane = base;
	c->lane_bytes = (size_t)size;
	c->ring_bytes = c->lane_bytes - lane_size(0);
	if (memcmp(c->lane->nonce, c->reply.nonce, NONCE) != 0)
		return err_set(err, ERR_INTEGRITY, "it is not the memory of this lane");
	c->map = arena_map(c->maps, fds[1], err);
	return c->map ? 0 : -1;
}

static int dial_step(struct conn_shared *c, struct err *err)
{
	int got;
	switch (c->stage) {
	case STAGE_HELLO:
		if (check_user(c, err) < 0 || crypto_random(c->hello.nonce, NONCE, err) < 0 ||
		    send_all(c, &c->hello, sizeof c->hello, NULL, 0, err) < 0)
			return -1;
		c->stage = STAGE_REPLY;
		return 1;
	case STAGE_REPLY:
		got = receive(c, sizeof c->reply, NULL, err);
		if (got <= 0)
			return got;
		memcpy(&c->reply, c->message, sizeof c->reply);
		if (check_proof(c, "listener", c->reply.proof, err) < 0 || pass_lane(c, err) < 0)
			return -1;
		c->stage = STAGE_READY;
		return 1;
	default: /* the first byte after the proof: the lane is mapped */
		got = receive(c, 1, NULL, err);
		if (got > 0)
			c->stage = STAGE_DONE;
		return got;
	}
}

static int accept_step(struct conn_shared *c, struct err *err)
{
	static const uint8_t ready = 1;
	int got, fds[2] = {-1, -1};
	if (c->stage == STAGE_HELLO) {
		got = receive(c, sizeof c->hello, NULL, err);
		if (got <= 0)
			return got;
		memcpy(&c->hello, c->message, sizeof c->hello);
		if (memcmp(c->hello.magic, MAGIC, sizeof c->hello.magic) != 0 ||
		    !memchr(c->hello.identity, 0, sizeof c->hello.identity) ||
		    c->find(c->find_ctx, (const uint8_t *)c->hello.identity,
		            strlen(c->hello.identity), c->key) < 0)
			return err_set(err, ERR_AUTH, "an unknown memory lane");
		if (check_user(c, err) < 0 || crypto_random(c->reply.nonce, NONCE, err) < 0 ||
		    make_proof(c, "listener", c->reply.proof, err) < 0 ||
		    send_all(c, &c->reply, sizeof c->reply, NULL, 0, err) < 0)
			return -1;
		c->stage = STAGE_PROOF;
		return 1;
	}
	got = receive(c, PROOF, fds, err);
	if (got > 0 && (check_proof(c, "dialler", c->message, err) < 0 ||
	                take_lane(c, fds, err) < 0 || send_all(c, &ready, 1, NULL, 0, err) < 0))
		got = -1;
	if (got > 0)
		c->stage = STAGE_DONE;
	close_fds(fds);
	return got;
}

static int shared_handshake(struct conn *conn, struct err *err)
{
	struct conn_shared *c = of(conn);
	while (c->stage != STAGE_DONE) {
		int ret = c->sends ? dial_step(c, err) : accept_step(c, err);
		if (ret <= 0)
			return ret;
	}
	OPENSSL_cleanse(c->key, sizeof c->key);
	return 1;
}

/* ---- the ends ---- */

static void shared_free(struct conn *conn)
{
	struct conn_shared *c = of(conn);
	if (c->lane)
		munmap(c->lane, c->lane_bytes);
	arena_unmap(c->maps, c->map);
	if (c->came >= 0)
		close(c->came);
	OPENSSL_cleanse(c->key, sizeof c->key);
	free(c->sent);
	free(c);
}

static const struct conn_lending shared_lending = {
        .least = LEND_LEAST,
        .reaches = shared_reaches,
        .lend = shared_lend,
        .consumed = shared_consumed,
        .borrow = shared_borrow,
        .give_back = shared_give_back,
        .pass = shared_pass,
        .take = shared_take,
};

static const struct conn_ops shared_ops = {
        .name = "memory",
        .sums = true, /* memory does not corrupt bytes */
        .handshake = shared_handshake,
        .read = shared_read,
        .write = shared_write,
        .flush = shared_flush,
        .end = shared_end,
        .free = shared_free,
        .lending = &shared_lending,
};

static struct conn_shared *shared_new(int fd, struct err *err)
{
	struct conn_shared *c = err_calloc(1, sizeof *c, "a memory lane", err);
	struct published *sent = err_calloc(REFERENCES, sizeof *sent, "a memory lane", err);
	if (!c || !sent) {
		free(c);
		free(sent);
		return NULL;
	}
	c->sent = sent;
	c->came = -1;
	c->conn.ops = &shared_ops;
	c->conn.fd = fd;
	c->conn.poll = (struct loop_poll){.fn = poll_lane, .ctx = c};
	return c;
}

struct conn *conn_shared_dial(int fd, const char *identity, const uint8_t key[TLS_KEY_BYTES],
                              const struct arena *arena, size_t ring, struct err *err)
{
	struct conn_shared *c = shared_new(fd, err);
	if (!c)
		return NULL;
	c->sends = true;
	c->arena = arena;
	c->ring_bytes = ring ? ring & ~(size_t)(LINE - 1) : CONN_SHARED_RING_MAX;
	if (c->ring_bytes < RING_LEAST)
		c->ring_bytes = RING_LEAST;
	if (c->ring_bytes > CONN_SHARED_RING_MAX)
		c->ring_bytes = CONN_SHARED_RING_MAX;
	memcpy(c->hello.magic, MAGIC, sizeof c->hello.magic);
	strncpy(c->hello.identity, identity, sizeof c->hello.identity - 1);
	memcpy(c->key, key, TLS_KEY_BYTES);
	return &c->conn;
}

struct conn *conn_shared_accept(int fd, tls_find_key *find, void *ctx, struct arena_maps *maps,
                                struct err *err)
{
	struct conn_shared *c = shared_new(fd, err);
	if (!c)
		return NULL;
	c->find = find;
	c->find_ctx = ctx;
	c->maps = maps;
	return &c->conn;
}

const char *conn_shared_identity(const struct conn *conn)
{
	const struct conn_shared *c = of(conn);
	return c->stage >= STAGE_DONE ? c->hello.identity : "";
}
