/* The coordinator once all ranks have joined: one culprit, rounds, the vote, progress. */
#include "tests/unit/coord_world.h"

/* ---- one culprit ---- */

COORD_TEST(an_own_abort_is_the_cause)
{
	run_job(3, NS_PER_SEC);
	/* Its peers see its connections break and report that first; it dies behind its word. */
	send_err_to_coordinator(1, MSG_REPORT, ERR_PEER_LOST, 2,
	                        "the connection to rank 2 was lost");
	for_ms(10);
	assert_int_equal(members[0].heard[MSG_ABORT], 0);
	send_err_to_coordinator(2, MSG_ABORT, ERR_INPUT, 2, "g.2.npy: truncated");
	ctl_release(&members[2].ctl);
	all_fail(3, 2, ERR_INPUT, 2, "g.2.npy: truncated");
	assert_int_equal(members[1].phase, PHASE_RUN);
}

COORD_TEST(an_abort_names_its_sender)
{
	run_job(3, NS_PER_SEC);
	send_err_to_coordinator(1, MSG_ABORT, 143, 2,
	                        "ended by SIGTERM"); /* by a signal: 8 for the others */
	all_fail(3, -1, ERR_PEER_LOST, 1, "ended by SIGTERM");
}

COORD_TEST(a_lost_link_beats_a_report)
{
	run_job(3, NS_PER_SEC);
	send_err_to_coordinator(1, MSG_REPORT, ERR_PEER_LOST, 0,
	                        "the connection to rank 0 was lost");
	for_ms(10);
	ctl_release(&members[2].ctl);
	all_fail(3, 2, ERR_PEER_LOST, 2, "lost while connecting: connection closed");
}

/* Also in the moment after it has entered it: each phase begins with a beat. */
COORD_TEST(a_loss_names_the_phase_of_the_rank)
{
	static const struct {
		enum phase phase;
		const char *words;
	} cases[] = {{PHASE_JOIN, "lost while connecting"}, /* of before the roster */
	             {PHASE_CONNECT, "lost while connecting"},
	             {PHASE_RUN, "lost while data were moving"},
	             {PHASE_COMMIT, "lost during the commit"}};
	for (size_t i = 0; i < LENGTH(cases); i++) {
		again(state);
		run_job(3, NS_PER_SEC);
		beat(2, cases[i].phase);
		ctl_end(&members[2].ctl);
		all_fail(3, 2, ERR_PEER_LOST, 2, cases[i].words);
		assert_int_equal(members[1].phase, i ? cases[i].phase : PHASE_CONNECT);
	}
	again(state);
	run_job(3, NS_PER_SEC);
	vote(2, "same");
	ctl_end(&members[2].ctl);
	all_fail(3, 2, ERR_PEER_LOST, 2, "lost during the commit");
}

static void ask(int rank, uint32_t a, uint32_t b)
{
	uint8_t memory[8];
	struct buf peers;
	buf_init_fixed(&peers, memory, sizeof memory);
	buf_put_u32(&peers, a);
	buf_put_u32(&peers, b);
	send_to_coordinator(rank, MSG_PEERS, &peers);
	buf_release(&peers);
}

/* In a large job the ranks ask for the places of their peers. */
COORD_TEST(places_are_told)
{
	static const int asks[] = {0, 2, 3};
	run_job(MEMBERS, NS_PER_SEC);
	for (int i = 0; i < 3; i++) {
		struct member *m = &members[asks[i]];
		assert_int_equal(m->nplaces, 0);
		ask(asks[i], i < 2 ? 3 : 2, 0);
		until(m->heard[MSG_PLACES], 1);
		assert_int_equal(m->nplaces, 2);
		assert_string_equal(m->places[0].addr, ":7000");
	}
	assert_string_equal(members[0].places[3].addr, "127.0.0.1:7003");
	assert_string_equal(members[2].places[3].addr, "127.0.0.1:7003");
	/* Both ranks of a pair get its key, and no other. */
	const uint8_t *key = members[2].places[3].key;
	assert_memory_equal(members[3].places[2].key, key, TLS_KEY_BYTES);
	assert_memory_equal(members[3].places[0].key, members[0].places[3].key, TLS_KEY_BYTES);
	assert_memory_not_equal(members[0].places[3].key, key, TLS_KEY_BYTES);
	assert_memory_not_equal(members[2].places[0].key, key, TLS_KEY_BYTES);
	assert_memory_not_equal(members[2].places[0].key, members[0].places[3].key, TLS_KEY_BYTES);
	ask(1, 0, MEMBERS); /* no such rank */
	all_fail(MEMBERS, -1, ERR_INTEGRITY, 1, "an unexpected control message of type 19");
}

/* The coordinator has forgotten the keys when all ranks are connected. */
COORD_TEST(places_are_not_told_later)
{
	run_job(MEMBERS, NS_PER_SEC);
	for (int r = 1; r < MEMBERS; r++)
		beat(r, r % 2 ? PHASE_RUN : PHASE_COMMIT);
	for (int r = 1; r < MEMBERS; r++) { /* the beat of each was read before */
		ask(r, 0, 0);
		until(members[r].heard[MSG_PLACES], 1);
	}
	beat(0, PHASE_CONNECT);
	ask(0, 1, 2);
	assert_int_equal(members[0].heard[MSG_PLACES], 1);
	beat(0, PHASE_RUN);
	ask(0, 1, 2);
	assert_int_equal(members[0].heard[MSG_PLACES], 1);
	all_fail(MEMBERS, -1, ERR_INTEGRITY, 0, "an unexpected control message of type 19");
}

/* ROSTER had them. */
COORD_TEST(a_small_job_asks_for_no_places)
{
	run_job(2, NS_PER_SEC);
	ask(1, 0, 0);
	all_fail(2, -1, ERR_INTEGRITY, 1, "an unexpected control message of type 19");
}

COORD_TEST(a_report_counts_when_nobody_confesses)
{
	int64_t start;
	run_job(3, 5 * NS_PER_SEC);
	start = clock_ns();
	send_err_to_coordinator(1, MSG_REPORT, ERR_INTEGRITY, 2,
	                        "the checksum of frame 7 is wrong");
	for_ms(20);
	send_err_to_coordinator(0, MSG_REPORT, ERR_PEER_LOST, 1, "a later report");
	all_fail(3, -1, ERR_INTEGRITY, 2, "the checksum of frame 7");
	assert_true(clock_ns() - start >= 240 * NS_PER_MS);
}

COORD_TEST(a_report_of_nothing_is_out_of_turn)
{
	run_job(2, NS_PER_SEC);
	send_err_to_coordinator(1, MSG_REPORT, 0, 0, "");
	all_fail(2, -1, ERR_INTEGRITY, 1, "an unexpected control message");
}

/* Of no rank, and of its sender. */
COORD_TEST(reports_of_nobody)
{
	static const int culprits[] = {2, 65535, 1, ERR_RANK_SELF};
	for (size_t i = 0; i < LENGTH(culprits); i++) {
		again(state);
		run_job(2, NS_PER_SEC);
		send_err_to_coordinator(1, MSG_REPORT, ERR_STALLED, culprits[i], "no progress");
		all_fail(2, -1, ERR_INTEGRITY, 1, "an unexpected control message of type 6");
	}
}

/* The others end with a code of the contract, whatever a rank says. */
COORD_TEST(codes_that_are_none)
{
	static const int codes[][2] = {{12, ERR_OTHER},
	                               {77, ERR_OTHER},
	                               {128, ERR_OTHER},
	                               {255, ERR_PEER_LOST},
	                               {0, ERR_OTHER}};
	for (size_t i = 0; i < LENGTH(codes); i++) {
		again(state);
		run_job(2, NS_PER_SEC);
		send_err_to_coordinator(1, MSG_ABORT, codes[i][0], 1, "odd");
		all_fail(2, -1, codes[i][1], 1, "odd");
	}
}

COORD_TEST(a_silent_rank_is_named)
{
	int64_t start;
	run_job(3, 200 * NS_PER_MS);
	start = clock_ns();
	beat(2, PHASE_CONNECT);
	while (!members[0].heard[MSG_ABORT]) {
		beat(1, PHASE_RUN);
		turn();
		assert_true(clock_ns() - start < PATIENCE);
	}
	all_fail(3, -1, ERR_STALLED, 2, "while connecting: stopped or unreachable");
	assert_true(clock_ns() - start >= 200 * NS_PER_MS);
	assert_true(members[1].heard[MSG_BEAT] > 0); /* the coordinator's own signs of life */
}

/* Somebody's report makes the coordinator look who has fallen silent. */
COORD_TEST(a_report_finds_the_silent_rank)
{
	int64_t start = clock_ns();
	run_job(4, 400 * NS_PER_MS); /* beats are due every 100 ms */
	while (clock_ns() - start < 260 * NS_PER_MS) {
		beat(1, PHASE_RUN);
		beat(3, PHASE_RUN);
		turn();
	}
	send_err_to_coordinator(1, MSG_REPORT, ERR_STALLED, 3, "no progress");
	while (!members[0].heard[MSG_ABORT]) {
		beat(1, PHASE_RUN);
		beat(3, PHASE_RUN);
		turn();
		assert_true(clock_ns() - start < PATIENCE);
	}
	all_fail(4, -1, ERR_STALLED, 2, "no message for");
}

COORD_TEST(messages_out_of_turn)
{
	static const uint8_t types[] = {MSG_WELCOME, MSG_ROSTER, MSG_VERDICT, MSG_FINAL, MSG_DONE,
	                                MSG_INTENT,  MSG_VOTE,   0,           200};
	for (size_t i = 0; i < sizeof types; i++) {
		again(state);
		run_job(2, NS_PER_SEC);
		send_to_coordinator(1, types[i], NULL);
		all_fail(2, -1, ERR_INTEGRITY, 1, "an unexpected control message");
	}
}

/* What a rank sends once at most comes a second time, or without end. */
COORD_TEST(messages_without_end)
{
	struct buf b;
	buf_init(&b, CTL_BODY_MAX);
	run_job(3, PATIENCE);
	send_to_coordinator(1, MSG_LINKS, NULL);
	send_to_coordinator(1, MSG_LINKS, NULL);
	all_fail(3, -1, ERR_INTEGRITY, 1, "an unexpected control message of type 15");
	/* Only a large job has places to ask for: each peer twice at most. */
	again(state);
	run_job(MEMBERS, PATIENCE);
	for (int i = 0; i < 2 * MEMBERS; i++)
		buf_put_u32(&b, 2);
	send_to_coordinator(1, MSG_PEERS, &b);
	until(members[1].heard[MSG_PLACES], 1);
	send_to_coordinator(1, MSG_PEERS, &b);
	all_fail(MEMBERS, -1, ERR_INTEGRITY, 1, "an unexpected control message of type 19");
	again(state);
	run_job(MEMBERS, PATIENCE);
	buf_put_u32(&b, 2);
	send_to_coordinator(1, MSG_PEERS, &b);
	all_fail(MEMBERS, -1, ERR_INTEGRITY, 1, "an unexpected control message of type 19");
	again(state);
	run_job(3, PATIENCE);
	for (int i = 0; i < 1000; i++)
		send_to_coordinator(1, MSG_CLOCK, NULL);
	all_fail(3, -1, ERR_INTEGRITY, 1, "an unexpected control message of type 21");
	assert_true(members[1].heard[MSG_CLOCK] < 1000);
	buf_release(&b);
}

/* ---- the vote ---- */

static void part(int rank, uint32_t x)
{
	struct buf b;
	buf_init(&b, 4);
	buf_put_u32(&b, x);
	send_to_coordinator(rank, MSG_ROUND, &b);
	buf_release(&b);
}

COORD_TEST(a_round_is_answered_when_all_have_spoken)
{
	run_job(3, PATIENCE);
	for (int n = 1; n <= 3; n++) {
		round_sum = 0;
		part(n % 3, 7);
		part((n + 1) % 3, 30);
		for_ms(20);
		for (int r = 0; r < 3; r++)
			assert_int_equal(members[r].heard[MSG_ANSWER], n - 1);
		part((n + 2) % 3, 100);
		for (int r = 0; r < 3; r++) {
			until(members[r].heard[MSG_ANSWER], n);
			assert_int_equal(members[r].answer, 1000 * r + 137);
		}
	}
	for (int r = 0; r < 3; r++)
		vote(r, NULL);
	until(members[2].heard[MSG_VERDICT], 1);
}

COORD_TEST(a_round_out_of_turn)
{
	run_job(3, PATIENCE);
	part(1, 1);
	part(1, 2);
	all_fail(3, -1, ERR_INTEGRITY, 1, "unexpected control message");
	again(state);
	run_job(3, PATIENCE);
	part(2, 0);
	all_fail(3, -1, ERR_INTEGRITY, 2, "no number");
	again(state);
	run_job(3, PATIENCE);
	vote(2, NULL);
	part(2, 1);
	all_fail(3, -1, ERR_INTEGRITY, 2, "unexpected control message");
}

static void ask_clock(int rank, const void *body, size_t n)
{
	struct buf b;
	buf_init(&b, 16);
	buf_put(&b, body, n);
	send_to_coordinator(rank, MSG_CLOCK, &b);
	buf_release(&b);
}

COORD_TEST(clocks_are_answered_before_the_vote)
{
	run_job(3, PATIENCE);
	const uint64_t before = (uint64_t)clock_ns();
	ask_clock(2, "", 0);
	until(members[2].heard[MSG_CLOCK], 1);
	assert_true(members[2].clock >= before && members[2].clock <= (uint64_t)clock_ns());
	assert_int_equal(members[1].heard[MSG_CLOCK], 0);
	vote(2, NULL);
	ask_clock(2, "", 0);
	all_fail(3, -1, ERR_INTEGRITY, 2, "unexpected control message");
	again(state);
	run_job(3, PATIENCE);
	ask_clock(1, "x", 1);
	all_fail(3, -1, ERR_INTEGRITY, 1, "unexpected control message");
}

COORD_TEST(the_verdict_names_the_rank_that_worked_longest)
{
	const struct workload works[] = {{.rank = 0, .on = 1, .most = 5, .busy = 7, .total = 100},
	                                 {.rank = 0, .on = 3, .most = 30, .busy = 70, .total = 100},
	                                 {.rank = 2, .on = 2, .most = 65, .busy = 66, .total = 99}};
	run_job(3, PATIENCE);
	for (int r = 0; r < 3; r++)
		vote_with(r, NULL, &works[r]);
	for (int r = 0; r < 3; r++) {
		until(members[r].heard[MSG_VERDICT], 1);
		assert_int_equal(members[r].busiest.rank, 1); /* whatever it says */
		assert_int_equal(members[r].busiest.on, 3);
		assert_int_equal(members[r].busiest.most, 30);
		assert_int_equal(members[r].busiest.busy, 70);
		assert_int_equal(members[r].busiest.total, 100);
	}
	again(state);
	run_job(3, PATIENCE);
	for (int r = 0; r < 3; r++)
		vote(r, NULL);
	until(members[1].heard[MSG_VERDICT], 1);
	assert_int_equal(members[1].busiest.rank, -1); /* no rank has worked */
}

COORD_TEST(all_votes_give_the_verdict)
{
	run_job(3, NS_PER_SEC);
	vote(0, "same");
	vote(1, "same");
	for_ms(20);
	assert_int_equal(members[0].heard[MSG_VERDICT], 0);
	vote(2, "same");
	for (int r = 0; r < 3; r++)
		until(members[r].heard[MSG_VERDICT], 1);
	for (int r = 0; r < 3; r++)
		send_err_to_coordinator(r, MSG_DONE, 0, ERR_RANK_SELF, "");
	for (int r = 0; r < 3; r++) {
		until(members[r].heard[MSG_FINAL], 1);
		assert_int_equal(members[r].outcome.code, 0);
		assert_int_equal(members[r].heard[MSG_ABORT], 0);
	}
	coord_drain(coord);
	assert_false(coord_drained(coord));
	until(members[1].lost, 1);
	until(members[2].lost, 1);
	for_ms(10);
	assert_true(coord_drained(coord));
}

/* A FINAL that is slow to arrive is waited for: closing the link would destroy it. */
COORD_TEST(a_final_on_its_way_is_waited_for)
{
	run_job(2, PATIENCE);
	for (int r = 0; r < 2; r++)
		vote(r, "same");
	until(members[1].heard[MSG_VERDICT], 1);
	loop_del(&loop, &members[1].ctl.conn->watch); /* it reads nothing more */
	for (int r = 0; r < 2; r++)
		send_err_to_coordinator(r, MSG_DONE, 0, ERR_RANK_SELF, "");
	until(members[0].heard[MSG_FINAL], 1);
	coord_drain(coord);
	for_ms(2500);
	assert_false(coord_drained(coord));
	ctl_look(&members[1].ctl);
	assert_int_equal(members[1].heard[MSG_FINAL], 1);
	assert_int_equal(members[1].lost, 1);
	for_ms(10);
	assert_true(coord_drained(coord));
}

COORD_TEST(digests_that_differ)
{
	run_job(3, NS_PER_SEC);
	vote(0, "same");
	vote(1, NULL); /* has no result of its own */
	vote(2, "other");
	all_fail(3, -1, ERR_INTEGRITY, 2,
	         "its result differs from that of rank 0: the digests are not the same");
	assert_int_equal(members[1].phase, PHASE_COMMIT);
}

/* Most are right, whoever voted first. */
COORD_TEST(the_digest_of_most_is_right)
{
	run_job(5, NS_PER_SEC);
	for (int r = 0; r < 5; r++)
		vote(r, r == 0 ? "odd" : r == 3 ? "other" : "same");
	all_fail(5, -1, ERR_INTEGRITY, 0,
	         "its result differs from that of ranks 1, 2, 4: the digests are not the same; so "
	         "does rank 3");
}

COORD_TEST(votes_without_digests)
{
	run_job(2, NS_PER_SEC);
	vote(1, NULL);
	vote(0, NULL);
	until(members[0].heard[MSG_VERDICT], 1);
	until(members[1].heard[MSG_VERDICT], 1);
}

COORD_TEST(an_abort_before_the_verdict)
{
	run_job(3, NS_PER_SEC);
	vote(0, "same");
	vote(1, "same");
	send_err_to_coordinator(2, MSG_ABORT, ERR_OUTPUT, 2, "out.npy: no space left on device");
	all_fail(3, -1, ERR_OUTPUT, 2, "no space left");
	vote(2, "same"); /* too late */
	for_ms(20);
	for (int r = 0; r < 3; r++)
		assert_int_equal(members[r].heard[MSG_VERDICT], 0);
}

static void run_to_verdict(int size, int64_t timeout)
{
	run_job(size, timeout);
	for (int r = 0; r < size; r++)
		vote(r, "same");
	for (int r = 0; r < size; r++)
		until(members[r].heard[MSG_VERDICT], 1);
}

static void done(int rank)
{
	send_err_to_coordinator(rank, MSG_DONE, 0, ERR_RANK_SELF, "");
}

static void expect_outcome(int rank, int code, int culprit, const char *text)
{
	const struct member *m = &members[rank];
	until(m->heard[MSG_FINAL], 1);
	assert_int_equal(m->outcome.code, code);
	assert_int_equal(m->outcome.rank, culprit);
	assert_string_equal(m->outcome.text, text);
	assert_int_equal(m->heard[MSG_ABORT], 0);
}

/* Those who are left finish, and learn whose output may be the old one. */
COORD_TEST(a_rank_lost_after_the_verdict)
{
	run_to_verdict(3, NS_PER_SEC);
	ctl_release(&members[1].ctl);
	send_err_to_coordinator(2, MSG_ABORT, ERR_OTHER, 2, "too late to stop");
	for_ms(10);
	assert_int_equal(members[0].heard[MSG_FINAL], 0);
	done(0);
	done(2);
	for (int r = 0; r < 3; r += 2)
		expect_outcome(
		        r, ERR_PEER_LOST, 1,
		        "lost after the verdict: its output may be the old one; ranks 0, 2 have "
		        "their new outputs");
}

COORD_TEST(ranks_lost_after_the_verdict)
{
	run_to_verdict(6, NS_PER_SEC);
	done(0);
	done(2);
	ctl_release(&members[5].ctl);
	ctl_release(&members[3].ctl);
	ctl_release(&members[4].ctl);
	ctl_release(&members[1].ctl);
	for (int r = 0; r < 3; r += 2)
		expect_outcome(
		        r, ERR_PEER_LOST, 1,
		        "lost after the verdict: its output may be the old one; ranks 3-5 "
		        "were lost after the verdict too; ranks 0, 2 have their new outputs");
}

/* A rank that has said DONE has its new output. */
COORD_TEST(a_rank_lost_after_its_commit)
{
	run_to_verdict(3, NS_PER_SEC);
	done(1);
	for_ms(10);
	ctl_release(&members[1].ctl);
	for_ms(10);
	done(2);
	done(0);
	for (int r = 0; r < 3; r += 2)
		expect_outcome(r, 0, ERR_RANK_SELF, "");
}

COORD_TEST(an_own_word_comes_before_a_loss)
{
	run_to_verdict(3, NS_PER_SEC);
	ctl_release(&members[1].ctl);
	send_err_to_coordinator(2, MSG_DONE, ERR_OUTPUT, ERR_RANK_SELF,
	                        "out.npy: rename: no such directory");
	done(0);
	for (int r = 0; r < 3; r += 2)
		expect_outcome(r, ERR_OUTPUT, 2,
		               "out.npy: rename: no such directory; rank 1 was lost after the "
		               "verdict too; rank 0 has its new output");
}

/* It learns the outcome if it goes on. */
COORD_TEST(a_rank_silent_after_the_verdict)
{
	int64_t start = clock_ns();
	run_to_verdict(2, NS_PER_SEC);
	done(0);
	for (int r = 0; r < 2; r++) {
		until(members[r].heard[MSG_FINAL], 1);
		assert_int_equal(members[r].outcome.code, ERR_PEER_LOST);
		assert_int_equal(members[r].outcome.rank, 1);
		assert_non_null(strstr(members[r].outcome.text, "no message for "));
		assert_non_null(strstr(members[r].outcome.text,
		                       " s after the verdict: its output may be the old one"));
	}
	assert_true(clock_ns() - start >= NS_PER_SEC);
}

COORD_TEST(a_commit_that_fails_is_told_to_all)
{
	run_job(3, NS_PER_SEC);
	for (int r = 0; r < 3; r++)
		vote(r, "same");
	until(members[1].heard[MSG_VERDICT], 1);
	send_err_to_coordinator(0, MSG_DONE, 0, ERR_RANK_SELF, "");
	send_err_to_coordinator(1, MSG_DONE, ERR_OUTPUT, ERR_RANK_SELF,
	                        "out.npy: rename: no such directory");
	send_err_to_coordinator(2, MSG_DONE, 0, ERR_RANK_SELF, "");
	for (int r = 0; r < 3; r++) {
		until(members[r].heard[MSG_FINAL], 1);
		assert_int_equal(members[r].outcome.code, ERR_OUTPUT);
		assert_int_equal(members[r].outcome.rank, 1);
		assert_string_equal(members[r].outcome.text,
		                    "out.npy: rename: no such directory; ranks 0, 2 have their new "
		                    "outputs");
	}
}

COORD_TEST(commits_that_all_fail)
{
	run_to_verdict(3, NS_PER_SEC);
	for (int r = 0; r < 3; r++)
		send_err_to_coordinator(r, MSG_DONE, ERR_OUTPUT, ERR_RANK_SELF, "out.npy: rename");
	for (int r = 0; r < 3; r++)
		expect_outcome(
		        r, ERR_OUTPUT, 0,
		        "out.npy: rename; ranks 1, 2 failed after the verdict too; no rank has a "
		        "new output");
}

COORD_TEST(a_done_without_its_fate)
{
	const struct err none = {.rank = ERR_RANK_SELF};
	struct buf b;
	run_to_verdict(2, NS_PER_SEC);
	done(0);
	buf_init(&b, 64);
	err_encode(&none, PHASE_COMMIT, &b);
	send_to_coordinator(1, MSG_DONE, &b);
	buf_release(&b);
	until(members[0].heard[MSG_FINAL], 1);
	assert_int_equal(members[0].outcome.code, ERR_INTEGRITY);
	assert_int_equal(members[0].outcome.rank, 1);
}

/* ---- progress ---- */

static struct beat beats[4]; /* what the ranks say until somebody else is the slowest */

static bool told_pace(const struct pace *p, int rank, enum phase phase, double done)
{
	const double told = (double)p->done / PACE_DONE;
	return p->rank == rank &&
	       (rank < 0 || (p->phase == phase && told > done - 1e-5 && told < done + 1e-5));
}

static void expect_pace(int rank, enum phase phase, double done)
{
	int64_t end = clock_ns() + PATIENCE;
	while (!told_pace(&members[0].pace, rank, phase, done) ||
	       !told_pace(&members[3].pace, rank, phase, done)) {
		if (clock_ns() >= end)
			fail_msg("rank %d is not told to be the slowest", rank);
		for (int r = 0; r < 4; r++)
			beat_of(r, beats[r].phase, beats[r].moved, beats[r].total);
		turn();
	}
}

COORD_TEST(the_slowest_is_told)
{
	run_job(4, 400 * NS_PER_MS); /* beats are due every 100 ms */
	beats[0] = (struct beat){PHASE_RUN, 50, 100, 0};
	beats[1] = (struct beat){PHASE_RUN, 5, 0, 0}; /* nobody knows how far it is to go */
	beats[2] = (struct beat){PHASE_CONNECT, 90, 100, 0};
	beats[3] = (struct beat){PHASE_RUN, 1, 3, 0};
	expect_pace(2, PHASE_CONNECT, 0);
	beats[2] = (struct beat){PHASE_RUN, 9000, 10000, 0};
	expect_pace(3, PHASE_RUN, 1. / 3);
	beats[3].moved = UINT64_MAX;
	expect_pace(0, PHASE_RUN, .5);
	beats[0].phase = PHASE_COMMIT;
	expect_pace(2, PHASE_RUN, .9);
	beats[2].phase = PHASE_COMMIT;
	expect_pace(-1, PHASE_RUN, 0);
}

/* Three times in a row the progress of the job is the same, although rank 1 claims more and more.
 */
COORD_TEST(a_rank_that_claims_progress_without_end)
{
	const int64_t end = clock_ns() + PATIENCE;
	uint64_t claim = 0, last = 0;
	int same = 0, seen = 0;
	run_job(3, 300 * NS_PER_MS);
	while (same < 3) {
		assert_true(clock_ns() < end);
		if (members[0].heard[MSG_ABORT]) { /* this process stood still for too long */
			again(state);
			run_job(3, 300 * NS_PER_MS);
			seen = 0;
		}
		beat_of(0, PHASE_RUN, 5, 100);
		beat_of(1, PHASE_RUN, ++claim, 0);
		beat_of(2, PHASE_RUN, 7, 100);
		turn();
		if (members[2].heard[MSG_BEAT] == seen)
			continue;
		seen = members[2].heard[MSG_BEAT];
		same = members[2].pace.moved == last ? same + 1 : 0;
		last = members[2].pace.moved;
	}
	/* Another rank's progress counts at once, and with it that of rank 1. */
	while (members[2].pace.moved == last && !members[0].heard[MSG_ABORT]) {
		assert_true(clock_ns() < end);
		beat_of(0, PHASE_RUN, 5, 100);
		beat_of(1, PHASE_RUN, ++claim, 0);
		beat_of(2, PHASE_RUN, 8, 100);
		turn();
	}
}

COORD_TEST(a_beat_that_is_none)
{
	run_job(2, NS_PER_SEC);
	send_to_coordinator(1, MSG_BEAT, NULL);
	all_fail(2, -1, ERR_INTEGRITY, 1, "an unexpected control message");
}

int main(void)
{
	return unit_run(NULL, NULL);
}
