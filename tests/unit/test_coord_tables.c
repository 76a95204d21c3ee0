/* The coordinator compares tables, page by page: of inputs that differ, and of results. */
#include "tests/unit/coord_world.h"

#define BASE_TABLE "a=f32 b=bf16 c=f16 d=i8 e=u8"

/* A job of 4 whose rank 2 has @odd, the others BASE_TABLE; each has said so. */
static void run_tables(const char *odd, int64_t join_ns)
{
	open_job(4, join_ns, PATIENCE);
	for (int r = 1; r < 4; r++)
		join(r, 4);
	for (int r = 0; r < 4; r++) {
		tables[r] = r == 2 ? odd : BASE_TABLE;
		intend(r, "(3,5)");
	}
}

COORD_TEST(the_tensor_is_named)
{
	static const struct {
		const char *odd, *words;
		int pages;
	} cases[] = {
	        {"a=f32 b=f32 c=f16 d=i8 e=u8",
	         "g.2.npy: tensor 'b' f32 differs from bf16 on ranks 0, 1, 3", 1},
	        {"a=f32 b=bf16 c=f16 d=i8 e=i8",
	         "g.2.npy: tensor 'e' i8 differs from u8 on ranks 0, 1, 3", 3},
	        {"a=f32 b=bf16 d=i8 e=u8", "g.2.npy: tensor 'c' is missing; ranks 0, 1, 3 have it",
	         2},
	        {"a=f32 b=bf16 c=f16 d=i8", "g.2.npy: tensor 'e' is missing; ranks 0, 1, 3 have it",
	         3},
	        {"a=f32 b=bf16 c=f16 d=i8 e=u8 f=f64",
	         "g.2.npy: has a tensor 'f' that ranks 0, 1, 3 don't have", 3},
	        {"a=f32 b=bf16 b2=f16 d=i8 e=u8",
	         "g.2.npy: has a tensor 'b2' that ranks 0, 1, 3 don't have", 2},
	};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		again(state);
		run_tables(cases[i].odd, PATIENCE);
		for (int n = 1; n <= cases[i].pages; n++) {
			assert_int_equal(members[0].heard[MSG_ABORT], 0);
			show(2, n);
		}
		all_fail(4, -1, ERR_DISAGREE, 2, cases[i].words);
		assert_int_equal(members[2].heard[MSG_ASK], cases[i].pages);
		assert_int_equal(members[1].heard[MSG_ASK] + members[3].heard[MSG_ASK], 0);
		assert_int_equal(members[1].phase, PHASE_JOIN);
	}
}

/* Rank 0 is the odd one; ranks 1 and 2 have other tables than 3, 4 and 5, of which 3 shows none. */
COORD_TEST(other_dissenters_are_named_too)
{
	open_job(7, PATIENCE, PATIENCE);
	for (int r = 1; r < 7; r++)
		join(r, 7);
	for (int r = 0; r < 7; r++) {
		struct intent in = intent_of(r, "(3,5)");
		tables[r] = r == 0 ? "a=f64" : r < 3 ? "a=f16" : "a=f32";
		intent_add(&in, "tensors", tables[r]);
		if (r != 3)
			snprintf(in.table, sizeof in.table, "tensors");
		say_intent(r, &in);
	}
	show(4, 1);
	all_fail(7, -1, ERR_DISAGREE, 0,
	         "g.0.npy: tensor 'a' f64 differs from f32 on ranks 3-6; so do ranks 1, 2");
	assert_int_equal(members[3].heard[MSG_ASK], 0);
}

/* The message names the rank whose table is missing, as far as that is known. */
COORD_TEST(without_a_table_no_tensor_is_named)
{
	for (int how = 0; how < 4; how++) {
		const char *base = "g.2.npy: tensors a=f64 differs from a=f32 b=bf16 c=f16 d=i8 "
		                   "e=u8 on ranks 0, 1, 3";
		again(state);
		run_tables("a=f64", how == 2 ? 2 * NS_PER_SEC : PATIENCE);
		until(members[2].heard[MSG_ASK], 1);
		assert_int_equal(members[0].heard[MSG_ABORT], 0);
		if (how == 0)
			ctl_release(&members[2].ctl);
		else if (how == 1) /* it can't make its page */
			send_err_to_coordinator(2, MSG_ABORT, ERR_RESOURCE, 2, "out of memory");
		else if (how == 3) /* another goes */
			ctl_release(&members[1].ctl);
		all_fail(4, how == 0 ? 2 : how == 3 ? 1 : -1, ERR_DISAGREE, 2, base);
	}
}

/* All have joined by then: the end of --join-timeout ends only the comparison. */
COORD_TEST(a_message_after_the_deadline_of_a_comparison)
{
	run_tables("a=f64", NS_PER_SEC);
	until(members[2].heard[MSG_ASK], 1);
	beat(2, PHASE_JOIN);
	assert_int_equal(poll(NULL, 0, 1100), 0);
	all_fail(4, -1, ERR_DISAGREE, 2, "tensors");
}

/* The same tables, though the digests are not: nothing to name, and no end of pages. */
COORD_TEST(tables_that_are_the_same)
{
	run_job(2, PATIENCE);
	tables[0] = tables[1] = "a=1 b=2 c=3";
	vote(0, "one");
	vote(1, "other");
	for (int n = 1; n <= 3; n++)
		show(1, n);
	all_fail(2, -1, ERR_INTEGRITY, 1,
	         "its result differs from that of rank 0: the digests are not the same");
}

COORD_TEST(the_tensor_of_a_result_is_named)
{
	run_job(6, PATIENCE);
	for (int r = 0; r < 6; r++) {
		tables[r] = r == 1 ? "a=11 b=22 c=34" : r == 5 ? "a=7" : "a=11 b=22 c=33";
		vote(r, tables[r]);
	}
	show(1, 1);
	send_err_to_coordinator(3, MSG_REPORT, ERR_PEER_LOST, 4,
	                        "the connection to rank 4 was lost");
	show(1, 2);
	all_fail(6, -1, ERR_INTEGRITY, 1,
	         "its result differs from that of ranks 0, 2-4: tensor 'c' 34 differs from 33; so "
	         "does rank 5");
	assert_int_equal(members[1].phase, PHASE_COMMIT);
}

/* A page that does not come is not waited for; signs of life go on meanwhile. */
COORD_TEST(a_page_that_does_not_come)
{
	int64_t start;
	run_job(2, NS_PER_SEC);
	tables[0] = "a=1";
	tables[1] = "a=2";
	vote(0, "one");
	vote(1, "other");
	start = clock_ns();
	while (!members[0].heard[MSG_ABORT]) {
		beat(1, PHASE_COMMIT);
		turn();
		assert_true(clock_ns() - start < PATIENCE);
	}
	assert_int_equal(members[1].heard[MSG_ASK], 1);
	assert_true(members[1].heard[MSG_BEAT] > 0);
	all_fail(2, -1, ERR_INTEGRITY, 1,
	         "its result differs from that of rank 0: the digests are not the same");
	assert_true(clock_ns() - start >= 990 * NS_PER_MS);
}

/* Neither side is rank 0. */
COORD_TEST(both_tables_come_from_others)
{
	run_job(3, PATIENCE);
	tables[1] = "a=1 b=2 c=3";
	tables[2] = "a=1 b=2 d=3";
	vote(0, NULL);
	vote(1, "one");
	vote(2, "other");
	for (int n = 1; n <= 2; n++) {
		show(2, n);
		show(1, n);
	}
	all_fail(3, -1, ERR_INTEGRITY, 2,
	         "its result differs from that of rank 1: tensor 'c' is missing; rank 1 has it");
}

COORD_TEST(pages_that_are_none)
{
	static const struct {
		uint32_t page;
		size_t len;
		const char *bytes, *words;
	} cases[] = {
	        {0, 3, "\2\0x", "sent a malformed page 0 of its table"},
	        {0, 14,
	         "\1\0b\1\0x"
	         "\1\0a\1\0x"
	         "\0",
	         "sent a malformed page 0 of its table"},
	        {0, 12,
	         "\1\0b\1\0x"
	         "\1\0a\1\0x",
	         "sent a malformed page 0 of its table"},
	        {1, 6, "\1\0b\1\0x", "sent page 1 of its table, which was not requested"},
	};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		struct buf b;
		again(state);
		run_tables("a=f64", PATIENCE);
		until(members[2].heard[MSG_ASK], 1);
		buf_init(&b, TABLE_PAGE_MAX);
		buf_put_u32(&b, cases[i].page);
		buf_put(&b, cases[i].bytes, cases[i].len);
		send_to_coordinator(2, MSG_PAGE, &b);
		all_fail(4, -1, ERR_INTEGRITY, 2, cases[i].words);
		buf_release(&b);
	}
	again(state); /* nor one of a rank that was not asked */
	run_tables("a=f64", PATIENCE);
	until(members[2].heard[MSG_ASK], 1);
	members[3].heard[MSG_ASK] = 1;
	show(3, 1);
	all_fail(4, -1, ERR_INTEGRITY, 3, "sent page 0 of its table, which was not requested");
	again(state); /* nor a page of no number */
	run_tables("a=f64", PATIENCE);
	send_to_coordinator(2, MSG_PAGE, NULL);
	all_fail(4, -1, ERR_INTEGRITY, 2, "an unexpected control message");
}

int main(void)
{
	return unit_run(NULL, NULL);
}
