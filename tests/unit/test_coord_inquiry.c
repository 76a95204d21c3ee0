/* Ranks whose links break after their votes ask the coordinator for the verdict. */
#include "tests/unit/coord_world.h"

#define TIMEOUT (300 * NS_PER_MS)

static int inquiry_fd = -1;
static struct addr inquiry_at;

static int set_up_inquiries(void **state)
{
	struct err err = {0};
	assert_int_equal(addr_resolve(&inquiry_at, "127.0.0.1", 0, true, &err), 0);
	inquiry_fd = addr_listen(&inquiry_at, 0, 0, 64, &err);
	assert_true(inquiry_fd >= 0);
	return set_up(state);
}

static int tear_down_inquiries(void **state)
{
	tear_down(state);
	close(inquiry_fd);
	return 0;
}
#define INQUIRY_TEST(name) TEST_WITH(name, set_up_inquiries, tear_down_inquiries)

static void run_with_inquiries(int size, int64_t timeout)
{
	open_job(size, PATIENCE, timeout);
	coord_take_inquiries(coord, inquiry_fd, false);
	agree(size);
}

/* All have voted and heard the verdict. */
static void give_verdict(int size, int64_t timeout)
{
	run_with_inquiries(size, timeout);
	for (int r = 0; r < size; r++)
		vote(r, "same");
	for (int r = 0; r < size; r++)
		until(members[r].heard[MSG_VERDICT], 1);
}

/* Member @r asks over a new link. */
static void ask_as(int r, const struct inquiry *q)
{
	struct member *m = &members[r];
	struct err err = {0};
	struct greeting g = {0};
	int64_t end = clock_ns() + PATIENCE;
	struct conn *c = conn_tcp_new(conn_sock_dial(&inquiry_at, NULL, &err), &err);
	assert_non_null(c);
	inquiry_encode(q, g.opening);
	assert_int_equal(conn_watch(c, &loop, nothing, NULL, &err), 0);
	while (greeting_advance(&g, c, &err) != 1) {
		assert_true(clock_ns() < end);
		turn();
	}
	assert_int_equal(ctl_start(&m->ctl, c, &loop, &err), 0);
}

static struct inquiry inquiry_of(int r, bool has_verdict)
{
	struct inquiry q = {.rank = (uint32_t)r, .has_verdict = has_verdict};
	memcpy(q.session, members[r].plan.session, sizeof q.session);
	return q;
}

static void ask(int r, bool has_verdict)
{
	const struct inquiry q = inquiry_of(r, has_verdict);
	ask_as(r, &q);
}

/* The link breaks without an announced end. */
static void cut(int r)
{
	ctl_release(&members[r].ctl);
}

/* The link stays open, and nobody reads it. The caller frees it. */
static struct conn *go_silent(int r)
{
	struct conn *c = members[r].ctl.conn;
	loop_del(&loop, &c->watch);
	members[r].ctl.conn = NULL;
	ctl_release(&members[r].ctl);
	return c;
}

static void done(int r)
{
	send_err_to_coordinator(r, MSG_DONE, 0, ERR_RANK_SELF, "");
}

static void all_succeed(int size)
{
	for (int r = 0; r < size; r++) {
		until(members[r].heard[MSG_FINAL], 1);
		assert_int_equal(members[r].outcome.code, 0);
		assert_int_equal(members[r].heard[MSG_ABORT], 0);
	}
}

INQUIRY_TEST(the_verdict_is_told_again)
{
	give_verdict(3, PATIENCE);
	members[2].heard[MSG_VERDICT] = 0; /* as if it had not come */
	cut(2);
	done(0);
	done(1);
	for_ms(20);
	assert_int_equal(members[0].heard[MSG_FINAL], 0);
	ask(2, false);
	until(members[2].heard[MSG_VERDICT], 1);
	done(2);
	all_succeed(3);
}

INQUIRY_TEST(the_outcome_is_told_again)
{
	give_verdict(2, PATIENCE);
	done(0);
	done(1);
	until(members[0].heard[MSG_FINAL], 1);
	until(members[1].heard[MSG_FINAL], 1);
	cut(1);
	coord_drain(coord);
	for_ms(20);
	assert_false(coord_drained(coord)); /* no announced end: it may not have heard */
	members[1].heard[MSG_FINAL] = 0;
	ask(1, true);
	all_succeed(2);
	assert_int_equal(members[1].heard[MSG_VERDICT], 1); /* not again */
	ctl_end(&members[1].ctl);
	int64_t end = clock_ns() + PATIENCE;
	while (!coord_drained(coord) && clock_ns() < end)
		turn();
	assert_true(coord_drained(coord));
}

/* The coordinator has not noticed that the old link is dead. */
INQUIRY_TEST(a_new_link_replaces_the_old_one)
{
	run_with_inquiries(2, PATIENCE);
	vote(1, "same");
	for_ms(10);
	struct conn *silent = go_silent(1);
	vote(0, "same"); /* ranks are answered from here on; the VERDICT goes to the old link */
	ask(1, false);
	until(members[1].heard[MSG_VERDICT], 1);
	done(0);
	done(1);
	all_succeed(2);
	conn_free(silent);
}

/* Nothing comes over the link any more, and its end has not noticed that: the coordinator ends it.
 */
INQUIRY_TEST(a_silent_link)
{
	struct err err = {0};
	uint8_t byte;
	give_verdict(2, 2 * NS_PER_SEC);
	struct conn *silent = go_silent(1);
	done(0);
	for (ssize_t got = 0; got >= 0;) {
		turn();
		silent->readable = true;
		while ((got = conn_read(silent, &byte, 1, &err)) > 0)
			continue;
	}
	ask(1, true);
	done(1);
	all_succeed(2);
	conn_free(silent);
}

/* An abort stays an abort. */
INQUIRY_TEST(a_link_that_breaks_before_the_verdict)
{
	run_with_inquiries(3, PATIENCE);
	vote(0, "same");
	vote(1, "same");
	for_ms(10);
	cut(1);
	until(members[0].heard[MSG_ABORT], 1);
	vote(2, "same");
	coord_drain(coord);
	ask(1, false);
	all_fail(3, -1, ERR_PEER_LOST, 1, "lost during the commit");
}

/* Its vote has not come: the job has failed, and it hears why. */
INQUIRY_TEST(a_vote_that_was_lost)
{
	run_with_inquiries(2, PATIENCE);
	vote(0, "same");
	struct conn *silent = go_silent(1);
	ask_as(1, &(struct inquiry){0}); /* of another session: refused */
	until(members[1].lost, 1);
	ask(1, false);
	until(members[1].heard[MSG_ABORT], 1);
	until(members[0].heard[MSG_ABORT], 1);
	assert_int_equal(members[0].heard[MSG_VERDICT], 0);
	conn_free(silent);
}

INQUIRY_TEST(a_rank_that_never_asks)
{
	give_verdict(3, TIMEOUT);
	const int64_t from = clock_ns();
	cut(2);
	done(0);
	done(1);
	while (!members[0].heard[MSG_FINAL]) {
		beat(1, PHASE_COMMIT);
		turn();
	}
	assert_true(clock_ns() - from >= 2 * TIMEOUT);
	assert_int_equal(members[0].outcome.code, ERR_PEER_LOST);
	assert_int_equal(members[0].outcome.rank, 2);
}

/* Nobody listens any more at the address of its data. */
INQUIRY_TEST(a_rank_that_has_ended)
{
	struct err err = {0};
	struct addr there;
	assert_int_equal(addr_resolve(&there, "127.0.0.1", 0, true, &err), 0);
	const int fd = addr_listen(&there, 0, 0, 64, &err);
	assert_true(fd >= 0);
	data_port[2] = addr_port(&there);
	give_verdict(3, PATIENCE);
	cut(2);
	done(0);
	done(1);
	for (int64_t end = clock_ns() + PATIENCE; !*warned && clock_ns() < end;)
		turn();
	assert_non_null(strstr(warned, "rank 2 broke after its vote: waiting"));
	assert_int_equal(members[0].heard[MSG_FINAL], 0);
	close(fd);
	until(members[0].heard[MSG_FINAL], 1);
	assert_int_equal(members[0].outcome.code, ERR_PEER_LOST);
	assert_int_equal(members[0].outcome.rank, 2);
}

INQUIRY_TEST(a_signal_ends_the_wait)
{
	give_verdict(3, PATIENCE);
	cut(2);
	done(0);
	for_ms(10);
	coord_await_nobody(coord);
	assert_int_equal(members[0].heard[MSG_FINAL], 0); /* rank 1 lives */
	cut(1);
	until(members[0].heard[MSG_FINAL], 1);
	assert_int_equal(members[0].outcome.code, ERR_PEER_LOST);
}

/* A rank that announces its end without DONE will not ask. */
INQUIRY_TEST(an_announced_end_is_no_broken_link)
{
	give_verdict(2, PATIENCE);
	ctl_end(&members[1].ctl);
	done(0);
	until(members[0].heard[MSG_FINAL], 1);
	assert_int_equal(members[0].outcome.code, ERR_PEER_LOST);
}

INQUIRY_TEST(strangers)
{
	give_verdict(2, PATIENCE);
	struct ctl kept = members[1].ctl;
	struct inquiry wrong[] = {inquiry_of(1, false), inquiry_of(0, false), inquiry_of(2, false)};
	wrong[0].session[15] ^= 1;
	for (int i = 0; i < 3; i++) {
		struct err err = {0};
		struct greeting g = {0};
		uint8_t byte;
		struct conn *c = conn_tcp_new(conn_sock_dial(&inquiry_at, NULL, &err), &err);
		inquiry_encode(&wrong[i], g.opening);
		assert_int_equal(conn_watch(c, &loop, nothing, NULL, &err), 0);
		while (greeting_advance(&g, c, &err) == 0)
			turn();
		ssize_t got;
		while ((got = conn_read(c, &byte, 1, &err)) == 0)
			turn();
		assert_true(got < 0);
		conn_free(c);
	}
	assert_ptr_equal(kept.conn, members[1].ctl.conn);
	done(0);
	done(1);
	all_succeed(2);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
