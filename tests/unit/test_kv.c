#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/store/server/kv.h"

#define SEC 1000000000LL

static int changes;
static char changed[KV_KEY_BYTES + 1];

static void on_change(void *arg, const char *key)
{
	(void)arg;
	changes++;
	snprintf(changed, sizeof changed, "%s", key);
}

static struct kv kv;

static int setup(void **state)
{
	(void)state;
	changes = 0;
	kv_init(&kv, 0, on_change, NULL);
	return 0;
}

static int teardown(void **state)
{
	(void)state;
	kv_release(&kv);
	return 0;
}

static enum kv_result put(const char *key, const char *value, struct kv_condition c, int64_t now)
{
	return kv_put(&kv, key, value, strlen(value), 0, &c, now);
}

#define PLAIN      ((struct kv_condition){0})
#define CAS(n)     ((struct kv_condition){.has_cas = true, .cas = (n)})
#define ACQUIRE(s) ((struct kv_condition){.acquire = (s)})
#define RELEASE(s) ((struct kv_condition){.release = (s)})

static void test_cas(void **state)
{
	(void)state;
	size_t gone;

	assert_int_equal(kv.index, 1);
	assert_int_equal(put("k", "a", CAS(0), 0), KV_TRUE);
	assert_int_equal(put("k", "b", CAS(0), 0), KV_FALSE);
	uint64_t first = kv_find(&kv, "k")->modify;
	assert_int_equal(first, 2);
	assert_int_equal(kv_find(&kv, "k")->create, 2);
	assert_int_equal(put("k", "b", CAS(first + 1), 0), KV_FALSE);
	assert_int_equal(put("k", "b", CAS(first), 0), KV_TRUE);
	assert_int_equal(put("k", "c", CAS(first), 0), KV_FALSE);
	assert_string_equal(kv_find(&kv, "k")->data, "b");
	assert_int_equal(kv_find(&kv, "k")->create, 2);
	assert_int_equal(changes, 2);
	assert_int_equal(put("absent", "x", CAS(7), 0), KV_FALSE);

	assert_int_equal(kv_delete(&kv, "k", true, first, &gone), KV_FALSE);
	assert_int_equal(gone, 0);
	uint64_t before = kv.index;
	assert_int_equal(kv_delete(&kv, "k", true, first + 1, &gone), KV_TRUE);
	assert_int_equal(gone, 1);
	assert_true(kv.index > before);
	assert_int_equal(changes, 3);
	assert_string_equal(changed, "k");
	assert_int_equal(kv_delete(&kv, "k", true, first + 1, &gone), KV_TRUE); /* again */
	assert_int_equal(gone, 0);
	assert_int_equal(changes, 3);
	assert_int_equal(kv.bytes, 0);
	/* A key that comes again has an index that it never had. */
	before = kv.index;
	assert_int_equal(put("k", "a", CAS(0), 0), KV_TRUE);
	assert_true(kv_find(&kv, "k")->modify > before);
}

static void test_ranges(void **state)
{
	(void)state;
	static const char *const keys[] = {"b/2", "a", "b/10", "c", "b", "b/1", "b0"};
	size_t first, gone;

	for (size_t i = 0; i < sizeof keys / sizeof keys[0]; i++)
		assert_int_equal(put(keys[i], "", PLAIN, 0), KV_TRUE);
	assert_int_equal(kv_range(&kv, "", &first), 7);
	assert_int_equal(first, 0);
	assert_int_equal(kv_range(&kv, "b/", &first), 3);
	assert_string_equal(kv.entries[first]->key, "b/1");
	assert_string_equal(kv.entries[first + 1]->key, "b/10");
	assert_string_equal(kv.entries[first + 2]->key, "b/2");
	assert_int_equal(kv_range(&kv, "d", &first), 0);
	kv_delete_prefix(&kv, "b/", &gone);
	assert_int_equal(gone, 3);
	assert_int_equal(kv_range(&kv, "", &first), 4);
	assert_non_null(kv_find(&kv, "b"));
	assert_non_null(kv_find(&kv, "b0"));
	assert_null(kv_find(&kv, "b/1"));
	kv_delete_prefix(&kv, "nothing", &gone);
	assert_int_equal(gone, 0);
}

static void test_caps(void **state)
{
	(void)state;
	static char big[KV_VALUE_BYTES + 1];
	char key[32];
	size_t n = KV_TOTAL_BYTES / KV_VALUE_BYTES;

	assert_int_equal(kv_put(&kv, "k", big, KV_VALUE_BYTES + 1, 0, &PLAIN, 0), KV_FULL);
	for (size_t i = 0; i < n; i++) {
		snprintf(key, sizeof key, "k%zu", i);
		assert_int_equal(kv_put(&kv, key, big, KV_VALUE_BYTES, 0, &PLAIN, 0), KV_TRUE);
	}
	assert_int_equal(kv_put(&kv, "one more", big, 1, 0, &PLAIN, 0), KV_FULL);
	assert_null(kv_find(&kv, "one more"));
	/* What replaces a value counts without it. */
	assert_int_equal(kv_put(&kv, "k0", big, KV_VALUE_BYTES, 0, &PLAIN, 0), KV_TRUE);
	assert_int_equal(kv_put(&kv, "k0", big, 1, 0, &PLAIN, 0), KV_TRUE);
	assert_int_equal(kv_put(&kv, "one more", big, 1, 0, &PLAIN, 0), KV_TRUE);
	kv_delete_prefix(&kv, "", NULL);
	assert_int_equal(kv.bytes, 0);

	for (int i = 0; i < KV_KEYS_MAX; i++) {
		snprintf(key, sizeof key, "k%d", i);
		assert_int_equal(put(key, "", PLAIN, 0), KV_TRUE);
	}
	assert_int_equal(put("one more", "", PLAIN, 0), KV_FULL);
	assert_int_equal(put("k7", "new", PLAIN, 0), KV_TRUE);
}

static void test_sessions(void **state)
{
	(void)state;
	char a[KV_ID], b[KV_ID];

	snprintf(a, sizeof a, "%s", kv_session_create(&kv, 10 * SEC, true, 0)->id);
	snprintf(b, sizeof b, "%s", kv_session_create(&kv, 0, false, 0)->id);
	assert_int_equal(strlen(a), 36);
	assert_string_not_equal(a, b);

	assert_int_equal(put("k", "1", ACQUIRE("nobody"), 0), KV_NO_SESSION);
	assert_int_equal(put("k", "1", ACQUIRE(a), 0), KV_TRUE);
	assert_int_equal(kv_find(&kv, "k")->lock, 1);
	assert_int_equal(put("k", "2", ACQUIRE(b), 0), KV_FALSE);
	assert_int_equal(put("k", "3", ACQUIRE(a), 0), KV_TRUE);
	assert_int_equal(kv_find(&kv, "k")->lock, 1);
	assert_int_equal(put("k", "4", RELEASE(b), 0), KV_FALSE);
	assert_int_equal(put("k", "5", RELEASE(a), 0), KV_TRUE);
	assert_string_equal(kv_find(&kv, "k")->session, "");
	assert_int_equal(put("k", "6", ACQUIRE(b), 0), KV_TRUE);
	assert_int_equal(kv_find(&kv, "k")->lock, 2);
	assert_int_equal(put("gone", "", RELEASE(a), 0), KV_FALSE);

	/* The keys of one that deletes go with it, those of one that releases stay. */
	assert_int_equal(put("mine", "", ACQUIRE(a), 0), KV_TRUE);
	assert_int_equal(kv_expire(&kv, 9 * SEC), 10 * SEC);
	assert_non_null(kv_session_renew(&kv, a, 9 * SEC));
	kv_expire(&kv, 18 * SEC);
	assert_non_null(kv_find(&kv, "mine"));
	changes = 0;
	assert_int_equal(kv_expire(&kv, 19 * SEC), KV_NEVER);
	assert_int_equal(changes, 1);
	assert_null(kv_find(&kv, "mine"));
	assert_null(kv_session_renew(&kv, a, 19 * SEC));
	kv_session_destroy(&kv, b);
	assert_non_null(kv_find(&kv, "k"));
	assert_string_equal(kv_find(&kv, "k")->session, "");
	assert_int_equal(changes, 2);
	kv_session_destroy(&kv, b);
	assert_int_equal(changes, 2);

	for (int i = 0; i < KV_SESSIONS_MAX; i++)
		assert_non_null(kv_session_create(&kv, 0, true, 0));
	assert_null(kv_session_create(&kv, 0, true, 0));
}

static void test_ttl(void **state)
{
	(void)state;
	kv.ttl = 5 * SEC;
	assert_int_equal(put("a", "", PLAIN, 0), KV_TRUE);
	assert_int_equal(put("b", "", PLAIN, 1 * SEC), KV_TRUE);
	assert_int_equal(kv_expire(&kv, 4 * SEC), 5 * SEC);
	assert_int_equal(put("a", "again", PLAIN, 4 * SEC), KV_TRUE);
	assert_int_equal(kv_expire(&kv, 5 * SEC), 6 * SEC); /* a lives on */
	changes = 0;
	assert_int_equal(kv_expire(&kv, 6 * SEC), 9 * SEC);
	assert_int_equal(changes, 1);
	assert_string_equal(changed, "b");
	assert_non_null(kv_find(&kv, "a"));
	assert_int_equal(kv_expire(&kv, 9 * SEC), KV_NEVER);
	assert_null(kv_find(&kv, "a"));
}

#define TEST(f) cmocka_unit_test_setup_teardown(f, setup, teardown)

int main(void)
{
	const struct CMUnitTest tests[] = {
	        TEST(test_cas),      TEST(test_ranges), TEST(test_caps),
	        TEST(test_sessions), TEST(test_ttl),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
