/*
 * What the embedded store stores: keys with Consul's indices, and sessions that own them. No I/O
 * and no clock of its own: `now` is the caller's clock_ns(), so tests move time as they like.
 *
 * Every change takes the next value of one index, which begins at 1; a change calls `changed` with
 * the key after it has been made. What has expired is gone by the next kv_expire.
 */
#ifndef COLLCTL_JOB_KV_H
#define COLLCTL_JOB_KV_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define KV_KEYS_MAX     4096
#define KV_SESSIONS_MAX 4096
#define KV_KEY_BYTES    512
#define KV_VALUE_BYTES  ((size_t)64 << 10)
#define KV_TOTAL_BYTES  ((size_t)32 << 20) /* of all values */
#define KV_ID           37                 /* a session's id, a UUID, with its NUL */
#define KV_NEVER        INT64_MAX

struct kv_entry {
	char *key, *data;
	size_t len;
	uint64_t create, modify, lock, flags;
	int64_t expires;
	char session[KV_ID]; /* that holds it, or "" */
};

struct kv_session {
	char id[KV_ID];
	int64_t ttl, expires; /* ttl 0: for ever */
	bool deletes;         /* its keys go with it; else they are released */
};

struct kv {
	struct kv_entry **entries; /* sorted by key */
	size_t nentries, cap;
	size_t bytes; /* of the values */
	struct kv_session *sessions;
	size_t nsessions;
	uint64_t index;
	int64_t ttl;  /* of keys, from their last write; 0: for ever */
	int64_t next; /* nothing expires before; it may be too early, never too late */
	void (*changed)(void *arg, const char *key);
	void *arg;
};

/* What a PUT is conditional on. At most one. */
struct kv_condition {
	bool has_cas;
	uint64_t cas;                  /* 0: only if absent */
	const char *acquire, *release; /* a session's id, or NULL */
};

enum kv_result { KV_TRUE, KV_FALSE, KV_FULL, KV_NOMEM, KV_NO_SESSION };

void kv_init(struct kv *, int64_t ttl, void (*changed)(void *, const char *), void *arg);
void kv_release(struct kv *);

struct kv_entry *kv_find(const struct kv *, const char *key);
/* The entries whose keys begin with @prefix: returns their number, the first at entries[*first]. */
size_t kv_range(const struct kv *, const char *prefix, size_t *first);

enum kv_result kv_put(struct kv *, const char *key, const void *data, size_t len, uint64_t flags,
                      const struct kv_condition *, int64_t now);
/* KV_TRUE also for a key that was not there; *gone (may be NULL) says how many were deleted. */
enum kv_result kv_delete(struct kv *, const char *key, bool has_cas, uint64_t cas, size_t *gone);
void kv_delete_prefix(struct kv *, const char *prefix, size_t *gone);

/* NULL: too many sessions, or no memory. */
struct kv_session *kv_session_create(struct kv *, int64_t ttl, bool deletes, int64_t now);
struct kv_session *kv_session_renew(struct kv *, const char *id, int64_t now);
void kv_session_destroy(struct kv *, const char *id);

/* Remove what has expired; returns when to call again, KV_NEVER: no need. */
int64_t kv_expire(struct kv *, int64_t now);

#endif
