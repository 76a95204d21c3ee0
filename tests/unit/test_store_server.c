/* The store's client against the real server, in a thread of this process; and clients of that
 * server that are none. */
#include <arpa/inet.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "lib/net/addr.h"
#include "lib/store/server/store_server.h"
#include "lib/store/server/store_server_internal.h"
#include "tests/unit/fake_http.h" /* send_all */
#include "tests/unit/store_client.h"

/* ---- the server ---- */

static struct store_server *server;
static char url[64];
static pthread_t thread;
static atomic_bool ends;
static atomic_int waiters; /* blocking queries */
static struct store *st;   /* a client of it */

static void *serve(void *arg)
{
	while (!ends) {
		int ms = store_server_run(server);
		waiters = server->nwaiters;
		struct pollfd p = {.fd = store_server_fd(server), .events = POLLIN};
		poll(&p, 1, ms < 0 || ms > 20 ? 20 : ms);
	}
	return NULL;
}

/* A server, and its client. */
static void start(const struct store_server_conf *conf)
{
	struct err e = {0};

	ends = false;
	waiters = 0;
	server = store_server_start(conf, &e);
	if (!server)
		fail_msg("%s", e.text);
	snprintf(url, sizeof url, "%s://127.0.0.1:%d", conf->tls_cert ? "https" : "http",
	         store_server_port(server));
	assert_int_equal(pthread_create(&thread, NULL, serve, NULL), 0);
	st = must_open(url, NULL);
}

static void end_thread(void)
{
	if (ends)
		return;
	ends = true;
	pthread_join(thread, NULL);
}

static void stop(void)
{
	end_thread();
	store_server_stop(server);
	server = NULL;
}

static int tear_down(void **state)
{
	store_close(st);
	st = NULL;
	if (server)
		stop();
	return 0;
}

#define SERVER_TEST(name) TEST_WITH(name, NULL, tear_down)

SERVER_TEST(test_values)
{
	struct store_value v;
	struct err e = {0};
	uint64_t next = 0;
	char local[64];
	static char big[STORE_VALUE_MAX + 1];

	start(&(struct store_server_conf){0});
	assert_int_equal(store_local_address(st, local, sizeof local), -1);
	assert_int_equal(store_get(st, "k", 0, &v, &next, SEC(60), &e), 0);
	assert_int_equal(v.index, 0);
	assert_true(next >= 1);
	assert_int_equal(store_local_address(st, local, sizeof local), 0);
	assert_string_equal(local, "127.0.0.1");
	assert_int_equal(store_local_address(st, local, 5), -1);

	for (size_t i = 0; i < sizeof big; i++)
		big[i] = (char)(i * 7 + i / 256);
	static const size_t lengths[] = {0, 1, 2, 3, 4, 255, STORE_VALUE_MAX};
	for (size_t i = 0; i < LENGTH(lengths); i++) {
		uint64_t index = v.index;
		assert_int_equal(store_put(st, "k", big, lengths[i], index, SEC(60), &e), 1);
		assert_int_equal(store_get(st, "k", 0, &v, NULL, SEC(60), &e), 0);
		assert_true(v.index > index);
		assert_int_equal(v.len, lengths[i]);
		if (v.len)
			assert_memory_equal(v.data, big, v.len);
		free(v.data);
	}
	assert_int_equal(store_put(st, "k", big, sizeof big, v.index, SEC(60), &e), -1);
	err_clear(&e);
	assert_int_equal(store_put(st, "k", "x", 1, 0, SEC(60), &e), 0);
	assert_int_equal(store_delete(st, "k", v.index - 1, SEC(60), &e), 0);
	assert_int_equal(store_delete(st, "k", 0, SEC(60), &e), -1);
	err_clear(&e);
	assert_false(store_server_withdrawn(server));
	assert_int_equal(store_delete(st, "k", v.index, SEC(60), &e), 1);
	assert_int_equal(store_delete(st, "k", v.index, SEC(60), &e), 1);
	assert_int_equal(store_get(st, "k", 0, &v, NULL, SEC(60), &e), 0);
	assert_int_equal(v.index, 0);
	end_thread();
	assert_true(store_server_withdrawn(server));
}

SERVER_TEST(test_keys)
{
	static const char *const keys[] = {"a/b/c",   "a b",  "a%2Fb",    "a?raw", "a#b", "a&b=c",
	                                   "../../x", "a//b", "\xc3\xa9", ".",     "a+b"};
	struct store_value v;
	struct err e = {0};
	char below[128], full[128], long_key[1100];

	start(&(struct store_server_conf){0});
	snprintf(below, sizeof below, "consul+%s/team/x/", url);
	struct store *prefixed = must_open(below, NULL);
	for (size_t i = 0; i < LENGTH(keys); i++) {
		if (store_put(prefixed, keys[i], keys[i], strlen(keys[i]), 0, SEC(60), &e) != 1)
			fail_msg("%s: %s", keys[i], e.text);
		snprintf(full, sizeof full, "team/x/%s", keys[i]);
		assert_int_equal(store_get(st, full, 0, &v, NULL, SEC(60), &e), 0);
		assert_int_equal(v.len, strlen(keys[i]));
		assert_memory_equal(v.data, keys[i], v.len);
		free(v.data);
	}
	memset(long_key, 'k', sizeof long_key - 1);
	long_key[sizeof long_key - 1] = '\0';
	assert_int_equal(store_get(st, long_key, 0, &v, NULL, SEC(60), &e), -1);
	assert_says(&e, ERR_USAGE, "kkk");
	err_clear(&e);
	assert_int_equal(store_put(st, "\xff", "x", 1, 0, SEC(60), &e), -1);
	assert_says(&e, ERR_RENDEZVOUS, "HTTP 400");
	store_close(prefixed);
}

/* Many who each try to be first, round by round. */
#define RACERS 8
#define ROUNDS 20

struct race {
	atomic_int wins[ROUNDS];
	pthread_barrier_t barrier;
};

static void *racer(void *arg)
{
	struct race *race = arg;
	struct err e = {0};
	struct store *own = store_open(&(struct store_conf){.url = url}, &e);
	char key[32], value[32];

	snprintf(value, sizeof value, "%p", (void *)own);
	for (int i = 0; i < ROUNDS; i++) {
		pthread_barrier_wait(&race->barrier);
		snprintf(key, sizeof key, "round/%d", i);
		int rc = own ? store_put(own, key, value, strlen(value), 0, SEC(60), &e) : -1;
		if (rc < 0)
			fprintf(stderr, "racer: %s\n", e.text);
		atomic_fetch_add(&race->wins[i], rc < 0 ? 1000 : rc);
	}
	store_close(own);
	return NULL;
}

SERVER_TEST(test_cas_race)
{
	static struct race race;
	pthread_t threads[RACERS];

	start(&(struct store_server_conf){0});
	pthread_barrier_init(&race.barrier, NULL, RACERS);
	for (int i = 0; i < RACERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, racer, &race), 0);
	for (int i = 0; i < RACERS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < ROUNDS; i++)
		assert_int_equal(race.wins[i], 1);
	pthread_barrier_destroy(&race.barrier);
}

/* ---- blocking queries ---- */

struct later {
	const char *value; /* NULL: delete */
	uint64_t cas;
};

static void *put_later(void *arg)
{
	struct later *l = arg;
	struct err e = {0};
	struct store *own = store_open(&(struct store_conf){.url = url}, &e);

	nanosleep(&(struct timespec){.tv_nsec = 200 * NS_PER_MS}, NULL);
	intptr_t rc = l->value
	                      ? store_put(own, "k", l->value, strlen(l->value), l->cas, SEC(60), &e)
	                      : store_delete(own, "k", l->cas, SEC(60), &e);
	store_close(own);
	return (void *)rc;
}

/* What @l does some time later wakes who waits for key k. */
static void wait_for(struct later *l, struct store_value *v, uint64_t *next)
{
	struct err e = {0};
	pthread_t t;
	void *rc;

	int64_t began = clock_ns();
	pthread_create(&t, NULL, put_later, l);
	assert_int_equal(store_get(st, "k", *next, v, next, SEC(60), &e), 0);
	assert_in_range(clock_ns() - began, 150 * NS_PER_MS, 30 * NS_PER_SEC);
	pthread_join(t, &rc);
	assert_int_equal((intptr_t)rc, 1);
}

SERVER_TEST(test_wait)
{
	struct store_value v;
	struct err e = {0};
	uint64_t next;

	start(&(struct store_server_conf){0});

	/* a key that is missing, created */
	assert_int_equal(store_get(st, "k", 0, &v, &next, SEC(60), &e), 0);
	assert_int_equal(v.index, 0);
	wait_for(&(struct later){.value = "first"}, &v, &next);
	assert_int_equal(v.len, 5);
	assert_memory_equal(v.data, "first", 5);
	assert_true(next == v.index);
	free(v.data);

	/* changed; another key's change wakes nobody */
	assert_int_equal(store_put(st, "other", "x", 1, 0, SEC(60), &e), 1);
	wait_for(&(struct later){.value = "second", .cas = v.index}, &v, &next);
	assert_int_equal(v.len, 6);
	free(v.data);

	/* deleted */
	wait_for(&(struct later){.cas = v.index}, &v, &next);
	assert_int_equal(v.index, 0);

	/* the deadline is no error; the answer has an eighth of the time */
	int64_t began = clock_ns();
	assert_int_equal(store_get(st, "k", next, &v, &next, began + 8 * NS_PER_SEC, &e), 0);
	assert_int_equal(v.index, 0);
	assert_in_range(clock_ns() - began, 6 * NS_PER_SEC, 30 * NS_PER_SEC);

	/* an index from another life of the store */
	began = clock_ns();
	assert_int_equal(store_get(st, "k", 1000000, &v, &next, SEC(60), &e), 0);
	assert_true(clock_ns() - began < 30 * NS_PER_SEC);
	assert_int_equal(next, 0);
}

/* The end of the server answers those who wait. */
static void *wait_long(void *arg)
{
	struct err e = {0};
	struct store_value v;
	struct store *own = store_open(&(struct store_conf){.url = url}, &e);
	intptr_t rc = store_get(own, "k", 1, &v, NULL, SEC(30), &e);

	store_close(own);
	return (void *)rc;
}

SERVER_TEST(test_stop_with_waiters)
{
	pthread_t t[4];
	void *rc;

	start(&(struct store_server_conf){0});
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, wait_long, NULL);
	for (int64_t until = SEC(20); waiters < 4; sched_yield())
		assert_true(clock_ns() < until);
	int64_t began = clock_ns();
	stop();
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], &rc);
		assert_int_equal((intptr_t)rc, 0);
	}
	assert_true(clock_ns() - began < 20 * NS_PER_SEC);
}

SERVER_TEST(test_ttl)
{
	struct store_value v;
	struct err e = {0};
	uint64_t next;

	start(&(struct store_server_conf){.ttl_ns = 300 * NS_PER_MS});
	do { /* a busy machine may look when it has ended */
		assert_int_equal(store_put(st, "k", "x", 1, 0, SEC(60), &e), 1);
		assert_int_equal(store_get(st, "k", 0, &v, &next, SEC(60), &e), 0);
	} while (!v.index);
	free(v.data);
	assert_int_equal(store_get(st, "k", next, &v, &next, SEC(60), &e), 0);
	assert_int_equal(v.index, 0); /* its end woke the waiter */
	end_thread();
	assert_false(store_server_withdrawn(server));
}

SERVER_TEST(test_token)
{
	static const char *const wrong[] = {NULL, "", "secre", "secret2", "SECRET"};
	struct store_value v;

	start(&(struct store_server_conf){.token = "secret"});
	for (size_t i = 0; i < LENGTH(wrong); i++) {
		struct err e = {0};
		struct store *other = must_open(url, wrong[i]);
		int64_t began = clock_ns();
		assert_int_equal(store_get(other, "k", 0, &v, NULL, SEC(60), &e), -1);
		assert_says(&e, ERR_AUTH, "--store-token-file");
		err_clear(&e);
		assert_int_equal(store_put(other, "k", "x", 1, 0, SEC(60), &e), -1);
		assert_says(&e, ERR_AUTH, "HTTP 403");
		assert_true(clock_ns() - began < 20 * NS_PER_SEC); /* not retried */
		store_close(other);
	}
	struct err e = {0};
	struct store *other = must_open(url, "secret");
	assert_int_equal(store_put(other, "k", "x", 1, 0, SEC(60), &e), 1);
	store_close(other);
}

/* ---- https ---- */

/* A certificate for 127.0.0.1, signed by itself. */
static void make_certificate(const char *cert, const char *key)
{
	EVP_PKEY *pkey = EVP_EC_gen("P-256");
	X509 *x = X509_new();
	FILE *f;

	X509_set_version(x, 2);
	ASN1_INTEGER_set(X509_get_serialNumber(x), 1);
	X509_gmtime_adj(X509_getm_notBefore(x), -3600);
	X509_gmtime_adj(X509_getm_notAfter(x), 3600);
	X509_set_pubkey(x, pkey);
	X509_NAME_add_entry_by_txt(X509_get_subject_name(x), "CN", MBSTRING_ASC,
	                           (const unsigned char *)"store", -1, -1, 0);
	X509_set_issuer_name(x, X509_get_subject_name(x));
	X509_EXTENSION *ext = X509V3_EXT_conf_nid(NULL, NULL, NID_subject_alt_name, "IP:127.0.0.1");
	X509_add_ext(x, ext, -1);
	assert_true(X509_sign(x, pkey, EVP_sha256()) > 0);
	assert_non_null(f = fopen(cert, "w"));
	assert_int_equal(fchmod(fileno(f), 0600), 0);
	PEM_write_X509(f, x);
	fclose(f);
	assert_non_null(f = fopen(key, "w"));
	assert_int_equal(fchmod(fileno(f), 0600), 0);
	PEM_write_PrivateKey(f, pkey, NULL, NULL, 0, NULL, NULL);
	fclose(f);
	X509_EXTENSION_free(ext);
	X509_free(x);
	EVP_PKEY_free(pkey);
}

SERVER_TEST(test_https)
{
	char dir[] = "/tmp/collctl-store.XXXXXX", cert[64], key[64];
	struct store_value v;
	struct err e = {0};

	assert_non_null(mkdtemp(dir));
	snprintf(cert, sizeof cert, "%s/cert", dir);
	snprintf(key, sizeof key, "%s/key", dir);
	make_certificate(cert, key);

	/* what can't be served */
	assert_null(store_server_start(&(struct store_server_conf){.tls_cert = cert}, &e));
	assert_says(&e, ERR_USAGE, "--tls-key");
	err_clear(&e);
	assert_null(store_server_start(
	        &(struct store_server_conf){.tls_cert = cert, .tls_key = "/nowhere"}, &e));
	assert_says(&e, ERR_AUTH, "/nowhere: No such file");
	err_clear(&e);
	assert_null(store_server_start(
	        &(struct store_server_conf){.tls_cert = key, .tls_key = cert}, &e));
	assert_says(&e, ERR_AUTH, "key: no certificate in it (PEM)");
	err_clear(&e);

	start(&(struct store_server_conf){.tls_cert = cert, .tls_key = key});
	assert_int_equal(store_get(st, "k", 0, &v, NULL, SEC(60), &e), -1);
	assert_says(&e, ERR_AUTH, "https://127.0.0.1");
	err_clear(&e);
	struct store_conf conf = {.url = url, .ca_file = "/nowhere"};
	assert_null(store_open(&conf, &e));
	assert_says(&e, ERR_INPUT, "/nowhere");
	err_clear(&e);
	conf.ca_file = cert;
	struct store *other = store_open(&conf, &e);
	if (store_put(other, "k", "x", 1, 0, SEC(60), &e) != 1)
		fail_msg("%s", e.text);
	store_close(other);

	/* a plain client, and a name that the certificate does not have */
	char named[64];
	snprintf(named, sizeof named, "https://localhost:%d", store_server_port(server));
	conf.url = named;
	other = store_open(&conf, &e);
	assert_int_equal(store_get(other, "k", 0, &v, NULL, SEC(60), &e), -1);
	assert_says(&e, ERR_AUTH, "localhost");
	store_close(other);
	unlink(cert);
	unlink(key);
	rmdir(dir);
}

/* ---- clients that are none ---- */

static int connect_to(void)
{
	struct sockaddr_in in = {.sin_family = AF_INET,
	                         .sin_port = htons((uint16_t)store_server_port(server)),
	                         .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&in, sizeof in), 0);
	return fd;
}

/* What the server answers to @text, up to the end of the connection or a minute of silence. */
static void converse(const char *text, char *buf, size_t cap)
{
	int fd = connect_to();
	struct timeval tv = {.tv_sec = 60};
	size_t len = 0;

	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &tv, sizeof tv);
	send_all(fd, text, strlen(text));
	while (len < cap - 1) {
		ssize_t n = recv(fd, buf + len, cap - 1 - len, 0);
		if (n <= 0)
			break;
		len += (size_t)n;
		buf[len] = '\0';
		if (strstr(buf, "\r\n\r\n"))
			break;
	}
	buf[len] = '\0';
	close(fd);
}

SERVER_TEST(test_hostile_requests)
{
	static const struct {
		const char *request, *status;
	} cases[] = {
	        {"GET /v1/kv/k?index=x HTTP/1.1\r\nHost: x\r\n\r\n", " 400 "},
	        {"GET /v1/kv/k?index=1&wait=x HTTP/1.1\r\nHost: x\r\n\r\n", " 400 "},
	        {"GET /v1/kv/k?index=99999999999999999999999 HTTP/1.1\r\nHost: x\r\n\r\n", " 400 "},
	        {"GET /nothing HTTP/1.1\r\nHost: x\r\n\r\n", " 404 "},
	        {"GET / HTTP/1.1\r\nHost: x\r\n\r\n", " 404 "},
	        {"POST /v1/kv/k HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", " 405 "},
	        {"PUT /v1/session/create HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
	         " 404 "},
	        {"GET /v1/kv/ HTTP/1.1\r\nHost: x\r\n\r\n", " 400 "},
	        {"GET /v1/kv/?recurse HTTP/1.1\r\nHost: x\r\n\r\n", " 400 "},
	        {"GET /v1/kv/k?keys HTTP/1.1\r\nHost: x\r\n\r\n", " 400 "},
	        {"GET /v1/kv/k?raw HTTP/1.1\r\nHost: x\r\n\r\n", " 400 "},
	        {"GET /v1/kv/k?cas=0 HTTP/1.1\r\nHost: x\r\n\r\n", " 400 "},
	        {"GET /v1/kv/k?index=1&index=2 HTTP/1.1\r\nHost: x\r\n\r\n", " 400 "},
	        {"GET /v1/kv/k?index=1%001 HTTP/1.1\r\nHost: x\r\n\r\n", " 400 "},
	        {"PUT /v1/kv/ HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", " 400 "},
	        {"PUT /v1/kv/k?cas=x HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", " 400 "},
	        {"PUT /v1/kv/k?cas=-1 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", " 400 "},
	        {"PUT /v1/kv/k?cas HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", " 400 "},
	        {"PUT /v1/kv/k?cas=0&acquire=x HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n",
	         " 400 "},
	        {"PUT /v1/kv/k?flags=1 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", " 400 "},
	        {"PUT /v1/kv/k?cas%00=0 HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n", " 400 "},
	        {"PUT /v1/kv/k HTTP/1.1\r\nHost: x\r\nContent-Length: 65537\r\n\r\n", " 413 "},
	        {"PUT /v1/kv/k HTTP/1.1\r\nHost: x\r\nContent-Length: 99999999999999\r\n\r\n",
	         " 413 "},
	        {"DELETE /v1/kv/ HTTP/1.1\r\nHost: x\r\n\r\n", " 400 "},
	        {"DELETE /v1/kv/k?cas=1&recurse HTTP/1.1\r\nHost: x\r\n\r\n", " 400 "},
	};
	char buf[4096];
	struct err e = {0};

	start(&(struct store_server_conf){0});
	for (size_t i = 0; i < LENGTH(cases); i++) {
		converse(cases[i].request, buf, sizeof buf);
		if (strncmp(buf, "HTTP/1.1", 8) != 0 || strncmp(buf + 8, cases[i].status, 5) != 0)
			fail_msg("case %zu: %s", i, buf);
	}
	static const char *const noise[] = {"",
	                                    "\r\n\r\n",
	                                    "x",
	                                    "GET",
	                                    "\x16\x03\x01\x02",
	                                    "GET / HTTP/9.9\r\n\r\n",
	                                    "PUT /v1/kv/%00 HTTP/1.1\r\n"};
	for (size_t i = 0; i < LENGTH(noise); i++) {
		int fd = connect_to();
		send_all(fd, noise[i], strlen(noise[i]));
		close(fd);
	}
	assert_int_equal(store_put(st, "k", "x", 1, 0, SEC(60), &e), 1);
}

/* One byte now and then keeps no connection beyond its time. */
SERVER_TEST(test_slow_client)
{
	struct err e = {0};
	int64_t began = clock_ns();

	start(&(struct store_server_conf){.client_ns = 2 * NS_PER_SEC});
	int idle = connect_to(), slow = connect_to();
	send_all(slow, "GET /", 5);
	while (send(slow, "x", 1, MSG_NOSIGNAL) == 1 && clock_ns() - began < 60 * NS_PER_SEC)
		nanosleep(&(struct timespec){.tv_nsec = 200 * NS_PER_MS}, NULL);
	assert_in_range(clock_ns() - began, 3 * NS_PER_SEC / 2, 30 * NS_PER_SEC);
	struct pollfd p = {.fd = idle, .events = POLLIN};
	assert_int_equal(poll(&p, 1, 60000), 1);
	char c;
	assert_true(recv(idle, &c, 1, 0) <= 0);
	close(idle);
	close(slow);
	assert_int_equal(store_put(st, "k", "x", 1, 0, SEC(60), &e), 1);
}

SERVER_TEST(test_start_errors)
{
	struct err e = {0};
	char taken[64];

	start(&(struct store_server_conf){.listen = "127.0.0.1:0"});
	assert_true(store_server_is_loopback(server));
	snprintf(taken, sizeof taken, "127.0.0.1:%d", store_server_port(server));
	assert_string_equal(store_server_address(server), taken);
	assert_null(store_server_start(&(struct store_server_conf){.listen = taken}, &e));
	assert_says(&e, ERR_RESOURCE, taken);
	err_clear(&e);
	assert_null(store_server_start(&(struct store_server_conf){.listen = "127.0.0.1:x"}, &e));
	assert_says(&e, ERR_USAGE, "127.0.0.1:x");
	err_clear(&e);
	assert_null(store_server_start(&(struct store_server_conf){.listen = "203.0.113.1:0"}, &e));
	assert_says(&e, ERR_USAGE, "203.0.113.1:0");
}

int main(void)
{
	return unit_run(NULL, NULL);
}
