/*
 * HTTP around kv.h. One thread, the caller's: libmicrohttpd runs within store_server_run, and calls
 * back on_request. A blocking query is a suspended connection and a place in the list of waiters; a
 * change of its key, its time, or the end of the server resumes it, and then it is answered with
 * what there is.
 *
 * libmicrohttpd's own time-out counts from the last byte, so a client that sends one byte now and
 * then could keep a connection for ever. Here a connection has a deadline for its whole request and
 * for taking the whole answer; it is enforced by shutting its socket down.
 */
#include "lib/job/store_server.h"

#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <jansson.h>
#include <microhttpd.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "lib/base/clock.h"
#include "lib/job/kv.h"
#include "lib/net/addr.h"

#define WAITERS_MAX     4096
#define WAIT_DEFAULT    (30 * NS_PER_SEC)
#define WAIT_MAX        (30 * NS_PER_SEC) /* a suspended client that left is not noticed before */
#define CLIENT_TIME     (10 * NS_PER_SEC) /* to send a request; to take its answer */
#define DRAIN_TIME      (250 * NS_PER_MS) /* at the end, for the answers on their way */
#define SESSION_TTL_MIN (1 * NS_PER_SEC)
#define SESSION_TTL_MAX (86400 * NS_PER_SEC)
#define PEM_MAX         ((size_t)1 << 20)
#define POOL_BYTES      ((size_t)16 << 10) /* of a connection: its request's head */
#define BACKLOG         512

/* ---- libmicrohttpd ---- */

#define MHD_FUNCTIONS(X)               \
	X(start_daemon)                \
	X(stop_daemon)                 \
	X(run)                         \
	X(get_timeout)                 \
	X(get_daemon_info)             \
	X(get_connection_info)         \
	X(suspend_connection)          \
	X(resume_connection)           \
	X(lookup_connection_value)     \
	X(lookup_connection_value_n)   \
	X(create_response_from_buffer) \
	X(add_response_header)         \
	X(queue_response)              \
	X(destroy_response)

#define X(name) __typeof__(MHD_##name) *name;
static struct {
	MHD_FUNCTIONS(X)
} mhd;
#undef X

static pthread_once_t mhd_once = PTHREAD_ONCE_INIT;
static struct err mhd_missing = {.rank = ERR_RANK_SELF};

static void load_mhd(void)
{
	void *lib = dlopen("libmicrohttpd.so.12", RTLD_NOW | RTLD_LOCAL);

	if (!lib) {
		err_set(&mhd_missing, ERR_RESOURCE,
		        "libmicrohttpd.so.12 is needed to serve a store (apt install "
		        "libmicrohttpd12): %s",
		        dlerror());
		return;
	}
#define X(name)                                                           \
	if (!(mhd.name = (__typeof__(mhd.name))dlsym(lib, "MHD_" #name))) \
		err_set(&mhd_missing, ERR_RESOURCE, "libmicrohttpd.so.12 has no MHD_" #name);
	MHD_FUNCTIONS(X)
#undef X
}

/* ---- state ---- */

/* A client's connection. */
struct client {
	struct client *next, **prev;
	int fd;
	int64_t deadline; /* KV_NEVER while its query is suspended */
};

struct request {
	struct store_server *server;
	struct MHD_Connection *conn;
	struct client *client;
	char *body;
	size_t len;
	bool deleted; /* it has deleted a key */
	/* a blocking query */
	struct request *next, **prev; /* prev: NULL if it is not in the list */
	char *key;
	bool by_prefix, has_waited;
	int64_t until;
};

struct store_server {
	struct MHD_Daemon *daemon;
	struct kv kv;
	struct client *clients;
	struct request *waiters;
	int nwaiters, nrequests;
	char *token, *cert, *cert_key;
	struct addr addr;
	char address[ADDR_TEXT];
	int epoll_fd;
	int64_t client_time;
	bool withdrawn, stopping;
};

/* ---- waiters ---- */

static void unlink_waiter(struct request *r)
{
	*r->prev = r->next;
	if (r->next)
		r->next->prev = r->prev;
	r->prev = NULL;
	r->server->nwaiters--;
}

static void resume(struct request *r)
{
	unlink_waiter(r);
	r->client->deadline = clock_ns() + r->server->client_time;
	mhd.resume_connection(r->conn);
}

static enum MHD_Result suspend(struct request *r, const char *key, bool by_prefix, int64_t until)
{
	struct store_server *s = r->server;

	r->key = strdup(key);
	if (!r->key)
		return MHD_NO;
	r->by_prefix = by_prefix;
	r->until = until;
	r->has_waited = true;
	r->next = s->waiters;
	r->prev = &s->waiters;
	if (r->next)
		r->next->prev = &r->next;
	s->waiters = r;
	s->nwaiters++;
	r->client->deadline = KV_NEVER;
	mhd.suspend_connection(r->conn);
	return MHD_YES;
}

/* kv's: resume who waits for @key. */
static void on_change(void *arg, const char *key)
{
	struct store_server *s = arg;
	struct request *next;

	for (struct request *r = s->waiters; r; r = next) {
		next = r->next;
		if (r->by_prefix ? strncmp(key, r->key, strlen(r->key)) == 0
		                 : strcmp(key, r->key) == 0)
			resume(r);
	}
}

static int64_t resume_waiters(struct store_server *s, int64_t now)
{
	struct request *next;
	int64_t first = KV_NEVER;

	for (struct request *r = s->waiters; r; r = next) {
		next = r->next;
		if (r->until <= now)
			resume(r);
		else if (r->until < first)
			first = r->until;
	}
	return first;
}

/* ---- answers ---- */

struct answer {
	unsigned status;
	const char *type;
	const char *data;
	size_t len;
	bool owned;     /* data is malloc's and goes to the answer */
	uint64_t index; /* X-Consul-Index, 0: none */
	const char *allow;
};

static enum MHD_Result send_answer(struct request *r, const struct answer *a)
{
	char index[32];
	struct MHD_Response *res = mhd.create_response_from_buffer(
	        a->len, (void *)a->data, a->owned ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_MUST_COPY);

	if (!res) {
		if (a->owned)
			free((void *)a->data);
		return MHD_NO; /* closes the connection */
	}
	snprintf(index, sizeof index, "%llu", (unsigned long long)a->index);
	if (a->index)
		mhd.add_response_header(res, "X-Consul-Index", index);
	if (a->allow)
		mhd.add_response_header(res, "Allow", a->allow);
	mhd.add_response_header(res, "Content-Type", a->type);
	mhd.add_response_header(res, "X-Content-Type-Options", "nosniff");
	mhd.add_response_header(res, "Cache-Control", "no-store");
	enum MHD_Result ret = mhd.queue_response(r->conn, a->status, res);
	mhd.destroy_response(res);
	return ret;
}

static enum MHD_Result send_text(struct request *r, unsigned status, const char *text)
{
	struct answer a = {
	        .status = status, .type = "text/plain", .data = text, .len = strlen(text)};

	return send_answer(r, &a);
}

static enum MHD_Result send_bool(struct request *r, bool value)
{
	struct answer a = {.status = MHD_HTTP_OK, .type = "application/json"};

	a.data = value ? "true" : "false";
	a.len = strlen(a.data);
	return send_answer(r, &a);
}

/* Takes the reference; NULL counts as out of memory. */
static enum MHD_Result send_json(struct request *r, json_t *json, uint64_t index)
{
	struct answer a = {
	        .status = MHD_HTTP_OK, .type = "application/json", .owned = true, .index = index};

	a.data = json ? json_dumps(json, JSON_COMPACT) : NULL;
	json_decref(json);
	if (!a.data)
		return send_text(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory\n");
	a.len = strlen(a.data);
	return send_answer(r, &a);
}

static enum MHD_Result not_allowed(struct request *r, const char *methods)
{
	struct answer a = {.status = MHD_HTTP_METHOD_NOT_ALLOWED,
	                   .type = "text/plain",
	                   .data = "method not allowed\n",
	                   .len = 19,
	                   .allow = methods};

	return send_answer(r, &a);
}

/* ---- what a request says ---- */

/* Is "?name" there, with or without a value? */
static bool has_arg(struct request *r, const char *name)
{
	return mhd.lookup_connection_value_n(r->conn, MHD_GET_ARGUMENT_KIND, name, strlen(name),
	                                     NULL, NULL) == MHD_YES;
}

static const char *arg(struct request *r, const char *name)
{
	return mhd.lookup_connection_value(r->conn, MHD_GET_ARGUMENT_KIND, name);
}

static const char *header(struct request *r, const char *name)
{
	return mhd.lookup_connection_value(r->conn, MHD_HEADER_KIND, name);
}

/* "?name=N": 1; not there: 0; not a number: -1. */
static int number_arg(struct request *r, const char *name, uint64_t *value)
{
	const char *text = arg(r, name);
	char *end;

	if (!has_arg(r, name))
		return 0;
	if (!text || *text < '0' || *text > '9')
		return -1;
	errno = 0;
	*value = strtoull(text, &end, 10);
	return errno || *end ? -1 : 1;
}

/* "30s", "500ms", "1m", "2h", "15" (seconds), as ns; -1: none of them. */
static int64_t parse_duration(const char *text)
{
	static const struct {
		const char *unit;
		int64_t ns;
	} units[] = {
	        {"ms", NS_PER_MS},      {"s", NS_PER_SEC},        {"", NS_PER_SEC},
	        {"m", 60 * NS_PER_SEC}, {"h", 3600 * NS_PER_SEC},
	};
	char *end;

	if (*text < '0' || *text > '9')
		return -1;
	errno = 0;
	long long n = strtoll(text, &end, 10);
	if (errno || n > 100 * 86400 * 1000LL)
		return -1;
	for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
		if (strcmp(end, units[i].unit) == 0)
			return n > INT64_MAX / units[i].ns ? -1 : n * units[i].ns;
	return -1;
}

static bool token_matches(const char *have, const char *want)
{
	size_t n = strlen(want);

	return have && strlen(have) == n && CRYPTO_memcmp(have, want, n) == 0;
}

static bool is_authorised(struct request *r)
{
	const char *token = r->server->token, *bearer = header(r, "Authorization");

	if (!token)
		return true;
	if (bearer && strncasecmp(bearer, "Bearer ", 7) == 0 && token_matches(bearer + 7, token))
		return true;
	return token_matches(header(r, "X-Consul-Token"), token);
}

/* ---- GET ---- */

static json_t *base64(const char *data, size_t len)
{
	if (len == 0)
		return json_null();
	char *text = malloc(4 * (len / 3 + 1) + 1);
	if (!text)
		return NULL;
	int n = EVP_EncodeBlock((unsigned char *)text, (const unsigned char *)data, (int)len);
	json_t *json = json_stringn_nocheck(text, (size_t)n);
	free(text);
	return json;
}

static json_t *entry_json(const struct kv_entry *e)
{
	json_t *json = json_pack("{s:I, s:s, s:I, s:o, s:I, s:I}", "LockIndex", (json_int_t)e->lock,
	                         "Key", e->key, "Flags", (json_int_t)e->flags, "Value",
	                         base64(e->data, e->len), "CreateIndex", (json_int_t)e->create,
	                         "ModifyIndex", (json_int_t)e->modify);

	if (json && e->session[0] &&
	    json_object_set_new(json, "Session", json_string(e->session)) < 0) {
		json_decref(json);
		return NULL;
	}
	return json;
}

/* The entries of a range, or their keys alone. */
static json_t *range_json(const struct kv *kv, size_t first, size_t n, bool keys)
{
	json_t *list = json_array();

	for (size_t i = first; list && i < first + n; i++) {
		const struct kv_entry *e = kv->entries[i];
		if (json_array_append_new(list, keys ? json_string(e->key) : entry_json(e)) == 0)
			continue;
		json_decref(list);
		return NULL;
	}
	return list;
}

static enum MHD_Result not_found(struct request *r, uint64_t index)
{
	struct answer a = {
	        .status = MHD_HTTP_NOT_FOUND, .type = "text/plain", .data = "", .index = index};

	return send_answer(r, &a);
}

static enum MHD_Result answer_get(struct request *r, const char *key, bool by_prefix,
                                  uint64_t index)
{
	const struct kv *kv = &r->server->kv;
	size_t first = 0, n = 1;
	const struct kv_entry *e = NULL;

	if (by_prefix)
		n = kv_range(kv, key, &first);
	else
		e = kv_find(kv, key);
	if (by_prefix ? n == 0 : !e)
		return not_found(r, index);
	if (by_prefix)
		return send_json(r, range_json(kv, first, n, has_arg(r, "keys")), index);
	if (!has_arg(r, "raw"))
		return send_json(r, json_pack("[o]", entry_json(e)), index);
	struct answer raw = {.status = MHD_HTTP_OK,
	                     .type = "application/octet-stream",
	                     .data = e->data,
	                     .len = e->len,
	                     .index = index};
	return send_answer(r, &raw);
}

/* The index of what is asked for: of a key its own, and of what is missing or a whole range that of
 * the last change of all, since any change may have been to it. */
static uint64_t query_index(const struct kv *kv, const char *key, bool by_prefix)
{
	const struct kv_entry *e = by_prefix ? NULL : kv_find(kv, key);

	return e ? e->modify : kv->index;
}

static enum MHD_Result get_key(struct request *r, const char *key)
{
	struct store_server *s = r->server;
	bool by_prefix = has_arg(r, "recurse") || has_arg(r, "keys");
	uint64_t seen = 0, index = query_index(&s->kv, key, by_prefix);
	const char *wait_text = arg(r, "wait");
	int64_t wait = wait_text ? parse_duration(wait_text) : WAIT_DEFAULT;

	if (number_arg(r, "index", &seen) < 0)
		return send_text(r, MHD_HTTP_BAD_REQUEST, "index is not a number\n");
	if (wait < 0)
		return send_text(r, MHD_HTTP_BAD_REQUEST, "wait is not a duration\n");
	if (wait == 0 || wait > WAIT_MAX)
		wait = wait ? WAIT_MAX : WAIT_DEFAULT;
	/* An index that was never given out is another store's, or this one's before it was
	 * restarted: whoever asks must learn that. */
	bool unchanged = seen > 0 && index <= seen && seen <= s->kv.index;
	if (!unchanged || r->has_waited || s->stopping)
		return answer_get(r, key, by_prefix, index);
	if (s->nwaiters >= WAITERS_MAX)
		return send_text(r, MHD_HTTP_TOO_MANY_REQUESTS, "too many wait\n");
	return suspend(r, key, by_prefix, clock_ns() + wait);
}

/* ---- PUT, DELETE ---- */

static enum MHD_Result send_result(struct request *r, enum kv_result result)
{
	switch (result) {
	case KV_FULL:
		return send_text(r, MHD_HTTP_INSUFFICIENT_STORAGE, "the store is full\n");
	case KV_NOMEM:
		return send_text(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory\n");
	case KV_NO_SESSION:
		return send_text(r, MHD_HTTP_BAD_REQUEST, "no such session\n");
	default:
		return send_bool(r, result == KV_TRUE);
	}
}

/* Keys are answered as JSON, which has no other text than UTF-8. */
static bool is_utf8(const char *key)
{
	json_t *json = json_string(key);

	json_decref(json);
	return json != NULL;
}

static enum MHD_Result put_key(struct request *r, const char *key)
{
	struct kv_condition c = {.acquire = arg(r, "acquire"), .release = arg(r, "release")};
	int cas = number_arg(r, "cas", &c.cas);
	uint64_t flags = 0;

	c.has_cas = cas > 0;
	if (cas < 0 || number_arg(r, "flags", &flags) < 0 || flags > INT64_MAX)
		return send_text(r, MHD_HTTP_BAD_REQUEST, "cas or flags is not a number\n");
	if (c.has_cas + !!c.acquire + !!c.release > 1)
		return send_text(r, MHD_HTTP_BAD_REQUEST, "conflicting cas, acquire, release\n");
	if (!*key || strlen(key) > KV_KEY_BYTES || !is_utf8(key))
		return send_text(r, MHD_HTTP_BAD_REQUEST, "not a key\n");
	return send_result(r, kv_put(&r->server->kv, key, r->body, r->len, flags, &c, clock_ns()));
}

static enum MHD_Result delete_key(struct request *r, const char *key)
{
	struct kv *kv = &r->server->kv;
	enum kv_result result = KV_TRUE;
	uint64_t index = 0;
	size_t gone = 0;
	int cas = number_arg(r, "cas", &index);

	if (cas < 0)
		return send_text(r, MHD_HTTP_BAD_REQUEST, "cas is not a number\n");
	if (has_arg(r, "recurse") && cas)
		return send_text(r, MHD_HTTP_BAD_REQUEST, "conflicting cas, recurse\n");
	if (has_arg(r, "recurse"))
		kv_delete_prefix(kv, key, &gone);
	else if (!*key)
		return send_text(r, MHD_HTTP_BAD_REQUEST, "not a key\n");
	else
		result = kv_delete(kv, key, cas > 0, index, &gone);
	r->deleted = gone > 0;
	return send_result(r, result);
}

/* ---- sessions ---- */

static json_t *session_json(const struct kv_session *s)
{
	char ttl[32];

	snprintf(ttl, sizeof ttl, "%lldms", (long long)(s->ttl / NS_PER_MS));
	return json_pack("{s:s, s:s, s:s}", "ID", s->id, "TTL", s->ttl ? ttl : "", "Behavior",
	                 s->deletes ? "delete" : "release");
}

/* The body of a create: false if it is none. */
static bool session_conf(const struct request *r, int64_t *ttl, bool *deletes)
{
	bool ok = true;
	json_t *root = json_loadb(r->body, r->len, 0, NULL);
	const json_t *t = json_object_get(root, "TTL"), *b = json_object_get(root, "Behavior");

	if (!json_is_object(root) || (t && !json_is_string(t)) || (b && !json_is_string(b)))
		ok = false;
	if (ok && t && *json_string_value(t)) {
		*ttl = parse_duration(json_string_value(t));
		ok = *ttl >= SESSION_TTL_MIN && *ttl <= SESSION_TTL_MAX;
	}
	if (ok && b && strcmp(json_string_value(b), "delete") == 0)
		*deletes = true;
	else if (ok && b && strcmp(json_string_value(b), "release") != 0)
		ok = false;
	json_decref(root);
	return ok;
}

static enum MHD_Result create_session(struct request *r)
{
	int64_t ttl = 0;
	bool deletes = false;

	if (r->len && !session_conf(r, &ttl, &deletes))
		return send_text(r, MHD_HTTP_BAD_REQUEST,
		                 "not {\"TTL\":\"1s...24h\",\"Behavior\":\"delete\"}\n");
	const struct kv_session *s = kv_session_create(&r->server->kv, ttl, deletes, clock_ns());
	if (!s)
		return send_text(r, MHD_HTTP_INSUFFICIENT_STORAGE, "too many sessions\n");
	return send_json(r, json_pack("{s:s}", "ID", s->id), 0);
}

static enum MHD_Result do_session(struct request *r, const char *what)
{
	struct kv *kv = &r->server->kv;

	if (strcmp(what, "create") == 0)
		return create_session(r);
	if (strncmp(what, "renew/", 6) == 0) {
		const struct kv_session *s = kv_session_renew(kv, what + 6, clock_ns());
		return s ? send_json(r, json_pack("[o]", session_json(s)), 0)
		         : send_text(r, MHD_HTTP_NOT_FOUND, "no such session\n");
	}
	if (strncmp(what, "destroy/", 8) == 0) {
		kv_session_destroy(kv, what + 8);
		return send_bool(r, true);
	}
	return send_text(r, MHD_HTTP_NOT_FOUND, "not found\n");
}

/* ---- requests ---- */

static enum MHD_Result dispatch(struct request *r, const char *method, const char *url)
{
	kv_expire(&r->server->kv, clock_ns());
	if (strncmp(url, "/v1/kv/", 7) == 0) {
		if (strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0)
			return get_key(r, url + 7);
		if (strcmp(method, "PUT") == 0)
			return put_key(r, url + 7);
		if (strcmp(method, "DELETE") == 0)
			return delete_key(r, url + 7);
		return not_allowed(r, "GET, HEAD, PUT, DELETE");
	}
	if (strncmp(url, "/v1/session/", 12) == 0)
		return strcmp(method, "PUT") == 0 ? do_session(r, url + 12) : not_allowed(r, "PUT");
	return send_text(r, MHD_HTTP_NOT_FOUND, "not found\n");
}

static enum MHD_Result begin(struct store_server *s, struct MHD_Connection *conn, void **con_cls)
{
	const union MHD_ConnectionInfo *info =
	        mhd.get_connection_info(conn, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
	struct request *r = calloc(1, sizeof *r);

	if (!r || !info || !info->socket_context) {
		free(r);
		return MHD_NO;
	}
	*r = (struct request){.server = s, .conn = conn, .client = info->socket_context};
	s->nrequests++;
	*con_cls = r;
	/* An answer in this first call, before the body, is one that refuses the body. */
	if (!is_authorised(r))
		return send_text(r, MHD_HTTP_FORBIDDEN, "the token is missing or wrong\n");
	const char *length = header(r, "Content-Length");
	if (length && strtoull(length, NULL, 10) > KV_VALUE_BYTES)
		return send_text(r, MHD_HTTP_CONTENT_TOO_LARGE,
		                 "a value has at most 65536 bytes\n");
	return MHD_YES;
}

static enum MHD_Result take_body(struct request *r, const char *data, size_t *len)
{
	/* Only a chunked body gets here without having named its size. */
	if (*len > KV_VALUE_BYTES - r->len)
		return MHD_NO;
	char *more = realloc(r->body, r->len + *len);
	if (!more)
		return MHD_NO;
	memcpy(more + r->len, data, *len);
	r->body = more;
	r->len += *len;
	*len = 0;
	return MHD_YES;
}

static enum MHD_Result on_request(void *arg_, struct MHD_Connection *conn, const char *url,
                                  const char *method, const char *version, const char *upload,
                                  size_t *upload_len, void **con_cls)
{
	struct request *r = *con_cls;

	(void)version;
	if (!r)
		return begin(arg_, conn, con_cls);
	if (*upload_len)
		return take_body(r, upload, upload_len);
	/* The request is whole: from here on its time is the server's, until the answer. */
	r->client->deadline = clock_ns() + r->server->client_time;
	return dispatch(r, method, url);
}

static void on_completed(void *arg_, struct MHD_Connection *conn, void **con_cls,
                         enum MHD_RequestTerminationCode code)
{
	struct store_server *s = arg_;
	struct request *r = *con_cls;

	(void)conn, (void)code;
	if (!r)
		return;
	if (r->prev)
		unlink_waiter(r);
	if (r->deleted)
		s->withdrawn = true;
	r->client->deadline = clock_ns() + r->server->client_time; /* for the next one */
	s->nrequests--;
	free(r->key);
	free(r->body);
	free(r);
	*con_cls = NULL;
}

/* ---- connections ---- */

static void client_started(struct store_server *s, struct MHD_Connection *conn, void **context)
{
	const union MHD_ConnectionInfo *info =
	        mhd.get_connection_info(conn, MHD_CONNECTION_INFO_CONNECTION_FD);
	struct client *c = info ? calloc(1, sizeof *c) : NULL;

	*context = c;
	if (!c) /* its requests are refused */
		return;
	c->fd = info->connect_fd;
	c->deadline = clock_ns() + s->client_time;
	c->next = s->clients;
	c->prev = &s->clients;
	if (c->next)
		c->next->prev = &c->next;
	s->clients = c;
}

static void client_closed(struct client *c)
{
	if (!c)
		return;
	*c->prev = c->next;
	if (c->next)
		c->next->prev = c->prev;
	free(c);
}

static void on_connection(void *arg_, struct MHD_Connection *conn, void **context,
                          enum MHD_ConnectionNotificationCode code)
{
	if (code == MHD_CONNECTION_NOTIFY_STARTED) {
		client_started(arg_, conn, context);
		return;
	}
	client_closed(*context);
	*context = NULL;
}

/* Shut down the sockets whose time is over; libmicrohttpd then finds them closed. */
static int64_t drop_slow_clients(struct store_server *s, int64_t now)
{
	int64_t first = KV_NEVER;

	for (struct client *c = s->clients; c; c = c->next) {
		if (c->deadline <= now) {
			shutdown(c->fd, SHUT_RDWR);
			c->deadline = KV_NEVER;
		} else if (c->deadline < first) {
			first = c->deadline;
		}
	}
	return first;
}

/* ---- life ---- */

static char *read_pem(const char *path, struct err *err)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *text = malloc(PEM_MAX);
	size_t len = 0;
	ssize_t n = -1;

	while (fd >= 0 && text && len < PEM_MAX - 1) {
		n = read(fd, text + len, PEM_MAX - 1 - len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n <= 0)
			break;
		len += (size_t)n;
	}
	if (text && n >= 0 && len < PEM_MAX - 1) {
		text[len] = '\0';
		close(fd);
		return text;
	}
	if (!text)
		err_nomem(err, path, PEM_MAX);
	else if (n > 0)
		err_set(err, ERR_AUTH, "%s: too long for a certificate or key", path);
	else
		err_errno(err, ERR_AUTH, "%s", path);
	if (fd >= 0)
		close(fd);
	free(text);
	return NULL;
}

static int load_conf(struct store_server *s, const struct store_server_conf *conf, struct err *err)
{
	if (conf->token && *conf->token) {
		s->token = strdup(conf->token);
		if (!s->token)
			return err_nomem(err, "the token", strlen(conf->token));
	}
	if (!conf->tls_cert != !conf->tls_key)
		return err_set(err, ERR_USAGE, "--tls-cert and --tls-key are given together");
	if (!conf->tls_cert)
		return 0;
	s->cert = read_pem(conf->tls_cert, err);
	s->cert_key = s->cert ? read_pem(conf->tls_key, err) : NULL;
	return s->cert_key ? 0 : -1;
}

static int open_listener(struct store_server *s, const char *text, struct err *err)
{
	char host[256];
	int port;

	if (addr_split(text ? text : "127.0.0.1:0", host, sizeof host, &port, err) < 0)
		return -1;
	if (port < 0)
		port = STORE_SERVER_PORT;
	if (addr_resolve(&s->addr, host, port, true, err) < 0)
		return -1;
	int fd = addr_listen(&s->addr, 0, 0, BACKLOG, err);
	if (fd >= 0)
		addr_text(&s->addr, true, s->address);
	return fd;
}

/* Descriptors for all who wait and some more, but never the process's last ones. */
static unsigned connection_limit(void)
{
	struct rlimit files;
	rlim_t limit = WAITERS_MAX + 256;

	if (getrlimit(RLIMIT_NOFILE, &files) == 0 && files.rlim_cur < limit + 64)
		limit = files.rlim_cur > 80 ? files.rlim_cur - 64 : 16;
	return (unsigned)limit;
}

static int start_daemon(struct store_server *s, int listen_fd, struct err *err)
{
	unsigned flags = MHD_USE_EPOLL | MHD_ALLOW_SUSPEND_RESUME | (s->cert ? MHD_USE_TLS : 0);
	struct MHD_OptionItem tls[] = {
	        {MHD_OPTION_HTTPS_MEM_CERT, 0, s->cert},
	        {MHD_OPTION_HTTPS_MEM_KEY, 0, s->cert_key},
	        {MHD_OPTION_END, 0, NULL},
	};

	s->daemon = mhd.start_daemon(flags, 0, NULL, NULL, on_request, s, MHD_OPTION_LISTEN_SOCKET,
	                             listen_fd, MHD_OPTION_CONNECTION_MEMORY_LIMIT, POOL_BYTES,
	                             MHD_OPTION_CONNECTION_LIMIT, connection_limit(),
	                             MHD_OPTION_NOTIFY_COMPLETED, on_completed, s,
	                             MHD_OPTION_NOTIFY_CONNECTION, on_connection, s,
	                             MHD_OPTION_ARRAY, s->cert ? tls : tls + 2, MHD_OPTION_END);
	if (!s->daemon && s->cert)
		return err_set(err, ERR_AUTH,
		               "the store can't be served by https: a bad certificate or key, or "
		               "a libmicrohttpd without TLS");
	if (!s->daemon)
		return err_set(err, ERR_RESOURCE, "libmicrohttpd does not start");
	s->epoll_fd = mhd.get_daemon_info(s->daemon, MHD_DAEMON_INFO_EPOLL_FD)->epoll_fd;
	return 0;
}

/* Whether a daemon that fails to start closes the socket that it was given differs by version. */
static void close_if_same(int fd, ino_t inode)
{
	struct stat st;

	if (fstat(fd, &st) == 0 && S_ISSOCK(st.st_mode) && st.st_ino == inode)
		close(fd);
}

struct store_server *store_server_start(const struct store_server_conf *conf, struct err *err)
{
	struct store_server *s = calloc(1, sizeof *s);
	struct stat st = {0};
	int fd = -1;

	if (!s) {
		err_nomem(err, "the store", sizeof *s);
		return NULL;
	}
	s->client_time = conf->client_ns ? conf->client_ns : CLIENT_TIME;
	kv_init(&s->kv, conf->ttl_ns, on_change, s);
	pthread_once(&mhd_once, load_mhd);
	if (mhd_missing.code)
		err_set(err, mhd_missing.code, "%s", mhd_missing.text);
	else if (load_conf(s, conf, err) == 0)
		fd = open_listener(s, conf->listen, err);
	if (fd >= 0 && fstat(fd, &st) == 0 && start_daemon(s, fd, err) == 0)
		return s;
	if (fd >= 0)
		close_if_same(fd, st.st_ino);
	store_server_stop(s);
	return NULL;
}

int store_server_port(const struct store_server *s)
{
	return addr_port(&s->addr);
}

const char *store_server_address(const struct store_server *s)
{
	return s->address;
}

bool store_server_is_loopback(const struct store_server *s)
{
	return strncmp(s->address, "127.", 4) == 0 || strncmp(s->address, "[::1]", 5) == 0;
}

int store_server_fd(const struct store_server *s)
{
	return s->epoll_fd;
}

bool store_server_withdrawn(const struct store_server *s)
{
	return s->withdrawn;
}

static int64_t earlier(int64_t a, int64_t b)
{
	return a < b ? a : b;
}

int store_server_run(struct store_server *s)
{
	MHD_UNSIGNED_LONG_LONG own;
	int64_t next = KV_NEVER;

	/* Bounded: a flood of requests must not keep the caller from its signals. */
	for (int round = 0; round < 16; round++) {
		int64_t now = clock_ns();
		next = kv_expire(&s->kv, now);
		next = earlier(next, resume_waiters(s, now));
		next = earlier(next, drop_slow_clients(s, now));
		mhd.run(s->daemon);
		if (mhd.get_timeout(s->daemon, &own) != MHD_YES)
			break;
		next = earlier(next, now + (own > 1000 ? 1000 : (int64_t)own) * NS_PER_MS);
		if (own)
			break;
	}
	/* What this run has begun to wait for may end before what was there when it began; nothing
	 * ends sooner than a new blocking query can. */
	next = earlier(next, resume_waiters(s, clock_ns()));
	next = earlier(next, drop_slow_clients(s, clock_ns()));
	next = earlier(next, s->kv.next);
	if (next == KV_NEVER)
		return -1;
	int64_t left = next - clock_ns();
	return left <= 0 ? 0 : (int)earlier(left / NS_PER_MS + 1, 3600 * 1000);
}

/* Let those who wait have their answers, and those who are being answered the rest of theirs. */
static void drain(struct store_server *s)
{
	int64_t deadline = clock_ns() + DRAIN_TIME;

	s->stopping = true;
	while (s->waiters)
		resume(s->waiters);
	do {
		int ms = store_server_run(s);
		struct pollfd p = {.fd = s->epoll_fd, .events = POLLIN};
		if (s->nrequests && ms)
			poll(&p, 1, 10);
	} while (s->nrequests && clock_ns() < deadline);
}

void store_server_stop(struct store_server *s)
{
	if (!s)
		return;
	if (s->daemon) {
		drain(s);
		mhd.stop_daemon(s->daemon);
	}
	kv_release(&s->kv);
	if (s->cert_key)
		OPENSSL_cleanse(s->cert_key, strlen(s->cert_key));
	if (s->token)
		OPENSSL_cleanse(s->token, strlen(s->token));
	free(s->cert_key);
	free(s->cert);
	free(s->token);
	free(s);
}
