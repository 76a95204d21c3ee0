/* The identities of hosts, and their numbers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#include <stdlib.h>
#include <string.h>

#include "lib/job/host_groups.h"

static void identities(void **state)
{
	uint8_t a[HOST_ID], b[HOST_ID], none[HOST_ID] = {0};
	char boot[] = "a long name ............................................................";
	(void)state;
	host_id_find(a, NULL);
	host_id_find(b, "");
	assert_memory_equal(a, b, HOST_ID);
	assert_memory_not_equal(a, none, HOST_ID); /* every Linux has a boot id */
	host_id_find(b, boot);
	assert_memory_not_equal(a, b, HOST_ID);
	host_id_find(a, boot);
	assert_memory_equal(a, b, HOST_ID);
	boot[sizeof boot - 2] = '!';
	host_id_find(a, boot);
	assert_memory_not_equal(a, b, HOST_ID);
}

/* @ids: a letter for each rank's identity, '-': not known; @want: the numbers. */
static void expect(const char *ids, const char *want, int hosts)
{
	struct host_member m[16] = {0};
	int host[16], n = (int)strlen(ids);
	for (int r = 0; r < n; r++) {
		m[r].rank = r;
		m[r].id[HOST_ID - 1] = ids[r] == '-' ? 0 : (uint8_t)ids[r];
	}
	assert_int_equal(host_groups(m, n, host), hosts);
	for (int r = 0; r < n; r++)
		assert_int_equal(host[r], want[r] - '0');
}

static void numbers(void **state)
{
	(void)state;
	expect("a", "0", 1);
	expect("aaaa", "0000", 1);
	expect("bbaacc", "001122", 3);
	expect("cabbac", "012210", 3);
	expect("dcba", "0123", 4);
	expect("-a-a-", "01213", 4); /* one that is not known shares with no other */
	expect("--", "01", 2);
}

static void many_ranks(void **state)
{
	enum { SIZE = 65536, EACH = 96 };
	struct host_member *m = calloc(SIZE, sizeof *m);
	int *host = calloc(SIZE, sizeof *host);
	(void)state;
	assert_true(m && host);
	for (int r = 0; r < SIZE; r++) {
		uint32_t id = 1 + (uint32_t)(r / EACH) * 2654435761u;
		m[r].rank = r;
		memcpy(m[r].id, &id, sizeof id);
	}
	assert_int_equal(host_groups(m, SIZE, host), (SIZE + EACH - 1) / EACH);
	for (int r = 0; r < SIZE; r++)
		assert_int_equal(host[r], r / EACH);
	free(m);
	free(host);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(identities),
	        cmocka_unit_test(numbers),
	        cmocka_unit_test(many_ranks),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
