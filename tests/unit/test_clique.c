/* The largest set of hosts that all reach each other, against all sets. */
#include <stdlib.h>
#include <string.h>

#include "lib/links/clique.h"
#include "tests/unit/frontier_oracle.h"
#include "tests/unit/unit.h"

#define MOST 200

static bool linked[MOST * MOST], in[MOST];

static bool is_clique(int n, const bool *set)
{
	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++)
			if (set[i] && set[j] && !linked[i * n + j])
				return false;
	return true;
}

/* By trying all sets. */
static int largest(int n)
{
	int most = 0;
	for (unsigned set = 0; set < 1u << n; set++) {
		bool of[16];
		for (int i = 0; i < n; i++)
			of[i] = set >> i & 1;
		if (__builtin_popcount(set) > most && is_clique(n, of))
			most = __builtin_popcount(set);
	}
	return most;
}

static int find(int n)
{
	struct err err = {0};
	int size = 0;
	memset(in, 7, sizeof in);
	const int found = clique_find(linked, n, in, &err);
	for (int i = 0; i < n; i++)
		size += in[i];
	assert_int_equal(size, found);
	assert_true(is_clique(n, in));
	return found;
}

/* Links in one direction, too; @tenths of them work. */
static void draw(uint64_t *seed, int n, int tenths)
{
	for (int i = 0; i < n * n; i++)
		linked[i] = i % (n + 1) == 0 || random_below(seed, 10) < (uint64_t)tenths;
}

TEST(the_largest_of_all_sets)
{
	uint64_t seed = 3;
	for (int turn = 0; turn < 400; turn++) {
		const int n = 1 + turn % 12;
		draw(&seed, n, turn % 11);
		linked[0] = turn % 3; /* with itself */
		assert_int_equal(find(n), largest(n));
	}
}

/* A set that is known: the search keeps it among links that look alike. */
static int hidden(int n, int size, int tenths)
{
	uint64_t seed = 11;
	draw(&seed, n, tenths);
	for (int i = 0; i < size; i++)
		for (int j = 0; j < size; j++)
			linked[(i * 7 % n) * n + j * 7 % n] = true;
	return find(n);
}

TEST(many_hosts)
{
	struct err err = {0};
	assert_true(hidden(64, 20, 7) >= 20);
	assert_int_equal(hidden(64, 64, 5), 64);
	assert_int_equal(hidden(64, 63, 0), 63);
	assert_int_equal(hidden(65, 65, 0), 65);
	assert_int_equal(hidden(200, 150, 0), 150); /* quickly: the others have no links */
	assert_int_equal(hidden(200, 0, 0), 1);
	assert_int_equal(hidden(64, 0, 0), 1);
	assert_int_equal(clique_find(linked, 0, in, &err), 0);
}

/* The worst for a search without a bound: 3 hosts of each 3 do not reach each other. */
TEST(many_sets_of_one_size)
{
	for (int i = 0; i < 63; i++)
		for (int j = 0; j < 63; j++)
			linked[i * 63 + j] = i == j || i / 3 != j / 3;
	assert_int_equal(find(63), 21);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
