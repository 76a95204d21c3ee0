/* Memory lanes with others: the handshake, closed at each step, with other keys, users and
 * descriptors; and a hostile end, which writes what it likes into the memory that both map. */
#include "tests/unit/lane_world.h"

/* ---- the handshake ---- */

static int descriptors(void)
{
	DIR *d = opendir("/proc/self/fd");
	int n = 0;
	assert_non_null(d);
	while (readdir(d))
		n++;
	closedir(d);
	return n;
}

/* One end does @steps of its handshake's calls, then its process is gone. */
LANE_TEST(closed_at_each_step)
{
	for (int steps = 0; steps < 3; steps++)
		for (int dialler = 0; dialler < 2; dialler++) {
			int before = descriptors(), ret = 0;
			struct err err = {0}, why = {0};
			make_sender(key, 0);
			make_receiver(key);
			struct conn **goes = dialler ? &s : &r, **stays = dialler ? &r : &s;
			/* The dialler makes the first step. */
			for (int i = 0; i < steps; i++) {
				if (dialler || i)
					assert_int_equal(handshake(*goes, &err), 0);
				if (i + 1 < steps || !dialler)
					assert_int_equal(handshake(*stays, &err), 0);
			}
			conn_free(*goes);
			*goes = NULL;
			for (int i = 0; i < 4 && ret == 0; i++)
				ret = handshake(*stays, &why);
			assert_int_equal(ret, -1);
			assert_int_equal(why.code, ERR_PEER_LOST);
			close_both();
			assert_null(maps.first);
			assert_int_equal(open_socket(), 0);
			assert_int_equal(descriptors(), before);
		}
}

/* A dialler by hand: its parts are those of a connection, and the test sends the messages. */
static struct conn_shared *hand(void)
{
	make_sender(key, 0);
	struct conn_shared *c = of(s);
	memset(c->hello.nonce, 5, NONCE);
	return c;
}

/* Answer of the listener to a HELLO. */
static void hello_of(struct conn_shared *c)
{
	struct err err = {0};
	assert_int_equal(send_all(c, &c->hello, sizeof c->hello, NULL, 0, &err), 0);
	assert_int_equal(handshake(r, &err), 0);
	turn();
	assert_int_equal(receive(c, sizeof c->reply, NULL, &err), 1);
	memcpy(&c->reply, c->message, sizeof c->reply);
}

static void refused(int code, const char *text)
{
	FAILS(handshake(r, &why), code, text);
	assert_string_equal(conn_shared_identity(r), "");
	again();
	assert_null(maps.first);
}

LANE_TEST(a_message_cut_at_any_byte)
{
	struct err err = {0};
	int before = descriptors();
	for (size_t n = 0; n < sizeof(struct hello); n++) {
		make_receiver(key);
		struct conn_shared *c = hand();
		assert_int_equal(n ? send(s->fd, &c->hello, n, 0) : 0, n);
		assert_int_equal(handshake(r, &err), 0);
		conn_free(s);
		s = NULL;
		refused(ERR_PEER_LOST, "closed");
	}
	for (size_t n = 0; n < PROOF; n++) {
		uint8_t proof[PROOF];
		const int fds[2] = {arena_fd(arena), arena_fd(arena)};
		make_receiver(key);
		struct conn_shared *c = hand();
		hello_of(c);
		assert_int_equal(make_proof(c, "dialler", proof, &err), 0);
		if (n)
			assert_int_equal(
			        send_all(c, proof, n, n % 2 ? fds : NULL, n % 2 ? 2 : 0, &err), 0);
		/* Descriptors come with the whole proof. */
		if (n % 2 == 0) {
			assert_int_equal(handshake(r, &err), 0);
			conn_free(s);
			s = NULL;
		}
		refused(ERR_PEER_LOST, "closed");
	}
	for (size_t n = 0; n < sizeof(struct reply); n++) {
		static const uint8_t reply[sizeof(struct reply)];
		make_sender(key, 0);
		assert_int_equal(handshake(s, &err), 0);
		assert_int_equal(n ? send(ends[1], reply, n, 0) : 0, n);
		assert_int_equal(handshake(s, &err), 0);
		close(ends[1]);
		ends[1] = -1;
		FAILS(handshake(s, &why), ERR_PEER_LOST, "");
		again();
	}
	assert_int_equal(descriptors(), before);
}

LANE_TEST(a_message_in_pieces)
{
	struct err err = {0};
	make_receiver(key);
	struct conn_shared *c = hand();
	for (size_t i = 0; i < sizeof c->hello; i++) {
		assert_int_equal(handshake(r, &err), 0);
		assert_int_equal(send(s->fd, (uint8_t *)&c->hello + i, 1, 0), 1);
	}
	assert_int_equal(handshake(r, &err), 0);
	c->stage = STAGE_REPLY;
	assert_int_equal(handshake(s, &err), 0);
	assert_int_equal(handshake(r, &err), 1);
	assert_int_equal(handshake(s, &err), 1);
}

LANE_TEST(other_keys)
{
	struct err err = {0};
	for (int i = 0; i < 2; i++) {
		make_sender(i ? key : another, 0);
		make_receiver(i ? another : key);
		assert_int_equal(handshake(s, &err), 0);
		assert_int_equal(handshake(r, &err), 0);
		FAILS(handshake(s, &why), ERR_AUTH,
		      "the listener of a memory lane has another key");
		conn_free(s);
		s = NULL;
		refused(ERR_PEER_LOST, "closed");
	}
}

static void send_proof(struct conn_shared *c, const uint8_t proof[PROOF], int lane, int of_arena)
{
	const int fds[2] = {lane, of_arena};
	struct err err = {0};
	assert_int_equal(send_all(c, proof, PROOF, fds, 2, &err), 0);
}

/* A dialler that does not look at the listener's proof. */
LANE_TEST(wrong_proofs)
{
	uint8_t proof[PROOF], old[PROOF];
	struct err err = {0};
	for (int i = 0; i < 5; i++) {
		make_receiver(key);
		struct conn_shared *c = hand();
		hello_of(c);
		if (i == 0)
			memcpy(c->key, another, sizeof c->key);
		make_proof(c, i == 1 ? "listener" : "dialler", proof, &err);
		if (i == 1) /* the listener's, reflected */
			assert_memory_equal(proof, c->reply.proof, PROOF);
		if (i == 2) /* of an earlier handshake: the listener's nonce differs */
			memcpy(proof, old, PROOF);
		if (i == 3)
			proof[0] ^= 1;
		if (i == 4)
			proof[PROOF - 1] ^= 1;
		make_proof(c, "dialler", old, &err);
		send_proof(c, proof, arena_fd(arena), arena_fd(arena));
		refused(ERR_AUTH, "the dialler of a memory lane has another key");
	}
}

/* Not the bytes of a HELLO, another session, a lane that nobody expects. */
LANE_TEST(unknown_lanes)
{
	for (int i = 0; i < 5; i++) {
		struct err err = {0};
		make_receiver(key);
		struct conn_shared *c = hand();
		if (i == 0)
			c->hello.magic[7]++;
		else if (i == 1)
			strcpy(c->hello.identity, "D1|01|0|1|0");
		else if (i == 2)
			c->hello.identity[0] = 0;
		else if (i == 3)
			memset(c->hello.identity, 'D', sizeof c->hello.identity); /* no NUL */
		else
			strcat(c->hello.identity, "|");
		assert_int_equal(send_all(c, &c->hello, sizeof c->hello, NULL, 0, &err), 0);
		refused(ERR_AUTH, "an unknown memory lane");
	}
}

/* ---- descriptors that are no lane ---- */

/* A memfd of @size bytes with the nonce of @c's listener, sealed or not. */
static int lane_of(const struct conn_shared *c, size_t size, bool sealed)
{
	int fd = memfd_create("test", MFD_CLOEXEC | MFD_ALLOW_SEALING);
	assert_true(fd >= 0 && ftruncate(fd, (off_t)size) == 0);
	if (size >= NONCE)
		assert_int_equal(pwrite(fd, c->reply.nonce, NONCE, 0), NONCE);
	if (sealed)
		assert_int_equal(fcntl(fd, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_SEAL),
		                 0);
	return fd;
}

/* The dialler passes @lane and @of_arena after a right proof. */
static struct conn_shared *proves(void)
{
	make_receiver(key);
	struct conn_shared *c = hand();
	hello_of(c);
	return c;
}

static void passes(struct conn_shared *c, int lane, int of_arena)
{
	uint8_t proof[PROOF];
	struct err err = {0};
	make_proof(c, "dialler", proof, &err);
	send_proof(c, proof, lane, of_arena);
	close(lane);
}

LANE_TEST(descriptors_that_are_no_lane)
{
	const size_t least = lane_size(RING_LEAST), most = lane_size(CONN_SHARED_RING_MAX);
	const size_t sizes[] = {0, NONCE, least - LINE, least + 1, most + LINE, most + LINE / 2};
	uint8_t proof[PROOF];
	struct err err = {0};
	int before = descriptors();
	for (size_t i = 0; i < LENGTH(sizes); i++) {
		struct conn_shared *c = proves();
		passes(c, lane_of(c, sizes[i], true), arena_fd(arena));
		refused(ERR_INTEGRITY, "a memory lane of ");
	}
	struct conn_shared *c = proves();
	passes(c, lane_of(c, least, false), arena_fd(arena));
	refused(ERR_INTEGRITY, "not sealed");
	c = proves();
	c->reply.nonce[3] ^= 1;
	int lane = lane_of(c, least, true);
	c->reply.nonce[3] ^= 1;
	passes(c, lane, arena_fd(arena));
	refused(ERR_INTEGRITY, "not the memory of this lane");
	c = proves();
	int loose = lane_of(c, 4096, false);
	passes(c, lane_of(c, least, true), loose);
	refused(ERR_INTEGRITY, "not sealed");
	close(loose);
	c = proves();
	passes(c, lane_of(c, least, true), s->fd);
	refused(ERR_INTEGRITY, "not sealed");
	for (int n = 0; n < 2; n++) {
		const int one = arena_fd(arena);
		c = proves();
		make_proof(c, "dialler", proof, &err);
		assert_int_equal(send_all(c, proof, PROOF, &one, n, &err), 0);
		refused(ERR_RESOURCE, "no descriptors came");
	}
	c = proves(); /* the sizes at both bounds */
	passes(c, lane_of(c, least, true), arena_fd(arena));
	assert_int_equal(handshake(r, &err), 1);
	again();
	c = proves();
	passes(c, lane_of(c, most, true), arena_fd(arena));
	assert_int_equal(handshake(r, &err), 1);
	again();
	assert_int_equal(descriptors(), before);
}

/* More descriptors than are asked for. */
LANE_TEST(too_many_descriptors)
{
	union {
		char bytes[CMSG_SPACE(8 * sizeof(int))];
		struct cmsghdr align;
	} control = {0};
	uint8_t proof[PROOF];
	struct iovec iov = {proof, PROOF};
	struct msghdr msg = {.msg_iov = &iov,
	                     .msg_iovlen = 1,
	                     .msg_control = control.bytes,
	                     .msg_controllen = sizeof control.bytes};
	struct err err = {0};
	int before = descriptors();
	struct conn_shared *c = proves();
	int fds[8];
	make_proof(c, "dialler", proof, &err);
	for (int i = 0; i < 8; i++)
		fds[i] = arena_fd(arena);
	struct cmsghdr *h = CMSG_FIRSTHDR(&msg);
	h->cmsg_level = SOL_SOCKET;
	h->cmsg_type = SCM_RIGHTS;
	h->cmsg_len = CMSG_LEN(sizeof fds);
	memcpy(CMSG_DATA(h), fds, sizeof fds);
	assert_int_equal(sendmsg(s->fd, &msg, 0), PROOF);
	refused(ERR_INTEGRITY, "a memory lane of ");
	assert_int_equal(descriptors(), before);
}

/* What the listener gets, it can neither shrink nor, if it is the arena, write. */
LANE_TEST(what_the_listener_may_do)
{
	struct err err = {0};
	int fds[2] = {-1, -1};
	make_sender(key, 0);
	make_receiver(key);
	assert_int_equal(handshake(s, &err), 0);
	assert_int_equal(handshake(r, &err), 0);
	assert_int_equal(handshake(s, &err), 0);
	turn();
	assert_int_equal(receive(of(r), PROOF, fds, &err), 1);
	for (int i = 0; i < 2; i++) {
		assert_true(fds[i] >= 0);
		assert_int_equal(ftruncate(fds[i], 0), -1);
		assert_int_equal(errno, EPERM);
		assert_int_equal(ftruncate(fds[i], ARENA * 4), -1);
		assert_int_equal(errno, EPERM);
	}
	assert_ptr_equal(mmap(NULL, ARENA, PROT_READ | PROT_WRITE, MAP_SHARED, fds[1], 0),
	                 MAP_FAILED);
	assert_int_equal(errno, EPERM);
	void *p = mmap(NULL, ARENA, PROT_READ, MAP_SHARED, fds[1], 0);
	assert_ptr_not_equal(p, MAP_FAILED);
	assert_int_equal(mprotect(p, ARENA, PROT_READ | PROT_WRITE), -1);
	assert_memory_equal(p, memory, ARENA);
	munmap(p, ARENA);
	close(fds[0]);
	close(fds[1]);
}

/* ---- other users ---- */

static const struct addr *address(void)
{
	static struct addr a;
	addr_of_lanes(&a, 0, (int)getpid());
	return &a;
}

static int accepted(int listener)
{
	int fd;
	while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK | SOCK_CLOEXEC)) < 0)
		assert_true(errno == EAGAIN || errno == EINTR);
	return fd;
}

/* A process of another user dials: it is refused before anything is sent. */
LANE_TEST(another_user_dials)
{
	struct err err = {0};
	if (geteuid() != 0)
		skip(); /* root can be others */
	const struct addr *a = address();
	int listener = addr_listen_lanes(a, &err);
	assert_true(listener >= 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		uint8_t bytes[8];
		if (setresuid(65534, 65534, 65534) < 0)
			_exit(2);
		int fd = socket(AF_UNIX, SOCK_STREAM, 0);
		struct hello hello = {MAGIC, {0}, IDENTITY};
		if (connect(fd, (const struct sockaddr *)&a->sa, a->len) < 0 ||
		    send(fd, &hello, sizeof hello, 0) != sizeof hello)
			_exit(3);
		_exit(recv(fd, bytes, sizeof bytes, 0) > 0 ? 4 : 0); /* nothing comes */
	}
	close(ends[1]);
	ends[1] = accepted(listener);
	make_receiver(key);
	int64_t until = clock_ns() + PATIENCE;
	int ret;
	while ((ret = handshake(r, &err)) == 0)
		assert_true(clock_ns() < until);
	assert_int_equal(ret, -1);
	assert_non_null(strstr(err.text, "it runs as another user (uid 65534)"));
	conn_free(r);
	r = NULL;
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
	close(listener);
}

/* A process of another user has the address: the dialler sends it nothing. */
LANE_TEST(another_user_listens)
{
	struct err err = {0};
	int ready[2];
	uint8_t byte;
	if (geteuid() != 0)
		skip(); /* root can be others */
	const struct addr *a = address();
	assert_int_equal(pipe(ready), 0);
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid == 0) {
		struct err why = {0};
		if (setresuid(65534, 65534, 65534) < 0)
			_exit(2);
		int listener = addr_listen_lanes(a, &why);
		if (listener < 0 || write(ready[1], "x", 1) != 1)
			_exit(3);
		fcntl(listener, F_SETFL, 0);
		int fd = accept(listener, NULL, NULL);
		_exit(recv(fd, &byte, 1, 0) > 0 ? 4 : 0);
	}
	close(ready[1]);
	assert_int_equal(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	close(ends[0]);
	ends[0] = conn_sock_dial(a, NULL, &err);
	assert_true(ends[0] >= 0);
	make_sender(key, 0);
	FAILS(handshake(s, &why), ERR_PEER_LOST, "it runs as another user (uid 65534)");
	conn_free(s);
	s = NULL;
	int status;
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_int_equal(status, 0);
}

/* ---- a hostile receiver ---- */

LANE_TEST(wrong_counts_of_the_receiver)
{
	for (int i = 0; i < 4; i++) {
		open_lane(0);
		lend(memory, 100);
		put(memory, 100);
		uint8_t bytes[50];
		get(bytes, 50);
		assert_int_equal(consumed(), 50);
		static const uint64_t wrong[] = {49, 0, 201, UINT64_MAX};
		atomic_store(&of(r)->lane->consumed, wrong[i]);
		FAILS(s->ops->lending->consumed(s, &why), ERR_INTEGRITY, "bytes consumed");
		again();
	}
}

/* A sender whose table or ring is full looks at the counter, too. */
LANE_TEST(wrong_counts_before_a_write)
{
	for (int ring = 0; ring < 2; ring++) {
		open_lane(1);
		for (int i = 0; i < (ring ? 4 : REFERENCES); i++)
			assert_true(put(memory, ring ? RING_LEAST / 4 : 1) > 0);
		atomic_store(&of(r)->lane->consumed, UINT64_MAX / 2);
		FAILS(conn_write(s, memory, 1, &why), ERR_INTEGRITY, "bytes consumed");
		again();
	}
	open_lane(1);
	for (int i = 0; i < REFERENCES; i++)
		lend(memory, 1);
	atomic_store(&of(r)->lane->consumed, REFERENCES + 1);
	FAILS(s->ops->lending->lend(s, memory, 1, &why), ERR_INTEGRITY, "bytes consumed");
	FAILS(conn_end(s, &why), ERR_INTEGRITY, "bytes consumed");
}

/* The sender reads nothing else that the receiver can write, wherever its stores go. */
LANE_TEST(a_receiver_that_scribbles)
{
	static uint8_t scribble[sizeof(struct lane_words)];
	struct err err = {0};
	open_lane(1);
	for (int round = 0; round < 2000; round++) {
		struct lane_words *l = of(r)->lane;
		for (size_t i = 0; i < sizeof scribble; i++)
			scribble[i] = (uint8_t)draw();
		memcpy(l, scribble, sizeof *l);
		atomic_store(&l->consumed,
		             (uint64_t)of(s)->consumed +
		                     below(1 + (size_t)(of(s)->stream - of(s)->consumed)));
		size_t n = a_size(ARENA);
		assert_true(conn_write(s, memory, n, &err) >= 0);
		assert_true(s->ops->lending->lend(s, memory, n, &err) >= 0);
		assert_true(s->ops->lending->consumed(s, &err) >= 0);
		assert_true(of(s)->ring - of(s)->ring_free <= of(s)->ring_bytes);
	}
}

/* ---- a hostile sender ---- */

/* Append a reference as it is. */
static void append(uint64_t at, uint32_t n, uint32_t kind)
{
	struct lane_words *l = of(s)->lane;
	uint64_t count = atomic_load(&l->published);
	struct reference *ref = &l->references[count % REFERENCES];
	atomic_store(&ref->at, at);
	atomic_store(&ref->n, n);
	atomic_store(&ref->kind, kind);
	atomic_store(&l->published, count + 1);
}

LANE_TEST(wrong_references)
{
	static const struct {
		uint64_t at;
		uint32_t n, kind;
	} wrong[] = {
	        {0, 1, 0},
	        {0, 1, 4},
	        {0, 1, UINT32_MAX},
	        {0, 0, 0},
	        {0, 0, COPIED},
	        {0, 0, LENT},
	        {0, 1, END},
	        {0, RING_LEAST + 1, COPIED},
	        {1, RING_LEAST, COPIED},
	        {RING_LEAST, 1, COPIED},
	        {RING_LEAST - 1, 2, COPIED},
	        {UINT64_MAX, 1, COPIED},
	        {UINT64_MAX - 7, 8, COPIED},
	        {0, UINT32_MAX, COPIED},
	        {0, ARENA + 1, LENT},
	        {1, ARENA, LENT},
	        {ARENA, 1, LENT},
	        {ARENA - 1, 2, LENT},
	        {UINT64_MAX, 1, LENT},
	        {UINT64_MAX - 7, 8, LENT},
	        {(uint64_t)1 << 63, 8, LENT},
	        {0, UINT32_MAX, LENT},
	};
	uint8_t bytes[8];
	const void *p;
	for (size_t i = 0; i < LENGTH(wrong); i++)
		for (int borrows = 0; borrows < 2; borrows++) {
			open_lane(1);
			append(wrong[i].at, wrong[i].n, wrong[i].kind);
			if (borrows)
				FAILS(r->ops->lending->borrow(r, &p, 8, &why), ERR_INTEGRITY,
				      "reference 0 of a memory lane is corrupt");
			else
				FAILS(conn_read(r, bytes, 8, &why), ERR_INTEGRITY,
				      "reference 0 of a memory lane is corrupt");
			again();
		}
}

LANE_TEST(references_at_the_bounds)
{
	const void *p;
	open_lane(1);
	append(0, RING_LEAST, COPIED);
	append(0, ARENA, LENT);
	append(ARENA - 1, 1, LENT);
	assert_int_equal(borrow(&p, ARENA), RING_LEAST);
	r->ops->lending->give_back(r, RING_LEAST);
	assert_int_equal(borrow(&p, 2 * ARENA), ARENA);
	assert_memory_equal(p, memory, ARENA);
	r->ops->lending->give_back(r, ARENA);
	assert_int_equal(borrow(&p, 2), 1);
}

LANE_TEST(wrong_counts_of_the_sender)
{
	uint8_t byte;
	for (int i = 0; i < 4; i++) {
		static const uint64_t wrong[] = {REFERENCES + 4, 2, 0, UINT64_MAX};
		open_lane(0);
		for (int k = 0; k < 3; k++) {
			put(memory, 1);
			get(&byte, 1);
		}
		atomic_store(&of(s)->lane->published, wrong[i]);
		FAILS(conn_read(r, &byte, 1, &why), ERR_INTEGRITY, "reference 3 ");
		again();
	}
}

LANE_TEST(bytes_after_the_end)
{
	uint8_t byte;
	open_lane(0);
	append(0, 0, END);
	append(0, 1, LENT);
	assert_int_equal(get(&byte, 1), CONN_END);
	FAILS(conn_read(r, &byte, 1, &why), ERR_INTEGRITY, "reference 1 ");
}

static bool inside(const void *p, size_t n, const void *base, size_t size)
{
	return (uintptr_t)p >= (uintptr_t)base && n <= size &&
	       (uintptr_t)p - (uintptr_t)base <= size - n;
}

/* A number that may be near a bound. */
static uint64_t near_bounds(void)
{
	static const uint64_t bounds[] = {0,          RING_LEAST, ARENA,
	                                  UINT32_MAX, UINT64_MAX, (uint64_t)1 << 63};
	return bounds[below(6)] + below(17) - 8;
}

/* Whatever is in the memory: an error, or bytes inside the ring or the arena, which can be read. */
LANE_TEST(a_sender_that_scribbles)
{
	unsigned good = 0, bad = 0;
	for (int round = 0; round < 300; round++) {
		open_lane(1);
		struct conn_shared *c = of(r);
		for (int i = 0; i < 200; i++) {
			struct err err = {0};
			const void *p;
			uint8_t sum = 0;
			append(below(2) ? near_bounds() : below(ARENA),
			       (uint32_t)(below(4) ? below(RING_LEAST) : near_bounds()),
			       (uint32_t)(below(20) ? 1 + below(2) : draw()));
			if (below(100) == 0)
				atomic_store(&of(s)->lane->published, near_bounds());
			ssize_t got = r->ops->lending->borrow(r, &p, SIZE_MAX, &err);
			if (got == -1)
				assert_int_equal(err.code, ERR_INTEGRITY);
			bad += got < 0;
			if (got < 0)
				break;
			if (got == 0)
				continue;
			assert_true(inside(p, (size_t)got, c->lane->ring, c->ring_bytes) ||
			            inside(p, (size_t)got, c->map->base, c->map->size));
			for (ssize_t k = 0; k < got; k++)
				sum = (uint8_t)(sum + ((const uint8_t *)p)[k]);
			r->ops->lending->give_back(r, (size_t)got);
			good += 1 + (sum & 0);
		}
		again();
	}
	assert_true(good > 100 && bad > 100);
}

/* Another process that writes into the words and references of the lane until it is killed. */
static pid_t scribbler(struct lane_words *l, uint64_t seed)
{
	pid_t pid = fork();
	assert_true(pid >= 0);
	if (pid)
		return pid;
	random_state = seed;
	for (;;) {
		const size_t i = below(REFERENCES);
		switch (below(6)) {
		case 0:
			atomic_store(&l->published, below(4) ? below(400) : near_bounds());
			break;
		case 1:
			atomic_store(&l->consumed, below(4) ? below(ARENA) : near_bounds());
			break;
		case 2:
			atomic_store(below(2) ? &l->sender_sleeps : &l->receiver_sleeps,
			             (uint32_t)draw());
			break;
		case 3:
			atomic_store(&l->references[i].at, near_bounds());
			break;
		case 4:
			atomic_store(&l->references[i].n, (uint32_t)near_bounds());
			break;
		default:
			atomic_store(&l->references[i].kind, (uint32_t)(1 + below(3)));
			break;
		}
	}
}

/* One call of an end. False: it has failed. */
static bool sends_on(void)
{
	struct err err = {0};
	const size_t n = a_size(ARENA);
	const struct conn_lending *l = s->ops->lending;
	bool good = (below(2) ? conn_write(s, memory, n, &err) : l->lend(s, memory, n, &err)) >= 0;
	good = good && (below(4) || l->consumed(s, &err) >= 0);
	assert_true(good || err.code == ERR_INTEGRITY);
	assert_true(of(s)->ring - of(s)->ring_free <= of(s)->ring_bytes);
	return good;
}

static bool receives_on(void)
{
	const struct conn_shared *c = of(r);
	struct err err = {0};
	const void *p;
	uint8_t sum = 0;
	ssize_t got = r->ops->lending->borrow(r, &p, a_size(ARENA), &err);
	if (got < 0) {
		assert_true(got == CONN_END || err.code == ERR_INTEGRITY);
		return false;
	}
	if (got == 0)
		return true;
	assert_true(inside(p, (size_t)got, c->lane->ring, c->ring_bytes) ||
	            inside(p, (size_t)got, c->map->base, c->map->size));
	for (ssize_t k = 0; k < got; k++)
		sum = (uint8_t)(sum + ((const uint8_t *)p)[k]);
	r->ops->lending->give_back(r, 1 + below((size_t)got) + (sum & 0));
	return true;
}

/* ---- descriptors of files ---- */

/* The bytes @bytes[n], the first @nfds of them with one descriptor each. */
static void beside(struct conn *from, const uint8_t *bytes, size_t n, size_t nfds)
{
	struct err err = {0};
	const int fds[2] = {arena_fd(arena), arena_fd(arena)};
	for (size_t i = 0; i < n; i++)
		assert_int_equal(send_all(of(from), &bytes[i], 1, fds, i < nfds, &err), 0);
	turn();
}

LANE_TEST(wrong_descriptors)
{
	static const struct {
		uint8_t bytes[2];
		size_t n, fds;
		int code;
		const char *text;
	} wrong[] = {
	        {{PASSED}, 1, 0, ERR_RESOURCE, "no file descriptor left"},
	        {{WAKE}, 1, 1, ERR_INTEGRITY, "an unknown descriptor"},
	        {{TAKEN}, 1, 1, ERR_INTEGRITY, "unknown byte 253"},
	        {{PASSED, PASSED}, 2, 2, ERR_INTEGRITY, "unknown byte 254"},
	        {{PASSED, PASSED}, 2, 0, ERR_INTEGRITY, "unknown byte 254"},
	};
	struct err err = {0};
	const int two[2] = {arena_fd(arena), arena_fd(arena)}, before = descriptors();
	const uint8_t passed = PASSED;
	int fd;
	for (size_t i = 0; i < LENGTH(wrong); i++) {
		open_lane(0);
		beside(s, wrong[i].bytes, wrong[i].n, wrong[i].fds);
		FAILS(r->ops->lending->take(r, &fd, &why), wrong[i].code, wrong[i].text);
		again();
	}
	open_lane(0);
	assert_int_equal(send_all(of(s), &passed, 1, two, 2, &err), 0);
	turn();
	FAILS(r->ops->lending->take(r, &fd, &why), ERR_INTEGRITY, "an unknown descriptor");
	again();
	/* The receiver answers with another byte, passes a descriptor itself, or answers often. */
	for (size_t i = 0; i < 3; i++) {
		const uint8_t bytes[] = {i ? PASSED : 7, TAKEN, TAKEN, TAKEN, TAKEN};
		open_lane(0);
		assert_int_equal(s->ops->lending->pass(s, arena_fd(arena), &err), 1);
		beside(r, bytes, i == 2 ? 5 : 1, i == 1);
		FAILS(s->ops->lending->pass(s, arena_fd(arena), &why), ERR_INTEGRITY, "beside");
		again();
	}
	assert_int_equal(descriptors(), before);
}

/* Row 85: the words change at any moment, also between two reads of them. */
LANE_TEST(a_process_that_scribbles)
{
	int sender_failed = 0, receiver_failed = 0;
	for (uint64_t round = 1; round <= 60; round++) {
		open_lane(1);
		pid_t pid = scribbler(of(s)->lane, round);
		bool sends = true, receives = true;
		for (int i = 0; i < 20000 && (sends || receives); i++) {
			sends = sends && sends_on();
			receives = receives && receives_on();
		}
		sender_failed += !sends;
		receiver_failed += !receives;
		kill(pid, SIGKILL);
		assert_int_equal(waitpid(pid, NULL, 0), pid);
		again();
	}
	assert_true(sender_failed && receiver_failed);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
