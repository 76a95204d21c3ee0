/* The store's client: its URLs, and servers that answer what no store should. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "tests/unit/fake_http.h"
#include "tests/unit/store_client.h"

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

int main(void)
{
	return unit_run(NULL, NULL);
}
