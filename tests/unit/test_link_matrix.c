/*
 * What `check` says of the links that its ranks report: reports over the wire, medians, and what
 * failures have in common.
 */
#include <stdlib.h>
#include <string.h>

#include "lib/links/link_matrix.h"
#include "lib/links/meter.h"
#include "tests/unit/unit.h"

#define CAP 64

static struct link_matrix matrix;
static struct link_finding found[CAP];
static size_t nfound;
static const int *homes; /* NULL: each rank has another host */

static void begin(int size)
{
	struct err err = {0};
	assert_int_equal(link_matrix_init(&matrix, size, &err), 0);
}

/* Report a link of @from, over the wire. @state LINK_WORKS: the figures. */
static void report(int from, int to, enum link_state state, double us, double mbit)
{
	struct err err = {0};
	struct buf failures, b;
	const struct link_figures f = {.to = to,
	                               .connect = us / 1e6,
	                               .handshake = us / 0.5e6,
	                               .least = us / 2e6,
	                               .median = us / 1e6,
	                               .rate = mbit * 1e6 / 8};
	buf_init(&failures, 4096);
	buf_init(&b, 4096);
	if (state != LINK_WORKS)
		link_encode(from, to, state, "why", &failures);
	link_report_begin(&b, view_of(failures.data, failures.len));
	if (state == LINK_WORKS)
		link_report_add(&b, &f);
	assert_int_equal(link_matrix_take(&matrix, from, view_of(b.data, b.len), &err), 0);
	for (size_t n = 0; n < b.len; n++) { /* cut anywhere but before the figures */
		struct err cut = {0};
		int ret = link_matrix_take(&matrix, from, view_of(b.data, n), &cut);
		assert_int_equal(ret, n == 4 + failures.len ? 0 : -1);
		assert_true(ret == 0 || cut.code == ERR_INTEGRITY);
	}
	buf_release(&failures);
	buf_release(&b);
}

/* All links work alike but those from @from to @to in @broken, which ends with -1. */
static void links(int size, const int (*broken)[2])
{
	begin(size);
	for (int r = 0; r < size; r++)
		for (int s = 0; s < size; s++) {
			bool fails = false;
			for (int i = 0; broken[i][0] >= 0; i++)
				fails |= broken[i][0] == r && broken[i][1] == s;
			if (r != s)
				report(r, s, fails ? LINK_TIMED_OUT : LINK_WORKS, 100, 1000);
		}
}

static void finish(void)
{
	struct err err = {0};
	assert_int_equal(link_matrix_end(&matrix, homes, &err), 0);
	nfound = link_matrix_findings(&matrix, found, CAP);
}

static void says(size_t i, enum link_finding_kind kind, int from, int to)
{
	assert_true(i < nfound);
	assert_int_equal(found[i].kind, kind);
	assert_int_equal(found[i].from, from);
	assert_int_equal(found[i].to, to);
}

static int release(void **state)
{
	link_matrix_release(&matrix);
	homes = NULL;
	return 0;
}

TEST_WITH(nothing_to_say, NULL, release)
{
	for (int size = 1; size <= 5; size++) {
		links(size, (const int[][2]){{-1, -1}});
		finish();
		assert_int_equal(nfound, 0);
		if (size > 1) {
			assert_true(matrix.median > 99e-6 && matrix.median < 101e-6);
			assert_true(matrix.rate > 124e6 && matrix.rate < 126e6);
			assert_true(matrix.connect > 99e-6 && matrix.connect < 101e-6);
			assert_true(matrix.handshake > 199e-6 && matrix.handshake < 201e-6);
		}
		link_matrix_release(&matrix);
	}
}

TEST_WITH(pairs_one_way_and_both, NULL, release)
{
	links(5, (const int[][2]){{1, 3}, {3, 1}, {0, 2}, {-1, -1}});
	finish();
	assert_int_equal(nfound, 2);
	says(0, LINK_ONE_WAY, 0, 2);
	says(1, LINK_BOTH_WAYS, 1, 3);
	assert_int_equal(link_cell(&matrix, 1, 3)->state, LINK_TIMED_OUT);
}

/* Of two ranks neither is the one that fails with everybody. */
TEST_WITH(two_ranks, NULL, release)
{
	links(2, (const int[][2]){{0, 1}, {1, 0}, {-1, -1}});
	finish();
	assert_int_equal(nfound, 1);
	says(0, LINK_BOTH_WAYS, 0, 1);
}

TEST_WITH(a_rank_that_fails_with_all, NULL, release)
{
	links(4, (const int[][2]){{2, 0}, {2, 1}, {2, 3}, {0, 2}, {1, 2}, {3, 2}, {-1, -1}});
	finish();
	assert_int_equal(nfound, 1);
	says(0, LINKS_OF, 2, -1);
}

/* It has joined, so its packets reach rank 0. */
TEST_WITH(a_rank_that_fails_with_all_but_one, NULL, release)
{
	links(4, (const int[][2]){{2, 1}, {2, 3}, {1, 2}, {3, 2}, {-1, -1}});
	finish();
	assert_int_equal(nfound, 1);
	says(0, LINKS_OF, 2, 0);
}

TEST_WITH(a_rank_that_nobody_reaches, NULL, release)
{
	links(4, (const int[][2]){{0, 2}, {1, 2}, {3, 2}, {-1, -1}});
	finish();
	assert_int_equal(nfound, 1);
	says(0, LINKS_TO, 2, -1);
	link_matrix_release(&matrix);
	links(4, (const int[][2]){{2, 0}, {2, 1}, {2, 3}, {0, 1}, {-1, -1}});
	finish();
	assert_int_equal(nfound, 2);
	says(0, LINKS_FROM, 2, -1);
	says(1, LINK_ONE_WAY, 0, 1);
}

TEST_WITH(slow_links_and_slow_ranks, NULL, release)
{
	links(6, (const int[][2]){{-1, -1}});
	report(3, 5, LINK_WORKS, 100, 94);
	report(1, 4, LINK_WORKS, 100, 50);
	report(4, 1, LINK_WORKS, 301, 1000);
	report(2, 0, LINK_WORKS, 299, 334); /* not that slow */
	finish();
	assert_int_equal(nfound, 3);
	says(0, LINK_LOW_RATE, 1, 4);
	says(1, LINK_LOW_RATE, 3, 5);
	says(2, LINK_HIGH_LATENCY, 4, 1);
	assert_int_equal(link_matrix_findings(&matrix, found, 1) > 1, 1);
	link_matrix_release(&matrix);

	links(6, (const int[][2]){{-1, -1}});
	for (int r = 0; r < 6; r++)
		if (r != 2) {
			report(2, r, LINK_WORKS, 5000, 94);
			report(r, 2, LINK_WORKS, 5000, 1000);
		}
	finish();
	assert_int_equal(nfound, 2);
	says(0, RANK_SENDS_SLOWLY, 2, -1);
	says(1, RANK_FAR, 2, -1);
	assert_true(matrix.ranks[2].sends > 11e6 && matrix.ranks[2].sends < 12e6);
}

/* Each figure arrives in its own field; what is not measured leaves what is known. */
TEST_WITH(figures_of_a_link, NULL, release)
{
	const struct link_figures all[] = {{1, 0.25, 0.5, 0.125, 0.75, 0}, {1, 0, 0, 0, 0, 4096}};
	struct err err = {0};
	begin(2);
	for (int i = 0; i < 2; i++) {
		struct buf b;
		buf_init(&b, 4096);
		link_report_begin(&b, view_of("", 0));
		link_report_add(&b, &all[i]);
		assert_int_equal(link_matrix_take(&matrix, 0, view_of(b.data, b.len), &err), 0);
		buf_release(&b);
	}
	const struct link_cell *c = link_cell(&matrix, 0, 1);
	assert_true(c->connect >= 0.25 && c->connect <= 0.25);
	assert_true(c->handshake >= 0.5 && c->handshake <= 0.5);
	assert_true(c->least >= 0.125 && c->least <= 0.125);
	assert_true(c->median >= 0.75 && c->median <= 0.75);
	assert_true(c->rate >= 4096 && c->rate <= 4096);
}

/* What the user finds too slow still works. */
TEST_WITH(slower_than_demanded, NULL, release)
{
	links(3, (const int[][2]){{-1, -1}});
	report(0, 1, LINK_SLOW, 0, 0);
	finish();
	assert_int_equal(nfound, 0);
	assert_int_equal(link_cell(&matrix, 0, 1)->state, LINK_SLOW);
	assert_true(link_cell(&matrix, 0, 1)->rate > 0);
	assert_int_equal(matrix.faults.n, 1);
}

static const int two_a_host[] = {0, 0, 2, 2, 4, 4, 6, 6};

/* The links from the ranks of the set @a to all others fail, and with @back those to them, but not
 * those with the ranks of @spared. */
static void cut_hosts(int size, uint32_t a, uint32_t spared, bool back)
{
	begin(size);
	for (int r = 0; r < size; r++)
		for (int s = 0; s < size; s++) {
			const bool here = a >> r & 1, there = a >> s & 1;
			const bool spares = spared >> r & 1 || spared >> s & 1;
			const bool fails = here != there && !spares && (here || back);
			if (r != s)
				report(r, s, fails ? LINK_TIMED_OUT : LINK_WORKS, 100, 1000);
		}
}

TEST_WITH(a_host_that_fails_with_all_others, NULL, release)
{
	homes = two_a_host;
	cut_hosts(8, 0x30, 0, true); /* ranks 4 and 5 */
	finish();
	assert_int_equal(nfound, 1);
	says(0, LINKS_OF, 4, -1);
	assert_true(found[0].hosts);
	link_matrix_release(&matrix);
	cut_hosts(8, 0x30, 0x03, true); /* but for the links with ranks 0 and 1 */
	finish();
	assert_int_equal(nfound, 1);
	says(0, LINKS_OF, 4, 0);
	assert_true(found[0].hosts);
	link_matrix_release(&matrix);
	cut_hosts(8, 0x30, 0, false); /* what it sends */
	finish();
	assert_int_equal(nfound, 1);
	says(0, LINKS_FROM, 4, -1);
}

/* Of two hosts neither is the one that fails. */
TEST_WITH(two_hosts, NULL, release)
{
	homes = two_a_host;
	cut_hosts(4, 0x3, 0, true);
	finish();
	assert_int_equal(nfound, 1);
	says(0, LINK_BOTH_WAYS, 0, 2);
	assert_true(found[0].hosts);
	link_matrix_release(&matrix);
	cut_hosts(4, 0x3, 0, false);
	finish();
	assert_int_equal(nfound, 1);
	says(0, LINK_ONE_WAY, 0, 2);
	assert_true(found[0].hosts);
}

/* What no host explains is said of the ranks. */
TEST_WITH(ranks_of_a_host_that_works, NULL, release)
{
	homes = two_a_host;
	cut_hosts(8, 0x20, 0, true); /* rank 5, also with its neighbour */
	finish();
	assert_int_equal(nfound, 1);
	says(0, LINKS_OF, 5, -1);
	assert_false(found[0].hosts);
	link_matrix_release(&matrix);
	cut_hosts(8, 0x20, 0x10, true); /* but for its neighbour */
	finish();
	assert_int_equal(nfound, 1);
	says(0, LINKS_OF, 5, 4);
	assert_false(found[0].hosts);
}

/* A host that is cut off, and a pair inside it and another elsewhere. */
TEST_WITH(a_host_and_pairs_besides, NULL, release)
{
	homes = two_a_host;
	cut_hosts(8, 0x30, 0, true);
	report(4, 5, LINK_TIMED_OUT, 0, 0);
	report(0, 2, LINK_TIMED_OUT, 0, 0);
	report(2, 0, LINK_TIMED_OUT, 0, 0);
	finish();
	assert_int_equal(nfound, 3);
	says(0, LINKS_OF, 4, -1);
	assert_true(found[0].hosts);
	says(1, LINK_BOTH_WAYS, 0, 2);
	assert_false(found[1].hosts);
	says(2, LINK_ONE_WAY, 4, 5);
	assert_false(found[2].hosts);
}

/* More than there is room for reasons. */
TEST_WITH(all_links_of_many_ranks_fail, NULL, release)
{
	const int size = 40;
	begin(size);
	for (int r = 0; r < size; r++)
		for (int s = 0; s < size; s++)
			if (r != s)
				report(r, s, LINK_REFUSED, 0, 0);
	finish();
	for (int r = 0; r < size; r++)
		for (int s = 0; s < size; s++)
			assert_int_equal(link_cell(&matrix, r, s)->state,
			                 r == s ? LINK_WORKS : LINK_REFUSED);
	assert_int_equal(nfound, size);
	says(0, LINKS_OF, 0, -1);
}

/* A link that is too slow and then breaks is broken. */
TEST_WITH(a_failure_counts_more_than_slowness, NULL, release)
{
	links(3, (const int[][2]){{-1, -1}});
	report(0, 1, LINK_SLOW, 0, 0);
	report(0, 1, LINK_TIMED_OUT, 0, 0);
	report(0, 1, LINK_SLOW, 0, 0);
	finish();
	assert_int_equal(nfound, 1);
	says(0, LINK_ONE_WAY, 0, 1);
	assert_int_equal(link_cell(&matrix, 0, 1)->state, LINK_TIMED_OUT);
	assert_int_equal(links_find(&matrix.faults, 0, 1)->state, LINK_TIMED_OUT);
}

TEST_WITH(reports_of_others_are_refused, NULL, release)
{
	struct err err = {0};
	struct buf b;
	begin(3);
	for (int to = 1; to <= 3; to += 2) { /* to itself; to no rank */
		const struct link_figures f = {to, 1, 1, 1, 1, 1};
		buf_init(&b, 4096);
		link_report_begin(&b, view_of("", 0));
		link_report_add(&b, &f);
		err = (struct err){0};
		assert_int_equal(link_matrix_take(&matrix, 1, view_of(b.data, b.len), &err), -1);
		assert_int_equal(err.code, ERR_INTEGRITY);
		buf_release(&b);
	}
}

TEST(frames_of_a_measurement)
{
	uint8_t bytes[METER_FRAME];
	struct meter_frame f = {METER_RESULT, 12345678901234, 99}, back;
	meter_encode(&f, bytes);
	assert_int_equal(meter_decode(&back, bytes), 0);
	assert_int_equal(back.type, METER_RESULT);
	assert_true(back.a == f.a && back.b == f.b);
	const struct meter_frame wrong[] = {{(enum meter_type)0, 1, 1},
	                                    {(enum meter_type)(METER_RESULT + 1), 1, 1},
	                                    {METER_DATA_FOLLOWS, 0, 0},
	                                    {METER_DATA_FOLLOWS, METER_DATA + 1, 0}};
	for (size_t i = 0; i < LENGTH(wrong); i++) {
		meter_encode(&wrong[i], bytes);
		assert_int_equal(meter_decode(&back, bytes), -1);
	}
}

TEST(ranks_that_did_not_come)
{
	static const int came[] = {0, 2, 5};
	struct err err = ERR_INIT;
	struct buf b;
	begin(3);
	matrix.came = came;
	matrix.all = 6;
	report(0, 2, LINK_WORKS, 10, 100);
	report(2, 5, LINK_REFUSED, 0, 0);
	assert_true(link_cell(&matrix, 0, 1)->rate > 0);
	assert_int_equal(link_cell(&matrix, 1, 2)->state, LINK_REFUSED);
	assert_string_equal(link_matrix_fault(&matrix, 1, 2)->why, "why");
	assert_null(link_matrix_fault(&matrix, 0, 2));
	assert_int_equal(link_rank(&matrix, 2), 5);
	/* a link with a rank that takes no part */
	buf_init(&b, 4096);
	link_report_begin(&b, view_of(NULL, 0));
	link_report_add(&b, &(struct link_figures){.to = 3, .rate = 1});
	assert_int_equal(link_matrix_take(&matrix, 0, view_of(b.data, b.len), &err), -1);
	assert_int_equal(err.code, ERR_INTEGRITY);
	buf_release(&b);
	link_matrix_release(&matrix);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
