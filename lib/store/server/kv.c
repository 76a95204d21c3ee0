#include "lib/store/server/kv.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

void kv_init(struct kv *kv, int64_t ttl, void (*changed)(void *, const char *), void *arg)
{
	*kv = (struct kv){.index = 1, .ttl = ttl, .next = KV_NEVER, .changed = changed, .arg = arg};
}

static void entry_free(struct kv_entry *e)
{
	if (!e)
		return;
	free(e->key);
	free(e->data);
	free(e);
}

void kv_release(struct kv *kv)
{
	for (size_t i = 0; i < kv->nentries; i++)
		entry_free(kv->entries[i]);
	free(kv->entries);
	free(kv->sessions);
	*kv = (struct kv){0};
}

/* ---- keys ---- */

/* The first entry whose key is not below @key. */
static size_t lower_bound(const struct kv *kv, const char *key)
{
	size_t lo = 0, hi = kv->nentries;

	while (lo < hi) {
		size_t mid = lo + (hi - lo) / 2;
		if (strcmp(kv->entries[mid]->key, key) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

struct kv_entry *kv_find(const struct kv *kv, const char *key)
{
	size_t at = lower_bound(kv, key);

	if (at == kv->nentries || strcmp(kv->entries[at]->key, key) != 0)
		return NULL;
	return kv->entries[at];
}

size_t kv_range(const struct kv *kv, const char *prefix, size_t *first)
{
	size_t n = 0, len = strlen(prefix);

	*first = lower_bound(kv, prefix);
	while (*first + n < kv->nentries && strncmp(kv->entries[*first + n]->key, prefix, len) == 0)
		n++;
	return n;
}

static void touch(struct kv *kv, struct kv_entry *e)
{
	e->modify = ++kv->index;
	kv->changed(kv->arg, e->key);
}

static void remove_at(struct kv *kv, size_t at)
{
	struct kv_entry *e = kv->entries[at];

	kv->nentries--;
	memmove(kv->entries + at, kv->entries + at + 1,
	        (kv->nentries - at) * sizeof(struct kv_entry *));
	kv->bytes -= e->len;
	kv->index++;
	kv->changed(kv->arg, e->key);
	entry_free(e);
}

static int grow(struct kv *kv)
{
	size_t cap = kv->cap ? 2 * kv->cap : 16;

	if (kv->nentries < kv->cap)
		return 0;
	struct kv_entry **more = realloc(kv->entries, cap * sizeof(struct kv_entry *));
	if (!more)
		return -1;
	kv->entries = more;
	kv->cap = cap;
	return 0;
}

/* Insert a new entry without a value; NULL: no memory. */
static struct kv_entry *insert(struct kv *kv, const char *key)
{
	struct kv_entry *e = calloc(1, sizeof *e);
	size_t at = lower_bound(kv, key);

	if (e)
		e->key = strdup(key);
	if (!e || !e->key || grow(kv) < 0) {
		entry_free(e);
		return NULL;
	}
	memmove(kv->entries + at + 1, kv->entries + at,
	        (kv->nentries - at) * sizeof(struct kv_entry *));
	kv->entries[at] = e;
	kv->nentries++;
	e->create = kv->index + 1; /* the index that touch() takes next */
	return e;
}

static struct kv_session *find_session(const struct kv *kv, const char *id)
{
	for (size_t i = 0; i < kv->nsessions; i++)
		if (strcmp(kv->sessions[i].id, id) == 0)
			return &kv->sessions[i];
	return NULL;
}

static enum kv_result check_condition(const struct kv *kv, const struct kv_entry *e,
                                      const struct kv_condition *c)
{
	if (c->has_cas)
		return c->cas == (e ? e->modify : 0) ? KV_TRUE : KV_FALSE;
	if (c->acquire && !find_session(kv, c->acquire))
		return KV_NO_SESSION;
	if (c->acquire)
		return !e || !e->session[0] || strcmp(e->session, c->acquire) == 0 ? KV_TRUE
		                                                                   : KV_FALSE;
	if (c->release)
		return e && strcmp(e->session, c->release) == 0 ? KV_TRUE : KV_FALSE;
	return KV_TRUE;
}

static void set_owner(struct kv_entry *e, const struct kv_condition *c)
{
	if (c->acquire && strcmp(e->session, c->acquire) != 0) {
		snprintf(e->session, sizeof e->session, "%s", c->acquire);
		e->lock++;
	}
	if (c->release)
		e->session[0] = '\0';
}

static void expires_at(struct kv *kv, int64_t *expires, int64_t when)
{
	*expires = when;
	if (when < kv->next)
		kv->next = when;
}

enum kv_result kv_put(struct kv *kv, const char *key, const void *data, size_t len, uint64_t flags,
                      const struct kv_condition *c, int64_t now)
{
	struct kv_entry *e = kv_find(kv, key);
	enum kv_result verdict = check_condition(kv, e, c);
	size_t old = e ? e->len : 0;

	if (verdict != KV_TRUE)
		return verdict;
	if (len > KV_VALUE_BYTES || kv->bytes - old + len > KV_TOTAL_BYTES ||
	    (!e && kv->nentries >= KV_KEYS_MAX))
		return KV_FULL;
	char *copy = malloc(len + 1);
	if (copy && !e)
		e = insert(kv, key);
	if (!copy || !e) {
		free(copy);
		return KV_NOMEM;
	}
	if (len)
		memcpy(copy, data, len);
	copy[len] = '\0';
	free(e->data);
	e->data = copy;
	e->len = len;
	e->flags = flags;
	kv->bytes = kv->bytes - old + len;
	set_owner(e, c);
	expires_at(kv, &e->expires, kv->ttl ? now + kv->ttl : KV_NEVER);
	touch(kv, e);
	return KV_TRUE;
}

enum kv_result kv_delete(struct kv *kv, const char *key, bool has_cas, uint64_t cas, size_t *gone)
{
	size_t at = lower_bound(kv, key);
	struct kv_entry *e = kv_find(kv, key);

	if (gone)
		*gone = 0;
	if (!e)
		return KV_TRUE;
	if (has_cas && cas != e->modify)
		return KV_FALSE;
	remove_at(kv, at);
	if (gone)
		*gone = 1;
	return KV_TRUE;
}

void kv_delete_prefix(struct kv *kv, const char *prefix, size_t *gone)
{
	size_t first, n = kv_range(kv, prefix, &first);

	for (size_t i = n; i-- > 0;) /* from the end, so that few entries move */
		remove_at(kv, first + i);
	if (gone)
		*gone = n;
}

/* ---- sessions ---- */

static int new_id(char id[KV_ID])
{
	uint8_t r[16];

	if (getrandom(r, sizeof r, 0) != (ssize_t)sizeof r)
		return -1;
	r[6] = (uint8_t)((r[6] & 0x0f) | 0x40); /* version 4 */
	r[8] = (uint8_t)((r[8] & 0x3f) | 0x80);
	for (size_t i = 0, at = 0; i < sizeof r; i++) {
		if (i == 4 || i == 6 || i == 8 || i == 10)
			id[at++] = '-';
		snprintf(id + at, 3, "%02x", r[i]);
		at += 2;
	}
	return 0;
}

struct kv_session *kv_session_create(struct kv *kv, int64_t ttl, bool deletes, int64_t now)
{
	if (kv->nsessions >= KV_SESSIONS_MAX)
		return NULL;
	if (!kv->sessions) /* all at once, because pointers to sessions must stay valid */
		kv->sessions = calloc(KV_SESSIONS_MAX, sizeof *kv->sessions);
	if (!kv->sessions)
		return NULL;
	struct kv_session *s = &kv->sessions[kv->nsessions];
	*s = (struct kv_session){.ttl = ttl, .deletes = deletes};
	if (new_id(s->id) < 0)
		return NULL;
	kv->nsessions++;
	expires_at(kv, &s->expires, ttl ? now + ttl : KV_NEVER);
	return s;
}

struct kv_session *kv_session_renew(struct kv *kv, const char *id, int64_t now)
{
	struct kv_session *s = find_session(kv, id);

	if (s)
		expires_at(kv, &s->expires, s->ttl ? now + s->ttl : KV_NEVER);
	return s;
}

void kv_session_destroy(struct kv *kv, const char *id)
{
	struct kv_session *s = find_session(kv, id);

	if (!s)
		return;
	struct kv_session was = *s; /* @id may be the session's own */
	*s = kv->sessions[--kv->nsessions];
	for (size_t i = kv->nentries; i-- > 0;) {
		struct kv_entry *e = kv->entries[i];
		if (strcmp(e->session, was.id) != 0)
			continue;
		if (was.deletes) {
			remove_at(kv, i);
			continue;
		}
		e->session[0] = '\0';
		touch(kv, e);
	}
}

int64_t kv_expire(struct kv *kv, int64_t now)
{
	if (now < kv->next)
		return kv->next;
	kv->next = KV_NEVER;
	for (size_t i = kv->nsessions; i-- > 0;)
		if (kv->sessions[i].expires <= now)
			kv_session_destroy(kv, kv->sessions[i].id);
	for (size_t i = kv->nentries; i-- > 0;)
		if (kv->entries[i]->expires <= now)
			remove_at(kv, i);
	for (size_t i = 0; i < kv->nsessions; i++)
		if (kv->sessions[i].expires < kv->next)
			kv->next = kv->sessions[i].expires;
	for (size_t i = 0; i < kv->nentries; i++)
		if (kv->entries[i]->expires < kv->next)
			kv->next = kv->entries[i]->expires;
	return kv->next;
}
