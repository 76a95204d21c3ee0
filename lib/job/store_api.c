/*
 * The HTTP API of the embedded store: the Consul KV subset of store_server.h, on kv.h.
 */
#include "lib/job/store_server_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <jansson.h>
#include <openssl/crypto.h>

#include "lib/base/clock.h"
#include "lib/base/json.h"
#include "lib/base/units.h"

#define WAIT_DEFAULT    (30 * NS_PER_SEC)
#define WAIT_MAX        (30 * NS_PER_SEC) /* a suspended client that left is not noticed earlier */
#define SESSION_TTL_MIN (1 * NS_PER_SEC)
#define SESSION_TTL_MAX (86400 * NS_PER_SEC)

/* ---- answers ---- */

struct answer {
	unsigned status;
	const char *type;
	const char *data;
	size_t len;
	bool owned;     /* the answer takes over data, which malloc returned */
	uint64_t index; /* X-Consul-Index, 0: none */
	const char *allow;
};

void store_add_headers(struct MHD_Response *res, const char *type, uint64_t index)
{
	char text[32];

	snprintf(text, sizeof text, "%llu", (unsigned long long)index);
	if (index)
		mhd.add_response_header(res, "X-Consul-Index", text);
	mhd.add_response_header(res, "Content-Type", type);
	mhd.add_response_header(res, "X-Content-Type-Options", "nosniff");
	mhd.add_response_header(res, "Cache-Control", "no-store");
}

static enum MHD_Result send_answer(struct request *r, const struct answer *a)
{
	struct MHD_Response *res = mhd.create_response_from_buffer(
	        a->len, (void *)a->data, a->owned ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_MUST_COPY);

	if (!res) {
		if (a->owned)
			free((void *)a->data);
		return MHD_NO; /* MHD_NO closes the connection */
	}
	store_add_headers(res, a->type, a->index);
	if (a->allow)
		mhd.add_response_header(res, "Allow", a->allow);
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

/* Takes over the reference; NULL counts as out of memory. */
static enum MHD_Result send_json(struct request *r, json_t *json)
{
	struct answer a = {.status = MHD_HTTP_OK, .type = "application/json", .owned = true};

	a.data = json && !json_lacked_memory() ? json_dumps(json, JSON_COMPACT) : NULL;
	json_decref(json);
	json_forget_memory(); /* the next answer may fit */
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

/* ---- a request's arguments ---- */

/* Is there an argument "?name", with or without a value? */
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

/* "?name=N": 1; no such argument: 0; not a number: -1. */
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

/* As ns; -1: malformed. */
static int64_t parse_duration(const char *text)
{
	int64_t ns;

	return duration_read(text, &ns) ? ns : -1;
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
	struct kv_entry *e = by_prefix ? NULL : kv_find(kv, key);
	size_t first = 0, n = by_prefix ? kv_range(kv, key, &first) : e != NULL;
	enum page_kind kind = by_prefix           ? has_arg(r, "keys") ? PAGE_KEYS : PAGE_ENTRIES
	                      : has_arg(r, "raw") ? PAGE_RAW
	                                          : PAGE_ENTRY;
	bool full;

	if (n == 0)
		return not_found(r, index);
	struct MHD_Response *res =
	        store_page(r, kind, key, by_prefix ? kv->entries + first : &e, n, index, &full);
	if (res)
		return mhd.queue_response(r->conn, MHD_HTTP_OK, res);
	if (full)
		return send_text(r, MHD_HTTP_SERVICE_UNAVAILABLE,
		                 "too many large answers are being sent\n");
	return send_text(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory\n");
}

/* The index of a query: for a key, that of the key. For a missing key or a range, that of the last
 * change in the store, because any change may concern it. */
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
	/* An index that this store has never given out belongs to another store, or to this one
	 * before a restart: the client must learn that. */
	bool unchanged = seen > 0 && index <= seen && seen <= s->kv.index;
	if (!unchanged || r->has_waited || s->stopping)
		return answer_get(r, key, by_prefix, index);
	if (s->nwaiters >= WAITERS_MAX)
		return send_text(r, MHD_HTTP_TOO_MANY_REQUESTS, "too many clients are waiting\n");
	return store_suspend(r, key, by_prefix, clock_ns() + wait);
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

/* Keys are answered as JSON text, which must be UTF-8. */
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

/* The body of a create: false if it is malformed. */
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
		return json_lacked_memory()
		               ? send_json(r, NULL)
		               : send_text(r, MHD_HTTP_BAD_REQUEST,
		                           "not {\"TTL\":\"1s...24h\",\"Behavior\":\"delete\"}\n");
	const struct kv_session *s = kv_session_create(&r->server->kv, ttl, deletes, clock_ns());
	if (!s)
		return send_text(r, MHD_HTTP_INSUFFICIENT_STORAGE, "too many sessions\n");
	return send_json(r, json_pack("{s:s}", "ID", s->id));
}

static enum MHD_Result do_session(struct request *r, const char *what)
{
	struct kv *kv = &r->server->kv;

	if (strcmp(what, "create") == 0)
		return create_session(r);
	if (strncmp(what, "renew/", 6) == 0) {
		const struct kv_session *s = kv_session_renew(kv, what + 6, clock_ns());
		return s ? send_json(r, json_pack("[o]", session_json(s)))
		         : send_text(r, MHD_HTTP_NOT_FOUND, "no such session\n");
	}
	if (strncmp(what, "destroy/", 8) == 0) {
		kv_session_destroy(kv, what + 8);
		return send_bool(r, true);
	}
	return send_text(r, MHD_HTTP_NOT_FOUND, "not found\n");
}

/* ---- requests ---- */

enum MHD_Result store_api_answer(struct request *r, const char *method, const char *url)
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

/* An answer given here, before the body, refuses the body. */
enum MHD_Result store_api_begin(struct request *r)
{
	const char *length = header(r, "Content-Length");

	if (!is_authorised(r))
		return send_text(r, MHD_HTTP_FORBIDDEN, "the token is missing or wrong\n");
	unsigned long long bytes = length ? strtoull(length, NULL, 10) : 0;
	if (bytes > KV_VALUE_BYTES)
		return send_text(r, MHD_HTTP_CONTENT_TOO_LARGE,
		                 "a value has at most 65536 bytes\n");
	if (!store_reserve_body(r, bytes))
		return send_text(r, MHD_HTTP_SERVICE_UNAVAILABLE,
		                 "too many large values are being received\n");
	return MHD_YES;
}
