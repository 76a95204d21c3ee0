/*
 * The content of the embedded store: values by key, with Consul's indices. No I/O, no clock: `now`
 * is the caller's clock_ns(). One thread.
 *
 * A counter, the index, numbers all changes from 1. After each change, `changed` is called with the
 * key. Keys expire only in kv_expire.
 */
#ifndef COLLCTL_STORE_SERVER_KV_H
#define COLLCTL_STORE_SERVER_KV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KV_KEYS_MAX    4096
#define KV_KEY_BYTES   512
#define KV_VALUE_BYTES ((size_t)64 << 10)
#define KV_TOTAL_BYTES ((size_t)32 << 20) /* of all values */
#define KV_NEVER       INT64_MAX

struct kv_entry {
	char *key, *data;
	size_t len;
	uint64_t modify; /* the index of its last change */
	int64_t expires; /* clock_ns(); KV_NEVER */
};

struct kv {
	struct kv_entry **entries; /* sorted by key */
	size_t nentries, cap;
	size_t bytes; /* of the values */
	uint64_t index;
	int64_t ttl;  /* ns that a key lives after its last write; 0: for ever */
	int64_t next; /* nothing expires before this time */
	void (*changed)(void *arg, const char *key);
	void *arg;
};

/* Done; not done, because of @cas; a limit is reached; no memory. */
enum kv_result { KV_TRUE, KV_FALSE, KV_FULL, KV_NOMEM };

void kv_init(struct kv *, int64_t ttl, void (*changed)(void *, const char *), void *arg);
void kv_release(struct kv *);

/* NULL: there is no such key. Valid until the next change. */
struct kv_entry *kv_find(const struct kv *, const char *key);

/* Put a value, which is copied; delete a key. @cas: only if the key's index is *cas (0: only if it
 * is missing); NULL: unconditionally. */
enum kv_result kv_put(struct kv *, const char *key, const void *data, size_t len,
                      const uint64_t *cas, int64_t now);
/* KV_TRUE also if the key is missing. *gone: it was there and was deleted. */
enum kv_result kv_delete(struct kv *, const char *key, const uint64_t *cas, bool *gone);

/* Remove expired keys. Returns the time to call it again; KV_NEVER: no need. */
int64_t kv_expire(struct kv *, int64_t now);

#endif
