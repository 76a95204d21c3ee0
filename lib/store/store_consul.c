#include "lib/store/store_consul.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "lib/store/http.h"
#include "lib/store/store_value.h"

#define PATH_CAP (4 * HTTP_KEY_MAX) /* bytes: a prefix, and a key with all bytes encoded */

struct consul {
	struct store store;
	struct http http;
	uint64_t index; /* X-Consul-Index of the last answer, 0: none */
};

static struct consul *consul_of(struct store *s)
{
	return (struct consul *)s;
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

static void on_header(struct store *store, const char *line, size_t len)
{
	static const char name[] = "X-Consul-Index:";
	struct consul *s = consul_of(store);

	if (len >= 5 && memcmp(line, "HTTP/", 5) == 0) /* the final answer, after one of 1xx */
		s->index = 0;
	if (len >= sizeof name - 1 && strncasecmp(line, name, sizeof name - 1) == 0)
		s->index = parse_number(line + sizeof name - 1, line + len);
}

static struct store *consul_open(const struct store_conf *conf, struct err *err)
{
	static const struct http_dialect dialect = {.type = "application/octet-stream",
	                                            .on_header = on_header};
	struct consul *s = err_calloc(1, sizeof *s, "the store", err);

	if (!s)
		return NULL;
	const char *token = conf->token && *conf->token ? conf->token : NULL;
	if (http_init(&s->http, &dialect, conf, &s->store, err) == 0 &&
	    http_set_secret(&s->http, "X-Consul-Token", token, err) == 0)
		return &s->store;
	http_release(&s->http);
	free(s);
	return NULL;
}

static void consul_close(struct store *store)
{
	http_release(&consul_of(store)->http);
	free(store);
}

static void consul_wake(struct store *store)
{
	http_wake(&consul_of(store)->http);
}

static int consul_local_address(struct store *store, char *buf, size_t cap)
{
	return http_local_address(&consul_of(store)->http, buf, cap);
}

/* ---- operations ---- */

/* "/v1/kv/prefix/key" */
static int write_path(struct consul *s, const char *key, char *path, size_t cap, struct err *err)
{
	char *at = path + snprintf(path, cap, "/v1/kv%s/", http_prefix(&s->http));

	if (strlen(key) <= HTTP_KEY_MAX && http_encode(at, path + cap, key))
		return 0;
	return err_set(err, ERR_USAGE, "%.60s...: a key of more than %d bytes", key, HTTP_KEY_MAX);
}

/* Send @r for @key; @query: "?cas=1" or "". */
static int send_request(struct consul *s, struct http_request *r, const char *key,
                        const char *query, int64_t deadline, struct err *err)
{
	char path[PATH_CAP + 100], plain[PATH_CAP];

	if (write_path(s, key, plain, sizeof plain, err) < 0)
		return -1;
	snprintf(path, sizeof path, "%s%s", plain, query);
	r->path = path;
	/* The store may have restarted meanwhile: ask for the current value. */
	if (r->retry)
		r->retry = plain;
	if (http_send(&s->http, r, deadline, err) < 0)
		return -1;
	const long status = s->http.status;
	if (status == 200 || status == 404)
		return 0;
	if (status == 401 || status == 403)
		return err_set(
		        err, ERR_AUTH,
		        "%s: HTTP %ld: the token is missing or wrong; see --store-token-file",
		        http_name(&s->http), status);
	return err_set(err, ERR_RENDEZVOUS, "%s: HTTP %ld", http_name(&s->http), status);
}

static int read_answer(struct consul *s, struct store_value *out, struct err *err)
{
	struct err why = ERR_INIT;
	const struct http *h = &s->http;

	*out = (struct store_value){0};
	/* Any web server answers 404; only a store sends an index. */
	if (s->index == 0)
		return err_set(err, ERR_RENDEZVOUS,
		               "%s: not a key-value store: HTTP %ld without X-Consul-Index",
		               http_name(h), h->status);
	if (h->status == 404 || store_value_parse(out, h->body, h->body_len, &why) == 0)
		return 0;
	return err_set(err, why.code, "%s: %s", http_name(h), why.text);
}

static int consul_get(struct store *store, const char *key, uint64_t wait_index,
                      struct store_value *out, uint64_t *next_wait_index, int64_t deadline,
                      struct err *err)
{
	struct consul *s = consul_of(store);

	*out = (struct store_value){0};
	for (;;) {
		char query[80] = "";
		/* The answer of Consul comes up to 1/16 later. */
		int64_t wait = wait_index ? http_wait_time(deadline) : 0;
		if (wait)
			snprintf(query, sizeof query, "?index=%llu&wait=%lldms",
			         (unsigned long long)wait_index, (long long)(wait / NS_PER_MS));
		struct http_request r = {.method = "GET",
		                         .retry = wait ? "" : NULL,
		                         .limit = wait + wait / 16 + HTTP_TIME};
		if (send_request(s, &r, key, query, deadline, err) < 0 ||
		    read_answer(s, out, err) < 0)
			return -1;
		if (s->index != wait_index || wait < HTTP_WAIT_MAX)
			break;
		free(out->data);
	}
	if (next_wait_index)
		*next_wait_index = s->index < wait_index ? 0 : s->index;
	return 0;
}

/* The body of an answer to PUT or DELETE. */
static int read_verdict(const struct http *h, struct err *err)
{
	size_t len = h->body_len;

	while (len && (h->body[len - 1] == '\n' || h->body[len - 1] == '\r'))
		len--;
	if (h->status == 200 && len == 4 && memcmp(h->body, "true", 4) == 0)
		return 1;
	if (h->status == 200 && len == 5 && memcmp(h->body, "false", 5) == 0)
		return 0;
	return err_set(err, ERR_RENDEZVOUS,
	               "%s: not a key-value store: HTTP %ld and neither true "
	               "nor false",
	               http_name(h), h->status);
}

static int consul_put_if(struct store *store, const char *key, const void *data, size_t len,
                         uint64_t cas, int64_t deadline, struct err *err)
{
	struct consul *s = consul_of(store);
	struct http_request r = {
	        .method = "PUT", .data = len ? data : "", .len = len, .limit = HTTP_TIME};
	char query[40];

	if (len > STORE_VALUE_MAX)
		return err_set(err, ERR_OTHER, "%s: a value of %zu bytes; a store takes at most %u",
		               key, len, STORE_VALUE_MAX);
	snprintf(query, sizeof query, "?cas=%llu", (unsigned long long)cas);
	if (send_request(s, &r, key, query, deadline, err) < 0)
		return -1;
	const bool sure = s->http.tries == 1;
	const int done = read_verdict(&s->http, err);
	return done || sure ? done : store_holds(store, key, data, len, deadline, err);
}

static int consul_delete_if(struct store *store, const char *key, uint64_t cas, int64_t deadline,
                            struct err *err)
{
	struct consul *s = consul_of(store);
	struct http_request r = {.method = "DELETE", .limit = HTTP_TIME};
	char query[40];

	/* With cas=0 Consul deletes nothing, which the caller cannot mean. */
	if (cas == 0)
		return err_set(err, ERR_OTHER, "%s: cannot be deleted without its index", key);
	snprintf(query, sizeof query, "?cas=%llu", (unsigned long long)cas);
	if (send_request(s, &r, key, query, deadline, err) < 0)
		return -1;
	return read_verdict(&s->http, err);
}

static const char *const schemes[] = {"http://", "https://", "consul+http://", "consul+https://",
                                      NULL};

const struct store_ops store_consul = {
        .schemes = schemes,
        .open = consul_open,
        .close = consul_close,
        .get = consul_get,
        .put_if = consul_put_if,
        .delete_if = consul_delete_if,
        .local_address = consul_local_address,
        .wake = consul_wake,
};
