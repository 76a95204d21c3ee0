
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/store/server/kv.h"
#include "tests/unit/unit.h"

#define KV_TEST(name) TEST_WITH(name, setup, teardown)

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
	changes = 0;
	kv_init(&kv, 0, on_change, NULL);
	return 0;
}

static int teardown(void **state)
{
	kv_release(&kv);
	return 0;
}

static enum kv_result put(const char *key, const char *value, const uint64_t *cas, int64_t now)
{
	return kv_put(&kv, key, value, strlen(value), cas, now);
}

#define CAS(n) (&(uint64_t){n})

KV_TEST(test_cas)
{
	bool gone;

	assert_int_equal(kv.index, 1);
	assert_int_equal(put("k", "a", CAS(0), 0), KV_TRUE);
	assert_int_equal(put("k", "b", CAS(0), 0), KV_FALSE);
	uint64_t first = kv_find(&kv, "k")->modify;
	assert_int_equal(first, 2);
	assert_int_equal(put("k", "b", CAS(first + 1), 0), KV_FALSE);
	assert_int_equal(put("k", "b", CAS(first), 0), KV_TRUE);
	assert_int_equal(put("k", "c", CAS(first), 0), KV_FALSE);
	assert_string_equal(kv_find(&kv, "k")->data, "b");
	assert_int_equal(changes, 2);
	assert_int_equal(put("absent", "x", CAS(7), 0), KV_FALSE);

	assert_int_equal(kv_delete(&kv, "k", CAS(first), &gone), KV_FALSE);
	assert_false(gone);
	uint64_t before = kv.index;
	assert_int_equal(kv_delete(&kv, "k", CAS(first + 1), &gone), KV_TRUE);
	assert_true(gone);
	assert_true(kv.index > before);
	assert_int_equal(changes, 3);
	assert_string_equal(changed, "k");
	assert_int_equal(kv_delete(&kv, "k", CAS(first + 1), &gone), KV_TRUE); /* again */
	assert_false(gone);
	assert_int_equal(changes, 3);
	assert_int_equal(kv.bytes, 0);
	/* A key that comes again has an index that it never had. */
	before = kv.index;
	assert_int_equal(put("k", "a", CAS(0), 0), KV_TRUE);
	assert_true(kv_find(&kv, "k")->modify > before);
	/* In any case. */
	assert_int_equal(put("k", "b", NULL, 0), KV_TRUE);
	assert_int_equal(kv_delete(&kv, "k", NULL, &gone), KV_TRUE);
	assert_true(gone);
	assert_null(kv_find(&kv, "k"));
}

/* Keys of which one begins with another, in no order. */
KV_TEST(test_neighbours)
{
	static const char *const keys[] = {"b/2", "a", "b/10", "c", "b", "b/1", "b0"};
	const size_t n = LENGTH(keys);
	bool gone;

	for (size_t i = 0; i < n; i++)
		assert_int_equal(put(keys[i], keys[i], CAS(0), 0), KV_TRUE);
	assert_null(kv_find(&kv, "b/"));
	assert_null(kv_find(&kv, "d"));
	for (size_t i = 0; i < n; i++) {
		for (size_t j = i; j < n; j++)
			assert_string_equal(kv_find(&kv, keys[j])->data, keys[j]);
		assert_int_equal(kv_delete(&kv, keys[i], NULL, &gone), KV_TRUE);
		assert_null(kv_find(&kv, keys[i]));
	}
	assert_int_equal(kv.nentries, 0);
}

KV_TEST(test_caps)
{
	static char big[KV_VALUE_BYTES + 1];
	char key[32];
	size_t n = KV_TOTAL_BYTES / KV_VALUE_BYTES;

	assert_int_equal(kv_put(&kv, "k", big, KV_VALUE_BYTES + 1, NULL, 0), KV_FULL);
	for (size_t i = 0; i < n; i++) {
		snprintf(key, sizeof key, "k%zu", i);
		assert_int_equal(kv_put(&kv, key, big, KV_VALUE_BYTES, NULL, 0), KV_TRUE);
	}
	assert_int_equal(kv_put(&kv, "one more", big, 1, NULL, 0), KV_FULL);
	assert_null(kv_find(&kv, "one more"));
	/* What replaces a value counts without it. */
	assert_int_equal(kv_put(&kv, "k0", big, KV_VALUE_BYTES, NULL, 0), KV_TRUE);
	assert_int_equal(kv_put(&kv, "k0", big, 1, NULL, 0), KV_TRUE);
	assert_int_equal(kv_put(&kv, "one more", big, 1, NULL, 0), KV_TRUE);
	teardown(NULL);
	setup(NULL);

	for (int i = 0; i < KV_KEYS_MAX; i++) {
		snprintf(key, sizeof key, "k%d", i);
		assert_int_equal(put(key, "", NULL, 0), KV_TRUE);
	}
	assert_int_equal(put("one more", "", NULL, 0), KV_FULL);
	assert_int_equal(put("k7", "new", NULL, 0), KV_TRUE);
}

KV_TEST(test_ttl)
{
	kv.ttl = 5 * SEC;
	assert_int_equal(put("a", "", NULL, 0), KV_TRUE);
	assert_int_equal(put("b", "", NULL, 1 * SEC), KV_TRUE);
	assert_int_equal(kv_expire(&kv, 4 * SEC), 5 * SEC);
	assert_int_equal(put("a", "again", NULL, 4 * SEC), KV_TRUE);
	assert_int_equal(kv_expire(&kv, 5 * SEC), 6 * SEC); /* a lives on */
	changes = 0;
	assert_int_equal(kv_expire(&kv, 6 * SEC), 9 * SEC);
	assert_int_equal(changes, 1);
	assert_string_equal(changed, "b");
	assert_non_null(kv_find(&kv, "a"));
	assert_int_equal(kv_expire(&kv, 9 * SEC), KV_NEVER);
	assert_null(kv_find(&kv, "a"));
}

int main(void)
{
	return unit_run(NULL, NULL);
}
