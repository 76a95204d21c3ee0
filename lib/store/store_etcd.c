/*
 * etcd v3 over its JSON gateway (/v3), by http.h. A value's index is its mod_revision; the index to
 * wait on is the store's revision at the time of the read. Reads are linearizable, so any member
 * serves. A watch only wakes: the value is always read by range.
 *
 * The URL: etcd+http[s]://HOST[:PORT][,HOST[:PORT]...][/PREFIX], with port 2379 by default; PREFIX
 * goes before every key. The token is USER:PASSWORD, which /v3/auth/authenticate exchanges for one,
 * again when etcd refuses that; or, without ':', a token for the header Authorization.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <openssl/err.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>

#include "lib/base/buf.h"
#include "lib/base/private.h"
#include "lib/store/etcd_answer.h"
#include "lib/store/http.h"
#include "lib/store/store.h"

extern const struct store_ops store_etcd;

#define PORT 2379
/* With several members a watch is short, because the member may be cut off from the others. */
#define WATCH_MAX   (10 * NS_PER_SEC)
#define KEY_BASE64  (HTTP_KEY_MAX / 3 * 4 + 5)
#define REQUEST_MAX (2 * KEY_BASE64 + STORE_VALUE_MAX / 3 * 4 + 512)

struct etcd {
	struct store store;
	struct http http;
	char *credentials;  /* {"name":...,"password":...}, for authenticate; NULL: none */
	bool authenticated; /* or without credentials */
	uint64_t watched;   /* the revision on which the running watch waits */
	char key[KEY_BASE64];
	char request[REQUEST_MAX];
};

static struct etcd *etcd_of(struct store *s)
{
	return (struct etcd *)s;
}

static void explain(const char *body, size_t len, char *text, size_t cap)
{
	struct etcd_error e;

	etcd_read_error(&e, body, len);
	snprintf(text, cap, "%s", e.text);
}

/* ---- the token ---- */

static char *credentials_of(const char *token, const char *colon, struct err *err)
{
	struct buf b;

	buf_init_secret(&b, SIZE_MAX);
	buf_put_text(&b, "{\"name\":");
	buf_put_json(&b, token, (size_t)(colon - token));
	buf_put_text(&b, ",\"password\":");
	buf_put_json(&b, colon + 1, strlen(colon + 1));
	buf_put(&b, "}", 2);
	if (b.failed) {
		buf_release(&b);
		err_nomem(err, "the store's token", strlen(token));
	}
	return (char *)b.data;
}

static int take_token(struct etcd *s, const char *token, struct err *err)
{
	const char *colon = token ? strchr(token, ':') : NULL;

	s->authenticated = !colon;
	if (colon) {
		s->credentials = credentials_of(token, colon, err);
		return s->credentials ? 0 : -1;
	}
	return http_set_secret(&s->http, "Authorization", token && *token ? token : NULL, err);
}

/* ---- the certificate ---- */

/* The certificate's common name; "": it has none, or the file cannot be read. */
static void read_common_name(const char *file, char *name, int cap)
{
	FILE *f = fopen(file, "re");
	X509 *cert = f ? PEM_read_X509(f, NULL, NULL, NULL) : NULL;

	if (!cert ||
	    X509_NAME_get_text_by_NID(X509_get_subject_name(cert), NID_commonName, name, cap) < 0)
		*name = '\0';
	X509_free(cert);
	ERR_clear_error(); /* connections read the queue, too */
	if (f)
		fclose(f);
}

/* With users, the gateway refuses a client certificate that has a common name. */
static int check_certificate(const struct store_conf *conf, struct err *err)
{
	char name[128] = "";

	if (!conf->cert_file || !conf->token || !*conf->token)
		return 0;
	read_common_name(conf->cert_file, name, sizeof name);
	if (!*name)
		return 0;
	return err_set(err, ERR_USAGE,
	               "%s: its common name is '%s'; etcd's JSON gateway takes a user only with a "
	               "certificate that has no common name (CN)",
	               conf->cert_file, name);
}

/* ---- opening ---- */

static void etcd_close(struct store *store)
{
	struct etcd *s = etcd_of(store);

	http_release(&s->http);
	wipe_free(s->credentials);
	free(s);
}

static struct store *etcd_open(const struct store_conf *conf, struct err *err)
{
	static const struct http_dialect dialect = {.default_port = PORT,
	                                            .several = true,
	                                            .type = "application/json",
	                                            .explain = explain};
	struct etcd *s = err_calloc(1, sizeof *s, "the store", err);

	if (!s)
		return NULL;
	if (check_certificate(conf, err) == 0 &&
	    http_init(&s->http, &dialect, conf, &s->store, err) == 0 &&
	    take_token(s, conf->token, err) == 0)
		return &s->store;
	etcd_close(&s->store);
	return NULL;
}

static void etcd_wake(struct store *store)
{
	http_wake(&etcd_of(store)->http);
}

static int etcd_local_address(struct store *store, char *buf, size_t cap)
{
	return http_local_address(&etcd_of(store)->http, buf, cap);
}

/* ---- calls ---- */

/* "team/x" or "" */
static const char *prefix_of(const struct etcd *s)
{
	const char *path = http_prefix(&s->http);

	return *path ? path + 1 : "";
}

/* etcd's refusal of a request for @key, as an error. */
static int refused(const struct etcd *s, const struct etcd_error *e, const char *key,
                   struct err *err)
{
	const char *name = http_name(&s->http), *prefix = prefix_of(s);
	const long status = s->http.status;

	if (status == 404)
		return err_set(err, ERR_RENDEZVOUS,
		               "%s: HTTP 404: this etcd has no JSON gateway "
		               "(--enable-grpc-gateway), or is not etcd v3",
		               name);
	if (e->code == ETCD_PERMISSION_DENIED)
		return err_set(err, ERR_AUTH,
		               "%s: etcd denies this user the key '%s%s%s'; the user needs to read "
		               "and write it",
		               name, prefix, *prefix ? "/" : "", key);
	if (strstr(e->text, "CommonName of client"))
		return err_set(err, ERR_AUTH,
		               "%s: etcd's JSON gateway takes a user only with a certificate that "
		               "has no common name (CN); see --store-cert",
		               name);
	if (strstr(e->text, "user name is empty"))
		return err_set(err, ERR_AUTH,
		               "%s: etcd requires a user; give USER:PASSWORD with "
		               "--store-token-file",
		               name);
	if (e->code == ETCD_UNAUTHENTICATED || status == 401 || status == 403)
		return err_set(err, ERR_AUTH, "%s: HTTP %ld: %s; see --store-token-file", name,
		               status, *e->text ? e->text : "the token is missing or wrong");
	return err_set(err, ERR_RENDEZVOUS, "%s: HTTP %ld%s%s", name, status, *e->text ? ": " : "",
	               e->text);
}

/* Is it an error that a new token mends? */
static bool is_token_stale(const struct etcd_error *e)
{
	return e->code == ETCD_UNAUTHENTICATED || strstr(e->text, "invalid auth token") ||
	       strstr(e->text, "user name is empty") || strstr(e->text, "auth store is old");
}

static struct http_request post(const char *path, const char *body)
{
	return (struct http_request){.method = "POST",
	                             .path = path,
	                             .data = body,
	                             .len = strlen(body),
	                             .limit = HTTP_TIME};
}

/* The parser's error, with the host's URL. */
static int bad_answer(const struct etcd *s, const struct err *why, struct err *err)
{
	return err_set(err, why->code, "%s: %s", http_name(&s->http), why->text);
}

static int use_token(struct etcd *s, struct err *err)
{
	struct err why = ERR_INIT;
	char *token;

	if (etcd_read_token(&token, s->http.body, s->http.body_len, &why) < 0)
		return bad_answer(s, &why, err);
	const int ret = http_set_secret(&s->http, "Authorization", token, err);
	wipe_free(token);
	return ret;
}

/* Exchange the user's name and password for a token. */
static int authenticate(struct etcd *s, int64_t deadline, struct err *err)
{
	const struct http_request r = post("/v3/auth/authenticate", s->credentials);
	struct etcd_error e = {0};
	int ret = 0;

	if (http_set_secret(&s->http, "Authorization", NULL, err) < 0 ||
	    http_send(&s->http, &r, deadline, err) < 0)
		return -1;
	if (s->http.status != 200)
		etcd_read_error(&e, s->http.body, s->http.body_len);
	if (s->http.status == 200)
		ret = use_token(s, err);
	else if (e.code == ETCD_INVALID_ARGUMENT)
		ret = err_set(err, ERR_AUTH,
		              "%s: etcd refuses the user or the password of --store-token-file: %s",
		              http_name(&s->http), e.text);
	else if (e.code != ETCD_FAILED_PRECONDITION) /* this etcd has no users */
		ret = refused(s, &e, "", err);
	wipe(s->http.body, s->http.body_len);
	s->authenticated = ret == 0;
	return ret;
}

/* Send s->request to @path, with a valid token. *tries counts the requests. */
static int call(struct etcd *s, const char *path, const char *key, int64_t deadline, int *tries,
                struct err *err)
{
	struct etcd_error e;

	*tries = 0;
	for (int turn = 0;; turn++) {
		const struct http_request r = post(path, s->request);
		if (!s->authenticated && authenticate(s, deadline, err) < 0)
			return -1;
		if (http_send(&s->http, &r, deadline, err) < 0)
			return -1;
		*tries += s->http.tries;
		if (s->http.status == 200)
			return 0;
		etcd_read_error(&e, s->http.body, s->http.body_len);
		if (turn > 0 || !s->credentials || !is_token_stale(&e))
			return refused(s, &e, key, err);
		s->authenticated = false;
	}
}

/* ---- requests ---- */

static void encode(char *to, const void *data, size_t len)
{
	*to = '\0';
	EVP_EncodeBlock((unsigned char *)to, data, (int)len);
}

/* s->key: "prefix/key" as base64. */
static int set_key(struct etcd *s, const char *key, struct err *err)
{
	const char *prefix = prefix_of(s);
	char full[HTTP_KEY_MAX + 1];
	const int n = snprintf(full, sizeof full, "%s%s%s", prefix, *prefix ? "/" : "", key);

	if (n > HTTP_KEY_MAX)
		return err_set(err, ERR_USAGE, "%.60s...: a key of more than %d bytes", key,
		               HTTP_KEY_MAX);
	encode(s->key, full, (size_t)n);
	return 0;
}

static int read_range(struct etcd *s, const char *key, struct store_value *out, uint64_t *revision,
                      int64_t deadline, struct err *err)
{
	struct err why = ERR_INIT;
	int tries;

	snprintf(s->request, sizeof s->request, "{\"key\":\"%s\"}", s->key);
	if (call(s, "/v3/kv/range", key, deadline, &tries, err) < 0)
		return -1;
	if (etcd_read_range(out, revision, s->http.body, s->http.body_len, &why) < 0)
		return bad_answer(s, &why, err);
	return 0;
}

static bool woke(void *ctx, const char *body, size_t len)
{
	const struct etcd *s = ctx;

	return etcd_watch_woke(body, len, s->watched);
}

/* Wait until the key changes after @revision, or for the time that the deadline leaves. Errors are
 * left to the range that follows. */
static void watch(struct etcd *s, uint64_t revision, int64_t deadline)
{
	struct err ignored = ERR_INIT;
	int64_t wait = http_wait_time(deadline);

	if (http_hosts(&s->http) > 1 && wait > WATCH_MAX)
		wait = WATCH_MAX;
	if (!wait || (!s->authenticated && authenticate(s, deadline, &ignored) < 0))
		return;
	s->watched = revision;
	snprintf(s->request, sizeof s->request,
	         "{\"create_request\":{\"key\":\"%s\",\"start_revision\":\"%llu\"}}", s->key,
	         (unsigned long long)revision + 1);
	struct http_request r = post("/v3/watch", s->request);
	r.limit = wait;
	r.is_enough = woke;
	r.ctx = s;
	(void)http_send_once(&s->http, &r, deadline, &ignored);
}

static int etcd_get(struct store *store, const char *key, uint64_t wait_index,
                    struct store_value *out, uint64_t *next_wait_index, int64_t deadline,
                    struct err *err)
{
	struct etcd *s = etcd_of(store);
	uint64_t revision;

	*out = (struct store_value){0};
	if (set_key(s, key, err) < 0)
		return -1;
	if (wait_index)
		watch(s, wait_index, deadline);
	if (read_range(s, key, out, &revision, deadline, err) < 0)
		return -1;
	if (next_wait_index)
		*next_wait_index = revision < wait_index ? 0 : revision;
	return 0;
}

/* Complete s->request, which begins with what to do if the key's index is still @cas, and send it.
 * 1: done; 0: it is not; -1: error. *sure: no earlier try can have done it. */
static int change(struct etcd *s, const char *key, uint64_t cas, int64_t deadline, bool *sure,
                  struct err *err)
{
	struct err why = ERR_INIT;
	const size_t len = strlen(s->request);
	int tries;

	snprintf(s->request + len, sizeof s->request - len,
	         "],\"compare\":[{\"key\":\"%s\",\"target\":\"MOD\",\"result\":\"EQUAL\","
	         "\"mod_revision\":\"%llu\"}]}",
	         s->key, (unsigned long long)cas);
	if (call(s, "/v3/kv/txn", key, deadline, &tries, err) < 0)
		return -1;
	*sure = tries == 1;
	const int done = etcd_read_txn(s->http.body, s->http.body_len, &why);
	return done < 0 ? bad_answer(s, &why, err) : done;
}

static int etcd_put_if(struct store *store, const char *key, const void *data, size_t len,
                       uint64_t cas, int64_t deadline, struct err *err)
{
	struct etcd *s = etcd_of(store);
	bool sure;

	if (len > STORE_VALUE_MAX)
		return err_set(err, ERR_OTHER, "%s: a value of %zu bytes; a store takes at most %u",
		               key, len, STORE_VALUE_MAX);
	if (set_key(s, key, err) < 0)
		return -1;
	const int n =
	        snprintf(s->request, sizeof s->request,
	                 "{\"success\":[{\"request_put\":{\"key\":\"%s\",\"value\":\"", s->key);
	encode(s->request + n, data, len);
	strcat(s->request + n, "\"}}");
	const int done = change(s, key, cas, deadline, &sure, err);
	return done || sure ? done : store_holds(store, key, data, len, deadline, err);
}

static int etcd_delete_if(struct store *store, const char *key, uint64_t cas, int64_t deadline,
                          struct err *err)
{
	struct etcd *s = etcd_of(store);
	struct store_value v;
	bool sure;

	if (cas == 0)
		return err_set(err, ERR_OTHER, "%s: cannot be deleted without its index", key);
	if (set_key(s, key, err) < 0)
		return -1;
	snprintf(s->request, sizeof s->request,
	         "{\"success\":[{\"request_delete_range\":{\"key\":\"%s\"}}", s->key);
	const int done = change(s, key, cas, deadline, &sure, err);
	if (done)
		return done;
	/* The comparison is false without a value, too. */
	if (etcd_get(store, key, 0, &v, NULL, deadline, err) < 0)
		return -1;
	free(v.data);
	return v.index == 0;
}

static const char *const schemes[] = {"etcd+http://", "etcd+https://", NULL};

const struct store_ops store_etcd = {
        .schemes = schemes,
        .open = etcd_open,
        .close = etcd_close,
        .get = etcd_get,
        .put_if = etcd_put_if,
        .delete_if = etcd_delete_if,
        .local_address = etcd_local_address,
        .wake = etcd_wake,
};
