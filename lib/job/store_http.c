#include "lib/job/store_http.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>
#include <unistd.h>

#include <curl/curl.h>

#include "lib/base/clock.h"
#include "lib/base/library.h"
#include "lib/base/private.h"

#define BODY_MAX        ((size_t)128 << 10) /* a value of 64 KiB as base64, and its JSON */
#define KEY_MAX         1024                /* bytes, prefix included */
#define WAIT_MAX        (30 * NS_PER_SEC)   /* of one blocking query; the server's limit too */
#define WAIT_MARGIN     (5 * NS_PER_SEC / 2)
#define REQUEST_TIME    (10 * NS_PER_SEC) /* for the answer to any other request */
#define CONNECT_TIME    (5 * NS_PER_SEC)
#define BACKOFF_FIRST   (1 * NS_PER_MS)
#define BACKOFF_LAST    (250 * NS_PER_MS)
#define PACE            (250 * NS_PER_MS) /* between requests, after the burst */
#define BURST           10                /* requests in a row without a pause */
#define HANDSHAKE_TRIES 3
#define ASK_MS          1000 /* the longest delay of a request to stop without a wake-up */

/* ---- libcurl ---- */

#define CURL_FUNCTIONS(X)      \
	X(global_init_mem)     \
	X(version_info)        \
	X(easy_init)           \
	X(easy_cleanup)        \
	X(easy_setopt)         \
	X(easy_getinfo)        \
	X(easy_strerror)       \
	X(multi_init)          \
	X(multi_cleanup)       \
	X(multi_add_handle)    \
	X(multi_remove_handle) \
	X(multi_perform)       \
	X(multi_poll)          \
	X(multi_wakeup)        \
	X(multi_info_read)     \
	X(slist_append)        \
	X(slist_free_all)

/* The members have libcurl's own types, so that the compiler checks the calls. Without the prefix,
 * the macros of the same names in curl.h do not apply. */
#define X(name) __typeof__(curl_##name) *name;
static struct {
	CURL_FUNCTIONS(X)
} curl;
#undef X

static pthread_once_t curl_once = PTHREAD_ONCE_INIT;
static struct err curl_missing = {.rank = ERR_RANK_SELF};

static void load_curl(void)
{
#define X(name) {#name, &curl.name},
	static const struct library_function functions[] = {CURL_FUNCTIONS(X)};
#undef X
	static const struct library library = {.names = {"libcurl.so.4"},
	                                       .purpose = "for a store",
	                                       .package = "libcurl4",
	                                       .prefix = "curl_",
	                                       .functions = functions,
	                                       .nfunctions = sizeof functions / sizeof *functions};

	/* The token passes through libcurl's memory. */
	if (library_open(&library, &curl_missing) == 0 &&
	    curl.global_init_mem(CURL_GLOBAL_DEFAULT, private_malloc, private_free, private_realloc,
	                         private_strdup, private_calloc))
		err_set(&curl_missing, ERR_RESOURCE, "cannot initialise libcurl.so.4");
}

const char *store_http_library(void)
{
	pthread_once(&curl_once, load_curl);
	return curl_missing.code ? NULL : curl.version_info(CURLVERSION_NOW)->version;
}

/* ---- the store ---- */

struct http {
	struct store store;
	CURLM *multi; /* keeps the connection; a wait in it can be interrupted */
	CURL *easy;   /* for one exchange: see fresh_handle */
	char *ca_file;
	struct curl_slist *headers;
	char *name; /* the URL as given, without a trailing slash, for messages */
	char *base; /* "http://host:port/v1/kv/prefix/", followed by the encoded key */
	char local[64];
	uint64_t jitter;
	int64_t paced; /* when the next request would be due if all were PACE apart */
	/* the answer that is being received */
	char *body;
	size_t body_len;
	bool body_too_large;
	uint64_t index; /* X-Consul-Index, 0: none */
	char why[CURL_ERROR_SIZE];
};

struct request {
	const char *method, *key, *query; /* query: "?cas=1" or "" */
	bool waits;                       /* a blocking query */
	const void *data;
	size_t len;
};

static struct http *http_of(struct store *s)
{
	return (struct http *)s;
}

static bool is_asked(const struct http *s)
{
	return store_is_interrupted(&s->store);
}

static void http_wake(struct store *store)
{
	(void)curl.multi_wakeup(http_of(store)->multi);
}

static size_t on_body(char *data, size_t size, size_t count, void *arg)
{
	struct http *s = arg;
	size_t len = size * count;

	if (len > BODY_MAX - s->body_len) {
		s->body_too_large = true;
		return 0; /* ends the transfer */
	}
	memcpy(s->body + s->body_len, data, len);
	s->body_len += len;
	return len;
}

static bool is_blank(char c)
{
	return c == ' ' || c == '\t' || c == '\r' || c == '\n';
}

/* The number in the text from @p to @end, which may have blanks around it; 0: there is none, or it
 * is too large. */
static uint64_t parse_number(const char *p, const char *end)
{
	uint64_t n = 0;

	while (p < end && is_blank(*p))
		p++;
	while (p < end && is_blank(end[-1]))
		end--;
	for (; p < end; p++) {
		unsigned digit = (unsigned)(*p - '0');
		if (*p < '0' || *p > '9' || n > (UINT64_MAX - digit) / 10)
			return 0;
		n = 10 * n + digit;
	}
	return n;
}

/* @data is one header line as received, with its CRLF and without a NUL. */
static size_t on_header(char *data, size_t size, size_t count, void *arg)
{
	static const char name[] = "X-Consul-Index:";
	struct http *s = arg;
	size_t len = size * count;

	if (len >= 5 && memcmp(data, "HTTP/", 5) == 0) /* the final answer, after one of 1xx */
		s->index = 0;
	if (len >= sizeof name - 1 && strncasecmp(data, name, sizeof name - 1) == 0)
		s->index = parse_number(data + sizeof name - 1, data + len);
	return len;
}

/* Percent-encode @s, except the unreserved characters and '/', at @at; NULL: no room. */
static char *encode(char *at, const char *end, const char *s)
{
	static const char hex[] = "0123456789ABCDEF";

	for (; *s; s++) {
		unsigned char c = (unsigned char)*s;
		bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') ||
		             (c >= 'A' && c <= 'Z') || strchr("-._~/", c);
		if (end - at < 4)
			return NULL;
		if (plain) {
			*at++ = (char)c;
			continue;
		}
		*at++ = '%';
		*at++ = hex[c >> 4];
		*at++ = hex[c & 15];
	}
	*at = '\0';
	return at;
}

static const char *const schemes[] = {"http://", "https://", "consul+http://", "consul+https://",
                                      NULL};

/* The text after the scheme, and *plain: "http://" or "https://". */
static const char *split_scheme(const char *url, const char **plain)
{
	const char *s = strncasecmp(url, "consul+", 7) == 0 ? url + 7 : url;

	*plain = strncasecmp(s, "https", 5) == 0 ? "https://" : "http://";
	return s + strlen(*plain);
}

static int check_rest(const char *url, const char *rest, struct err *err)
{
	size_t host = strcspn(rest, "/?#");

	if (host == 0)
		return err_set(err, ERR_USAGE, "%s: names no host", url);
	/* A password would be visible in the process list and in every message. */
	if (memchr(rest, '@', host))
		return err_set(
		        err, ERR_USAGE,
		        "the store's URL has a user name; give a token with --store-token-file");
	for (const char *c = rest; *c; c++)
		if ((unsigned char)*c <= ' ' || *c == 0x7f || strchr("?#\\\"<>{}|^`%", *c))
			return err_set(err, ERR_USAGE, "%s: '%c' is not allowed in a store's URL",
			               url, *c);
	if (strlen(rest) > KEY_MAX / 2)
		return err_set(err, ERR_USAGE, "a store's URL of more than %d bytes", KEY_MAX / 2);
	return 0;
}

static int parse_url(struct http *s, const char *url, struct err *err)
{
	const char *plain;
	const char *rest = split_scheme(url, &plain);

	if (check_rest(url, rest, err) < 0)
		return -1;
	size_t len = strlen(rest), host = strcspn(rest, "/");
	while (len > host && rest[len - 1] == '/')
		len--;
	if (asprintf(&s->name, "%.*s", (int)(rest + len - url), url) < 0)
		s->name = NULL;
	/* The path is a prefix of the keys: "/v1/kv" + "/prefix" + "/". */
	if (asprintf(&s->base, "%s%.*s/v1/kv%.*s/", plain, (int)host, rest, (int)(len - host),
	             rest + host) < 0)
		s->base = NULL;
	if (!s->name || !s->base)
		return err_nomem(err, "the store's URL", strlen(url));
	return 0;
}

static int add_header(struct http *s, const char *line, struct err *err)
{
	struct curl_slist *more = curl.slist_append(s->headers, line);

	if (!more)
		return err_nomem(err, "the store's headers", strlen(line));
	s->headers = more;
	return 0;
}

static int set_headers(struct http *s, const char *token, struct err *err)
{
	char line[1024];

	/* Neither "Expect: 100-continue" nor form encoding: the body is the bytes of a value. */
	if (add_header(s, "Expect:", err) < 0 ||
	    add_header(s, "Content-Type: application/octet-stream", err) < 0)
		return -1;
	if (!token || !*token)
		return 0;
	if (strpbrk(token, "\r\n") || strlen(token) > sizeof line - 32)
		return err_set(err, ERR_USAGE, "the store's token has a line break or is too long");
	snprintf(line, sizeof line, "X-Consul-Token: %s", token);
	int ret = add_header(s, line, err);
	explicit_bzero(line, sizeof line);
	return ret;
}

/* Allow only the protocol of the URL. libcurl before 7.85 needs the option that newer headers
 * deprecate. */
static CURLcode set_protocol(CURL *easy, bool https)
{
	const CURLoption old = (CURLoption)181; /* CURLOPT_PROTOCOLS */
	CURLcode rc = curl.easy_setopt(easy, CURLOPT_PROTOCOLS_STR, https ? "https" : "http");

	if (rc == CURLE_UNKNOWN_OPTION)
		rc = curl.easy_setopt(easy, old, https ? 2L /* CURLPROTO_HTTPS */ : 1L);
	return rc;
}

static int set_options(struct http *s, struct err *err)
{
	CURL *e = s->easy;
	bool https = strncmp(s->base, "https", 5) == 0;
	bool bad = false;

#define SET(option, value) bad |= curl.easy_setopt(e, option, value) != CURLE_OK
	SET(CURLOPT_NOSIGNAL, 1L);
	SET(CURLOPT_FOLLOWLOCATION, 0L);
	SET(CURLOPT_SSL_VERIFYPEER, 1L);
	SET(CURLOPT_SSL_VERIFYHOST, 2L);
	SET(CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
	SET(CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1);
	SET(CURLOPT_PATH_AS_IS, 1L);
	SET(CURLOPT_PROXY, "");
	SET(CURLOPT_TCP_NODELAY, 1L);
	SET(CURLOPT_MAXFILESIZE, (long)BODY_MAX);
	SET(CURLOPT_HTTPHEADER, s->headers);
	SET(CURLOPT_ERRORBUFFER, s->why);
	SET(CURLOPT_WRITEFUNCTION, on_body);
	SET(CURLOPT_WRITEDATA, s);
	SET(CURLOPT_HEADERFUNCTION, on_header);
	SET(CURLOPT_HEADERDATA, s);
	SET(CURLOPT_USERAGENT, "collctl");
	if (https && s->ca_file)
		SET(CURLOPT_CAINFO, s->ca_file);
#undef SET
	if (bad || set_protocol(e, https) != CURLE_OK)
		return err_set(err, ERR_RESOURCE, "libcurl lacks an option that a store needs");
	return 0;
}

/* A new handle for each exchange. libcurl before 8.1 keeps a pointer to the last header that a
 * handle has received, which the next exchange frees, and follows it when an answer begins with a
 * folded line. The multi handle keeps the connection. */
static int fresh_handle(struct http *s, struct err *err)
{
	if (s->easy)
		curl.easy_cleanup(s->easy);
	s->easy = curl.easy_init();
	if (!s->easy)
		return err_nomem(err, "a request to the store", BODY_MAX);
	return set_options(s, err);
}

/* The certificates that the environment names in place of the system's. */
static int trust_environment(struct http *s, struct err *err)
{
	const char *ca = getenv("CURL_CA_BUNDLE");

	if (!ca || !*ca)
		ca = getenv("SSL_CERT_FILE");
	return strncmp(s->base, "https", 5) == 0 && ca && *ca ? store_http_trust(&s->store, ca, err)
	                                                      : 0;
}

static void http_close(struct store *store);

static struct store *http_open(const char *url, const char *token, struct err *err)
{
	struct http *s = calloc(1, sizeof *s);

	if (!s) {
		err_nomem(err, "the store", sizeof *s);
		return NULL;
	}
	s->jitter = (uint64_t)clock_ns() ^ (uint64_t)getpid() << 32;
	s->paced = INT64_MIN;
	if (parse_url(s, url, err) < 0)
		goto fail;
	pthread_once(&curl_once, load_curl);
	if (curl_missing.code) {
		err_set(err, curl_missing.code, "%s", curl_missing.text);
		goto fail;
	}
	s->body = malloc(BODY_MAX);
	s->multi = s->body ? curl.multi_init() : NULL;
	if (!s->multi) {
		err_nomem(err, "the store's client", BODY_MAX);
		goto fail;
	}
	if (set_headers(s, token, err) < 0 || trust_environment(s, err) < 0 ||
	    fresh_handle(s, err) < 0)
		goto fail;
	return &s->store;
fail:
	http_close(&s->store);
	return NULL;
}

static void http_close(struct store *store)
{
	struct http *s = http_of(store);

	if (s->easy)
		curl.easy_cleanup(s->easy);
	if (s->multi)
		curl.multi_cleanup(s->multi);
	if (s->headers)
		curl.slist_free_all(s->headers);
	free(s->ca_file);
	free(s->body);
	free(s->base);
	free(s->name);
	free(s);
}

int store_http_trust(struct store *store, const char *ca_file, struct err *err)
{
	struct http *s = http_of(store);

	if (access(ca_file, R_OK) < 0)
		return err_errno(err, ERR_INPUT, "%s", ca_file);
	char *copy = strdup(ca_file);
	if (!copy)
		return err_nomem(err, "the store's certificates", strlen(ca_file));
	free(s->ca_file);
	s->ca_file = copy;
	return 0;
}

static int http_local_address(struct store *store, char *buf, size_t cap)
{
	const struct http *s = http_of(store);

	if (!s->local[0] || strlen(s->local) >= cap)
		return -1;
	memcpy(buf, s->local, strlen(s->local) + 1);
	return 0;
}

/* ---- one request ---- */

static long to_ms(int64_t ns)
{
	return ns < NS_PER_MS ? 1 : (long)(ns / NS_PER_MS);
}

static int prepare(struct http *s, const struct request *r, int64_t limit, struct err *err)
{
	char url[2 * KEY_MAX + 3 * KEY_MAX], *at = url;
	bool bad = false;

	if (fresh_handle(s, err) < 0)
		return -1;
	CURL *e = s->easy;
	at += snprintf(at, sizeof url, "%s", s->base);
	at = strlen(r->key) > KEY_MAX ? NULL : encode(at, url + sizeof url, r->key);
	if (!at || (size_t)(url + sizeof url - at) <= strlen(r->query))
		return err_set(err, ERR_USAGE, "%.60s...: a key of more than %d bytes", r->key,
		               KEY_MAX);
	memcpy(at, r->query, strlen(r->query) + 1);

#define SET(option, value) bad |= curl.easy_setopt(e, option, value) != CURLE_OK
	SET(CURLOPT_URL, url);
	if (r->data) {
		SET(CURLOPT_POST, 1L);
		SET(CURLOPT_POSTFIELDS, r->data);
		SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->len);
	} else {
		SET(CURLOPT_HTTPGET, 1L);
	}
	if (strcmp(r->method, "GET") != 0)
		SET(CURLOPT_CUSTOMREQUEST, r->method);
	SET(CURLOPT_TIMEOUT_MS, to_ms(limit));
	SET(CURLOPT_CONNECTTIMEOUT_MS, to_ms(limit < CONNECT_TIME ? limit : CONNECT_TIME));
#undef SET
	return bad ? err_nomem(err, "a request to the store", sizeof url) : 0;
}

enum outcome {
	DONE,  /* an HTTP answer that is no server error */
	RETRY, /* err is the latest error */
	FAIL,
};

/* The exchange brought no answer. */
static enum outcome transfer_failed(struct http *s, CURLcode rc, int tries, struct err *err)
{
	const char *why = s->why[0] ? s->why : curl.easy_strerror(rc);

	if (s->body_too_large || rc == CURLE_FILESIZE_EXCEEDED) {
		err_set(err, ERR_RENDEZVOUS, "%s: an answer of more than %zu bytes", s->name,
		        BODY_MAX);
		return FAIL;
	}
	switch (rc) {
	case CURLE_ABORTED_BY_CALLBACK:
		err_set(err, ERR_OTHER, "%s: interrupted", s->name);
		return FAIL;
	case CURLE_URL_MALFORMAT:
		err_set(err, ERR_USAGE, "%s: %s", s->name, why);
		return FAIL;
	case CURLE_OUT_OF_MEMORY:
	case CURLE_FAILED_INIT:
		err_set(err, ERR_RESOURCE, "%s: %s", s->name, why);
		return FAIL;
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CACERT_BADFILE:
	case CURLE_SSL_CERTPROBLEM:
		err_set(err, ERR_AUTH, "%s: %s", s->name, why);
		return FAIL;
	case CURLE_SSL_CONNECT_ERROR: /* a reset, or a server without TLS */
	case CURLE_WEIRD_SERVER_REPLY:
	case CURLE_UNSUPPORTED_PROTOCOL:
		err_set(err, ERR_RENDEZVOUS, "%s: %s", s->name, why);
		return tries < HANDSHAKE_TRIES ? RETRY : FAIL;
	default:
		err_set(err, ERR_RENDEZVOUS, "%s: %s", s->name, why);
		return RETRY;
	}
}

static enum outcome judge_status(struct http *s, long status, struct err *err)
{
	if (status == 200 || status == 404)
		return DONE;
	if (status == 401 || status == 403) {
		err_set(err, ERR_AUTH,
		        "%s: HTTP %ld: the token is missing or wrong; see --store-token-file",
		        s->name, status);
		return FAIL;
	}
	if (status / 100 == 3) {
		err_set(err, ERR_RENDEZVOUS, "%s: HTTP %ld: redirects are not followed", s->name,
		        status);
		return FAIL;
	}
	err_set(err, ERR_RENDEZVOUS, "%s: HTTP %ld", s->name, status);
	return status >= 500 || status == 429 ? RETRY : FAIL;
}

static void keep_local_address(struct http *s)
{
	char *ip = NULL;

	if (curl.easy_getinfo(s->easy, CURLINFO_LOCAL_IP, &ip) == CURLE_OK && ip && *ip)
		snprintf(s->local, sizeof s->local, "%s", ip);
}

/* Run the transfer to its end, or until a request to stop. */
static CURLcode transfer(struct http *s)
{
	CURLMcode rc = curl.multi_add_handle(s->multi, s->easy);
	CURLcode result = CURLE_ABORTED_BY_CALLBACK;
	const CURLMsg *msg;
	int running = 1, left;

	while (rc == CURLM_OK && !is_asked(s)) {
		rc = curl.multi_perform(s->multi, &running);
		if (rc != CURLM_OK || !running)
			break;
		rc = curl.multi_poll(s->multi, NULL, 0, ASK_MS, NULL);
	}
	if (rc != CURLM_OK)
		result = rc == CURLM_OUT_OF_MEMORY ? CURLE_OUT_OF_MEMORY : CURLE_FAILED_INIT;
	while ((msg = curl.multi_info_read(s->multi, &left)))
		if (msg->msg == CURLMSG_DONE)
			result = msg->data.result;
	curl.multi_remove_handle(s->multi, s->easy);
	return result;
}

static enum outcome try_once(struct http *s, const struct request *r, int64_t limit, int tries,
                             long *status, struct err *err)
{
	s->body_len = 0;
	s->body_too_large = false;
	s->index = 0;
	s->why[0] = '\0';
	if (prepare(s, r, limit, err) < 0)
		return FAIL;
	CURLcode rc = transfer(s);
	if (rc != CURLE_OK)
		return transfer_failed(s, rc, tries, err);
	curl.easy_getinfo(s->easy, CURLINFO_RESPONSE_CODE, status);
	keep_local_address(s);
	return judge_status(s, *status, err);
}

/* Pause until @until or @deadline, or until a request to stop. */
static void pause_until(struct http *s, int64_t until, int64_t deadline)
{
	int64_t left;

	if (until > deadline)
		until = deadline;
	while ((left = until - clock_ns()) > 0 && !is_asked(s)) {
		int ms = left > ASK_MS * NS_PER_MS ? ASK_MS : (int)to_ms(left);
		if (curl.multi_poll(s->multi, NULL, 0, ms, NULL) != CURLM_OK)
			return;
	}
}

/* Pause for about @ns: half of it and a random part of the other half, so that the ranks of a job
 * do not return all at once. Not beyond @deadline. */
static void back_off(struct http *s, int64_t ns, int64_t deadline)
{
	s->jitter = s->jitter * 6364136223846793005u + 1442695040888963407u;
	pause_until(s, clock_ns() + ns / 2 + (int64_t)(s->jitter >> 33) % (ns / 2 + 1), deadline);
}

/* Whatever the store answers, it gets a few requests a second, not thousands. With a store in
 * order, a job never uses up the burst. */
static void keep_pace(struct http *s, int64_t deadline)
{
	int64_t now = clock_ns();

	if (s->paced < now - BURST * PACE)
		s->paced = now - BURST * PACE;
	pause_until(s, s->paced, deadline);
	s->paced += PACE;
}

/* Send @r until it is answered (returns 0 and *status), or fails for good, or the deadline. *tries
 * counts the requests. @err is the latest error. */
static int exchange(struct http *s, struct request *r, int64_t limit, int64_t deadline, int *tries,
                    long *status, struct err *err)
{
	struct err last = {.rank = ERR_RANK_SELF};
	int64_t pause = BACKOFF_FIRST;

	for (*tries = 0;;) {
		keep_pace(s, deadline);
		int64_t left = deadline - clock_ns();
		if (left <= 0 && *tries > 0)
			break;
		/* Try once even if no time is left: after a deadline that has just passed, the
		 * error should describe the store's state. */
		struct err now = {.rank = ERR_RANK_SELF};
		if (left < 50 * NS_PER_MS && *tries == 0)
			left = 50 * NS_PER_MS;
		enum outcome o =
		        try_once(s, r, left < limit ? left : limit, ++*tries, status, &now);
		if (o == DONE)
			return 0;
		/* An error before the deadline is more useful than that the deadline cut off the
		 * request. */
		if (!last.code || o == FAIL || clock_ns() < deadline - NS_PER_MS)
			last = now;
		if (o == FAIL || is_asked(s))
			break;
		/* The store may have restarted meanwhile: ask for the current value. */
		if (r->waits)
			r->query = "";
		back_off(s, pause, deadline);
		pause = 2 * pause < BACKOFF_LAST ? 2 * pause : BACKOFF_LAST;
	}
	return err_pass(err, &last);
}

/* ---- operations ---- */

/* How long the server may keep a blocking query, so that its answer (Consul adds up to 1/16) comes
 * before the deadline. 0: no time to wait. */
static int64_t query_wait(int64_t deadline)
{
	int64_t left = deadline - clock_ns();
	int64_t margin = left / 8 < WAIT_MARGIN ? left / 8 : WAIT_MARGIN;

	if (left - margin > WAIT_MAX)
		return WAIT_MAX;
	return left < 10 * NS_PER_MS ? 0 : left - margin;
}

static int read_answer(struct http *s, long status, struct store_value *out, struct err *err)
{
	struct err why = {.rank = ERR_RANK_SELF};

	*out = (struct store_value){0};
	/* Any web server answers 404; only a store sends an index. */
	if (s->index == 0)
		return err_set(err, ERR_RENDEZVOUS,
		               "%s: not a key-value store: HTTP %ld without X-Consul-Index",
		               s->name, status);
	if (status == 404 || store_value_parse(out, s->body, s->body_len, &why) == 0)
		return 0;
	return err_set(err, why.code, "%s: %s", s->name, why.text);
}

static int get(struct http *s, const char *key, uint64_t wait_index, struct store_value *out,
               uint64_t *next_wait_index, int64_t deadline, struct err *err)
{
	*out = (struct store_value){0};
	for (;;) {
		char query[80] = "";
		int64_t wait = wait_index ? query_wait(deadline) : 0;
		long status;
		int tries;
		if (wait)
			snprintf(query, sizeof query, "?index=%llu&wait=%lldms",
			         (unsigned long long)wait_index, (long long)(wait / NS_PER_MS));
		struct request r = {.method = "GET", .key = key, .query = query, .waits = wait > 0};
		if (exchange(s, &r, wait + wait / 16 + REQUEST_TIME, deadline, &tries, &status,
		             err) < 0 ||
		    read_answer(s, status, out, err) < 0)
			return -1;
		if (s->index != wait_index || wait < WAIT_MAX)
			break;
		free(out->data);
	}
	if (next_wait_index)
		*next_wait_index = s->index < wait_index ? 0 : s->index;
	return 0;
}

/* The body of an answer to PUT or DELETE. */
static int read_verdict(struct http *s, long status, struct err *err)
{
	size_t len = s->body_len;

	while (len && (s->body[len - 1] == '\n' || s->body[len - 1] == '\r'))
		len--;
	if (status == 200 && len == 4 && memcmp(s->body, "true", 4) == 0)
		return 1;
	if (status == 200 && len == 5 && memcmp(s->body, "false", 5) == 0)
		return 0;
	return err_set(err, ERR_RENDEZVOUS,
	               "%s: not a key-value store: HTTP %ld and neither true "
	               "nor false",
	               s->name, status);
}

/* The first of several tries may have succeeded although its answer was lost. */
static int is_ours(struct http *s, const char *key, const void *data, size_t len, int64_t deadline,
                   struct err *err)
{
	struct store_value v;

	if (get(s, key, 0, &v, NULL, deadline, err) < 0)
		return -1;
	int same = v.index && v.len == len && (len == 0 || memcmp(v.data, data, len) == 0);
	free(v.data);
	return same;
}

static int http_put_if(struct store *store, const char *key, const void *data, size_t len,
                       uint64_t cas, int64_t deadline, struct err *err)
{
	struct http *s = http_of(store);
	char query[40];
	struct request r = {.method = "PUT", .key = key, .query = query, .data = data, .len = len};
	long status;
	int tries;

	if (len > STORE_VALUE_MAX)
		return err_set(err, ERR_OTHER, "%s: a value of %zu bytes; a store takes at most %u",
		               key, len, STORE_VALUE_MAX);
	if (len == 0)
		r.data = "";
	snprintf(query, sizeof query, "?cas=%llu", (unsigned long long)cas);
	if (exchange(s, &r, REQUEST_TIME, deadline, &tries, &status, err) < 0)
		return -1;
	int done = read_verdict(s, status, err);
	return done == 0 && tries > 1 ? is_ours(s, key, data, len, deadline, err) : done;
}

static int http_delete_if(struct store *store, const char *key, uint64_t cas, int64_t deadline,
                          struct err *err)
{
	struct http *s = http_of(store);
	char query[40];
	struct request r = {.method = "DELETE", .key = key, .query = query};
	long status;
	int tries;

	/* With cas=0 Consul deletes nothing, which the caller cannot mean. */
	if (cas == 0)
		return err_set(err, ERR_OTHER, "%s: cannot be deleted without its index", key);
	snprintf(query, sizeof query, "?cas=%llu", (unsigned long long)cas);
	if (exchange(s, &r, REQUEST_TIME, deadline, &tries, &status, err) < 0)
		return -1;
	return read_verdict(s, status, err);
}

static int http_get(struct store *store, const char *key, uint64_t wait_index,
                    struct store_value *out, uint64_t *next_wait_index, int64_t deadline,
                    struct err *err)
{
	return get(http_of(store), key, wait_index, out, next_wait_index, deadline, err);
}

const struct store_ops store_http = {
        .schemes = schemes,
        .open = http_open,
        .close = http_close,
        .get = http_get,
        .put_if = http_put_if,
        .delete_if = http_delete_if,
        .local_address = http_local_address,
        .wake = http_wake,
};
