#include "lib/store/store.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define STORE(name) extern const struct store_ops store_##name;
#include "lib/store/store_rows.h"
#undef STORE

#define STORE(name) &store_##name,
static const struct store_ops *const stores[] = {
#include "lib/store/store_rows.h"
};
#undef STORE

#define NSTORES (sizeof stores / sizeof *stores)

static bool has_scheme(const char *url, const char *scheme)
{
	return strncasecmp(url, scheme, strlen(scheme)) == 0;
}

static const struct store_ops *by_scheme(const char *url)
{
	for (size_t i = 0; i < NSTORES; i++)
		for (int k = 0; stores[i]->schemes[k]; k++)
			if (has_scheme(url, stores[i]->schemes[k]))
				return stores[i];
	return NULL;
}

/* "http://, https:// or consul+http://" */
static void list_schemes(char *text, size_t cap)
{
	const char *last = NULL;
	size_t n = 0;

	*text = '\0';
	for (size_t i = 0; i < NSTORES; i++)
		for (int k = 0; stores[i]->schemes[k] && n < cap; k++) {
			if (last)
				n += (size_t)snprintf(text + n, cap - n, "%s%s", n ? ", " : "",
				                      last);
			last = stores[i]->schemes[k];
		}
	if (last && n < cap)
		snprintf(text + n, cap - n, "%s%s", n ? " or " : "", last);
}

struct store *store_open(const struct store_conf *conf, struct err *err)
{
	const struct store_ops *ops = by_scheme(conf->url);
	char schemes[256];

	if (!ops) {
		list_schemes(schemes, sizeof schemes);
		err_set(err, ERR_USAGE, "%s: not a store's URL; one begins with %s", conf->url,
		        schemes);
		return NULL;
	}
	struct store *s = ops->open(conf, err);
	if (s)
		s->ops = ops;
	return s;
}

/* Is @host, up to its port or the end, a name of this host's loopback? */
static bool is_loopback(const char *host)
{
	static const char *const names[] = {"localhost", "[::1]"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		size_t len = strlen(names[i]);
		if (strncasecmp(host, names[i], len) == 0 &&
		    (!host[len] || strchr(":,/", host[len])))
			return true;
	}
	size_t n = strspn(host, "0123456789.");
	return strncmp(host, "127.", 4) == 0 && (!host[n] || strchr(":,/", host[n]));
}

bool store_exposes_token(const char *url)
{
	const char *rest = strstr(url, "://");
	if (!rest || (rest - url >= 5 && strncasecmp(rest - 5, "https", 5) == 0))
		return false;
	for (const char *host = rest + 3;; host++) {
		if (!is_loopback(host))
			return true;
		host += strcspn(host, ",/");
		if (*host != ',')
			return false;
	}
}

void store_close(struct store *s)
{
	if (s)
		s->ops->close(s);
}

void store_interrupt(struct store *s, bool (*asked)(void *ctx), void *ctx)
{
	s->asked = asked;
	s->asked_ctx = ctx;
}

bool store_is_interrupted(const struct store *s)
{
	return s->asked && s->asked(s->asked_ctx);
}

void store_tell(struct store *s, void (*tell)(void *ctx, const char *why), void *ctx)
{
	s->tell = tell;
	s->tell_ctx = ctx;
}

void store_failed(struct store *s, const char *why)
{
	if (s->tell)
		s->tell(s->tell_ctx, why);
}

void store_wake(struct store *s)
{
	s->ops->wake(s);
}

int store_get(struct store *s, const char *key, uint64_t wait_index, struct store_value *out,
              uint64_t *next_wait_index, int64_t deadline, struct err *err)
{
	return s->ops->get(s, key, wait_index, out, next_wait_index, deadline, err);
}

int store_put(struct store *s, const char *key, const void *data, size_t len, uint64_t cas,
              int64_t deadline, struct err *err)
{
	return s->ops->put_if(s, key, data, len, cas, deadline, err);
}

int store_delete(struct store *s, const char *key, uint64_t cas, int64_t deadline, struct err *err)
{
	return s->ops->delete_if(s, key, cas, deadline, err);
}

int store_holds(struct store *s, const char *key, const void *data, size_t len, int64_t deadline,
                struct err *err)
{
	struct store_value v;

	if (store_get(s, key, 0, &v, NULL, deadline, err) < 0)
		return -1;
	int same = v.index && v.len == len && (len == 0 || memcmp(v.data, data, len) == 0);
	free(v.data);
	return same;
}

int store_local_address(struct store *s, char *buf, size_t cap)
{
	return s->ops->local_address(s, buf, cap);
}
