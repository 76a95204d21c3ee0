/*
 * The store's client against the real server, in a thread of this process, and against servers that
 * answer what no store should.
 */
#include <arpa/inet.h>
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509v3.h>

#include "lib/base/clock.h"
#include "lib/net/addr.h"
#include "lib/store/server/store_server.h"
#include "lib/store/server/store_server_internal.h"
#include "lib/store/store.h"
#include "tests/unit/fake_http.h"

#define SEC(n) (clock_ns() + (int64_t)(n)*NS_PER_SEC)

/* ---- the real server ---- */

struct serving {
	struct store_server *server;
	pthread_t thread;
	atomic_bool stop;
	atomic_int waiters; /* blocking queries */
	char url[64];
};

static void *serve(void *arg)
{
	struct serving *s = arg;

	while (!s->stop) {
		int ms = store_server_run(s->server);
		s->waiters = s->server->nwaiters;
		struct pollfd p = {.fd = store_server_fd(s->server), .events = POLLIN};
		poll(&p, 1, ms < 0 || ms > 20 ? 20 : ms);
	}
	return NULL;
}

static void start(struct serving *s, const struct store_server_conf *conf)
{
	struct err e = {0};

	memset(s, 0, sizeof *s);
	s->server = store_server_start(conf, &e);
	if (!s->server)
		fail_msg("%s", e.text);
	snprintf(s->url, sizeof s->url, "%s://127.0.0.1:%d", conf->tls_cert ? "https" : "http",
	         store_server_port(s->server));
	assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void end_thread(struct serving *s)
{
	s->stop = true;
	pthread_join(s->thread, NULL);
}

static void stop(struct serving *s)
{
	end_thread(s);
	store_server_stop(s->server);
}

static struct store *must_open(const char *url, const char *token)
{
	struct err e = {0};
	struct store *st = store_open(&(struct store_conf){.url = url, .token = token}, &e);

	if (!st)
		fail_msg("%s", e.text);
	return st;
}

static void assert_says(const struct err *e, int code, const char *text)
{
	if (e->code != code || !strstr(e->text, text))
		fail_msg("%d '%s' is not %d '%s'", e->code, e->text, code, text);
}

TEST(test_urls)
{
	static const char *const good[] = {"http://h",
	                                   "HTTP://h:1/",
	                                   "https://[::1]:8500",
	                                   "consul+http://h/a/b/",
	                                   "consul+https://h",
	                                   "etcd+http://h",
	                                   "ETCD+HTTPS://h:1,[::1],g/a/"};
	static const struct {
		const char *url, *says;
	} bad[] = {
	        {"", "not a store's URL"},
	        {"h:8500", "not a store's URL"},
	        {"ftp://h", "not a store's URL"},
	        {"file:///etc/passwd", "not a store's URL"},
	        {"etcd+http://", "names no host"},
	        {"etcd+http://a,,b", "an empty host"},
	        {"etcd+http://a,", "an empty host"},
	        {"etcd+http://u:p@a,b", "a user name"},
	        {"etcd+http://a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a,a", "more than 16 hosts"},
	        {"http://a,b", "more than one host"},
	        {"consul+http://a:1,b:2/x", "more than one host"},
	        {"http://", "names no host"},
	        {"http:///x", "names no host"},
	        {"http://u:p@h", "a user name"},
	        {"http://h?x=1", "'?'"},
	        {"http://h/a b", "' '"},
	        {"http://h/a\nb", "'\n'"},
	};

	for (size_t i = 0; i < LENGTH(good); i++)
		store_close(must_open(good[i], "token"));
	for (size_t i = 0; i < LENGTH(bad); i++) {
		struct err e = {0};
		assert_null(store_open(&(struct store_conf){.url = bad[i].url}, &e));
		assert_says(&e, ERR_USAGE, bad[i].says);
	}
	struct err e = {0};
	assert_null(
	        store_open(&(struct store_conf){.url = "http://h", .token = "a\r\nHost: x"}, &e));
	assert_says(&e, ERR_USAGE, "line break");
	assert_null(strstr(e.text, "Host"));
}

TEST(tokens_in_plain_text)
{
	static const char *const hidden[] = {"https://h",
	                                     "HTTPS://h:1/x",
	                                     "etcd+https://a,b",
	                                     "http://127.0.0.1:1",
	                                     "http://localhost",
	                                     "http://[::1]:1/x",
	                                     "etcd+http://127.1,localhost:2/a"};
	static const char *const exposed[] = {"http://h",
	                                      "consul+http://10.0.0.1:1",
	                                      "http://localhost.example",
	                                      "http://127.0.0.1.example:8500",
	                                      "etcd+http://localhost,h/a",
	                                      "http://[::11]"};
	for (size_t i = 0; i < LENGTH(hidden); i++)
		if (store_exposes_token(hidden[i]))
			fail_msg("%s", hidden[i]);
	for (size_t i = 0; i < LENGTH(exposed); i++)
		if (!store_exposes_token(exposed[i]))
			fail_msg("%s", exposed[i]);
}

TEST(test_values)
{
	struct serving s;
	struct store_value v;
	struct err e = {0};
	uint64_t next = 0;
	char local[64];
	static char big[STORE_VALUE_MAX + 1];

	start(&s, &(struct store_server_conf){0});
	struct store *st = must_open(s.url, NULL);
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
	assert_false(store_server_withdrawn(s.server));
	assert_int_equal(store_delete(st, "k", v.index, SEC(60), &e), 1);
	assert_int_equal(store_delete(st, "k", v.index, SEC(60), &e), 1);
	assert_int_equal(store_get(st, "k", 0, &v, NULL, SEC(60), &e), 0);
	assert_int_equal(v.index, 0);
	end_thread(&s);
	assert_true(store_server_withdrawn(s.server));
	store_server_stop(s.server);
	store_close(st);
}

TEST(test_keys)
{
	static const char *const keys[] = {"a/b/c",   "a b",  "a%2Fb",    "a?raw", "a#b", "a&b=c",
	                                   "../../x", "a//b", "\xc3\xa9", ".",     "a+b"};
	struct serving s;
	struct store_value v;
	struct err e = {0};
	char url[128], full[128], long_key[1100];

	start(&s, &(struct store_server_conf){0});
	struct store *st = must_open(s.url, NULL);
	snprintf(url, sizeof url, "consul+%s/team/x/", s.url);
	struct store *prefixed = must_open(url, NULL);
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
	store_close(st);
	stop(&s);
}

/* Many who each try to be first, round by round. */
#define RACERS 8
#define ROUNDS 20

struct race {
	const char *url;
	atomic_int wins[ROUNDS];
	pthread_barrier_t barrier;
};

static void *racer(void *arg)
{
	struct race *race = arg;
	struct err e = {0};
	struct store *st = store_open(&(struct store_conf){.url = race->url}, &e);
	char key[32], value[32];

	snprintf(value, sizeof value, "%p", (void *)st);
	for (int i = 0; i < ROUNDS; i++) {
		pthread_barrier_wait(&race->barrier);
		snprintf(key, sizeof key, "round/%d", i);
		int rc = st ? store_put(st, key, value, strlen(value), 0, SEC(60), &e) : -1;
		if (rc < 0)
			fprintf(stderr, "racer: %s\n", e.text);
		atomic_fetch_add(&race->wins[i], rc < 0 ? 1000 : rc);
	}
	store_close(st);
	return NULL;
}

TEST(test_cas_race)
{
	struct serving s;
	static struct race race;
	pthread_t threads[RACERS];

	start(&s, &(struct store_server_conf){0});
	race.url = s.url;
	pthread_barrier_init(&race.barrier, NULL, RACERS);
	for (int i = 0; i < RACERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, racer, &race), 0);
	for (int i = 0; i < RACERS; i++)
		pthread_join(threads[i], NULL);
	for (int i = 0; i < ROUNDS; i++)
		assert_int_equal(race.wins[i], 1);
	pthread_barrier_destroy(&race.barrier);
	stop(&s);
}

/* ---- blocking queries ---- */

struct later {
	const char *url, *value;
	uint64_t cas; /* value NULL: delete */
};

static void *put_later(void *arg)
{
	struct later *l = arg;
	struct err e = {0};
	struct store *st = store_open(&(struct store_conf){.url = l->url}, &e);

	nanosleep(&(struct timespec){.tv_nsec = 200 * NS_PER_MS}, NULL);
	intptr_t rc = l->value ? store_put(st, "k", l->value, strlen(l->value), l->cas, SEC(60), &e)
	                       : store_delete(st, "k", l->cas, SEC(60), &e);
	store_close(st);
	return (void *)rc;
}

TEST(test_wait)
{
	struct serving s;
	struct store_value v;
	struct err e = {0};
	uint64_t next;
	pthread_t t;
	void *rc;

	start(&s, &(struct store_server_conf){0});
	struct store *st = must_open(s.url, NULL);
	struct later l = {.url = s.url, .value = "first"};

	/* a key that is missing, created */
	assert_int_equal(store_get(st, "k", 0, &v, &next, SEC(60), &e), 0);
	assert_int_equal(v.index, 0);
	int64_t began = clock_ns();
	pthread_create(&t, NULL, put_later, &l);
	assert_int_equal(store_get(st, "k", next, &v, &next, SEC(60), &e), 0);
	assert_true(clock_ns() - began >= 150 * NS_PER_MS);
	assert_true(clock_ns() - began < 30 * NS_PER_SEC);
	pthread_join(t, &rc);
	assert_int_equal((intptr_t)rc, 1);
	assert_int_equal(v.len, 5);
	assert_memory_equal(v.data, "first", 5);
	assert_true(next == v.index);
	free(v.data);

	/* changed; another key's change wakes nobody */
	assert_int_equal(store_put(st, "other", "x", 1, 0, SEC(60), &e), 1);
	l = (struct later){.url = s.url, .value = "second", .cas = v.index};
	began = clock_ns();
	pthread_create(&t, NULL, put_later, &l);
	assert_int_equal(store_get(st, "k", next, &v, &next, SEC(60), &e), 0);
	assert_true(clock_ns() - began >= 150 * NS_PER_MS);
	pthread_join(t, &rc);
	assert_int_equal((intptr_t)rc, 1);
	assert_int_equal(v.len, 6);
	free(v.data);

	/* deleted */
	l = (struct later){.url = s.url, .cas = v.index};
	pthread_create(&t, NULL, put_later, &l);
	assert_int_equal(store_get(st, "k", next, &v, &next, SEC(60), &e), 0);
	pthread_join(t, &rc);
	assert_int_equal((intptr_t)rc, 1);
	assert_int_equal(v.index, 0);

	/* the deadline is no error; the answer has an eighth of the time */
	began = clock_ns();
	assert_int_equal(store_get(st, "k", next, &v, &next, began + 8 * NS_PER_SEC, &e), 0);
	assert_int_equal(v.index, 0);
	assert_in_range(clock_ns() - began, 6 * NS_PER_SEC, 30 * NS_PER_SEC);

	/* an index from another life of the store */
	began = clock_ns();
	assert_int_equal(store_get(st, "k", 1000000, &v, &next, SEC(60), &e), 0);
	assert_true(clock_ns() - began < 30 * NS_PER_SEC);
	assert_int_equal(next, 0);
	store_close(st);
	stop(&s);
}

/* The end of the server answers those who wait. */
static void *wait_long(void *arg)
{
	struct later *l = arg;
	struct err e = {0};
	struct store_value v;
	struct store *st = store_open(&(struct store_conf){.url = l->url}, &e);
	intptr_t rc = store_get(st, "k", 1, &v, NULL, SEC(30), &e);

	store_close(st);
	return (void *)rc;
}

TEST(test_stop_with_waiters)
{
	struct serving s;
	pthread_t t[4];
	void *rc;

	start(&s, &(struct store_server_conf){0});
	struct later l = {.url = s.url};
	for (int i = 0; i < 4; i++)
		pthread_create(&t[i], NULL, wait_long, &l);
	for (int64_t until = SEC(20); s.waiters < 4; sched_yield())
		assert_true(clock_ns() < until);
	int64_t began = clock_ns();
	stop(&s);
	for (int i = 0; i < 4; i++) {
		pthread_join(t[i], &rc);
		assert_int_equal((intptr_t)rc, 0);
	}
	assert_true(clock_ns() - began < 20 * NS_PER_SEC);
}

TEST(test_ttl)
{
	struct serving s;
	struct store_value v;
	struct err e = {0};
	uint64_t next;

	start(&s, &(struct store_server_conf){.ttl_ns = 300 * NS_PER_MS});
	struct store *st = must_open(s.url, NULL);
	do { /* a busy machine may look when it has ended */
		assert_int_equal(store_put(st, "k", "x", 1, 0, SEC(60), &e), 1);
		assert_int_equal(store_get(st, "k", 0, &v, &next, SEC(60), &e), 0);
	} while (!v.index);
	free(v.data);
	assert_int_equal(store_get(st, "k", next, &v, &next, SEC(60), &e), 0);
	assert_int_equal(v.index, 0); /* its end woke the waiter */
	end_thread(&s);
	assert_false(store_server_withdrawn(s.server));
	store_server_stop(s.server);
	store_close(st);
}

TEST(test_token)
{
	static const char *const wrong[] = {NULL, "", "secre", "secret2", "SECRET"};
	struct serving s;
	struct store_value v;

	start(&s, &(struct store_server_conf){.token = "secret"});
	for (size_t i = 0; i < LENGTH(wrong); i++) {
		struct err e = {0};
		struct store *st = must_open(s.url, wrong[i]);
		int64_t began = clock_ns();
		assert_int_equal(store_get(st, "k", 0, &v, NULL, SEC(60), &e), -1);
		assert_says(&e, ERR_AUTH, "--store-token-file");
		err_clear(&e);
		assert_int_equal(store_put(st, "k", "x", 1, 0, SEC(60), &e), -1);
		assert_says(&e, ERR_AUTH, "HTTP 403");
		assert_true(clock_ns() - began < 20 * NS_PER_SEC); /* not retried */
		store_close(st);
	}
	struct err e = {0};
	struct store *st = must_open(s.url, "secret");
	assert_int_equal(store_put(st, "k", "x", 1, 0, SEC(60), &e), 1);
	store_close(st);
	stop(&s);
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

TEST(test_https)
{
	char dir[] = "/tmp/collctl-store.XXXXXX", cert[64], key[64];
	struct serving s;
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
	assert_says(&e, ERR_AUTH, "HTTPS");
	err_clear(&e);

	start(&s, &(struct store_server_conf){.tls_cert = cert, .tls_key = key});
	struct store *st = must_open(s.url, NULL);
	assert_int_equal(store_get(st, "k", 0, &v, NULL, SEC(60), &e), -1);
	assert_says(&e, ERR_AUTH, "https://127.0.0.1");
	err_clear(&e);
	store_close(st);
	struct store_conf conf = {.url = s.url, .ca_file = "/nowhere"};
	assert_null(store_open(&conf, &e));
	assert_says(&e, ERR_INPUT, "/nowhere");
	err_clear(&e);
	conf.ca_file = cert;
	st = store_open(&conf, &e);
	if (store_put(st, "k", "x", 1, 0, SEC(60), &e) != 1)
		fail_msg("%s", e.text);
	store_close(st);

	/* a plain client, and a name that the certificate does not have */
	char url[64];
	snprintf(url, sizeof url, "https://localhost:%d", store_server_port(s.server));
	conf.url = url;
	st = store_open(&conf, &e);
	assert_int_equal(store_get(st, "k", 0, &v, NULL, SEC(60), &e), -1);
	assert_says(&e, ERR_AUTH, "localhost");
	store_close(st);
	stop(&s);
	unlink(cert);
	unlink(key);
	rmdir(dir);
}

/* ---- servers that are no stores ---- */

static struct store *open_fake(const struct fake *f)
{
	char url[64];

	snprintf(url, sizeof url, "http://127.0.0.1:%d", f->port);
	return must_open(url, NULL);
}

#define HTTP(status, body) "HTTP/1.1 " status "\r\nX-Consul-Index: 7\r\n\r\n" body
#define ENTRY(more)        "[{\"Key\":\"k\"," more "}]"

TEST(test_bad_answers)
{
	static const struct {
		const char *answer, *says;
		bool retried;
	} cases[] = {
	        {HTTP("500 No", ""), "HTTP 500", true},
	        {HTTP("503 No", ""), "HTTP 503", true},
	        {HTTP("429 No", ""), "HTTP 429", true},
	        {HTTP("302 No\r\nLocation: http://127.0.0.1:1/", ""), "redirects are not followed",
	         false},
	        {HTTP("400 No", ""), "HTTP 400", false},
	        {HTTP("200 OK\r\nContent-Length: 999999999", "x"), "an answer of more than", false},
	        {"HTTP/1.1 404 No\r\n\r\n", "not a key-value store: HTTP 404", false},
	        {"HTTP/1.1 200 OK\r\n\r\n<html>", "not a key-value store: HTTP 200", false},
	        {HTTP("200 OK", ""), "not JSON", false},
	        {HTTP("200 OK", "[1"), "not JSON", false},
	        {HTTP("200 OK", "{}"), "not an array", false},
	        {HTTP("200 OK", "[]"), "not an array", false},
	        {HTTP("200 OK", "[{},{}]"), "not an array", false},
	        {HTTP("200 OK", "[1]"), "without ModifyIndex", false},
	        {HTTP("200 OK", ENTRY("\"Value\":\"eA==\"")), "without ModifyIndex", false},
	        {HTTP("200 OK", ENTRY("\"ModifyIndex\":-1,\"Value\":\"eA==\"")),
	         "without ModifyIndex", false},
	        {HTTP("200 OK", ENTRY("\"ModifyIndex\":1")), "without Value", false},
	        {HTTP("200 OK", ENTRY("\"ModifyIndex\":1,\"Value\":7")), "without Value", false},
	        {HTTP("200 OK", ENTRY("\"ModifyIndex\":1,\"Value\":\"abc\"")), "not base64", false},
	        {HTTP("200 OK", ENTRY("\"ModifyIndex\":1,\"Value\":\"ab!=\"")), "not base64",
	         false},
	        {HTTP("200 OK", ENTRY("\"ModifyIndex\":1,\"Value\":\" abc\"")), "not base64",
	         false},
	        {"SSH-2.0-x\r\n", "http://127.0.0.1", true},
	};

	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct fake f = {.answers = {cases[i].answer}};
		struct store_value v;
		struct err e = {0};
		start_fake(&f);
		struct store *st = open_fake(&f);
		int64_t began = clock_ns(),
		        time = cases[i].retried ? 2 * NS_PER_SEC : 60 * NS_PER_SEC;
		if (store_get(st, "k", 0, &v, NULL, began + time, &e) == 0)
			fail_msg("case %zu was taken", i);
		assert_says(&e, ERR_RENDEZVOUS, cases[i].says);
		assert_says(&e, ERR_RENDEZVOUS, "http://127.0.0.1:");
		assert_true(clock_ns() - began < 30 * NS_PER_SEC);
		assert_true(cases[i].retried ? f.requests > 1 : f.requests == 1);
		assert_null(v.data);
		store_close(st);
		stop_fake(&f);
	}
}

TEST(test_bounded)
{
	static const struct {
		enum manner manner;
		int64_t time;
		const char *says;
	} cases[] = {
	        {SLOW, NS_PER_SEC, "timed out"},
	        {RESET, NS_PER_SEC, "http://127.0.0.1:"},
	        {ENDLESS, 60 * NS_PER_SEC, "an answer of more than 131072 bytes"},
	};

	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct fake f = {.manner = cases[i].manner};
		struct store_value v;
		struct err e = {0};
		start_fake(&f);
		struct store *st = open_fake(&f);
		int64_t began = clock_ns();
		assert_int_equal(store_get(st, "k", 0, &v, NULL, began + cases[i].time, &e), -1);
		assert_says(&e, ERR_RENDEZVOUS, cases[i].says);
		assert_true(clock_ns() - began < 30 * NS_PER_SEC);
		store_close(st);
		stop_fake(&f);
	}
}

/* Nobody listens at first; then somebody does. */
TEST(test_refused)
{
	struct fake f = {.answers = {HTTP("404 No", "")}};
	struct store_value v;
	struct err e = {0};

	start_fake(&f);
	struct store *st = open_fake(&f);
	stop_fake(&f);
	int64_t began = clock_ns();
	assert_int_equal(store_get(st, "k", 0, &v, NULL, began + 300 * NS_PER_MS, &e), -1);
	assert_says(&e, ERR_RENDEZVOUS, "http://127.0.0.1:");
	assert_in_range(clock_ns() - began, 200 * NS_PER_MS, 30 * NS_PER_SEC);
	store_close(st);
}

TEST(test_transient)
{
	struct fake f = {
	        .answers = {HTTP("500 No", ""), "", HTTP("503 No", ""),
	                    HTTP("200 OK", ENTRY("\"ModifyIndex\":5,\"Value\":\"aGk=\""))}};
	struct store_value v;
	struct err e = {0};

	start_fake(&f);
	struct store *st = open_fake(&f);
	if (store_get(st, "k", 0, &v, NULL, SEC(60), &e) < 0)
		fail_msg("%s", e.text);
	assert_int_equal(v.index, 5);
	assert_int_equal(v.len, 2);
	assert_memory_equal(v.data, "hi", 2);
	assert_int_equal(f.requests, 4);
	free(v.data);
	store_close(st);
	stop_fake(&f);
}

/* A put whose answer is lost: the second try says "false", since the first was done. */
TEST(test_lost_answer)
{
	static const struct {
		const char *entry;
		int want;
	} cases[] = {
	        {HTTP("200 OK", ENTRY("\"ModifyIndex\":5,\"Value\":\"aGk=\"")), 1}, /* "hi": ours */
	        {HTTP("200 OK", ENTRY("\"ModifyIndex\":5,\"Value\":\"aG8=\"")), 0},
	        {HTTP("404 No", ""), 0},
	};

	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct fake f = {.answers = {"", HTTP("200 OK", "false"), cases[i].entry}};
		struct err e = {0};
		start_fake(&f);
		struct store *st = open_fake(&f);
		assert_int_equal(store_put(st, "k", "hi", 2, 0, SEC(60), &e), cases[i].want);
		assert_int_equal(f.requests, 3);
		store_close(st);
		stop_fake(&f);
	}
	/* With a single try "false" is believed. */
	struct fake f = {.answers = {HTTP("200 OK", "false")}};
	struct err e = {0};
	start_fake(&f);
	struct store *st = open_fake(&f);
	assert_int_equal(store_put(st, "k", "hi", 2, 0, SEC(60), &e), 0);
	assert_int_equal(f.requests, 1);
	store_close(st);
	stop_fake(&f);
}

/* ---- header lines ---- */

/* The index that the client takes from an answer with this header line; 0: none. */
static uint64_t index_of(struct fake *f, const char *line)
{
	static char text[1024];
	struct store_value v;
	struct err e = {0};
	uint64_t next = 0;

	pthread_mutex_lock(&f->lock);
	snprintf(text, sizeof text, "HTTP/1.1 404 No\r\n%sContent-Length: 0\r\n\r\n", line);
	f->answers[0] = text;
	pthread_mutex_unlock(&f->lock);
	struct store *st = open_fake(f);
	if (store_get(st, "k", 0, &v, &next, SEC(60), &e) < 0)
		assert_says(&e, ERR_RENDEZVOUS, "without X-Consul-Index");
	else
		assert_true(next > 0);
	store_close(st);
	return next;
}

/* Lines of every length: of the index and of others. A line's length counts its CRLF. */
TEST(test_header_lines)
{
	static const char name[] = "X-Consul-Index:";
	static const struct {
		const char *line;
		uint64_t index;
	} cases[] = {
	        {"x-consul-INDEX:7\r\n", 7},
	        {"X-Consul-Index: \t 7 \t \r\n", 7},
	        {"X-Consul-Index: 7\n", 7},
	        {"X-Consul-Index: 18446744073709551615\r\n", UINT64_MAX},
	        {"X-Consul-Index: 18446744073709551616\r\n", 0},
	        {"X-Consul-Index: 184467440737095516150\r\n", 0},
	        {"X-Consul-Index: 00000000000000000000000000000000000000007\r\n", 7},
	        {"X-Consul-Index: -1\r\n", 0},
	        {"X-Consul-Index: +1\r\n", 0},
	        {"X-Consul-Index: 1 2\r\n", 0},
	        {"X-Consul-Index: 7x\r\n", 0},
	        {"X-Consul-Index: 0x7\r\n", 0},
	        {"X-Consul-Index:\r\n", 0},
	        {"X-Consul-Index-2: 7\r\n", 0},
	        {"X-Consul-Inde: 7\r\n", 0},
	};
	struct fake f = {0};
	char line[128];

	start_fake(&f);
	for (size_t i = 0; i < LENGTH(cases); i++)
		if (index_of(&f, cases[i].line) != cases[i].index)
			fail_msg("%s", cases[i].line);
	/* Of 0 to 100 bytes: blanks and then a digit, digits alone, another header. */
	for (size_t n = 0; n <= 100; n++) {
		static const char fill[] = " 0a";
		for (const char *c = fill; *c; c++) {
			bool whole = n >= sizeof name - 1 + 2 && *c != 'a';
			memset(line, *c, sizeof line);
			if (whole)
				memcpy(line, name, sizeof name - 1);
			else
				memcpy(line, "a:", 2);
			if (n >= 2)
				memcpy(line + n - 2, "\r\n", 2);
			line[n] = '\0';
			bool number = whole && n >= sizeof name - 1 + 3;
			if (number)
				line[n - 3] = '5';
			if (n > 0 && n < 4) /* no header's line: the head ends, or has no colon */
				continue;
			uint64_t got = index_of(&f, line);
			if (got != (number ? 5 : 0))
				fail_msg("%zu bytes of '%c': %llu", n, *c, (unsigned long long)got);
		}
	}
	stop_fake(&f);
}

/* ---- clients that are none ---- */

static int connect_to(const struct serving *s)
{
	struct sockaddr_in in = {.sin_family = AF_INET,
	                         .sin_port = htons((uint16_t)store_server_port(s->server)),
	                         .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
	int fd = socket(AF_INET, SOCK_STREAM, 0);

	assert_int_equal(connect(fd, (struct sockaddr *)&in, sizeof in), 0);
	return fd;
}

/* What the server answers to @text, up to the end of the connection or a minute of silence. */
static void converse(const struct serving *s, const char *text, char *buf, size_t cap)
{
	int fd = connect_to(s);
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

TEST(test_hostile_requests)
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
	struct serving s;
	char buf[4096];
	struct err e = {0};

	start(&s, &(struct store_server_conf){0});
	for (size_t i = 0; i < LENGTH(cases); i++) {
		converse(&s, cases[i].request, buf, sizeof buf);
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
		int fd = connect_to(&s);
		send_all(fd, noise[i], strlen(noise[i]));
		close(fd);
	}
	struct store *st = must_open(s.url, NULL);
	assert_int_equal(store_put(st, "k", "x", 1, 0, SEC(60), &e), 1);
	store_close(st);
	stop(&s);
}

/* One byte now and then keeps no connection beyond its time. */
TEST(test_slow_client)
{
	struct serving s;
	struct err e = {0};
	int64_t began = clock_ns();

	start(&s, &(struct store_server_conf){.client_ns = 2 * NS_PER_SEC});
	int idle = connect_to(&s), slow = connect_to(&s);
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
	struct store *st = must_open(s.url, NULL);
	assert_int_equal(store_put(st, "k", "x", 1, 0, SEC(60), &e), 1);
	store_close(st);
	stop(&s);
}

TEST(test_start_errors)
{
	struct serving s;
	struct err e = {0};
	char taken[64];

	start(&s, &(struct store_server_conf){.listen = "127.0.0.1:0"});
	assert_true(store_server_is_loopback(s.server));
	snprintf(taken, sizeof taken, "127.0.0.1:%d", store_server_port(s.server));
	assert_string_equal(store_server_address(s.server), taken);
	assert_null(store_server_start(&(struct store_server_conf){.listen = taken}, &e));
	assert_says(&e, ERR_RESOURCE, taken);
	err_clear(&e);
	assert_null(store_server_start(&(struct store_server_conf){.listen = "127.0.0.1:x"}, &e));
	assert_says(&e, ERR_USAGE, "127.0.0.1:x");
	err_clear(&e);
	assert_null(store_server_start(&(struct store_server_conf){.listen = "203.0.113.1:0"}, &e));
	assert_says(&e, ERR_USAGE, "203.0.113.1:0");
	stop(&s);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
