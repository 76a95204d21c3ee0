/*
 * The HTTP API of the embedded store (store_server.h says what it takes), on kv.h.
 */
#include "lib/store/server/store_server_internal.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <jansson.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>

#include "lib/base/clock.h"
#include "lib/base/json.h"
#include "lib/base/units.h"

#define WAIT_MAX (30 * NS_PER_SEC) /* a suspended client that left is not noticed earlier */

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

static enum MHD_Result send_answer(struct request *r, const struct answer *a)
{
	char index[32];
	struct MHD_Response *res = mhd.create_response_from_buffer(
	        a->len, (void *)a->data, a->owned ? MHD_RESPMEM_MUST_FREE : MHD_RESPMEM_MUST_COPY);

	if (!res) {
		if (a->owned)
			free((void *)a->data);
		return MHD_NO; /* MHD_NO closes the connection */
	}
	snprintf(index, sizeof index, "%llu", (unsigned long long)a->index);
	if (a->index)
		mhd.add_response_header(res, "X-Consul-Index", index);
	mhd.add_response_header(res, "Content-Type", a->type);
	mhd.add_response_header(res, "X-Content-Type-Options", "nosniff");
	mhd.add_response_header(res, "Cache-Control", "no-store");
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

static enum MHD_Result send_nomem(struct request *r)
{
	return send_text(r, MHD_HTTP_INTERNAL_SERVER_ERROR, "out of memory\n");
}

static enum MHD_Result send_full(struct request *r)
{
	return send_text(r, MHD_HTTP_SERVICE_UNAVAILABLE,
	                 "too many large values are being sent or received\n");
}

static enum MHD_Result not_allowed(struct request *r)
{
	static const char text[] = "a key takes GET, HEAD, PUT and DELETE\n";
	struct answer a = {.status = MHD_HTTP_METHOD_NOT_ALLOWED,
	                   .type = "text/plain",
	                   .data = text,
	                   .len = sizeof text - 1,
	                   .allow = "GET, HEAD, PUT, DELETE"};

	return send_answer(r, &a);
}

/* ---- a request's arguments ---- */

enum { ARG_INDEX, ARG_WAIT, ARG_CAS, NARGS };

struct arguments {
	const char *text[NARGS]; /* NULL: not given */
	bool strange;            /* there is another, or one twice, or with a NUL */
};

static enum MHD_Result take_argument(void *ctx, enum MHD_ValueKind kind, const char *name,
                                     size_t name_len, const char *value, size_t value_len)
{
	static const char *const names[NARGS] = {"index", "wait", "cas"};
	struct arguments *a = ctx;
	int i = 0;

	(void)kind;
	if (!value) /* "?name" */
		value = "";
	while (i < NARGS && (strlen(names[i]) != name_len || memcmp(names[i], name, name_len) != 0))
		i++;
	if (i == NARGS || a->text[i] || strlen(value) != value_len)
		a->strange = true;
	else
		a->text[i] = value;
	return MHD_YES;
}

static struct arguments arguments(struct request *r)
{
	struct arguments a = {0};

	mhd.get_connection_values_n(r->conn, MHD_GET_ARGUMENT_KIND, take_argument, &a);
	return a;
}

/* What a larger dialect would take must not be done as if it had not been asked for. */
static enum MHD_Result refuse_arguments(struct request *r)
{
	return send_text(r, MHD_HTTP_BAD_REQUEST,
	                 "GET takes the arguments index and wait, PUT and DELETE take cas; there "
	                 "are no others\n");
}

static const char *header(struct request *r, const char *name)
{
	return mhd.lookup_connection_value(r->conn, MHD_HEADER_KIND, name);
}

static bool parse_number(const char *text, uint64_t *value)
{
	char *end;

	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	*value = strtoull(text, &end, 10);
	return !errno && !*end;
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

/* Consul's answer to GET of a key: malloced; NULL: out of memory. */
static char *entry_text(const struct kv_entry *e)
{
	char *coded = malloc(4 * (e->len / 3 + 1) + 1), *text = NULL;

	if (!coded)
		return NULL;
	EVP_EncodeBlock((unsigned char *)coded, (const unsigned char *)e->data, (int)e->len);
	json_forget_memory();
	json_t *json = json_pack("[{s:s, s:s?, s:I}]", "Key", e->key, "Value",
	                         e->len ? coded : NULL, /* as Consul writes it */
	                         "ModifyIndex", (json_int_t)e->modify);
	if (json)
		text = json_text(json, JSON_COMPACT);
	json_decref(json);
	free(coded);
	return text;
}

static enum MHD_Result answer_get(struct request *r, const char *key, uint64_t index)
{
	const struct kv_entry *e = kv_find(&r->server->kv, key);
	struct answer a = {
	        .status = MHD_HTTP_OK, .type = "application/json", .owned = true, .index = index};

	if (!e)
		return not_found(r, index);
	char *text = entry_text(e);
	if (!text)
		return send_nomem(r);
	a.data = text;
	a.len = strlen(text);
	if (store_reserve(r, a.len))
		return send_answer(r, &a);
	free(text);
	return send_full(r);
}

static enum MHD_Result get_key(struct request *r, const char *key)
{
	struct store_server *s = r->server;
	const struct arguments a = arguments(r);
	const struct kv_entry *e = kv_find(&s->kv, key);
	/* A missing key has the index of the last change in the store: any may concern it. */
	uint64_t seen = 0, index = e ? e->modify : s->kv.index;
	int64_t wait = a.text[ARG_WAIT] ? parse_duration(a.text[ARG_WAIT]) : WAIT_MAX;

	if (a.strange || a.text[ARG_CAS])
		return refuse_arguments(r);
	if (a.text[ARG_INDEX] && !parse_number(a.text[ARG_INDEX], &seen))
		return send_text(r, MHD_HTTP_BAD_REQUEST, "index is not a number\n");
	if (wait < 0)
		return send_text(r, MHD_HTTP_BAD_REQUEST, "wait is not a duration\n");
	if (wait == 0 || wait > WAIT_MAX)
		wait = WAIT_MAX;
	/* An index that this store has never given out belongs to another store, or to this one
	 * before a restart: the client must learn that. */
	bool unchanged = seen > 0 && index <= seen && seen <= s->kv.index;
	if (!unchanged || r->has_waited || s->stopping)
		return answer_get(r, key, index);
	if (s->nwaiters >= WAITERS_MAX)
		return send_text(r, MHD_HTTP_TOO_MANY_REQUESTS, "too many clients are waiting\n");
	return store_suspend(r, key, clock_ns() + wait);
}

/* ---- PUT, DELETE ---- */

static enum MHD_Result send_result(struct request *r, enum kv_result result)
{
	switch (result) {
	case KV_FULL:
		return send_text(r, MHD_HTTP_INSUFFICIENT_STORAGE, "the store is full\n");
	case KV_NOMEM:
		return send_nomem(r);
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

/* Change @key (@put), or delete it, if its index is that of ?cas=, where it is given. */
static enum MHD_Result change_key(struct request *r, const char *key, bool put)
{
	struct kv *kv = &r->server->kv;
	const struct arguments a = arguments(r);
	uint64_t number = 0;
	const uint64_t *cas = a.text[ARG_CAS] ? &number : NULL;

	if (a.strange || a.text[ARG_INDEX] || a.text[ARG_WAIT])
		return refuse_arguments(r);
	if (cas && !parse_number(a.text[ARG_CAS], &number))
		return send_text(r, MHD_HTTP_BAD_REQUEST, "cas is not a number\n");
	if (!put)
		return send_result(r, kv_delete(kv, key, cas, &r->deleted));
	if (strlen(key) > KV_KEY_BYTES || !is_utf8(key))
		return send_text(r, MHD_HTTP_BAD_REQUEST, "not a key\n");
	return send_result(r, kv_put(kv, key, r->body, r->len, cas, clock_ns()));
}

/* ---- requests ---- */

enum MHD_Result store_api_answer(struct request *r, const char *method, const char *url)
{
	static const char prefix[] = "/v1/kv/";
	const char *key = url + sizeof prefix - 1;

	kv_expire(&r->server->kv, clock_ns());
	const bool get = strcmp(method, "GET") == 0 || strcmp(method, "HEAD") == 0;
	const bool put = strcmp(method, "PUT") == 0;
	if (strncmp(url, prefix, sizeof prefix - 1) != 0)
		return send_text(r, MHD_HTTP_NOT_FOUND, "only keys are served, at /v1/kv/KEY\n");
	if (!get && !put && strcmp(method, "DELETE") != 0)
		return not_allowed(r);
	if (!*key) /* with 404, Consul says that a folder has no keys */
		return send_text(r, MHD_HTTP_BAD_REQUEST,
		                 "no key; only single keys are served, at /v1/kv/KEY\n");
	return get ? get_key(r, key) : change_key(r, key, put);
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
	if (!store_reserve(r, bytes))
		return send_full(r);
	return MHD_YES;
}
