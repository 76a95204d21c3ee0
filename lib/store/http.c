#include "lib/store/http.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <curl/curl.h>

#include "lib/base/library.h"
#include "lib/base/private.h"

#define HOSTS_MAX       16
#define URL_MAX         (HTTP_KEY_MAX / 2) /* bytes after the scheme */
#define WAIT_MARGIN     (5 * NS_PER_SEC / 2)
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

/* The token passes through libcurl's memory. */
static int begin_curl(struct err *err)
{
	if (curl.global_init_mem(CURL_GLOBAL_DEFAULT, private_malloc, private_free, private_realloc,
	                         private_strdup, private_calloc))
		return err_set(err, ERR_RESOURCE, "cannot initialise libcurl.so.4");
	return 0;
}

#define X(name) {#name, &curl.name, LIBRARY_LINKED(curl_##name)},
LIBRARY(libcurl, "store", "for a store", "libcurl4", "curl_", CURL_FUNCTIONS(X), begin_curl,
        "libcurl.so.4");
#undef X

const char *http_library(void)
{
	return library_open(&libcurl, NULL) < 0 ? NULL
	                                        : curl.version_info(CURLVERSION_NOW)->version;
}

/* ---- the client ---- */

struct host {
	char *name; /* its URL as given, without a trailing slash, for messages */
	char *base; /* "http://host:port" */
};

struct http_client {
	struct http *http;
	const struct http_dialect *dialect;
	struct store *store;
	CURLM *multi; /* keeps the connection; a wait in it can be interrupted */
	CURL *easy;   /* for one exchange: see fresh_handle */
	struct curl_slist *headers;
	char *ca_file, *cert_file, *key_file;
	char *prefix;
	bool https;
	struct host hosts[HOSTS_MAX];
	int nhosts, at; /* the one that is asked */
	int last;       /* the one that was asked last */
	char local[64];
	uint64_t jitter;
	int64_t paced; /* when the next request would be due if all were PACE apart */
	/* the request that is running */
	const struct http_request *request;
	bool body_too_large, enough;
	char why[CURL_ERROR_SIZE];
	bool failed; /* a request has failed before */
};

void http_wake(struct http *h)
{
	(void)curl.multi_wakeup(h->client->multi);
}

const char *http_prefix(const struct http *h)
{
	return h->client->prefix;
}

const char *http_name(const struct http *h)
{
	return h->client->hosts[h->client->last].name;
}

int http_hosts(const struct http *h)
{
	return h->client->nhosts;
}

/* Send further requests to the next host. */
static void next_host(struct http *h)
{
	h->client->at = (h->client->at + 1) % h->client->nhosts;
}

static size_t on_body(char *data, size_t size, size_t count, void *arg)
{
	struct http_client *c = arg;
	struct http *h = c->http;
	size_t len = size * count;

	if (len > HTTP_BODY_MAX - h->body_len) {
		c->body_too_large = true;
		return 0; /* ends the transfer */
	}
	memcpy(h->body + h->body_len, data, len);
	h->body_len += len;
	c->enough = c->request->is_enough &&
	            c->request->is_enough(c->request->ctx, h->body, h->body_len);
	return c->enough ? 0 : len;
}

static size_t on_header(char *data, size_t size, size_t count, void *arg)
{
	struct http_client *c = arg;

	if (c->dialect->on_header)
		c->dialect->on_header(c->store, data, size * count);
	return size * count;
}

char *http_encode(char *at, const char *end, const char *s)
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

/* ---- the URL ---- */

/* The text after the scheme, and *https. */
static const char *split_scheme(const char *url, bool *https)
{
	const char *rest = strstr(url, "://");
	const char *plus = memchr(url, '+', (size_t)(rest - url));

	*https = rest - (plus ? plus + 1 : url) == 5;
	return rest + 3;
}

static int check_rest(const char *url, bool several, const char *rest, struct err *err)
{
	size_t hosts = strcspn(rest, "/?#");

	if (hosts == 0)
		return err_set(err, ERR_USAGE, "%s: names no host", url);
	/* A password would be visible in the process list and in every message. */
	if (memchr(rest, '@', hosts))
		return err_set(
		        err, ERR_USAGE,
		        "the store's URL has a user name; give a token with --store-token-file");
	for (const char *c = rest; *c; c++)
		if ((unsigned char)*c <= ' ' || *c == 0x7f || strchr("?#\\\"<>{}|^`%", *c))
			return err_set(err, ERR_USAGE, "%s: '%c' is not allowed in a store's URL",
			               url, *c);
	if (strlen(rest) > URL_MAX)
		return err_set(err, ERR_USAGE, "a store's URL of more than %d bytes", URL_MAX);
	if (!several && memchr(rest, ',', hosts))
		return err_set(err, ERR_USAGE, "%s: names more than one host; this store has one",
		               url);
	return 0;
}

static bool has_port(const char *host, size_t len)
{
	const char *bracket = memchr(host, ']', len);
	const char *from = bracket ? bracket : host;

	return memchr(from, ':', (size_t)(host + len - from)) != NULL;
}

static int add_host(struct http_client *c, const char *url, const char *host, size_t len,
                    struct err *err)
{
	const char *end = strstr(url, "://") + 3;
	struct host *h = &c->hosts[c->nhosts];
	char port[16] = "";

	if (len == 0)
		return err_set(err, ERR_USAGE, "%s: has an empty host", url);
	if (c->nhosts == HOSTS_MAX)
		return err_set(err, ERR_USAGE, "%s: names more than %d hosts", url, HOSTS_MAX);
	c->nhosts++;
	if (c->dialect->default_port && !has_port(host, len))
		snprintf(port, sizeof port, ":%d", c->dialect->default_port);
	h->name = err_asprintf("the store's URL", err, "%.*s%.*s%s", (int)(end - url), url,
	                       (int)len, host, c->prefix);
	h->base = err_asprintf("the store's URL", err, "%s://%.*s%s", c->https ? "https" : "http",
	                       (int)len, host, port);
	return h->name && h->base ? 0 : -1;
}

static int parse_url(struct http_client *c, const char *url, struct err *err)
{
	const char *rest = split_scheme(url, &c->https);

	if (check_rest(url, c->dialect->several, rest, err) < 0)
		return -1;
	size_t len = strlen(rest), hosts = strcspn(rest, "/");
	while (len > hosts && rest[len - 1] == '/')
		len--;
	if (!(c->prefix = err_strndup(rest + hosts, len - hosts, "the store's URL", err)))
		return -1;
	for (const char *host = rest, *end = rest + hosts; host <= end;) {
		const char *comma = memchr(host, ',', (size_t)(end - host));
		size_t n = (size_t)((comma ? comma : end) - host);
		if (add_host(c, url, host, n, err) < 0)
			return -1;
		host += n + 1;
	}
	return 0;
}

/* ---- options ---- */

static int add_header(struct curl_slist **headers, const char *line, struct err *err)
{
	struct curl_slist *more = curl.slist_append(*headers, line);

	if (!more)
		return err_nomem(err, "the store's headers", strlen(line));
	*headers = more;
	return 0;
}

int http_set_secret(struct http *h, const char *name, const char *value, struct err *err)
{
	struct http_client *c = h->client;
	struct curl_slist *headers = NULL;
	char line[1024];
	int ret = -1;

	if (value && (strpbrk(value, "\r\n") || strlen(value) > sizeof line - 32))
		return err_set(err, ERR_USAGE, "the store's token has a line break or is too long");
	/* Neither "Expect: 100-continue" nor form encoding: the body is the bytes of a value. */
	snprintf(line, sizeof line, "Content-Type: %s", c->dialect->type);
	if (add_header(&headers, "Expect:", err) < 0 || add_header(&headers, line, err) < 0)
		goto out;
	snprintf(line, sizeof line, "%s: %s", name, value ? value : "");
	if (value && add_header(&headers, line, err) < 0)
		goto out;
	curl.slist_free_all(c->headers);
	c->headers = headers;
	headers = NULL;
	ret = 0;
out:
	wipe(line, sizeof line);
	if (headers)
		curl.slist_free_all(headers);
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

static int set_options(struct http_client *c, struct err *err)
{
	CURL *e = c->easy;
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
	SET(CURLOPT_MAXFILESIZE, (long)HTTP_BODY_MAX);
	SET(CURLOPT_HTTPHEADER, c->headers);
	SET(CURLOPT_ERRORBUFFER, c->why);
	SET(CURLOPT_WRITEFUNCTION, on_body);
	SET(CURLOPT_WRITEDATA, c);
	SET(CURLOPT_HEADERFUNCTION, on_header);
	SET(CURLOPT_HEADERDATA, c);
	SET(CURLOPT_USERAGENT, "collctl");
	if (c->https && c->ca_file)
		SET(CURLOPT_CAINFO, c->ca_file);
	if (c->https && c->cert_file)
		SET(CURLOPT_SSLCERT, c->cert_file);
	if (c->https && c->key_file)
		SET(CURLOPT_SSLKEY, c->key_file);
#undef SET
	if (bad || set_protocol(e, c->https) != CURLE_OK)
		return err_set(err, ERR_RESOURCE, "libcurl lacks an option that a store needs");
	return 0;
}

/* A new handle for each exchange. libcurl before 8.1 keeps a pointer to the last header that a
 * handle has received, which the next exchange frees, and follows it when an answer begins with a
 * folded line. The multi handle keeps the connection. */
static int fresh_handle(struct http_client *c, struct err *err)
{
	if (c->easy)
		curl.easy_cleanup(c->easy);
	c->easy = curl.easy_init();
	if (!c->easy)
		return err_nomem(err, "a request to the store", HTTP_BODY_MAX);
	return set_options(c, err);
}

/* A readable file. *copy is its name. */
static int take_file(char **copy, const char *file, struct err *err)
{
	if (!file)
		return 0;
	if (access(file, R_OK) < 0)
		return err_errno(err, ERR_INPUT, "%s", file);
	*copy = err_strdup(file, "the store's certificates", err);
	return *copy ? 0 : -1;
}

/* The system's certificates, for a libcurl that knows no system; NULL: libcurl finds them. */
static const char *ca_of_system(void)
{
#ifdef COLLCTL_LINKED
	static const char *const files[] = {
	        "/etc/ssl/certs/ca-certificates.crt", /* Debian, Alpine */
	        "/etc/pki/tls/certs/ca-bundle.crt",   /* CentOS, Fedora */
	        "/etc/ssl/ca-bundle.pem",             /* SUSE */
	};
	for (size_t i = 0; i < sizeof files / sizeof *files; i++)
		if (access(files[i], R_OK) == 0)
			return files[i];
#endif
	return NULL;
}

/* The certificates that the environment names in place of the system's. */
static const char *ca_of_environment(void)
{
	const char *ca = getenv("CURL_CA_BUNDLE");

	if (!ca || !*ca)
		ca = getenv("SSL_CERT_FILE");
	return ca && *ca ? ca : ca_of_system();
}

static int take_files(struct http_client *c, const struct store_conf *conf, struct err *err)
{
	if (!c->https && (conf->ca_file || conf->cert_file || conf->key_file))
		return err_set(
		        err, ERR_USAGE,
		        "%s: has no TLS, so --store-ca, --store-cert and --store-key have no "
		        "use: give an https URL",
		        conf->url);
	if (!c->https)
		return 0;
	if (take_file(&c->ca_file, conf->ca_file ? conf->ca_file : ca_of_environment(), err) < 0 ||
	    take_file(&c->cert_file, conf->cert_file, err) < 0)
		return -1;
	return take_file(&c->key_file, conf->key_file, err);
}

int http_init(struct http *h, const struct http_dialect *dialect, const struct store_conf *conf,
              struct store *store, struct err *err)
{
	struct http_client *c = err_calloc(1, sizeof *c, "the store's client", err);

	*h = (struct http){.client = c};
	if (!c)
		return -1;
	c->http = h;
	c->dialect = dialect;
	c->store = store;
	c->jitter = (uint64_t)clock_ns() ^ (uint64_t)getpid() << 32;
	c->paced = INT64_MIN;
	if (parse_url(c, conf->url, err) < 0)
		goto fail;
	if (library_open(&libcurl, err) < 0)
		goto fail;
	h->body = malloc(HTTP_BODY_MAX);
	c->multi = h->body ? curl.multi_init() : NULL;
	if (!c->multi) {
		err_nomem(err, "the store's client", HTTP_BODY_MAX);
		goto fail;
	}
	if (http_set_secret(h, "", NULL, err) < 0 || take_files(c, conf, err) < 0 ||
	    fresh_handle(c, err) < 0)
		goto fail;
	return 0;
fail:
	http_release(h);
	return -1;
}

void http_release(struct http *h)
{
	struct http_client *c = h->client;

	if (!c)
		return;
	if (c->easy)
		curl.easy_cleanup(c->easy);
	if (c->multi)
		curl.multi_cleanup(c->multi);
	if (c->headers)
		curl.slist_free_all(c->headers);
	for (int i = 0; i < c->nhosts; i++) {
		free(c->hosts[i].name);
		free(c->hosts[i].base);
	}
	wipe(h->body, h->body ? HTTP_BODY_MAX : 0);
	free(h->body);
	free(c->ca_file);
	free(c->cert_file);
	free(c->key_file);
	free(c->prefix);
	free(c);
	*h = (struct http){0};
}

int http_local_address(const struct http *h, char *buf, size_t cap)
{
	const char *local = h->client->local;

	if (!local[0] || strlen(local) >= cap)
		return -1;
	memcpy(buf, local, strlen(local) + 1);
	return 0;
}

/* ---- one try ---- */

static long to_ms(int64_t ns)
{
	return ns < NS_PER_MS ? 1 : (long)(ns / NS_PER_MS);
}

static int prepare(struct http_client *c, const char *path, int64_t limit, struct err *err)
{
	const struct http_request *r = c->request;
	char url[URL_MAX + 4 * HTTP_KEY_MAX];
	bool bad = false;

	if (fresh_handle(c, err) < 0)
		return -1;
	CURL *e = c->easy;
	snprintf(url, sizeof url, "%s%s", c->hosts[c->at].base, path);

#define SET(option, value) bad |= curl.easy_setopt(e, option, value) != CURLE_OK
	SET(CURLOPT_URL, url);
	if (r->data) {
		SET(CURLOPT_POST, 1L);
		SET(CURLOPT_POSTFIELDS, r->data);
		SET(CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)r->len);
	} else {
		SET(CURLOPT_HTTPGET, 1L);
	}
	if (strcmp(r->method, r->data ? "POST" : "GET") != 0)
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

/* " (192.0.2.7 port 2379, after 12 ms)"; "" if there was no connection: libcurl's own text then
 * names the host and the time. */
static const char *describe_peer(const struct http_client *c, char *text, size_t cap)
{
	char *ip = NULL;
	long port = 0;
	curl_off_t us = 0;

	*text = '\0';
	if (curl.easy_getinfo(c->easy, CURLINFO_PRIMARY_IP, &ip) == CURLE_OK && ip && *ip &&
	    curl.easy_getinfo(c->easy, CURLINFO_PRIMARY_PORT, &port) == CURLE_OK &&
	    curl.easy_getinfo(c->easy, CURLINFO_TOTAL_TIME_T, &us) == CURLE_OK)
		snprintf(text, cap, " (%s port %ld, after %lld ms)", ip, port,
		         (long long)us / 1000);
	return text;
}

/* With TLS 1.3 the server's alert comes after the handshake, as an error in reading. */
static bool is_certificate_refused(const char *why)
{
	static const char *const alerts[] = {"alert certificate required", "alert bad certificate",
	                                     "alert unknown ca", "alert certificate expired"};

	for (size_t i = 0; i < sizeof alerts / sizeof *alerts; i++)
		if (strstr(why, alerts[i]))
			return true;
	return false;
}

/* The exchange brought no answer. */
static enum outcome transfer_failed(struct http_client *c, CURLcode rc, int tries, struct err *err)
{
	const char *name = c->hosts[c->at].name;
	const char *why = c->why[0] ? c->why : curl.easy_strerror(rc);
	char peer[128];
	long cause = 0; /* errno */

	if (c->body_too_large || rc == CURLE_FILESIZE_EXCEEDED) {
		err_set(err, ERR_RENDEZVOUS, "%s: an answer of more than %zu bytes", name,
		        HTTP_BODY_MAX);
		return FAIL;
	}
	describe_peer(c, peer, sizeof peer);
	switch (rc) {
	case CURLE_ABORTED_BY_CALLBACK:
		err_set(err, ERR_OTHER, "%s: interrupted", name);
		return FAIL;
	case CURLE_URL_MALFORMAT:
		err_set(err, ERR_USAGE, "%s: %s", name, why);
		return FAIL;
	case CURLE_OUT_OF_MEMORY:
	case CURLE_FAILED_INIT:
		err_set(err, ERR_RESOURCE, "%s: %s", name, why);
		return FAIL;
	case CURLE_SSL_CACERT_BADFILE:
		err_set(err, ERR_AUTH,
		        "%s: %s: install the certificates of public CAs (Debian's package "
		        "ca-certificates), or give the store's with --store-ca",
		        name, why);
		return FAIL;
	case CURLE_PEER_FAILED_VERIFICATION:
	case CURLE_SSL_CERTPROBLEM:
		err_set(err, ERR_AUTH, "%s: %s", name, why);
		return FAIL;
	case CURLE_SSL_CONNECT_ERROR: /* a reset, or a server without TLS */
	case CURLE_WEIRD_SERVER_REPLY:
	case CURLE_UNSUPPORTED_PROTOCOL:
		err_set(err, ERR_RENDEZVOUS, "%s: %s%s", name, why, peer);
		return tries < HANDSHAKE_TRIES * c->nhosts ? RETRY : FAIL;
	default:
		break;
	}
	if (is_certificate_refused(why)) {
		err_set(err, ERR_AUTH, "%s: %s; see --store-cert", name, why);
		return FAIL;
	}
	if (rc == CURLE_COULDNT_CONNECT &&
	    curl.easy_getinfo(c->easy, CURLINFO_OS_ERRNO, &cause) == CURLE_OK && cause)
		err_set(err, ERR_RENDEZVOUS, "%s: cannot connect: %s", name, strerror((int)cause));
	else
		err_set(err, ERR_RENDEZVOUS, "%s: %s%s", name, why, peer);
	return RETRY;
}

static enum outcome judge_status(const struct http_client *c, struct err *err)
{
	const char *name = c->hosts[c->at].name;
	long status = c->http->status;
	char why[200] = "", peer[128];

	if (status / 100 == 3) {
		err_set(err, ERR_RENDEZVOUS, "%s: HTTP %ld: redirects are not followed", name,
		        status);
		return FAIL;
	}
	if (status < 500 && status != 429 && status != 408)
		return DONE;
	if (c->dialect->explain)
		c->dialect->explain(c->http->body, c->http->body_len, why, sizeof why);
	err_set(err, ERR_RENDEZVOUS, "%s: HTTP %ld%s%s%s", name, status, *why ? ": " : "", why,
	        describe_peer(c, peer, sizeof peer));
	return RETRY;
}

static void keep_local_address(struct http_client *c)
{
	char *ip = NULL;

	if (curl.easy_getinfo(c->easy, CURLINFO_LOCAL_IP, &ip) == CURLE_OK && ip && *ip)
		snprintf(c->local, sizeof c->local, "%s", ip);
}

/* Run the transfer to its end, or until a request to stop. */
static CURLcode transfer(struct http_client *c)
{
	CURLMcode rc = curl.multi_add_handle(c->multi, c->easy);
	CURLcode result = CURLE_ABORTED_BY_CALLBACK;
	const CURLMsg *msg;
	int running = 1, left;

	while (rc == CURLM_OK && !store_is_interrupted(c->store)) {
		rc = curl.multi_perform(c->multi, &running);
		if (rc != CURLM_OK || !running)
			break;
		rc = curl.multi_poll(c->multi, NULL, 0, ASK_MS, NULL);
	}
	if (rc != CURLM_OK)
		result = rc == CURLM_OUT_OF_MEMORY ? CURLE_OUT_OF_MEMORY : CURLE_FAILED_INIT;
	while ((msg = curl.multi_info_read(c->multi, &left)))
		if (msg->msg == CURLMSG_DONE)
			result = msg->data.result;
	curl.multi_remove_handle(c->multi, c->easy);
	return result;
}

static enum outcome try_once(struct http_client *c, const struct http_request *r, const char *path,
                             int64_t limit, struct err *err)
{
	c->http->body_len = 0;
	c->http->status = 0;
	c->body_too_large = c->enough = false;
	c->why[0] = '\0';
	c->request = r;
	c->last = c->at;
	c->http->tries++;
	if (prepare(c, path, limit, err) < 0)
		return FAIL;
	CURLcode rc = transfer(c);
	if (rc == CURLE_WRITE_ERROR && c->enough)
		rc = CURLE_OK;
	if (rc != CURLE_OK)
		return transfer_failed(c, rc, c->http->tries, err);
	curl.easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &c->http->status);
	keep_local_address(c);
	return judge_status(c, err);
}

/* ---- tries until a deadline ---- */

/* Pause until @until or @deadline, or until a request to stop. */
static void pause_until(struct http_client *c, int64_t until, int64_t deadline)
{
	int64_t left;

	if (until > deadline)
		until = deadline;
	while ((left = until - clock_ns()) > 0 && !store_is_interrupted(c->store)) {
		int ms = left > ASK_MS * NS_PER_MS ? ASK_MS : (int)to_ms(left);
		if (curl.multi_poll(c->multi, NULL, 0, ms, NULL) != CURLM_OK)
			return;
	}
}

/* Pause for about @ns: half of it and a random part of the other half, so that the ranks of a job
 * do not return all at once. Not beyond @deadline. */
static void back_off(struct http_client *c, int64_t ns, int64_t deadline)
{
	c->jitter = c->jitter * 6364136223846793005u + 1442695040888963407u;
	pause_until(c, clock_ns() + ns / 2 + (int64_t)(c->jitter >> 33) % (ns / 2 + 1), deadline);
}

/* Whatever the store answers, it gets a few requests a second, not thousands. With a store in
 * order, a job never uses up the burst. */
static void keep_pace(struct http_client *c, int64_t deadline)
{
	int64_t now = clock_ns();

	if (c->paced < now - BURST * PACE)
		c->paced = now - BURST * PACE;
	pause_until(c, c->paced, deadline);
	c->paced += PACE;
}

int http_send(struct http *h, const struct http_request *r, int64_t deadline, struct err *err)
{
	struct http_client *c = h->client;
	struct err last = ERR_INIT;
	int64_t pause = BACKOFF_FIRST;

	for (h->tries = 0;;) {
		keep_pace(c, deadline);
		int64_t left = deadline - clock_ns();
		if (left <= 0 && h->tries > 0)
			break;
		/* Try once even if no time is left: after a deadline that has just passed, the
		 * error should describe the store's state. */
		struct err now = ERR_INIT;
		if (left < 50 * NS_PER_MS && h->tries == 0)
			left = 50 * NS_PER_MS;
		if (left > NS_PER_SEC) /* a host that hangs leaves time for the others */
			left = left / c->nhosts > NS_PER_SEC ? left / c->nhosts : NS_PER_SEC;
		enum outcome o = try_once(c, r, h->tries && r->retry ? r->retry : r->path,
		                          left < r->limit ? left : r->limit, &now);
		if (o == DONE)
			return 0;
		/* An error before the deadline is more useful than that the deadline cut off the
		 * request. */
		if (!last.code || o == FAIL || clock_ns() < deadline - NS_PER_MS)
			last = now;
		if (o == FAIL || store_is_interrupted(c->store))
			break;
		if (!c->failed)
			store_failed(c->store, now.text);
		c->failed = true;
		next_host(h);
		back_off(c, pause, deadline);
		pause = 2 * pause < BACKOFF_LAST ? 2 * pause : BACKOFF_LAST;
	}
	return err_pass(err, &last);
}

int http_send_once(struct http *h, const struct http_request *r, int64_t deadline, struct err *err)
{
	struct http_client *c = h->client;

	h->tries = 0;
	keep_pace(c, deadline);
	enum outcome o = try_once(c, r, r->path, r->limit, err);
	if (o != DONE)
		next_host(h);
	return o == DONE ? 0 : -1;
}

int64_t http_wait_time(int64_t deadline)
{
	int64_t left = deadline - clock_ns();
	int64_t margin = left / 8 < WAIT_MARGIN ? left / 8 : WAIT_MARGIN;

	if (left - margin > HTTP_WAIT_MAX)
		return HTTP_WAIT_MAX;
	return left < 10 * NS_PER_MS ? 0 : left - margin;
}
