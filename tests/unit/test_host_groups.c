/* The identities of hosts, and their numbers. */
#include <stdlib.h>
#include <string.h>

#include "lib/job/host_groups.h"
#include "tests/unit/unit.h"

TEST(identities)
{
	uint8_t a[HOST_ID], b[HOST_ID], none[HOST_ID] = {0};
	char boot[] = "a long name ............................................................";
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

/* Every cut of its bytes is malformed. Returns their number. */
static size_t comes_back(const int *host, int size, int hosts)
{
	struct buf b;
	size_t len;
	buf_init(&b, HOST_GROUPS_MOST((size_t)size));
	host_groups_put(&b, host, size);
	assert_false(b.failed);
	len = b.len;
	for (size_t n = len > 1000 ? len : 0; n <= len; n++) {
		struct err err = {0};
		struct view v = view_of(b.data, n);
		int *back;
		const int got = host_groups_get(&v, size, &back, &err);
		assert_int_equal(got, n == len ? hosts : -1);
		assert_int_equal(err.code, n == len ? 0 : ERR_INTEGRITY);
		assert_true(!back == (n < len || !host));
		if (back)
			assert_memory_equal(back, host, (size_t)size * sizeof *host);
		free(back);
	}
	buf_release(&b);
	return len;
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
	comes_back(hosts < n ? host : NULL, n, hosts);
}

TEST(numbers)
{
	expect("a", "0", 1);
	expect("aaaa", "0000", 1);
	expect("bbaacc", "001122", 3);
	expect("cabbac", "012210", 3);
	expect("dcba", "0123", 4);
	expect("-a-a-", "01213", 4); /* one that is not known shares with no other */
	expect("--", "01", 2);
}

TEST(many_ranks)
{
	enum { SIZE = 65536, EACH = 96 };
	struct host_member *m = calloc(SIZE, sizeof *m);
	int *host = calloc(SIZE, sizeof *host);
	assert_true(m && host);
	for (int r = 0; r < SIZE; r++) {
		uint32_t id = 1 + (uint32_t)(r / EACH) * 2654435761u;
		m[r].rank = r;
		memcpy(m[r].id, &id, sizeof id);
	}
	assert_int_equal(host_groups(m, SIZE, host), (SIZE + EACH - 1) / EACH);
	for (int r = 0; r < SIZE; r++)
		assert_int_equal(host[r], r / EACH);
	/* One run, and one of the last host, which has fewer. */
	assert_int_equal(comes_back(host, SIZE, (SIZE + EACH - 1) / EACH), 1 + 2 * 6);
	for (int r = 0; r < SIZE; r++) /* dealt in turn */
		host[r] = r % 1024;
	assert_int_equal(comes_back(host, SIZE, 1024), 1 + SIZE / 1024 * 6);
	for (int r = 0; r < SIZE; r++) /* the longest form */
		host[r] = r < 2 ? r : ((unsigned)r * (unsigned)r / 7) % 2 ? 0 : 1;
	assert_in_range(comes_back(host, SIZE, 2), 1, HOST_GROUPS_MOST(SIZE));
	free(m);
	free(host);
}

/* Runs {first, hosts - 1, each - 1} that do not fit four ranks, or skip a number. */
TEST(malformed_groups)
{
	static const uint16_t cases[][6] = {{1, 0, 3},
	                                    {0, 0, 4},
	                                    {0, 4, 0},
	                                    {0, 1, 2},
	                                    {0, 0, 1, 2, 0, 1},
	                                    {0, 65535, 65535},
	                                    {0, 0, 0, 0, 65535, 0}};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct err err = {0};
		struct buf b;
		int *host;
		buf_init(&b, 100);
		buf_put_u8(&b, 1);
		for (int k = 0; k < 6; k++)
			buf_put_u16(&b, cases[i][k]);
		struct view v = view_of(b.data, b.len);
		assert_int_equal(host_groups_get(&v, 4, &host, &err), -1);
		assert_int_equal(err.code, ERR_INTEGRITY);
		assert_null(host);
		buf_release(&b);
	}
}

int main(void)
{
	return unit_run(NULL, NULL);
}
