/*
 * What a peer costs that speaks TLS and has the key, but sends what no honest one does; and what
 * one costs that never ends its handshake. With the records of control links and both kinds for
 * data.
 */
#include <malloc.h>
#include <stdio.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/net/conn.h"
#include "tests/unit/tls_forge.h"
#include "tests/unit/tls_records.h"
#include "tests/unit/unit.h"

#define PATIENCE (100 * NS_PER_SEC) /* no test takes longer */
#define IDLE_MAX 32                 /* records without data in a row */

static struct loop loop;
static struct tls *tls;

/* *state: the records of data, or NULL: a control link's. */
static int set_up(void **state)
{
	struct err err = {0};
	tls = tls_with_records(*state);
	return tls ? loop_init(&loop, &err) : -1;
}

static int tear_down(void **state)
{
	loop_release(&loop);
	tls_free(tls);
	return 0;
}

static void turn(int64_t until)
{
	struct err err = {0};
	assert_true(clock_ns() < until);
	assert_int_equal(loop_turn(&loop, clock_ns() + NS_PER_MS, &err), 0);
}

/* ---- a peer that forges its records, and our end ---- */

struct world {
	struct forge peer;
	int fd; /* the peer's */
	struct conn *c;
	int calls; /* of on_ready */
	size_t heard;
	ssize_t last; /* what reading said last */
	struct err err;
};

static void read_once(void *ctx)
{
	static uint8_t buf[1 << 20];
	struct world *w = ctx;
	w->calls++;
	if (w->last < 0)
		return;
	w->last = conn_read(w->c, buf, sizeof buf, &w->err);
	w->heard += w->last > 0 ? (size_t)w->last : 0;
}

static void nothing(void *ctx)
{
	(void)ctx;
}

static void world_init(struct world *w)
{
	int fd[2], ours = 0;
	int64_t until = clock_ns() + PATIENCE;
	*w = (struct world){0};
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
	w->fd = fd[0];
	w->c = tls_accept(tls, fd[1], forge_find, NULL, 0, &w->err);
	assert_non_null(w->c);
	assert_int_equal(conn_watch(w->c, &loop, nothing, NULL, &w->err), 0);
	assert_true(forge_init(&w->peer, true));
	SSL_set_fd(w->peer.ssl, w->fd);
	while (SSL_do_handshake(w->peer.ssl) != 1 || ours == 0) {
		ours = conn_handshake(w->c, &w->err);
		assert_true(ours >= 0);
		turn(until);
	}
	forge_begin(&w->peer);
}

static void world_release(struct world *w)
{
	conn_free(w->c);
	close(w->fd);
	forge_release(&w->peer);
}

static void put(struct world *w, uint8_t type, const void *text, size_t n)
{
	uint8_t record[300];
	size_t len = forge_record(&w->peer, type, text, n, record);
	assert_int_equal(send(w->fd, record, len, MSG_NOSIGNAL), len);
}

/* A record that carries nothing. */
static void put_idle(struct world *w, char kind)
{
	const uint8_t update[5] = {24, 0, 0, 1, kind == 'U'};
	if (kind == 'e') {
		put(w, 23, "", 0);
		return;
	}
	put(w, 22, update, sizeof update);
	forge_update(&w->peer);
}

/* Read until an error, the end or nothing: the loop has not looked at the socket. */
static void read_all(struct world *w)
{
	w->c->readable = true;
	do
		read_once(w);
	while (w->last > 0);
}

static const char *const kinds[] = {"u", "U", "e", "ue", "eeeUuu"}; /* u: KeyUpdate; U: and ask for
                                                                     * one; e: an empty record */

static void who_sends_nothing_is_refused(void **state)
{
	for (size_t k = 0; k < LENGTH(kinds); k++) {
		const char *kind = kinds[k];
		struct world w;
		world_init(&w);
		/* As many as are allowed, again and again. */
		for (int round = 0; round < 5; round++) {
			for (size_t i = 0; i < IDLE_MAX; i++)
				put_idle(&w, kind[i % strlen(kind)]);
			put(&w, 23, "x", 1);
		}
		read_all(&w);
		if (w.last < 0)
			fail_msg("%s: %s", kind, w.err.text);
		assert_int_equal(w.heard, 5);
		/* Data, one too many, data. */
		put(&w, 23, "y", 1);
		for (size_t i = 0; i <= IDLE_MAX; i++)
			put_idle(&w, kind[i % strlen(kind)]);
		put(&w, 23, "z", 1);
		read_all(&w);
		assert_int_equal(w.last, -1);
		assert_int_equal(w.err.code, ERR_INTEGRITY);
		/* OpenSSL counts empty records, too, and has its own words. */
		if (!strstr(w.err.text, "too many records without data") &&
		    !strstr(w.err.text, "record too small"))
			fail_msg("%s: %s", kind, w.err.text);
		assert_int_equal(w.heard, 6);
		world_release(&w);
	}
}

/* They are refused before anything else comes. */
static void nothing_else_is_awaited(void **state)
{
	struct world w;
	world_init(&w);
	for (int i = 0; i <= IDLE_MAX; i++)
		put_idle(&w, 'u');
	read_all(&w);
	assert_int_equal(w.last, -1);
	assert_int_equal(w.err.code, ERR_INTEGRITY);
	world_release(&w);
}

static void on_timer(void *ctx)
{
	++*(int *)ctx;
}

/* A flood of tiny records: one read takes a bounded number of them, timers run, and the rest is
 * read in later turns although nothing more arrives. */
static void a_flood_leaves_turns_to_others(void **state)
{
	int64_t until = clock_ns() + PATIENCE;
	struct world w;
	int timers = 0;
	struct loop_timer timer = {.fn = on_timer, .ctx = &timers};
	world_init(&w);
	static uint8_t flood[5000 * (1 + FORGE_EXTRA)]; /* fits the socket */
	const size_t sent = 5000;
	for (size_t i = 0; i < sent; i++)
		forge_record(&w.peer, 23, "x", 1, flood + i * (1 + FORGE_EXTRA));
	assert_int_equal(send(w.fd, flood, sizeof flood, MSG_NOSIGNAL), sizeof flood);
	w.c->readable = true;
	read_once(&w);
	assert_true(w.last > 0 && w.heard <= 1024);
	w.c->on_ready = read_once;
	w.c->ctx = &w;
	loop_timer_set(&loop, &timer, clock_ns());
	w.calls = 0;
	while (w.heard < sent) {
		size_t before = w.heard;
		turn(until);
		assert_true(w.heard - before <= 2 * 1024); /* an event and the next turn's */
	}
	assert_int_equal(timers, 1);
	assert_true(w.last >= 0);
	loop_timer_stop(&timer);
	world_release(&w);
}

/* Nothing counts that follows a fatal alert, and nothing is sent after it. */
static void a_fatal_alert_is_the_end(void **state)
{
	struct world w;
	world_init(&w);
	put(&w, 23, "before", 6);
	put(&w, 21, "\2\24", 2); /* bad_record_mac */
	put(&w, 23, "after", 5);
	read_all(&w);
	assert_int_equal(w.last, -1);
	assert_int_equal(w.heard, 6);
	assert_int_equal(w.err.code, ERR_INTEGRITY);
	assert_true(w.c->alerted);
	for (int i = 0; i < 3; i++) {
		put(&w, 23, "again", 5);
		w.c->readable = true;
		w.last = 0;
		err_clear(&w.err);
		read_once(&w);
		assert_int_equal(w.last, -1);
		assert_int_equal(w.err.code, ERR_INTEGRITY);
	}
	assert_int_equal(w.heard, 6);
	uint64_t out = conn_wire_out(w.c);
	struct err err = {0};
	assert_int_equal(conn_write(w.c, "ours", 4, &err), -1);
	assert_int_equal(err.code, ERR_INTEGRITY);
	assert_int_equal(conn_flush(w.c, &err), 1);
	assert_int_equal(conn_wire_out(w.c), out);
	world_release(&w);
}

/* The same after our own alert. */
static void after_our_alert_nothing_counts(void **state)
{
	struct world w;
	uint8_t forged[5 + 30] = {23, 3, 3, 0, 30};
	world_init(&w);
	put(&w, 23, "before", 6);
	assert_int_equal(send(w.fd, forged, sizeof forged, MSG_NOSIGNAL), sizeof forged);
	read_all(&w);
	assert_int_equal(w.last, -1);
	assert_int_equal(w.heard, 6);
	uint64_t out = conn_wire_out(w.c);
	w.peer.sequence++; /* as if the forged record had counted, and as if it had not */
	for (int i = 0; i < 2; i++, w.peer.sequence -= 2) {
		put(&w, 23, "again", 5);
		w.c->readable = true;
		w.last = 0;
		err_clear(&w.err);
		read_once(&w);
		assert_int_equal(w.last, -1);
		assert_int_equal(w.err.code, ERR_INTEGRITY);
	}
	struct err err = {0};
	assert_int_equal(conn_write(w.c, "ours", 4, &err), -1);
	(void)conn_flush(w.c, &err);
	assert_int_equal(conn_wire_out(w.c), out);
	world_release(&w);
}

/* ---- memory before authentication ---- */

static size_t of_openssl; /* bytes that OpenSSL has allocated */

static void *count_malloc(size_t n, const char *file, int line)
{
	void *p = malloc(n);
	(void)file, (void)line;
	of_openssl += p ? malloc_usable_size(p) : 0;
	return p;
}

static void count_free(void *p, const char *file, int line)
{
	(void)file, (void)line;
	of_openssl -= p ? malloc_usable_size(p) : 0;
	free(p);
}

static void *count_realloc(void *p, size_t n, const char *file, int line)
{
	(void)file, (void)line;
	of_openssl -= p ? malloc_usable_size(p) : 0;
	p = realloc(p, n);
	of_openssl += p ? malloc_usable_size(p) : 0;
	return p;
}

static size_t allocated(void)
{
	struct mallinfo2 m = mallinfo2();
	return m.uordblks + m.hblkhd;
}

/* The ClientHello of a peer that will say no more. */
static size_t client_hello(uint8_t *out, size_t cap)
{
	struct forge f;
	assert_true(forge_init(&f, true));
	BIO *to = BIO_new(BIO_s_mem()), *from = BIO_new(BIO_s_mem());
	BIO_set_mem_eof_return(from, -1);
	SSL_set_bio(f.ssl, from, to);
	assert_int_equal(SSL_do_handshake(f.ssl), -1);
	int n = BIO_read(to, out, (int)cap);
	assert_true(n > 100);
	forge_release(&f);
	return (size_t)n;
}

static void half_open_handshakes_are_small(void **state)
{
	uint8_t hello[2000];
	size_t len = client_hello(hello, sizeof hello);
	struct rlimit limit;
	struct err err = {0};
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &limit), 0);
	limit.rlim_cur = limit.rlim_max;
	(void)setrlimit(RLIMIT_NOFILE, &limit);
	size_t n = getenv("COLLCTL_LONG") ? 10000 : 300;
	if (n > (limit.rlim_cur - 100) / 2)
		n = (limit.rlim_cur - 100) / 2;
	struct conn **c = calloc(n, sizeof(struct conn *));
	int *peer = calloc(n, sizeof *peer);
	assert_true(c && peer);
	for (size_t i = 0; i < 2; i++) { /* the first has what all share */
		size_t before = allocated(), theirs = of_openssl, from = i ? 1 : 0;
		for (size_t k = from; k < (i ? n : 1); k++) {
			int fd[2];
			assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd),
			                 0);
			c[k] = tls_accept(tls, fd[1], forge_find, NULL, 0, &err);
			assert_non_null(c[k]);
			peer[k] = fd[0];
			c[k]->readable = c[k]->writable = true;
			assert_int_equal(send(fd[0], hello, len, MSG_NOSIGNAL), len);
			assert_int_equal(conn_handshake(c[k], &err), 0);
			/* It has answered, and waits for Finished. */
			assert_string_equal(tls_identity(c[k]), FORGE_IDENTITY);
		}
		theirs = of_openssl - theirs;
		size_t all = allocated() - before;
		if (i && all > theirs) { /* a sanitizer's malloc reports nothing */
			printf("%zu half-open: ours %zu, OpenSSL's %zu bytes each\n", n - 1,
			       (all - theirs) / (n - 1), theirs / (n - 1));
			assert_true((all - theirs) / (n - 1) <= 20u << 10);
		}
	}
	for (size_t k = 0; k < n; k++) {
		conn_free(c[k]);
		close(peer[k]);
	}
	free(c);
	free(peer);
}

/* clang-format off */
#define LIMIT_TEST(f) \
	{#f ", control", f, set_up, tear_down, NULL}, \
	{#f ", own", f, set_up, tear_down, (void *)"own"}, \
	{#f ", openssl", f, set_up, tear_down, (void *)"openssl"}
/* clang-format on */

int main(void)
{
	const struct CMUnitTest tests[] = {
	        LIMIT_TEST(who_sends_nothing_is_refused),
	        LIMIT_TEST(nothing_else_is_awaited),
	        LIMIT_TEST(a_flood_leaves_turns_to_others),
	        LIMIT_TEST(a_fatal_alert_is_the_end),
	        LIMIT_TEST(after_our_alert_nothing_counts),
	        LIMIT_TEST(half_open_handshakes_are_small),
	};
	CRYPTO_set_mem_functions(count_malloc, count_realloc, count_free);
	return cmocka_run_group_tests_name("tls_limits", tests, NULL, NULL);
}
