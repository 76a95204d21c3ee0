/* The coordinator with --min-ranks: which ranks take part, and what the others hear. */
#include "tests/unit/coord_world.h"

#define SHORT (20 * NS_PER_MS)

static void open_round(int size, int least, int64_t grace_ns)
{
	fewest = least;
	grace = grace_ns;
	open_job(size, PATIENCE, NS_PER_SEC);
}

/* @rank joins, and says who it is. */
static void come(int rank, int size)
{
	const struct presence p = {.host = "nodea"};
	struct buf b;
	join(rank, size);
	buf_init(&b, 1024);
	presence_encode(&p, &b);
	send_to_coordinator(rank, MSG_PRESENT, &b);
	buf_release(&b);
}

/* Member @i says HELLO as @rank, and hears that it is too late. */
static void comes_late(int i, int rank, int size)
{
	const struct hello h = hello_of(rank, size);
	const int lost = members[i].lost;
	hello_as(i, &h);
	until(members[i].heard[MSG_ABORT], 1);
	assert_int_equal(members[i].failure.code, ERR_RENDEZVOUS);
	assert_non_null(strstr(members[i].failure.text, "the round is closed"));
	until(members[i].lost, lost + 1);
	assert_int_equal(members[i].heard[MSG_WELCOME], 0);
}

static void end_well(const int *ranks, int n)
{
	for (int i = 0; i < n; i++)
		vote(ranks[i], "same");
	for (int i = 0; i < n; i++)
		until(members[ranks[i]].heard[MSG_VERDICT], 1);
	for (int i = 0; i < n; i++)
		send_err_to_coordinator(ranks[i], MSG_DONE, 0, ERR_RANK_SELF, "");
	for (int i = 0; i < n; i++) {
		until(members[ranks[i]].heard[MSG_FINAL], 1);
		assert_int_equal(members[ranks[i]].outcome.code, 0);
	}
}

COORD_TEST(the_round_begins_with_those_that_came)
{
	static const int came[] = {0, 1, 3};
	open_round(4, 3, SHORT);
	come(1, 4);
	come(3, 4);
	for (int i = 0; i < 3; i++)
		intend(came[i], "(3,5)");
	for (int i = 0; i < 3; i++) {
		const struct member *m = &members[came[i]];
		until(m->heard[MSG_ROSTER], 1);
		assert_int_equal(m->roster.size, 4);
		assert_int_equal(m->roster.ncame, 3);
		assert_memory_equal(m->roster.came, came, sizeof came);
		assert_int_equal(m->roster.hosts, 3);
		assert_int_equal(m->roster.host[0], 0);
		assert_int_equal(m->roster.host[2], -1);
		assert_int_equal(m->roster.host[3], 2);
		assert_int_equal(m->plan.total_inputs, 1 + 2 + 4);
		assert_int_equal(m->plan.memory, 997);
		assert_string_equal(m->places[2].addr, "");
	}
	assert_string_equal(warned, "the round is closed: 3 of 4 ranks take part; missing: rank 2");
	assert_int_equal(completed, 0); /* the missing rank may still come, and gets an answer */
	end_well(came, 3);
	assert_int_equal(completed, 1);
}

COORD_TEST(all_ranks_need_no_grace)
{
	open_round(3, 2, PATIENCE);
	agree(3);
	assert_null(members[1].roster.came);
	assert_int_equal(members[1].roster.ncame, 3);
	assert_int_equal(completed, 0); /* a rank may be lost, and come back */
	end_well((const int[]){0, 1, 2}, 3);
	assert_int_equal(completed, 1);
}

COORD_TEST(nobody_may_be_missing)
{
	open_round(3, 3, PATIENCE);
	agree(3);
	assert_true(members[1].completed_before_roster);
}

COORD_TEST(grace_as_long_as_the_join_the_round_begins_when_that_is_over)
{
	static const int came[] = {0, 2};
	fewest = 2;
	grace = SHORT;
	open_job(4, SHORT, PATIENCE);
	come(1, 4);
	come(2, 4);
	intend(0, "(1)");
	intend(2, "(1)");
	until(members[1].heard[MSG_JOINED], 1);
	for_ms(40);
	/* Rank 1 still has time for its request; it fails. */
	assert_int_equal(members[0].heard[MSG_ROSTER], 0);
	assert_int_equal(members[0].heard[MSG_ABORT], 0);
	send_err_to_coordinator(1, MSG_ABORT, ERR_INPUT, ERR_RANK_SELF, "in.npy: cannot open");
	until(members[2].heard[MSG_ROSTER], 1);
	assert_int_equal(members[2].roster.ncame, 2);
	assert_memory_equal(members[2].roster.came, came, sizeof came);
	assert_null(strstr(warned, "the round is closed"));
	comes_late(3, 3, 4);
	assert_non_null(strstr(members[3].failure.text, "(--join-timeout 0.02 s)"));
	end_well(came, 2);
}

COORD_TEST(grace_as_long_as_the_join_nobody_else_comes)
{
	fewest = 2;
	grace = SHORT;
	open_job(4, SHORT, PATIENCE);
	intend(0, "(1)");
	until(members[0].heard[MSG_ABORT], 1);
	assert_int_equal(members[0].failure.code, ERR_RENDEZVOUS);
	assert_int_equal(members[0].failure.rank, 0);
	assert_string_equal(members[0].failure.text,
	                    "none of the other 3 ranks joined within 0.02 s (--join-timeout)");
}

COORD_TEST(after_grace_the_last_one_that_is_needed_is_enough)
{
	static const int came[] = {0, 2, 3};
	open_round(4, 3, SHORT);
	intend(0, "(1)");
	come(3, 4);
	intend(3, "(1)");
	for_ms(40);
	assert_int_equal(members[0].heard[MSG_ROSTER], 0);
	come(2, 4);
	intend(2, "(1)");
	until(members[3].heard[MSG_ROSTER], 1);
	comes_late(1, 1, 4);
	end_well(came, 3);
}

COORD_TEST(a_late_rank_hears_why)
{
	static const int came[] = {0, 1};
	open_round(3, 2, SHORT);
	come(1, 3);
	intend(0, "(1)");
	for_ms(40);
	comes_late(2, 2, 3); /* before ROSTER */
	intend(1, "(1)");
	until(members[1].heard[MSG_ROSTER], 1);
	memset(&members[2], 0, sizeof members[2]);
	comes_late(2, 2, 3); /* after it */
	memset(&members[2], 0, sizeof members[2]);
	comes_late(2, -1, 3); /* without a number */
	memset(&members[2], 0, sizeof members[2]);
	comes_late(2, 7, 9); /* another size changes nothing for those that take part */
	/* A rank that takes part and is started again waits for the next job. */
	struct hello h = hello_of(1, 3);
	memset(&members[2], 0, sizeof members[2]);
	hello_as(2, &h);
	until(members[2].lost, 1);
	assert_int_equal(members[2].heard[MSG_ABORT], 0);
	end_well(came, 2);
	assert_int_equal(members[0].heard[MSG_ABORT], 0);
}

COORD_TEST(a_rank_that_fails_is_left_out)
{
	static const int came[] = {0, 1, 3};
	for (int closed = 0; closed < 2; closed++) {
		again(state);
		open_round(4, 3, closed ? SHORT : PATIENCE);
		come(1, 4);
		come(2, 4);
		intend(0, "(1)");
		intend(1, "(1)");
		if (closed) {
			come(3, 4);
			intend(3, "(1)");
			for_ms(40);
		}
		send_err_to_coordinator(2, MSG_ABORT, ERR_INPUT, 2, "in.npy: cannot open");
		until(members[2].heard[MSG_ABORT], 1);
		assert_int_equal(members[2].failure.code, ERR_INPUT);
		until(members[2].lost, 1);
		assert_string_equal(warned, "rank 2 takes no part in the job: in.npy: cannot open");
		if (!closed) { /* it may be started again */
			memset(&members[2], 0, sizeof members[2]);
			come(2, 4);
			ctl_release(&members[2].ctl);
			come(3, 4);
			intend(3, "(1)");
			coord_await_nobody(coord);
			fewest = 0;
			continue;
		}
		for (int i = 0; i < 3; i++)
			until(members[came[i]].heard[MSG_ROSTER], 1);
		end_well(came, 3);
	}
}

COORD_TEST(too_few)
{
	/* They have come, but one fails. */
	open_round(3, 2, SHORT);
	come(1, 3);
	intend(0, "(1)");
	for_ms(40);
	send_err_to_coordinator(1, MSG_ABORT, ERR_INPUT, 1, "in.npy: cannot open");
	all_fail(2, -1, ERR_INPUT, 1, "in.npy: cannot open");
	/* They never come. */
	again(state);
	fewest = 2;
	grace = SHORT;
	open_job(3, 60 * NS_PER_MS, NS_PER_SEC);
	intend(0, "(1)");
	all_fail(1, -1, ERR_RENDEZVOUS, 1, "ranks 1, 2 did not join");
}

COORD_TEST(a_rank_that_says_nothing_is_left_out)
{
	static const int came[] = {0, 1};
	fewest = 2;
	grace = SHORT;
	open_job(3, 200 * NS_PER_MS, NS_PER_SEC);
	come(1, 3);
	intend(1, "(1)");
	join(2, 3); /* no PRESENT: it is not here */
	intend(0, "(1)");
	until(members[2].heard[MSG_ABORT], 1);
	assert_int_equal(members[2].failure.code, ERR_RENDEZVOUS);
	until(members[1].heard[MSG_ROSTER], 1);
	intend(2, "(1)"); /* what it says now does not count */
	end_well(came, 2);
}

/* ---- ranks that are lost once the job has begun ---- */

/* The ranks @came[@n] have begun; those below @size that are not among them are missing. */
static void begun(int size, int least, const int *came, int n)
{
	open_round(size, least, n < size ? SHORT : PATIENCE / 2);
	for (int i = 0; i < n; i++)
		if (came[i])
			come(came[i], size);
	for (int i = 0; i < n; i++)
		intend(came[i], "(1)");
	for (int i = 0; i < n; i++)
		until(members[came[i]].heard[MSG_ROSTER], 1);
}

/* They hear ANEW for the @times-th time, and agree again. */
static void anew(const int *ranks, int n, int times, int lost)
{
	uint8_t session[MESH_SESSION_BYTES];
	memcpy(session, members[0].plan.session, sizeof session);
	for (int i = 0; i < n; i++) {
		const struct member *m = &members[ranks[i]];
		until(m->heard[MSG_ANEW], times);
		assert_int_equal(m->failure.rank, lost);
	}
	decided = 0;
	for (int i = 0; i < n; i++) {
		assert_int_equal(members[ranks[i]].heard[MSG_ROSTER], times);
		members[ranks[i]].nplaces = 0;
		intend(ranks[i], "(1)");
	}
	for (int i = 0; i < n; i++) {
		const struct member *m = &members[ranks[i]];
		until(m->heard[MSG_ROSTER], times + 1);
		assert_int_equal(m->roster.ncame, n);
		assert_memory_equal(m->roster.came, ranks, (size_t)n * sizeof *ranks);
		assert_memory_equal(m->plan.session, members[0].plan.session, sizeof session);
		assert_memory_not_equal(m->plan.session, session, sizeof session);
	}
	assert_int_equal(decided, 1);
}

static const int all[] = {0, 1, 2, 3}, first[] = {0, 1, 2}, two[] = {0, 1};

COORD_TEST(a_rank_lost_while_data_move)
{
	begun(4, 2, all, 4);
	vote(0, "four"); /* a vote, of the session that is over */
	vote(1, "four");
	ctl_release(&members[3].ctl);
	anew(first, 3, 1, 3);
	assert_non_null(strstr(warned, "rank 3 takes no part in the job any more: lost while"));
	assert_int_equal(members[0].plan.total_inputs, 1 + 2 + 3);
	vote(0, "three");
	vote(1, "three");
	for_ms(20);
	assert_int_equal(members[0].heard[MSG_VERDICT],
	                 0); /* what they said before does not count */
	memset(&members[3], 0, sizeof members[3]);
	comes_late(3, 3, 4);
	assert_non_null(
	        strstr(members[3].failure.text, "it goes on without this rank, with 3 of 4"));
	ctl_release(&members[2].ctl);
	anew(two, 2, 2, 2);
	assert_int_equal(completed, 0);
	end_well(two, 2);
	assert_int_equal(completed, 1);
}

/* A rank that is silent, or that says itself that it has failed, hears why the others go on. */
COORD_TEST(a_rank_that_ends_or_is_silent)
{
	for (int silent = 0; silent < 2; silent++) {
		again(state);
		fewest = 3;
		open_job(4, PATIENCE, silent ? 200 * NS_PER_MS : NS_PER_SEC);
		for (int r = 1; r < 4; r++)
			come(r, 4);
		for (int r = 0; r < 4; r++)
			intend(r, "(1)");
		until(members[3].heard[MSG_ROSTER], 1);
		if (!silent)
			send_err_to_coordinator(2, MSG_ABORT, ERR_OUTPUT, 2, "out.npy: no space");
		while (silent && !members[1].heard[MSG_ANEW]) {
			beat(1, PHASE_RUN);
			beat(3, PHASE_RUN);
			turn();
		}
		until(members[2].heard[MSG_ABORT], 1);
		assert_int_equal(members[2].failure.code, silent ? ERR_STALLED : ERR_OUTPUT);
		until(members[2].lost, 1);
		anew((const int[]){0, 1, 3}, 3, 1, 2);
		end_well((const int[]){0, 1, 3}, 3);
	}
}

/* What a rank has sent before ANEW came to it is of the session that is over. */
COORD_TEST(messages_of_the_session_that_is_over)
{
	struct buf b;
	callbacks.goes_back = true;
	begun(4, 2, all, 4);
	ctl_release(&members[3].ctl);
	until(members[0].heard[MSG_ANEW], 1);
	buf_init(&b, 64);
	buf_put_u32(&b, 5);
	send_to_coordinator(1, MSG_ROUND, &b);
	send_to_coordinator(1, MSG_MOVED, NULL);
	send_err_to_coordinator(1, MSG_REPORT, ERR_PEER_LOST, 3, "lost");
	send_to_coordinator(1, MSG_CLOCK, NULL);
	vote(1, "four");
	beat(1, PHASE_COMMIT);
	buf_release(&b);
	anew(first, 3, 1, 3);
	assert_int_equal(members[1].heard[MSG_CLOCK], 0);
	for (int r = 0; r < 3; r++)
		send_to_coordinator(r, MSG_MOVED, NULL);
	until(members[0].heard[MSG_MOVED], 1);
	end_well(first, 3);
}

/* Another rank is lost, or fails, while the others agree again. */
COORD_TEST(lost_while_the_others_agree_again)
{
	begun(4, 2, all, 4);
	ctl_release(&members[3].ctl);
	until(members[2].heard[MSG_ANEW], 1);
	intend(1, "(1)");
	send_err_to_coordinator(2, MSG_ABORT, ERR_INPUT, 2, "in.npy: cannot open");
	until(members[2].heard[MSG_ABORT], 1);
	decided = 0;
	intend(0, "(1)");
	until(members[1].heard[MSG_ROSTER], 2);
	assert_int_equal(members[1].roster.ncame, 2);
	assert_int_equal(members[1].heard[MSG_ANEW], 1);
	end_well(two, 2);
}

/* Too few are left; rank 0's own failure; what is worse than a rank that is lost. */
COORD_TEST(losses_that_end_the_job)
{
	begun(3, 2, first, 3);
	ctl_release(&members[2].ctl);
	anew(two, 2, 1, 2);
	ctl_release(&members[1].ctl);
	all_fail(1, -1, ERR_PEER_LOST, 1, "lost");
	assert_int_equal(completed, 1);
	again(state);
	begun(3, 2, first, 3);
	send_err_to_coordinator(0, MSG_ABORT, ERR_OUTPUT, 0, "out.npy: no space");
	all_fail(3, -1, ERR_OUTPUT, 0, "no space");
	again(state);
	begun(3, 2, first, 3);
	send_err_to_coordinator(2, MSG_ABORT, ERR_INTEGRITY, 2, "wrong bytes");
	all_fail(3, -1, ERR_INTEGRITY, 2, "wrong bytes");
}

/* Ranks may be missing at the start, and the kind of job does not begin again. */
COORD_TEST(a_job_that_does_not_begin_again)
{
	callbacks.forms_anew = false;
	begun(3, 2, first, 3);
	assert_true(members[1].completed_before_roster);
	ctl_release(&members[2].ctl);
	all_fail(2, -1, ERR_PEER_LOST, 2, "lost");
}

/* After the verdict nobody forms anything anew. */
COORD_TEST(lost_after_the_verdict)
{
	begun(3, 2, first, 3);
	for (int r = 0; r < 3; r++)
		vote(r, "same");
	until(members[2].heard[MSG_VERDICT], 1);
	ctl_end(&members[2].ctl);
	for (int r = 0; r < 2; r++)
		send_err_to_coordinator(r, MSG_DONE, 0, ERR_RANK_SELF, "");
	until(members[1].heard[MSG_FINAL], 1);
	assert_int_equal(members[1].outcome.code, ERR_PEER_LOST);
	assert_int_equal(members[1].heard[MSG_ANEW], 0);
}

COORD_TEST(ranks_without_numbers_get_the_lowest)
{
	struct presence own = {.host = "nodea"}, other = {.host = "nodeb"};
	const struct hello h = hello_of(-1, 4);
	struct buf b;
	fewest = 2;
	grace = SHORT;
	open_job_as(-1, &own, 4, PATIENCE, NS_PER_SEC);
	hello_as(2, &h);
	buf_init(&b, 1024);
	presence_encode(&other, &b);
	ctl_send(&members[2].ctl, MSG_PRESENT, &b);
	buf_release(&b);
	until(members[2].heard[MSG_WELCOME], 1);
	assert_int_equal(members[2].rank, 1);
	assert_int_equal(members[0].rank, 0);
	intend(0, "(1)");
	intend(2, "(1)");
	until(members[2].heard[MSG_ROSTER], 1);
	assert_int_equal(members[2].roster.ncame, 2);
	comes_late(3, -1, 4);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
