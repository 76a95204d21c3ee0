#include "lib/store/server/kv.h"

#include <stdlib.h>
#include <string.h>

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
	*kv = (struct kv){0};
}

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
	return e;
}

enum kv_result kv_put(struct kv *kv, const char *key, const void *data, size_t len,
                      const uint64_t *cas, int64_t now)
{
	struct kv_entry *e = kv_find(kv, key);
	size_t old = e ? e->len : 0;

	if (cas && *cas != (e ? e->modify : 0))
		return KV_FALSE;
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
	kv->bytes = kv->bytes - old + len;
	e->expires = kv->ttl ? now + kv->ttl : KV_NEVER;
	if (e->expires < kv->next)
		kv->next = e->expires;
	e->modify = ++kv->index;
	kv->changed(kv->arg, e->key);
	return KV_TRUE;
}

enum kv_result kv_delete(struct kv *kv, const char *key, const uint64_t *cas, bool *gone)
{
	size_t at = lower_bound(kv, key);
	struct kv_entry *e = kv_find(kv, key);
	bool refused = e && cas && *cas != e->modify;

	*gone = e && !refused;
	if (*gone)
		remove_at(kv, at);
	return refused ? KV_FALSE : KV_TRUE;
}

int64_t kv_expire(struct kv *kv, int64_t now)
{
	if (now < kv->next)
		return kv->next;
	kv->next = KV_NEVER;
	for (size_t i = kv->nentries; i-- > 0;) {
		if (kv->entries[i]->expires <= now)
			remove_at(kv, i);
		else if (kv->entries[i]->expires < kv->next)
			kv->next = kv->entries[i]->expires;
	}
	return kv->next;
}
