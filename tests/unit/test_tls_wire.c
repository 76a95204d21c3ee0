/*
 * The wire of TLS connections is that of TLS 1.3: the other end is unchanged OpenSSL, in
 * another thread with a blocking socket.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/net/conn.h"
#include "lib/net/tls.h"
#include "lib/net/tls_gcm.h"

#define PATIENCE (100 * NS_PER_SEC)
#define DATA     3000000
#define NOISE    "\x17\3\3\0\x11not encrypted at."

static uint8_t key[TLS_KEY_BYTES] = "the key of both sides of a test";
static uint8_t data[DATA];

/* ---- OpenSSL's end ---- */

/* What it does after the handshake, letter by letter. */
struct script {
	const char *acts; /* r: read to close_notify; R: read DATA; w: write DATA; W: in pieces of
	                     1000; u: update its key; U: and ask for ours; e: close_notify;
	                     b: a record of noise; a: read an alert about it; f: read such a
	                     record, and send the alert */
	const char *suites;
	size_t padding;
	const char *groups; /* NULL: OpenSSL's */
};

struct end {
	pthread_t thread;
	const struct script *script;
	int fd;
	bool client;
	SSL_CTX *ctx;
	const char *failed; /* what it did last, if that failed */
	size_t read;
	bool right; /* what it read is a beginning of data */
};

static SSL_SESSION *session_of(SSL *ssl)
{
	static const unsigned char aes[2] = {0x13, 0x01};
	SSL_SESSION *s = SSL_SESSION_new();
	SSL_SESSION_set1_master_key(s, key, TLS_KEY_BYTES);
	SSL_SESSION_set_cipher(s, SSL_CIPHER_find(ssl, aes));
	SSL_SESSION_set_protocol_version(s, TLS1_3_VERSION);
	return s;
}

static int use(SSL *ssl, const EVP_MD *md, const unsigned char **id, size_t *len, SSL_SESSION **s)
{
	(void)md;
	*s = session_of(ssl);
	*id = (const unsigned char *)"alice";
	*len = 5;
	return 1;
}

static int find_session(SSL *ssl, const unsigned char *id, size_t len, SSL_SESSION **s)
{
	(void)id, (void)len;
	*s = session_of(ssl);
	return 1;
}

/* Reads at most @most bytes, until close_notify. 1: as it should be. */
static int read_some(struct end *e, SSL *ssl, size_t most, bool to_the_end)
{
	static uint8_t buf[40000];
	size_t got, first = e->read;
	while (e->read - first < most) {
		size_t want = most - (e->read - first);
		if (!SSL_read_ex(ssl, buf, want < sizeof buf ? want : sizeof buf, &got))
			return to_the_end && SSL_get_error(ssl, 0) == SSL_ERROR_ZERO_RETURN;
		e->right &= e->read % DATA + got <= DATA &&
		            memcmp(data + e->read % DATA, buf, got) == 0;
		e->read += got;
	}
	return !to_the_end;
}

static int write_data(SSL *ssl, size_t piece)
{
	size_t put;
	for (size_t at = 0; at < DATA; at += put)
		if (!SSL_write_ex(ssl, data + at, DATA - at < piece ? DATA - at : piece, &put))
			return 0;
	return 1;
}

#define BAD_RECORD SSL_R_DECRYPTION_FAILED_OR_BAD_RECORD_MAC

static int reason(void)
{
	return ERR_GET_REASON(ERR_peek_last_error());
}

static int act(struct end *e, SSL *ssl, char what)
{
	switch (what) {
	case 'r':
		return read_some(e, ssl, SIZE_MAX, true);
	case 'R':
		return read_some(e, ssl, DATA, false);
	case 'w':
		return write_data(ssl, DATA);
	case 'W':
		return write_data(ssl, 1000);
	case 'u':
		return SSL_key_update(ssl, SSL_KEY_UPDATE_NOT_REQUESTED) &&
		       SSL_do_handshake(ssl) == 1;
	case 'U':
		return SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED) && SSL_do_handshake(ssl) == 1;
	case 'e':
		return SSL_shutdown(ssl) >= 0;
	case 'b':
		return send(e->fd, NOISE, 22, MSG_NOSIGNAL) == 22;
	case 'f':
		return !read_some(e, ssl, SIZE_MAX, true) && reason() == BAD_RECORD;
	case 'a':
		return !read_some(e, ssl, SIZE_MAX, true) &&
		       reason() == SSL_R_SSLV3_ALERT_BAD_RECORD_MAC;
	default:
		return 0;
	}
}

static void *run_end(void *arg)
{
	struct end *e = arg;
	SSL *ssl = SSL_new(e->ctx);
	SSL_set_fd(ssl, e->fd);
	SSL_set_block_padding(ssl, e->script->padding);
	if ((e->client ? SSL_connect(ssl) : SSL_accept(ssl)) != 1)
		e->failed = "handshake";
	for (const char *a = e->script->acts; *a && !e->failed; a++)
		if (!act(e, ssl, *a))
			e->failed = a;
	SSL_free(ssl);
	shutdown(e->fd, SHUT_WR);
	return NULL;
}

static void start_end(struct end *e, const struct script *script, bool client, int fd)
{
	*e = (struct end){.script = script, .fd = fd, .client = client, .right = true};
	e->ctx = SSL_CTX_new(client ? TLS_client_method() : TLS_server_method());
	assert_non_null(e->ctx);
	SSL_CTX_set_min_proto_version(e->ctx, TLS1_3_VERSION);
	SSL_CTX_set_num_tickets(e->ctx, 0);
	assert_int_equal(SSL_CTX_set_ciphersuites(e->ctx, script->suites), 1);
	if (script->groups)
		assert_int_equal(SSL_CTX_set1_groups_list(e->ctx, script->groups), 1);
	if (client)
		SSL_CTX_set_psk_use_session_callback(e->ctx, use);
	else
		SSL_CTX_set_psk_find_session_callback(e->ctx, find_session);
	assert_int_equal(pthread_create(&e->thread, NULL, run_end, e), 0);
}

static void join_end(struct end *e)
{
	pthread_join(e->thread, NULL);
	close(e->fd);
	SSL_CTX_free(e->ctx);
	if (e->failed)
		fail_msg("OpenSSL's end: %s of %s", e->failed, e->script->acts);
	assert_true(e->right);
}

/* ---- our end ---- */

static int find(void *ctx, const uint8_t *identity, size_t len, uint8_t out[TLS_KEY_BYTES])
{
	(void)ctx;
	if (len != 5 || memcmp(identity, "alice", 5) != 0)
		return -1;
	memcpy(out, key, TLS_KEY_BYTES);
	return 0;
}

/* Without a loop: wait for what @c could not do. */
static void wait_for(struct conn *c, int64_t until)
{
	struct pollfd p = {c->fd, (short)(c->writable ? POLLIN : POLLIN | POLLOUT), 0};
	assert_true(clock_ns() < until);
	poll(&p, 1, 10);
	c->readable = c->writable = true;
}

struct talk {
	struct conn *c;
	size_t out, in; /* bytes of data, again and again, to send and expected */
	size_t sent, got;
	size_t piece; /* of a write or a read */
	bool noisy;   /* it ends by a record of noise */
	bool ended;
};

/* False: nothing more can be sent now. */
static bool send_some(struct talk *t)
{
	struct err ignored = {0};
	size_t at = t->sent % DATA, len = DATA - at < t->piece ? DATA - at : t->piece;
	if (t->sent < t->out) {
		ssize_t put = conn_write(t->c, data + at, len, &ignored);
		t->sent += put > 0 ? (size_t)put : 0;
		(void)conn_flush(t->c, &ignored);
		return put > 0;
	}
	if (t->noisy && !t->ended && conn_flush(t->c, &ignored) == 1)
		t->ended = send(t->c->fd, NOISE, 22, MSG_NOSIGNAL) == 22;
	else if (!t->ended && !t->noisy)
		t->ended = conn_end(t->c, &ignored) != 0;
	return false;
}

/* Sends and reads both at once; then ends, and waits for the end. Returns what reading said last.
 */
static ssize_t talk(struct talk *t, struct err *err)
{
	int64_t until = clock_ns() + PATIENCE;
	uint8_t *back = malloc(t->piece);
	ssize_t n = 0;
	int ret;
	assert_non_null(back);
	while ((ret = conn_handshake(t->c, err)) == 0)
		wait_for(t->c, until);
	if (ret < 0)
		fail_msg("handshake: %s", err->text);
	while (n >= 0 || (n == CONN_END && !t->ended)) {
		bool more = send_some(t);
		if (n >= 0)
			n = conn_read(t->c, back, t->piece, err);
		for (ssize_t i = 0; i < n; i++)
			if (back[i] != data[(t->got + (size_t)i) % DATA])
				fail_msg("byte %zu is wrong", t->got + (size_t)i);
		t->got += n > 0 ? (size_t)n : 0;
		if (n <= 0 && !more)
			wait_for(t->c, until);
	}
	free(back);
	if (n == CONN_END)
		assert_int_equal(t->got, t->in);
	return n;
}

static const char *records; /* of our end; NULL: a control link's */

static int choose(void **state)
{
	records = *state;
	return 0;
}

static ssize_t converse(const struct script *script, bool dials, struct talk t, struct err *err)
{
	struct end e;
	int fd[2];
	if (records)
		setenv("COLLCTL_TLS_RECORDS", records, 1);
	struct tls *tls = tls_new(err);
	assert_non_null(tls);
	if (records)
		tls_carry_data(tls);
	unsetenv("COLLCTL_TLS_RECORDS");
	assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM, 0, fd), 0);
	fcntl(fd[0], F_SETFL, O_NONBLOCK);
	t.c = dials ? tls_dial(tls, fd[0], "alice", key, 0, err)
	            : tls_accept(tls, fd[0], find, NULL, 0, err);
	assert_non_null(t.c);
	t.c->readable = t.c->writable = true;
	start_end(&e, script, !dials, fd[1]);
	ssize_t last = talk(&t, err);
	join_end(&e);
	conn_free(t.c);
	tls_free(tls);
	return last;
}

#define AES    "TLS_AES_128_GCM_SHA256"
#define CHACHA "TLS_CHACHA20_POLY1305_SHA256"

static void both_ways(void **state)
{
	static const struct {
		struct script script;
		size_t out, in;
	} cases[] = {
	        {{"re", AES, 0, NULL}, DATA, 0},
	        {{"wre", AES, 0, NULL}, 0, DATA},
	        {{"RWre", AES, 0, NULL}, DATA, DATA},
	        {{"wuwUwuwre", AES, 0, NULL}, 3 * DATA, 4 * DATA},
	        {{"RuRWURre", AES, 0, NULL}, 3 * DATA, DATA},
	        {{"WuWre", AES, 512, NULL}, 0, 2 * DATA}, /* with padding */
	        {{"RWUwRre", CHACHA, 0, NULL}, 2 * DATA, 2 * DATA},
	        {{"er", AES, 0, NULL}, 0, 0},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
		for (int k = 0; k < 8; k++) {
			struct err err = {0};
			if (k & 2 && (!records || strcmp(records, "own") != 0))
				continue;
			tls_gcm_disabled = k & 2;
			tls_key_records = k & 4 ? 7 : 1u << 22;
			struct talk t = {.out = cases[i].out,
			                 .in = cases[i].in,
			                 .piece = k & 4 ? 70000 : 5000 + 7000 * i};
			ssize_t last = converse(&cases[i].script, k & 1, t, &err);
			if (last != CONN_END)
				fail_msg("case %zu, %d: %zd, %s", i, k, last, err.text);
		}
	tls_gcm_disabled = false;
	tls_key_records = 1u << 22;
}

/* It lacks X25519. */
static void a_peer_in_fips_mode(void **state)
{
	static const struct script fips = {"RWre", AES, .groups = "P-256"};
	struct talk t = {.out = DATA, .in = DATA, .piece = 50000};
	(void)state;
	for (int dials = 0; dials < 2; dials++) {
		struct err err = {0};
		if (converse(&fips, dials, t, &err) != CONN_END)
			fail_msg("%s", err.text);
	}
}

static void noise_is_refused_by_an_alert(void **state)
{
	static const struct script noise = {"wba", AES, 0, NULL};
	struct err err = {0};
	(void)state;
	assert_int_equal(converse(&noise, true, (struct talk){.piece = 50000, .ended = true}, &err),
	                 -1);
	assert_int_equal(err.code, ERR_INTEGRITY);
	assert_non_null(strstr(err.text, "bad record mac"));
}

static void an_alert_is_understood(void **state)
{
	static const struct script refuses = {"f", AES, 0, NULL};
	struct err err = {0};
	struct talk t = {.out = DATA, .piece = 50000, .noisy = true};
	(void)state;
	assert_int_equal(converse(&refuses, false, t, &err), -1);
	assert_int_equal(err.code, ERR_INTEGRITY);
	assert_non_null(strstr(err.text, "the peer received corrupt bytes"));
}

static void a_stream_without_close_notify_is_cut(void **state)
{
	static const struct script cut = {"w", AES, 0, NULL};
	struct err err = {0};
	(void)state;
	assert_int_equal(converse(&cut, false, (struct talk){.in = DATA, .piece = 50000}, &err),
	                 -1);
	assert_int_equal(err.code, ERR_INTEGRITY);
	assert_non_null(strstr(err.text, "cut"));
}

static int prepare(void **state)
{
	(void)state;
	for (size_t i = 0; i < DATA; i++)
		data[i] = (uint8_t)(i * 31 + i / 251);
	return 0;
}

/* clang-format off */
#define WIRE_TEST(f) \
	{#f ", control", f, choose, NULL, NULL}, \
	{#f ", own", f, choose, NULL, (void *)"own"}, \
	{#f ", openssl", f, choose, NULL, (void *)"openssl"}
/* clang-format on */

int main(void)
{
	const struct CMUnitTest tests[] = {
	        WIRE_TEST(both_ways),
	        WIRE_TEST(a_peer_in_fips_mode),
	        WIRE_TEST(noise_is_refused_by_an_alert),
	        WIRE_TEST(an_alert_is_understood),
	        WIRE_TEST(a_stream_without_close_notify_is_cut),
	};
	return cmocka_run_group_tests_name("tls_wire", tests, prepare, NULL);
}
