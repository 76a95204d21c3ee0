/* etcd's client: the parsers of its answers, and calls to servers that answer what is written here.
 */
#include <stdio.h>
#include <stdlib.h>

#include "lib/store/etcd_answer.h"
#include "tests/unit/fake_http.h"
#include "tests/unit/store_client.h"

#define HEAD           "\"header\":{\"cluster_id\":\"10144879847569953045\",\"revision\":\"7\"}"
#define KV(value)      "{\"key\":\"aw==\",\"mod_revision\":\"5\",\"version\":\"1\"" value "}"
#define RANGE(kvs)     "{" HEAD ",\"kvs\":[" kvs "],\"count\":\"1\"}"
#define HI             RANGE(KV(",\"value\":\"aGk=\""))
#define MISSING        "{" HEAD "}"
#define SUCCEEDED      "{" HEAD ",\"succeeded\":true,\"responses\":[{}]}"
#define TOKEN          "{" HEAD ",\"token\":\"vorJERXTsKAhfWmP.15\"}"
#define CREATED        "{\"result\":{" HEAD ",\"created\":true"
#define ERROR(code)    "{\"error\":\"why\",\"message\":\"why\",\"code\":" code "}"
#define HTTP(st, text) "HTTP/1.1 " st "\r\nContent-Type: application/json\r\n\r\n" text

/* ---- parsers ---- */

static int range(const char *body, struct store_value *v, uint64_t *revision, struct err *e)
{
	return etcd_read_range(v, revision, body, strlen(body), e);
}

TEST(test_range)
{
	static const struct {
		const char *body;
		uint64_t index;
		const char *value;
	} good[] = {
	        {HI, 5, "hi"},
	        {RANGE(KV("")), 5, ""},
	        {RANGE(KV(",\"value\":\"\"")), 5, ""},
	        {MISSING, 0, ""},
	        {"{" HEAD ",\"kvs\":[],\"count\":\"0\",\"more\":false}", 0, ""},
	        {"{\"header\":{\"revision\":7},\"kvs\":[{\"mod_revision\":5,\"value\":\"eA==\"}]}",
	         5, "x"},
	        {"{\"kvs\":[" KV("") "]," HEAD ",\"new\":[{}]}", 5, ""},
	};
	for (size_t i = 0; i < LENGTH(good); i++) {
		struct store_value v;
		struct err e = {0};
		uint64_t revision;
		if (range(good[i].body, &v, &revision, &e) < 0)
			fail_msg("%s: %s", good[i].body, e.text);
		assert_int_equal(revision, 7);
		assert_int_equal(v.index, good[i].index);
		assert_int_equal(v.len, strlen(good[i].value));
		if (v.len)
			assert_memory_equal(v.data, good[i].value, v.len);
		free(v.data);
	}
}

TEST(test_bad_ranges)
{
	static const struct {
		const char *body, *says;
	} bad[] = {
	        {"", "not a JSON object"},
	        {"[]", "not a JSON object"},
	        {"7", "not a JSON object"},
	        {"<html>", "not a JSON object"},
	        {"{\"kvs\":[],\"kvs\":[]}", "not a JSON object"},
	        {HI "x", "not a JSON object"},
	        {RANGE(KV(",\"value\":\"a\\u0000==\"")), "not a JSON object"},
	        {"{}", "without header.revision"},
	        {"{\"header\":7}", "without header.revision"},
	        {"{\"header\":{\"revision\":\"\"}}", "without header.revision"},
	        {"{\"header\":{\"revision\":\"-1\"}}", "without header.revision"},
	        {"{\"header\":{\"revision\":-1}}", "without header.revision"},
	        {"{\"header\":{\"revision\":\"7x\"}}", "without header.revision"},
	        {"{\"header\":{\"revision\":\"9223372036854775808\"}}", "without header.revision"},
	        {"{" HEAD ",\"kvs\":{}}", "an array of one"},
	        {RANGE("{},{}"), "an array of one"},
	        {RANGE("7"), "without mod_revision"},
	        {RANGE("{}"), "without mod_revision"},
	        {RANGE("{\"mod_revision\":\"0\"}"), "without mod_revision"},
	        {RANGE("{\"mod_revision\":\"8\"}"), "above its revision"},
	        {RANGE("{\"mod_revision\":\"8\",\"value\":\"eA==\"}"), "above its revision"},
	        {RANGE(KV(",\"value\":7")), "not a string"},
	        {RANGE(KV(",\"value\":null")), "not a string"},
	        {RANGE(KV(",\"value\":\"abc\"")), "not base64"},
	        {RANGE(KV(",\"value\":\"ab!=\"")), "not base64"},
	        {RANGE(KV(",\"value\":\" abc\"")), "not base64"},
	};
	for (size_t i = 0; i < LENGTH(bad); i++) {
		struct store_value v;
		struct err e = {0};
		uint64_t revision;
		if (range(bad[i].body, &v, &revision, &e) == 0)
			fail_msg("%s was taken", bad[i].body);
		assert_says(&e, ERR_RENDEZVOUS, bad[i].says);
		assert_null(v.data);
		assert_int_equal(v.index, 0);
	}
}

/* A value of the largest size is taken; one byte more is not. */
TEST(test_sizes)
{
	static const char head[] = "{" HEAD ",\"kvs\":[{\"mod_revision\":\"5\",\"value\":\"";
	static const size_t lengths[] = {STORE_VALUE_MAX, STORE_VALUE_MAX + 1,
	                                 STORE_VALUE_MAX + 300};
	char *body = malloc(2 * STORE_VALUE_MAX);
	assert_non_null(body);
	for (size_t i = 0; i < LENGTH(lengths); i++) {
		struct store_value v;
		struct err e = {0};
		uint64_t revision;
		const size_t pad = (3 - lengths[i] % 3) % 3, chars = (lengths[i] + pad) / 3 * 4;
		size_t n = (size_t)sprintf(body, "%s", head);
		memset(body + n, 'A', chars);
		memset(body + n + chars - pad, '=', pad);
		n += chars;
		n += (size_t)sprintf(body + n, "\"}]}");
		assert_int_equal(etcd_read_range(&v, &revision, body, n, &e), i ? -1 : 0);
		if (i == 0)
			assert_int_equal(v.len, STORE_VALUE_MAX);
		free(v.data);
	}
	free(body);
}

/* An answer that is cut anywhere is not taken, and no byte beyond the cut is read. */
TEST(test_cuts)
{
	for (size_t n = 0; n < sizeof HI - 1; n++) {
		struct store_value v;
		struct err e = {0};
		uint64_t revision;
		char *cut = malloc(n ? n : 1);
		assert_non_null(cut);
		memcpy(cut, HI, n);
		assert_int_equal(etcd_read_range(&v, &revision, cut, n, &e), -1);
		assert_false(etcd_watch_woke(cut, n, 1));
		free(cut);
	}
}

TEST(test_txn)
{
	static const struct {
		const char *body;
		int want;
	} cases[] = {
	        {SUCCEEDED, 1},
	        {MISSING, 0},
	        {"{" HEAD ",\"succeeded\":false}", 0},
	        {"{\"succeeded\":true}", -1},
	        {"{" HEAD ",\"succeeded\":1}", -1},
	        {"{" HEAD ",\"succeeded\":\"true\"}", -1},
	        {"true", -1},
	        {"", -1},
	};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct err e = {0};
		const int got = etcd_read_txn(cases[i].body, strlen(cases[i].body), &e);
		if (got != cases[i].want)
			fail_msg("%s: %d %s", cases[i].body, got, e.text);
		assert_int_equal(e.code, got < 0 ? ERR_RENDEZVOUS : 0);
	}
}

TEST(test_token)
{
	static const char *const bad[] = {MISSING,
	                                  "{\"token\":\"\"}",
	                                  "{\"token\":7}",
	                                  "{\"token\":\"a\\r\\nHost: x\"}",
	                                  "{\"token\":\"\xc3\xa9\"}",
	                                  "[]"};
	struct err e = {0};
	char *token, *body;
	assert_int_equal(etcd_read_token(&token, TOKEN, strlen(TOKEN), &e), 0);
	assert_string_equal(token, "vorJERXTsKAhfWmP.15");
	free(token);
	for (size_t i = 0; i < LENGTH(bad); i++) {
		err_clear(&e);
		assert_int_equal(etcd_read_token(&token, bad[i], strlen(bad[i]), &e), -1);
		assert_int_equal(e.code, ERR_RENDEZVOUS);
		assert_null(token);
	}
	body = malloc(5000);
	assert_non_null(body);
	const int n = sprintf(body, "{\"token\":\"%04096d\"}", 0);
	err_clear(&e);
	assert_int_equal(etcd_read_token(&token, body, (size_t)n, &e), -1);
	free(body);
}

TEST(test_errors)
{
	static const struct {
		const char *body;
		int code;
		const char *text;
	} cases[] = {
	        {"{\"error\":\"a\",\"message\":\"a\",\"code\":16}", 16, "a"}, /* 3.4, 3.5 */
	        {"{\"code\":7, \"message\":\"b\", \"details\":[]}", 7, "b"},  /* 3.6 */
	        {"{\"error\":\"a\",\"code\":3}", 3, "a"},
	        {"{\"error\":\"a\\u001b[31m\\u00e9\",\"code\":3}", 3, "a?[31m??"},
	        {"{\"error\":{\"grpc_code\":7}}", 0, ""},
	        {"{\"code\":17}", 0, ""},
	        {"{\"code\":-1}", 0, ""},
	        {"404 page not found\n", 0, "404 page not found"},
	        {"CommonName of client\nx", 0, "CommonName of client"},
	        {"<html>", 0, ""},
	        {"", 0, ""},
	};
	struct etcd_error e;
	char page[2000];
	for (size_t i = 0; i < LENGTH(cases); i++) {
		etcd_read_error(&e, cases[i].body, strlen(cases[i].body));
		assert_int_equal(e.code, cases[i].code);
		assert_string_equal(e.text, cases[i].text);
	}
	memset(page, 'x', sizeof page);
	etcd_read_error(&e, page, sizeof page);
	assert_int_equal(strlen(e.text), sizeof e.text - 1);
}

TEST(test_watch)
{
	static const struct {
		const char *body;
		bool woke;
	} cases[] = {
	        {"", false},
	        {CREATED, false},
	        {CREATED "}}", false},
	        {CREATED "}}\n", false},
	        {CREATED "}}\n\n", true},
	        {CREATED ",\"watch_id\":\"0\",\"canceled\":false}}\n", false},
	        {CREATED "}}\n{", true},
	        {CREATED ",\"canceled\":true,\"cancel_reason\":\"x\"}}\n", true},
	        {CREATED ",\"events\":[{}]}}\n", true},
	        {"{\"error\":{\"grpc_code\":16}}\n", true},
	        {"{\"result\":{\"created\":true}}\n", true},
	        /* the store has begun anew */
	        {"{\"result\":{\"header\":{\"revision\":\"6\"},\"created\":true}}\n", true},
	        {"<html>\n", true},
	        {"\n", true},
	};
	for (size_t i = 0; i < LENGTH(cases); i++)
		if (etcd_watch_woke(cases[i].body, strlen(cases[i].body), 7) != cases[i].woke)
			fail_msg("%s", cases[i].body);
}

/* ---- calls ---- */

static struct store *open_at(const char *url, const char *token)
{
	struct err e = {0};
	struct store *s = store_open(&(struct store_conf){.url = url, .token = token}, &e);
	if (!s)
		fail_msg("%s", e.text);
	return s;
}

static struct store *open_fake(const struct fake *f, const char *token)
{
	char url[64];
	snprintf(url, sizeof url, "etcd+http://127.0.0.1:%d", f->port);
	return open_at(url, token);
}

TEST(test_bad_answers)
{
	static const struct {
		const char *answer;
		int code;
		const char *says;
		bool retried;
	} cases[] = {
	        {HTTP("500 No", ERROR("2")), ERR_RENDEZVOUS, "HTTP 500: why", true},
	        {HTTP("503 No", "<html>"), ERR_RENDEZVOUS, "HTTP 503", true},
	        {HTTP("429 No", ERROR("8")), ERR_RENDEZVOUS, "HTTP 429", true},
	        {HTTP("408 No", ""), ERR_RENDEZVOUS, "HTTP 408", true},
	        {HTTP("302 No\r\nLocation: http://127.0.0.1:1/", ""), ERR_RENDEZVOUS,
	         "redirects are not followed", false},
	        {HTTP("404 No", "404 page not found"), ERR_RENDEZVOUS, "--enable-grpc-gateway",
	         false},
	        {HTTP("400 No", ERROR("3")), ERR_RENDEZVOUS, "HTTP 400: why", false},
	        {HTTP("401 No", ERROR("16")), ERR_AUTH, "HTTP 401: why", false},
	        {HTTP("403 No", ERROR("7")), ERR_AUTH, "the key 'k'", false},
	        {HTTP("403 No", "<html>"), ERR_AUTH, "HTTP 403", false},
	        {HTTP("400 No", "{\"error\":\"etcdserver: user name is empty\",\"code\":3}"),
	         ERR_AUTH, "requires a user", false},
	        {HTTP("400 No", "CommonName of client sending a request"), ERR_AUTH, "--store-cert",
	         false},
	        {HTTP("200 OK\r\nContent-Length: 999999999", "x"), ERR_RENDEZVOUS,
	         "an answer of more than", false},
	        {HTTP("200 OK", "{}"), ERR_RENDEZVOUS, "is this etcd?", false},
	        {HTTP("200 OK", "<html>"), ERR_RENDEZVOUS, "not a JSON object", false},
	        {"SSH-2.0-x\r\n", ERR_RENDEZVOUS, "etcd+http://127.0.0.1", true},
	};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct fake f = {.answers = {cases[i].answer}};
		struct store_value v;
		struct err e = {0};
		start_fake(&f);
		struct store *s = open_fake(&f, NULL);
		const int64_t time = cases[i].retried ? NS_PER_SEC : 60 * NS_PER_SEC;
		if (store_get(s, "k", 0, &v, NULL, clock_ns() + time, &e) == 0)
			fail_msg("case %zu was taken", i);
		assert_says(&e, cases[i].code, cases[i].says);
		assert_says(&e, cases[i].code, "etcd+http://127.0.0.1:");
		assert_true(cases[i].retried ? f.requests > 1 : f.requests == 1);
		assert_null(v.data);
		store_close(s);
		stop_fake(&f);
	}
}

/* A put whose answer is lost: the comparison of the second try is false, since the first was done.
 */
TEST(test_lost_answer)
{
	static const struct {
		const char *value;
		int want;
	} cases[] = {
	        {HTTP("200 OK", HI), 1},
	        {HTTP("200 OK", RANGE(KV(",\"value\":\"aG8=\""))), 0},
	        {HTTP("200 OK", MISSING), 0},
	};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct fake f = {.answers = {"", HTTP("200 OK", MISSING), cases[i].value}};
		struct err e = {0};
		start_fake(&f);
		struct store *s = open_fake(&f, NULL);
		assert_int_equal(store_put(s, "k", "hi", 2, 0, SEC(60), &e), cases[i].want);
		assert_int_equal(f.requests, 3);
		store_close(s);
		stop_fake(&f);
	}
	/* With a single try the comparison is believed. */
	struct fake f = {.answers = {HTTP("200 OK", MISSING)}};
	struct err e = {0};
	start_fake(&f);
	struct store *s = open_fake(&f, NULL);
	assert_int_equal(store_put(s, "k", "hi", 2, 0, SEC(60), &e), 0);
	assert_int_equal(f.requests, 1);
	store_close(s);
	stop_fake(&f);
}

TEST(test_delete)
{
	static const struct {
		const char *answers[2];
		int want;
	} cases[] = {
	        {{HTTP("200 OK", SUCCEEDED), NULL}, 1},
	        {{HTTP("200 OK", MISSING), HTTP("200 OK", MISSING)}, 1},
	        {{HTTP("200 OK", MISSING), HTTP("200 OK", HI)}, 0},
	        {{HTTP("200 OK", "{}"), NULL}, -1},
	};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct fake f = {.answers = {cases[i].answers[0], cases[i].answers[1]}};
		struct err e = {0};
		start_fake(&f);
		struct store *s = open_fake(&f, NULL);
		assert_int_equal(store_delete(s, "k", 4, SEC(60), &e), cases[i].want);
		store_close(s);
		stop_fake(&f);
	}
}

/* What store_get returns for a user, from a server with these answers. */
static int get_as_user(struct fake *f, struct store_value *v, struct err *e)
{
	start_fake(f);
	struct store *s = open_fake(f, "user:pass\"\\\t:word");
	const int ret = store_get(s, "k", 0, v, NULL, SEC(60), e);
	store_close(s);
	stop_fake(f);
	return ret;
}

TEST(test_users)
{
	struct store_value v;
	struct err e = {0};

	/* A token that is refused is replaced, once. */
	struct fake renewed = {.answers = {HTTP("200 OK", TOKEN), HTTP("401 No", ERROR("16")),
	                                   HTTP("200 OK", TOKEN), HTTP("200 OK", HI)}};
	if (get_as_user(&renewed, &v, &e) < 0)
		fail_msg("%s", e.text);
	assert_int_equal(v.index, 5);
	assert_int_equal(renewed.requests, 4);
	free(v.data);

	struct fake refused = {.answers = {HTTP("200 OK", TOKEN), HTTP("401 No", ERROR("16")),
	                                   HTTP("200 OK", TOKEN), HTTP("401 No", ERROR("16"))}};
	assert_int_equal(get_as_user(&refused, &v, &e), -1);
	assert_says(&e, ERR_AUTH, "HTTP 401");
	assert_int_equal(refused.requests, 4);

	/* etcd without users */
	struct fake open = {.answers = {HTTP("412 No", ERROR("9")), HTTP("200 OK", HI)}};
	err_clear(&e);
	assert_int_equal(get_as_user(&open, &v, &e), 0);
	assert_int_equal(open.requests, 2);
	free(v.data);

	struct fake wrong = {.answers = {HTTP("400 No", ERROR("3"))}};
	assert_int_equal(get_as_user(&wrong, &v, &e), -1);
	assert_says(&e, ERR_AUTH, "refuses the user or the password");
	assert_null(strstr(e.text, "word:"));

	struct fake tokenless = {.answers = {HTTP("200 OK", MISSING)}};
	err_clear(&e);
	assert_int_equal(get_as_user(&tokenless, &v, &e), -1);
	assert_says(&e, ERR_RENDEZVOUS, "without a token");
}

/* The first host is down, the second is ill; the third serves, and is kept. */
TEST(test_hosts)
{
	struct fake down = {0}, ill = {.answers = {HTTP("503 No", ERROR("14"))}},
	            well = {.answers = {HTTP("200 OK", HI)}};
	struct store_value v;
	struct err e = {0};
	char url[128];

	start_fake(&down);
	start_fake(&ill);
	start_fake(&well);
	stop_fake(&down);
	snprintf(url, sizeof url, "etcd+http://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/x", down.port,
	         ill.port, well.port);
	struct store *s = open_at(url, NULL);
	for (int i = 1; i <= 2; i++) {
		if (store_get(s, "k", 0, &v, NULL, SEC(60), &e) < 0)
			fail_msg("%s", e.text);
		assert_int_equal(v.index, 5);
		free(v.data);
		assert_int_equal(ill.requests, 1);
		assert_int_equal(well.requests, i);
	}
	stop_fake(&well);
	assert_int_equal(store_get(s, "k", 0, &v, NULL, SEC(2), &e), -1);
	assert_says(&e, ERR_RENDEZVOUS, "etcd+http://127.0.0.1:");
	store_close(s);
	stop_fake(&ill);
}

/* A watch wakes, ends or fails: the value is read in any case. */
TEST(test_waiting)
{
	static const char *const watches[] = {HTTP("200 OK", CREATED "}}\n{\"result\":{}}\n"),
	                                      HTTP("200 OK", CREATED ",\"canceled\":true}}\n"),
	                                      HTTP("403 No", ERROR("7")),
	                                      HTTP("503 No", ""),
	                                      HTTP("200 OK", ""),
	                                      ""};
	for (size_t i = 0; i < LENGTH(watches); i++) {
		struct fake f = {.answers = {watches[i], HTTP("200 OK", HI)}};
		struct store_value v;
		struct err e = {0};
		uint64_t next = 0;
		start_fake(&f);
		struct store *s = open_fake(&f, NULL);
		if (store_get(s, "k", 4, &v, &next, SEC(60), &e) < 0)
			fail_msg("%s", e.text);
		assert_int_equal(v.index, 5);
		assert_int_equal(next, 7);
		assert_int_equal(f.requests, 2);
		free(v.data);
		store_close(s);
		stop_fake(&f);
	}
	/* The store has begun anew. */
	struct fake f = {.answers = {HTTP("200 OK", CREATED "}}\n"), HTTP("200 OK", MISSING)}};
	struct store_value v;
	struct err e = {0};
	uint64_t next = 1;
	start_fake(&f);
	struct store *s = open_fake(&f, NULL);
	assert_int_equal(store_get(s, "k", 9, &v, &next, SEC(60), &e), 0);
	assert_int_equal(next, 0);
	store_close(s);
	stop_fake(&f);
}

static bool always(void *ctx)
{
	(void)ctx;
	return true;
}

TEST(test_bounds)
{
	struct fake f = {.answers = {HTTP("200 OK", MISSING)}};
	struct store_value v;
	struct err e = {0};
	static char big[STORE_VALUE_MAX + 1];
	char key[1100];

	start_fake(&f);
	struct store *s = open_fake(&f, NULL);
	assert_int_equal(store_put(s, "k", big, sizeof big, 0, SEC(60), &e), -1);
	assert_says(&e, ERR_OTHER, "a value of 65537 bytes");
	err_clear(&e);
	assert_int_equal(store_put(s, "k", big, sizeof big - 1, 0, SEC(60), &e), 0);
	assert_int_equal(store_delete(s, "k", 0, SEC(60), &e), -1);
	assert_says(&e, ERR_OTHER, "without its index");
	err_clear(&e);
	memset(key, 'k', sizeof key - 1);
	key[sizeof key - 1] = '\0';
	assert_int_equal(store_get(s, key, 0, &v, NULL, SEC(60), &e), -1);
	assert_says(&e, ERR_USAGE, "a key of more than 1024 bytes");
	err_clear(&e);
	key[1024] = '\0';
	assert_int_equal(store_put(s, key, big, sizeof big - 1, UINT64_MAX, SEC(60), &e), 0);
	store_interrupt(s, always, NULL);
	assert_int_equal(store_get(s, "k", 1, &v, NULL, SEC(60), &e), -1);
	assert_says(&e, ERR_OTHER, "interrupted");
	store_close(s);
	stop_fake(&f);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
