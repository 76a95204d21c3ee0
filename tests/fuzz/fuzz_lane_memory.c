/*
 * A memory lane whose other end writes what it likes: into the words and references that both map,
 * and over the socket (lib/net/PROTOCOL.md). The first byte chooses the end that is hostile, or the
 * handshake; the rest is a list of what the two ends do. An end must never touch memory outside the
 * lane and the arena, and must fail with ERR_INTEGRITY or notice that the other is gone.
 */
#include <fcntl.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/buf.h"
#include "lib/crypto/hkdf.h"
#include "lib/net/arena.h"
#include "lib/net/conn_shared.h"
#include "tests/fuzz/check.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The messages and the memory, as PROTOCOL.md has them. */
#define MAGIC      "CCTLMEM1"
#define IDENTITY   "D1|00|0|1|0"
#define NONCE      16
#define PROOF      32
#define HELLO      (8 + NONCE + TLS_IDENTITY_MAX)
#define REPLY      (NONCE + PROOF)
#define PUBLISHED  64
#define CONSUMED   128
#define REFERENCES 192
#define NREFERENCE 256
#define REFERENCE  16
#define RING       (REFERENCES + NREFERENCE * REFERENCE)
#define RING_BYTES (16u << 10)
#define LANE_BYTES (RING + RING_BYTES)
#define ARENA      (64u << 10)
#define WAKE       255

/* What is in the ring and in the arena: nothing else may be read. */
#define IN_RING  0x5a
#define IN_ARENA 0xa5

static const uint8_t key[TLS_KEY_BYTES] = "the key of the lane";

static struct loop loop;
static struct arena *arena; /* of the sender, and of the hostile one */
static uint8_t *windows;    /* all of it */
static struct arena_maps maps;
static struct view script;

static uint64_t draw(void)
{
	const struct view rest = script;
	if (view_left(&script) >= 8)
		return view_u64(&script);
	script.p = script.end;
	return view_left(&rest) ? *rest.p : 0;
}

static unsigned byte(void)
{
	return view_left(&script) ? view_u8(&script) : 0;
}

/* A number that may be near a bound. */
static uint64_t number(void)
{
	static const uint64_t bounds[] = {0, RING_BYTES, ARENA, UINT32_MAX, UINT64_MAX, 1ull << 63};
	unsigned how = byte();
	switch (how % 4) {
	case 0:
		return byte();
	case 1:
		return bounds[how / 4 % 6] + (byte() % 17) - 8;
	case 2:
		return byte() << 8 | byte();
	default:
		return draw();
	}
}

static void begin(void)
{
	struct err err = {0};
	if (arena)
		return;
	CHECK(loop_init(&loop, &err) == 0);
	arena = arena_new(ARENA, &err);
	CHECK(arena);
	windows = arena_alloc(arena, ARENA);
	CHECK(windows);
	memset(windows, IN_ARENA, ARENA);
}

static int find(void *ctx, const uint8_t *identity, size_t len, uint8_t found[TLS_KEY_BYTES])
{
	(void)ctx;
	if (len != strlen(IDENTITY) || memcmp(identity, IDENTITY, len) != 0)
		return -1;
	memcpy(found, key, TLS_KEY_BYTES);
	return 0;
}

static void make_proof(const char *whose, const uint8_t *hello, const uint8_t *nonce,
                       uint8_t proof[PROOF])
{
	uint8_t said[16 + 2 * NONCE + TLS_IDENTITY_MAX] = {0};
	memcpy(said, whose, strlen(whose));
	memcpy(said + 16, hello + 8, NONCE);
	memcpy(said + 16 + NONCE, nonce, NONCE);
	memcpy(said + 16 + 2 * NONCE, hello + 8 + NONCE, TLS_IDENTITY_MAX);
	CHECK(hkdf(key, sizeof key, said, sizeof said, proof, PROOF) == 0);
}

static void turn(void)
{
	struct err err = {0};
	CHECK(loop_turn(&loop, 0, &err) == 0);
}

/* Send with descriptors. */
static ssize_t try_pass(int fd, const void *bytes, size_t n, const int *fds, int nfds)
{
	struct iovec iov = {(void *)bytes, n};
	union {
		char bytes[CMSG_SPACE(4 * sizeof(int))];
		struct cmsghdr align;
	} control = {0};
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
	return sendmsg(fd, &msg, MSG_NOSIGNAL | MSG_DONTWAIT);
}

static void pass(int fd, const void *bytes, size_t n, const int *fds, int nfds)
{
	CHECK(try_pass(fd, bytes, n, fds, nfds) == (ssize_t)n);
}

/* The descriptor of the lane that a dialler passes. */
static int take_lane(int fd)
{
	uint8_t proof[PROOF];
	struct iovec iov = {proof, sizeof proof};
	union {
		char bytes[CMSG_SPACE(2 * sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	struct msghdr msg = {.msg_iov = &iov,
	                     .msg_iovlen = 1,
	                     .msg_control = control.bytes,
	                     .msg_controllen = sizeof control.bytes};
	int fds[2];
	CHECK(recvmsg(fd, &msg, 0) == PROOF);
	struct cmsghdr *h = CMSG_FIRSTHDR(&msg);
	CHECK(h && h->cmsg_len == CMSG_LEN(sizeof fds));
	memcpy(fds, CMSG_DATA(h), sizeof fds);
	close(fds[1]);
	return fds[0];
}

/* A connection of the product, the other end of its socket, and the lane as that end maps it. */
struct ends {
	struct conn *conn;
	int fd;
	uint8_t *lane;
	bool filled; /* its ring has only IN_RING, and the arena only IN_ARENA */
};

static void open_socket(struct ends *e, bool dials)
{
	struct err err = {0};
	int fd[2];
	CHECK(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0, fd) == 0);
	e->fd = fd[1];
	e->conn = dials ? conn_shared_dial(fd[0], IDENTITY, key, arena, RING_BYTES, &err)
	                : conn_shared_accept(fd[0], find, NULL, &maps, &err);
	CHECK(e->conn && conn_watch(e->conn, &loop, NULL, NULL, &err) == 0);
}

static void close_ends(struct ends *e)
{
	conn_free(e->conn);
	if (e->fd >= 0)
		close(e->fd);
	if (e->lane)
		munmap(e->lane, LANE_BYTES);
	CHECK(!maps.first);
}

static uint8_t *map_lane(int fd)
{
	void *p = mmap(NULL, LANE_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	CHECK(p != MAP_FAILED);
	close(fd);
	return p;
}

static void hello_of(uint8_t hello[HELLO])
{
	memset(hello, 0, HELLO);
	memcpy(hello, MAGIC, 8);
	memcpy(hello + 8 + NONCE, IDENTITY, strlen(IDENTITY));
}

/* A receiver, whose sender is the fuzzer. */
static void meet_receiver(struct ends *e)
{
	uint8_t hello[HELLO], reply[REPLY], proof[PROOF], ready;
	struct err err = {0};
	open_socket(e, false);
	hello_of(hello);
	pass(e->fd, hello, sizeof hello, NULL, 0);
	turn();
	CHECK(conn_handshake(e->conn, &err) == 0);
	CHECK(recv(e->fd, reply, sizeof reply, 0) == REPLY);
	make_proof("dialler", hello, reply, proof);
	int lane = memfd_create("lane", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CHECK(lane >= 0 && ftruncate(lane, LANE_BYTES) == 0);
	CHECK(pwrite(lane, reply, NONCE, 0) == NONCE);
	CHECK(fcntl(lane, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
	const int fds[2] = {lane, arena_fd(arena)};
	pass(e->fd, proof, sizeof proof, fds, 2);
	turn();
	CHECK(conn_handshake(e->conn, &err) == 1);
	CHECK(recv(e->fd, &ready, 1, 0) == 1);
	e->lane = map_lane(lane);
	memset(e->lane + RING, IN_RING, RING_BYTES);
	e->filled = true;
}

/* A sender, whose receiver is the fuzzer. */
static void meet_sender(struct ends *e)
{
	static const uint8_t ready = 1;
	uint8_t hello[HELLO], reply[REPLY] = {0};
	struct err err = {0};
	open_socket(e, true);
	CHECK(conn_handshake(e->conn, &err) == 0);
	CHECK(recv(e->fd, hello, sizeof hello, 0) == HELLO);
	make_proof("listener", hello, reply, reply + NONCE);
	pass(e->fd, reply, sizeof reply, NULL, 0);
	turn();
	CHECK(conn_handshake(e->conn, &err) == 0);
	e->lane = map_lane(take_lane(e->fd));
	pass(e->fd, &ready, 1, NULL, 0);
	turn();
	CHECK(conn_handshake(e->conn, &err) == 1);
}

static uint64_t load(const uint8_t *lane, size_t at)
{
	return atomic_load((const _Atomic uint64_t *)(const void *)(lane + at));
}

static void store(uint8_t *lane, size_t at, uint64_t x)
{
	atomic_store((_Atomic uint64_t *)(void *)(lane + at), x);
}

static uint8_t *reference(uint8_t *lane, uint64_t count)
{
	return lane + REFERENCES + count % NREFERENCE * REFERENCE;
}

/* Any of the words and references, but not the bytes of the ring. */
static void scribble(uint8_t *lane)
{
	size_t at = (byte() << 8 | byte()) % (RING / 8) * 8;
	store(lane, at, number());
}

static void say(struct ends *e)
{
	uint8_t bytes[5] = {WAKE, (uint8_t)byte(), (uint8_t)byte(), WAKE, 0};
	const int fd = arena_fd(arena), fds[4] = {fd, fd, fd, fd};
	const unsigned n = byte(), from = n / 5 % 3, nfds = n / 15 % 5;
	if (e->fd >= 0)
		(void)try_pass(e->fd, bytes + from, 1 + n % (5 - from), fds, (int)nfds);
}

static void hang_up(struct ends *e)
{
	if (e->fd >= 0)
		close(e->fd);
	e->fd = -1;
}

/* The error of a call that failed. ERR_RESOURCE: a descriptor has not come. */
static bool failed(const struct ends *e, const struct err *err)
{
	CHECK(err->code == ERR_INTEGRITY || err->code == ERR_RESOURCE ||
	      (err->code == ERR_PEER_LOST && e->fd < 0));
	CHECK(*err->text && memchr(err->text, 0, sizeof err->text));
	return true;
}

/* ---- a hostile sender ---- */

static void append(uint8_t *lane)
{
	uint64_t count = load(lane, PUBLISHED);
	uint8_t *r = reference(lane, count);
	unsigned how = byte();
	uint64_t at = number(), n = number();
	if (how & 1) /* a right one */
		at %= RING_BYTES / 2, n = n % (RING_BYTES / 2) + 1;
	put_u64(r, at);
	put_u32(r + 8, (uint32_t)n);
	put_u32(r + 12, how & 2 ? 1 + how / 4 % 3 : (uint32_t)number());
	store(lane, PUBLISHED, count + 1);
}

/* All of what may be read is there and, where that is known, of the ring or the arena. */
static void look_at(const struct ends *e, const uint8_t *p, size_t n)
{
	const uint8_t what = *p;
	const struct arena_map *m = maps.first;
	uint8_t sum = 0;
	for (size_t i = 0; i < n; i++)
		sum ^= p[i];
	e->lane[NONCE] = sum; /* so that the reads stay */
	if (!e->filled)
		return;
	CHECK(what == IN_RING || what == IN_ARENA);
	CHECK(n <= (what == IN_RING ? RING_BYTES : ARENA));
	if (what == IN_ARENA)
		CHECK(p >= m->base && p + n <= m->base + m->size);
	for (size_t i = 0; i < n; i++)
		CHECK(p[i] == what);
}

/* True: the receiver has failed. */
static bool receive(struct ends *e)
{
	static uint8_t bytes[2 * ARENA];
	struct err err = {0};
	const void *p;
	size_t n = 1 + (size_t)(number() % sizeof bytes);
	unsigned how = byte();
	ssize_t got;
	turn();
	if (how % 4 == 0) {
		got = conn_read(e->conn, bytes, n, &err);
		for (ssize_t i = 0; i < got; i++)
			CHECK(!e->filled || bytes[i] == IN_RING || bytes[i] == IN_ARENA);
	} else if (how % 4 == 1) {
		int fd = -1;
		got = e->conn->ops->lending->take(e->conn, &fd, &err);
		CHECK((got == 1) == (fd >= 0 && fcntl(fd, F_GETFD) == FD_CLOEXEC));
		if (fd >= 0)
			close(fd);
	} else {
		got = e->conn->ops->lending->borrow(e->conn, &p, n, &err);
		if (got > 0) {
			CHECK((size_t)got <= n);
			look_at(e, p, (size_t)got);
			e->conn->ops->lending->give_back(e->conn, 1 + number() % (size_t)got);
		}
	}
	CHECK(got >= -1 || got == CONN_END);
	return got == -1 && failed(e, &err);
}

static void hostile_sender(void)
{
	struct ends e = {.fd = -1};
	meet_receiver(&e);
	for (bool over = false; view_left(&script) && !over;) {
		switch (byte() % 8) {
		case 0:
			scribble(e.lane);
			break;
		case 1:
			say(&e);
			break;
		case 2:
			if (byte() % 8 == 0)
				hang_up(&e);
			break;
		case 3:
		case 4:
			over = receive(&e);
			break;
		default:
			append(e.lane);
			break;
		}
	}
	close_ends(&e);
}

/* ---- a hostile receiver ---- */

/* What the sender has just published is right, whatever is in the memory besides. */
static void look_at_reference(struct ends *e, uint64_t count, const uint8_t *p, size_t n)
{
	const uint8_t *r = reference(e->lane, count - 1);
	const uint64_t at = get_u64(r), bytes = get_u32(r + 8), kind = get_u32(r + 12);
	CHECK(load(e->lane, PUBLISHED) == count);
	CHECK(bytes == n && (kind == 1 || kind == 2));
	CHECK(at + n <= (kind == 1 ? RING_BYTES : ARENA));
	CHECK(kind == 1 ? memcmp(e->lane + RING + at, p, n) == 0 : windows + at == p);
}

struct sending {
	uint64_t count, stream, consumed;
	bool ended;
};

/* True: the sender has failed. */
static bool send_some(struct ends *e, struct sending *s)
{
	const struct conn_lending *lending = e->conn->ops->lending;
	struct err err = {0};
	size_t n = 1 + (size_t)(number() % ARENA), at = (size_t)(number() % (ARENA - n + 1));
	const unsigned how = byte();
	const bool lends = how & 1;
	if (how % 8 == 6)
		return lending->pass(e->conn, arena_fd(arena), &err) < 0 && failed(e, &err);
	if (s->ended)
		return false;
	CHECK(lending->reaches(e->conn, windows + at, n));
	ssize_t put = lends ? lending->lend(e->conn, windows + at, n, &err)
	                    : conn_write(e->conn, windows + at, n, &err);
	CHECK(put >= -1 && put <= (ssize_t)n);
	if (put > 0) {
		s->stream += (uint64_t)put;
		look_at_reference(e, ++s->count, windows + at, (size_t)put);
	}
	return put < 0 && failed(e, &err);
}

static bool ask_what_is_consumed(struct ends *e, struct sending *s)
{
	struct err err = {0};
	int64_t n = e->conn->ops->lending->consumed(e->conn, &err);
	if (n < 0)
		return failed(e, &err);
	CHECK((uint64_t)n >= s->consumed && (uint64_t)n <= s->stream);
	s->consumed = (uint64_t)n;
	return false;
}

static bool end_or_listen(struct ends *e, struct sending *s)
{
	struct err err = {0};
	uint8_t bytes[8];
	if (byte() % 4 == 0) {
		int ret = conn_end(e->conn, &err);
		s->ended |= ret == 1;
		return ret < 0 && failed(e, &err);
	}
	ssize_t got = conn_read(e->conn, bytes, sizeof bytes, &err);
	CHECK(got <= 4);
	return got == -1 && failed(e, &err);
}

static void hostile_receiver(void)
{
	struct ends e = {.fd = -1};
	struct sending s = {0};
	meet_sender(&e);
	for (bool over = false; view_left(&script) && !over;) {
		switch (byte() % 8) {
		case 0:
			scribble(e.lane);
			break;
		case 1:
			say(&e);
			break;
		case 2:
			if (byte() % 8 == 0)
				hang_up(&e);
			break;
		case 3: /* it consumes, more than there is or what there is */
			store(e.lane, CONSUMED,
			      byte() % 8 ? s.consumed + number() % (s.stream - s.consumed + 1)
			                 : number());
			break;
		case 4:
			turn();
			over = ask_what_is_consumed(&e, &s);
			break;
		case 5:
			turn();
			over = end_or_listen(&e, &s);
			break;
		default:
			turn();
			over = send_some(&e, &s);
			break;
		}
	}
	close_ends(&e);
}

/* ---- the handshake ---- */

/* A descriptor that may be a lane or an arena. */
static int some_memory(const uint8_t nonce[NONCE])
{
	static const size_t sizes[] = {0, 4096, LANE_BYTES, LANE_BYTES + 1, RING + (256u << 10)};
	unsigned how = byte();
	size_t size = sizes[how / 16 % 5];
	int fd = how & 1 ? dup(arena_fd(arena))
	                 : memfd_create("any", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	CHECK(fd >= 0);
	if (how & 1)
		return fd;
	CHECK(ftruncate(fd, (off_t)size) == 0);
	if (size && how & 2)
		CHECK(pwrite(fd, nonce, NONCE, 0) == NONCE);
	if (how & 4)
		CHECK(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL) == 0);
	return fd;
}

static bool step(struct ends *e, struct err *err)
{
	turn();
	int ret = conn_handshake(e->conn, err);
	CHECK(ret >= -1 && ret <= 1);
	CHECK((ret < 0) == (err->code != 0));
	return ret < 0;
}

/* The receiver has accepted @lane, whatever it is: some references in its first page. */
static void use(struct ends *e, int lane)
{
	e->lane = map_lane(lane);
	for (int i = 0; i < 64 && view_left(&script); i++) {
		append(e->lane);
		if (receive(e))
			break;
	}
}

/* Bytes of the script in pieces, with descriptors; the first ones may be a right message. */
static void dial_by_hand(void)
{
	int lane = -1;
	uint8_t bytes[HELLO], reply[REPLY] = {0}, proof[PROOF];
	struct ends e = {.fd = -1};
	struct err err = {0};
	open_socket(&e, false);
	hello_of(bytes);
	if (byte() & 1)
		bytes[byte() % HELLO] ^= (uint8_t)byte();
	pass(e.fd, bytes, sizeof bytes, NULL, 0);
	bool over = step(&e, &err);
	(void)recv(e.fd, reply, sizeof reply, MSG_DONTWAIT);
	make_proof("dialler", bytes, reply, proof);
	for (size_t at = 0; !over && view_left(&script) && at < PROOF;) {
		int fds[4], nfds = (int)(byte() % 5);
		size_t n = byte() % 4 ? PROOF - at : 1 + byte() % (PROOF - at);
		for (int i = 0; i < nfds; i++)
			fds[i] = some_memory(reply);
		if (byte() % 16 == 0)
			proof[at] ^= (uint8_t)byte();
		pass(e.fd, proof + at, n, fds, nfds);
		if (nfds && lane < 0)
			lane = dup(fds[0]);
		for (int i = 0; i < nfds; i++)
			close(fds[i]);
		at += n;
		over = step(&e, &err);
		if (!over && at == PROOF && *conn_shared_identity(e.conn)) {
			use(&e, lane);
			lane = -1;
		}
	}
	if (lane >= 0)
		close(lane);
	close_ends(&e);
}

static void answer_by_hand(void)
{
	struct ends e = {.fd = -1};
	struct err err = {0};
	uint8_t hello[HELLO], reply[REPLY] = {0};
	open_socket(&e, true);
	CHECK(!step(&e, &err));
	CHECK(recv(e.fd, hello, sizeof hello, 0) == HELLO);
	make_proof("listener", hello, reply, reply + NONCE);
	if (byte() & 1)
		reply[byte() % REPLY] ^= (uint8_t)byte();
	for (size_t at = 0; view_left(&script) && at < REPLY;) {
		size_t n = 1 + byte() % (REPLY - at);
		pass(e.fd, reply + at, n, NULL, 0);
		at += n;
		if (step(&e, &err))
			break;
	}
	close_ends(&e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	begin();
	script = view_of(data + 1, size - 1);
	switch (data[0] % 8) {
	case 0:
		dial_by_hand();
		break;
	case 1:
		answer_by_hand();
		break;
	case 2:
	case 3:
	case 4:
		hostile_receiver();
		break;
	default:
		hostile_sender();
		break;
	}
	return 0;
}
