/*
 * The content of the embedded store: keys with Consul's indices, and sessions that hold them. It
 * does no I/O and reads no clock: `now` is the caller's clock_ns(), so that tests can set it.
 *
 * One index numbers all changes, from 1. After a change, `changed` is called with the key.
 * kv_expire removes what has expired.
 */
#ifndef COLLCTL_STORE_SERVER_KV_H
#define COLLCTL_STORE_SERVER_KV_H

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
	char session[KV_ID]; /* the session that holds the key, or "" */
};

struct kv_session {
	char id[KV_ID];
	int64_t ttl, expires; /* ttl 0: for ever */
	bool deletes;         /* its end deletes its keys; otherwise it releases them */
};

struct kv {
	struct kv_entry **entries; /* sorted by key */
	size_t nentries, cap;
	size_t bytes; /* of the values */
	struct kv_session *sessions;
	size_t nsessions;
	uint64_t index;
	int64_t ttl;  /* of keys, from their last write; 0: for ever */
	int64_t next; /* nothing expires before this time */
	void (*changed)(void *arg, const char *key);
	void *arg;
};

/* The condition of a PUT: at most one of these. */
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
/* KV_TRUE also if the key is missing. *gone (may be NULL): the number of deleted keys. */
enum kv_result kv_delete(struct kv *, const char *key, bool has_cas, uint64_t cas, size_t *gone);
void kv_delete_prefix(struct kv *, const char *prefix, size_t *gone);

/* NULL: too many sessions, or no memory. */
struct kv_session *kv_session_create(struct kv *, int64_t ttl, bool deletes, int64_t now);
struct kv_session *kv_session_renew(struct kv *, const char *id, int64_t now);
void kv_session_destroy(struct kv *, const char *id);

/* Remove what has expired; returns when to call again, KV_NEVER: no need. */
int64_t kv_expire(struct kv *, int64_t now);

#endif
