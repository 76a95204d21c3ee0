/*
 * A toy: memory://, a store within a process. Any thread.
 */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/store/store.h"

extern const struct store_ops store_memory;

#define KEYS  16
#define LOOKS (NS_PER_SEC / 20) /* between two looks at whether somebody asks to stop */

static struct {
	pthread_mutex_t lock;
	pthread_cond_t changed;
	uint64_t index;
	struct {
		char key[128];
		char *data; /* NULL: there is none */
		size_t len;
		uint64_t index;
	} keys[KEYS];
} memory = {.lock = PTHREAD_MUTEX_INITIALIZER, .changed = PTHREAD_COND_INITIALIZER, .index = 1};

static struct store *open_(const struct store_conf *conf, struct err *err)
{
	struct store *s = calloc(1, sizeof *s);
	(void)conf;
	if (!s)
		err_nomem(err, "a store", sizeof *s);
	return s;
}

static void close_(struct store *s)
{
	free(s);
}

/* The place of @key, which may be empty yet. */
static int find(const char *key)
{
	int i = 0;
	while (memory.keys[i].key[0] && strcmp(memory.keys[i].key, key) != 0)
		if (++i == KEYS)
			abort();
	strncpy(memory.keys[i].key, key, sizeof memory.keys[i].key - 1);
	return i;
}

static void wait_a_little(void)
{
	struct timespec until;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_nsec += LOOKS;
	until.tv_sec += until.tv_nsec / NS_PER_SEC;
	until.tv_nsec %= NS_PER_SEC;
	pthread_cond_timedwait(&memory.changed, &memory.lock, &until);
}

static int get(struct store *s, const char *key, uint64_t wait_index, struct store_value *out,
               uint64_t *next_wait_index, int64_t deadline, struct err *err)
{
	int ret = 0;
	*out = (struct store_value){0};
	pthread_mutex_lock(&memory.lock);
	int i = find(key);
	while (wait_index && memory.keys[i].index <= wait_index && clock_ns() < deadline &&
	       !store_is_interrupted(s))
		wait_a_little();
	if (store_is_interrupted(s)) {
		ret = err_set(err, ERR_OTHER, "interrupted");
	} else if (memory.keys[i].data) {
		out->data = malloc(memory.keys[i].len + 1);
		if (!out->data)
			abort();
		memcpy(out->data, memory.keys[i].data, memory.keys[i].len);
		out->data[memory.keys[i].len] = '\0';
		out->len = memory.keys[i].len;
		out->index = memory.keys[i].index;
	}
	if (next_wait_index)
		*next_wait_index = memory.index;
	pthread_mutex_unlock(&memory.lock);
	return ret;
}

/* Replace what has the index @cas by a copy of @data (NULL: nothing). */
static int change(const char *key, const void *data, size_t len, uint64_t cas)
{
	char *copy = data ? malloc(len + 1) : NULL;
	if (data)
		memcpy(copy, data, len);
	pthread_mutex_lock(&memory.lock);
	int i = find(key);
	bool fits = cas == (memory.keys[i].data ? memory.keys[i].index : 0);
	if (fits) {
		free(memory.keys[i].data);
		memory.keys[i].data = copy;
		memory.keys[i].len = len;
		memory.keys[i].index = ++memory.index;
		pthread_cond_broadcast(&memory.changed);
	} else {
		free(copy);
	}
	pthread_mutex_unlock(&memory.lock);
	return fits;
}

static int put_if(struct store *s, const char *key, const void *data, size_t len, uint64_t cas,
                  int64_t deadline, struct err *err)
{
	(void)s, (void)deadline, (void)err;
	return change(key, data, len, cas);
}

static int delete_if(struct store *s, const char *key, uint64_t cas, int64_t deadline,
                     struct err *err)
{
	(void)s, (void)deadline, (void)err;
	return change(key, NULL, 0, cas);
}

static int local_address(struct store *s, char *buf, size_t cap)
{
	(void)s, (void)buf, (void)cap;
	return -1;
}

static void wake(struct store *s)
{
	(void)s;
	pthread_cond_broadcast(&memory.changed);
}

static const char *const schemes[] = {"memory://", NULL};

const struct store_ops store_memory = {
        .schemes = schemes,
        .open = open_,
        .close = close_,
        .get = get,
        .put_if = put_if,
        .delete_if = delete_if,
        .local_address = local_address,
        .wake = wake,
};
