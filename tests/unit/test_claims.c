/* Outputs that several ranks claim: what is refused, who writes what all have, and what comes in
 * from a peer. */
#include <stdlib.h>
#include <string.h>

#include "lib/coll/agreement/claims.h"
#include "tests/unit/unit.h"

#define RANKS 4

static struct buf said[RANKS];

static void begin(void)
{
	for (int r = 0; r < RANKS; r++) {
		buf_release(&said[r]);
		buf_init(&said[r], 1u << 20);
	}
}

static void claim(int rank, const char *path, uint64_t place)
{
	claims_put(&said[rank], path, &place, 1);
}

/* What the coordinator makes of it. */
static int settle(struct claims *c, int ranks, bool replicated, struct err *err)
{
	*c = (struct claims){0};
	*err = (struct err){.rank = ERR_RANK_SELF};
	for (int r = 0; r < ranks; r++) {
		struct view v = view_of(said[r].data, said[r].len);
		assert_int_equal(claims_get(c, r, &v, err), 0);
	}
	return claims_settle(c, replicated, 0, err);
}

/* Which of its @n claims @rank drops, as '0' and '1'. */
static const char *dropped(const struct claims *c, int rank, uint32_t n)
{
	static char text[16];
	bool drops[15] = {false};
	struct err err = {0};
	struct buf b;
	buf_init(&b, 1024);
	bool *drops_of;
	uint32_t claimed;
	assert_int_equal(claims_dropped(c, rank, &drops_of, &claimed, &err), 0);
	assert_int_equal(claimed, n);
	claims_put_dropped(&b, drops_of, claimed);
	free(drops_of);
	struct view v = view_of(b.data, b.len);
	assert_int_equal(claims_get_dropped(&v, drops, n, &err), 0);
	assert_int_equal(view_left(&v), 0);
	for (uint32_t i = 0; i < n; i++)
		text[i] = drops[i] ? '1' : '0';
	text[n] = '\0';
	buf_release(&b);
	return text;
}

TEST(results_that_differ_are_refused)
{
	struct claims c;
	struct err err;
	begin();
	claim(0, "a.npy", 7);
	claim(1, "b.npy", 8);
	claim(2, "./part.npy", 9);
	claim(3, "../x/part.npy", 9);
	assert_int_equal(settle(&c, 3, false, &err), 0);
	claims_release(&c);
	assert_int_equal(settle(&c, 4, false, &err), -1);
	assert_int_equal(err.code, ERR_USAGE);
	assert_int_equal(err.rank, 3);
	assert_non_null(strstr(err.text, "./part.npy: is the output of ranks 2, 3"));
	assert_non_null(strstr(err.text, "./part.{rank}.npy"));
	claims_release(&c);
	begin();
	for (int r = 0; r < RANKS; r++)
		claim(r, "out.d/", 9);
	assert_int_equal(settle(&c, 4, false, &err), -1);
	assert_int_equal(err.rank, 1);
	assert_non_null(strstr(err.text, "ranks 0-3"));
	assert_non_null(strstr(err.text, "out.d.{rank}"));
	claims_release(&c);
}

TEST(one_result_is_written_by_the_lowest)
{
	struct claims c;
	struct err err;
	begin();
	claim(3, "a", 5);
	claim(1, "a", 5);
	claim(2, "b", 6);
	claim(2, "a", 5); /* a second -o of the same bytes */
	assert_int_equal(settle(&c, 4, true, &err), 0);
	assert_string_equal(dropped(&c, 0, 0), "");
	assert_string_equal(dropped(&c, 1, 1), "0");
	assert_string_equal(dropped(&c, 2, 2), "01");
	assert_string_equal(dropped(&c, 3, 1), "1");
	claims_release(&c);
}

TEST(the_root_writes_what_it_claims)
{
	struct claims c;
	struct err err = {.rank = ERR_RANK_SELF};
	begin();
	for (int r = 0; r < 3; r++)
		claim(r, r ? "a" : "b", r ? 5 : 6);
	for (int r = 0; r < 3; r++) {
		c = (struct claims){0};
		for (int k = 0; k < 3; k++) {
			struct view v = view_of(said[k].data, said[k].len);
			assert_int_equal(claims_get(&c, k, &v, &err), 0);
		}
		assert_int_equal(claims_settle(&c, true, r, &err), 0);
		assert_string_equal(dropped(&c, 0, 1), "0");
		assert_string_equal(dropped(&c, 1, 1), r == 2 ? "1" : "0");
		assert_string_equal(dropped(&c, 2, 1), r == 2 ? "0" : "1");
		claims_release(&c);
	}
}

TEST(results_of_several_inputs_are_told_apart)
{
	static const uint64_t forth[] = {5, 6}, back[] = {6, 5};
	struct claims c;
	struct err err;
	begin();
	claims_put(&said[0], "out/", forth, 2);
	claims_put(&said[1], "out/", forth, 2);
	assert_int_equal(settle(&c, 2, true, &err), 0);
	assert_string_equal(dropped(&c, 0, 2), "00");
	assert_string_equal(dropped(&c, 1, 2), "11");
	claims_release(&c);
	begin();
	claims_put(&said[0], "out/", forth, 2);
	claims_put(&said[1], "out/", back, 2);
	assert_int_equal(settle(&c, 2, true, &err), -1);
	assert_int_equal(err.rank, 1);
	claims_release(&c);
}

TEST(what_can_t_be_compared_is_let_be)
{
	struct claims c;
	struct err err;
	begin();
	claim(0, "-", 0);
	claim(1, "-", 0);
	claim(2, "a", 3); /* twice by one rank: its own to find */
	claim(2, "a", 3);
	assert_int_equal(settle(&c, 4, false, &err), 0);
	assert_string_equal(dropped(&c, 1, 1), "0");
	assert_string_equal(dropped(&c, 2, 2), "00");
	claims_release(&c);
}

TEST(malformed_claims_are_refused)
{
	static const uint64_t places[] = {1, 2, 3};
	static uint64_t many[CLAIMS_MAX];
	struct claims c = {0};
	struct err err = {0};
	bool drops[2];
	struct buf b;
	begin();
	claims_put(&said[0], "a", places, 3);
	for (size_t cut = 1; cut < said[0].len; cut++) {
		struct view v = view_of(said[0].data, cut);
		err = (struct err){0};
		assert_int_equal(claims_get(&c, 0, &v, &err), -1);
		assert_int_equal(err.code, ERR_INTEGRITY);
	}
	claims_release(&c);
	begin();
	claims_put(&said[0], "a", many, CLAIMS_MAX);
	struct view v = view_of(said[0].data, said[0].len);
	assert_int_equal(claims_get(&c, 0, &v, &err), 0);
	claims_release(&c);
	claims_put(&said[0], "b", many, 1);
	v = view_of(said[0].data, said[0].len);
	err = (struct err){0};
	assert_int_equal(claims_get(&c, 0, &v, &err), -1);
	claims_release(&c);

	buf_init(&b, 64);
	buf_put_u32(&b, 1);
	buf_put_u32(&b, 2); /* of two */
	v = view_of(b.data, b.len);
	err = (struct err){0};
	assert_int_equal(claims_get_dropped(&v, drops, 2, &err), -1);
	assert_int_equal(err.code, ERR_INTEGRITY);
	v = view_of(b.data, 4);
	assert_int_equal(claims_get_dropped(&v, drops, 2, &err), -1);
	buf_release(&b);
	begin();
}

int main(void)
{
	return unit_run(NULL, NULL);
}
