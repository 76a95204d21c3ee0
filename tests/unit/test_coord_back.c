/* A coordinator of a job that goes back when a lane breaks (coord_back.c). */
#include "tests/unit/coord_world.h"

static void run_going(int size, int64_t timeout)
{
	callbacks.goes_back = true;
	run_job(size, timeout);
}

/* Rank @rank says that its lane with @peer broke or, with another code, something else. */
static void report(int rank, int peer, int code, bool lane)
{
	struct err e = {.code = code, .rank = peer, .text = "connection reset"};
	struct buf b;
	buf_init(&b, 4096);
	err_encode(&e, PHASE_RUN, &b);
	buf_put_u8(&b, 0);
	buf_put_u64(&b, 5);
	buf_put_u8(&b, lane);
	send_to_coordinator(rank, MSG_REPORT, &b);
	buf_release(&b);
}

static void stopped(int rank, bool can, uint64_t window)
{
	const struct stopped s = {can, window};
	struct buf b;
	buf_init(&b, 16);
	stopped_encode(&s, &b);
	send_to_coordinator(rank, MSG_STOPPED, &b);
	buf_release(&b);
}

static void moved(int rank)
{
	send_to_coordinator(rank, MSG_MOVED, NULL);
}

/* A lane breaks, and all get BACK for the n-th time. */
static void break_lane(int size, int n)
{
	report(1, 2, ERR_PEER_LOST, true);
	for (int r = 0; r < size; r++)
		until(members[r].heard[MSG_BACK], n);
}

static void all_hear(int size, uint8_t type, int n)
{
	for (int r = 0; r < size; r++)
		until(members[r].heard[type], n);
}

static void all_vote(int size)
{
	for (int r = 0; r < size; r++)
		moved(r);
	all_hear(size, MSG_MOVED, 1);
	for (int r = 0; r < size; r++)
		vote(r, NULL);
	all_hear(size, MSG_VERDICT, 1);
}

COORD_TEST(all_go_back_to_what_all_have)
{
	uint8_t key[TLS_KEY_BYTES];
	run_going(3, PATIENCE);
	memcpy(key, members[1].places[2].key, sizeof key);
	moved(0); /* before the coordinator hears of the lane: void */
	break_lane(3, 1);
	assert_int_equal(members[2].failure.code, ERR_PEER_LOST);
	assert_int_equal(members[2].failure.rank, 2);
	assert_string_equal(members[2].failure.text, "its link with rank 1: connection reset");
	moved(2); /* sent before BACK came, as is this */
	report(2, 1, ERR_PEER_LOST, true);
	stopped(2, true, 7);
	stopped(0, true, 9);
	for_ms(20);
	for (int r = 0; r < 3; r++)
		assert_int_equal(members[r].heard[MSG_AGAIN], 0);
	stopped(1, true, 5);
	all_hear(3, MSG_AGAIN, 1);
	for (int r = 0; r < 3; r++) {
		assert_int_equal(members[r].again.window, 5);
		assert_memory_equal(members[r].again.session, members[0].again.session,
		                    MESH_SESSION_BYTES);
		assert_memory_not_equal(members[r].again.session, members[r].plan.session,
		                        MESH_SESSION_BYTES);
	}
	/* Both ranks of a pair get its new key. */
	assert_memory_equal(members[1].places[2].key, members[2].places[1].key, sizeof key);
	assert_memory_not_equal(members[1].places[2].key, key, sizeof key);
	for_ms(300); /* no report is left over */
	all_vote(3);
}

COORD_TEST(in_a_large_job_they_ask_for_places_again)
{
	struct buf b;
	run_going(MEMBERS, PATIENCE);
	buf_init(&b, 16);
	buf_put_u32(&b, 2);
	for (int n = 1; n <= 2; n++) {
		send_to_coordinator(1, MSG_PEERS, &b);
		until(members[1].heard[MSG_PLACES], n);
		for (int r = 0; n == 1 && r < MEMBERS; r++) /* the keys are forgotten */
			beat(r, PHASE_RUN);
		if (n == 1)
			break_lane(MEMBERS, 1);
		for (int r = 0; n == 1 && r < MEMBERS; r++) {
			beat(r, PHASE_CONNECT);
			stopped(r, true, (uint64_t)r);
		}
		all_hear(MEMBERS, MSG_AGAIN, 1);
	}
	assert_int_equal(members[2].again.window, 0);
	buf_release(&b);
	all_vote(MEMBERS);
}

COORD_TEST(not_for_ever)
{
	run_going(3, PATIENCE);
	for (int n = 1; n <= JOB_RECONNECTS_MOST; n++) {
		break_lane(3, n);
		for (int r = 0; r < 3; r++)
			stopped(r, true, 0);
		all_hear(3, MSG_AGAIN, n);
	}
	report(1, 2, ERR_PEER_LOST, true);
	all_fail(3, -1, ERR_PEER_LOST, 2,
	         "its link with rank 1: connection reset; the job has gone back 8 times");
}

/* As every job that does not go back. */
COORD_TEST(a_rank_that_cannot)
{
	run_going(3, PATIENCE);
	break_lane(3, 1);
	stopped(0, true, 4);
	stopped(2, false, 0);
	all_fail(3, -1, ERR_PEER_LOST, 2, "its link with rank 1: connection reset");
	again(state);
	run_job(3, PATIENCE);
	report(1, 2, ERR_PEER_LOST, true);
	all_fail(3, -1, ERR_PEER_LOST, 2, "its link with rank 1: connection reset");
	again(state);
	run_going(3, PATIENCE);
	report(1, 2, ERR_PEER_LOST, false);
	all_fail(3, -1, ERR_PEER_LOST, 2, "its link with rank 1: connection reset");
	assert_int_equal(members[1].heard[MSG_BACK], 0);
}

COORD_TEST(what_is_worse_than_a_broken_lane)
{
	/* wrong bytes, before and after BACK */
	run_going(3, PATIENCE);
	report(1, 2, ERR_PEER_LOST, true);
	report(2, 1, ERR_INTEGRITY, false);
	all_fail(3, -1, ERR_INTEGRITY, 1, "its link with rank 2");
	again(state);
	run_going(3, PATIENCE);
	break_lane(3, 1);
	report(2, 1, ERR_INTEGRITY, true);
	stopped(1, true, 0);
	all_fail(3, -1, ERR_INTEGRITY, 1, "its link with rank 2");
	/* the rank itself */
	again(state);
	run_going(3, PATIENCE);
	break_lane(3, 1);
	ctl_release(&members[2].ctl);
	all_fail(3, 2, ERR_PEER_LOST, 2, "lost while");
	/* it does not stop */
	again(state);
	run_going(3, NS_PER_SEC);
	break_lane(3, 1);
	stopped(0, true, 0);
	for (int n = 0; !members[1].heard[MSG_ABORT]; n++) {
		assert_true(n < 1000);
		beat(1, PHASE_RUN);
		beat(2, PHASE_RUN);
		beat(0, PHASE_CONNECT);
		for_ms(50);
	}
	all_fail(3, -1, ERR_STALLED, 1, "did not stop within --timeout, 1 s");
}

COORD_TEST(messages_out_of_turn)
{
	for (int i = 0; i < 7; i++) {
		run_going(3, PATIENCE);
		if (i == 0) { /* nobody has asked */
			stopped(1, true, 0);
		} else if (i == 1) {
			break_lane(3, 1);
			stopped(1, true, 0);
			stopped(1, true, 0);
		} else if (i == 2) {
			moved(1);
			moved(1);
		} else if (i == 3) { /* its data have not moved again */
			break_lane(3, 1);
			stopped(1, true, 0);
			moved(1);
		} else if (i == 4) { /* its lane broke, and the others would wait for it */
			report(1, 2, ERR_PEER_LOST, true);
			moved(1);
		} else if (i == 5) { /* those of others have not moved */
			moved(1);
			vote(1, NULL);
		} else {
			callbacks.goes_back = false;
			moved(1);
		}
		all_fail(3, -1, ERR_INTEGRITY, 1, "unexpected control message");
		again(state);
	}
}

int main(void)
{
	return unit_run(NULL, NULL);
}
