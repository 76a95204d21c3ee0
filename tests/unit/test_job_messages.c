/* What a rank believes its coordinator: each message at each stage, twice, and out of range. */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/job/job_internal.h"
#include "tests/unit/unit.h"

#define JOB_TEST(name) TEST_WITH(name, set_up, tear_down)

#define SIZE 4

static struct job *job;
static int fewest; /* --min-ranks */
static struct buf body;

/* Rank @rank of @size (0: not known), whose messages go nowhere. */
static void open_job(int rank, int size, bool finds_root)
{
	struct err err = {0};
	static struct job_settings settings = {.join_timeout = NS_PER_SEC, .timeout = NS_PER_SEC};
	settings.min_ranks = fewest;
	const struct job_conf conf = {.settings = &settings,
	                              .name = "test",
	                              .rank = rank,
	                              .size = size,
	                              .coordinator = "127.0.0.1:1",
	                              .listen_fd = -1,
	                              .present = {.finds_root = finds_root}};
	job_close(job);
	job = job_open(&conf, &err);
	assert_non_null(job);
}

static int set_up(void **state)
{
	buf_init(&body, CTL_BODY_MAX);
	fewest = 0;
	open_job(1, SIZE, false);
	return 0;
}

static int tear_down(void **state)
{
	job_close(job);
	job = NULL;
	buf_release(&body);
	return 0;
}

/* The message with @body, which is then empty. */
static void tell(uint8_t type)
{
	job_handle_message(job, type, view_of(body.len ? body.data : (void *)"", body.len));
	body.len = 0;
}

static void tell_welcome(int rank, int coordinator, int root)
{
	const struct welcome w = {.rank = rank, .coordinator = coordinator, .root = root};
	welcome_encode(&w, &body);
	tell(MSG_WELCOME);
}

static void put_place(int rank)
{
	rank_place_encode(&(struct rank_place){.rank = rank, .addr = "127.0.0.1:7"}, &body);
}

static void put_roster(uint32_t size, int places)
{
	const struct plan plan = {.windows = 1, .streams = 1};
	const struct roster r = {.size = size};
	plan_encode(&plan, &body);
	roster_encode(&r, &body);
	put_place(0); /* of an inquiry */
	for (int i = 0; i < places; i++)
		put_place(i);
}

static void put_err(int code, int rank)
{
	const struct err e = {.code = code, .rank = rank};
	err_encode(&e, PHASE_RUN, &body);
}

static void put_table(void *ctx, uint32_t page, struct buf *out)
{
	(void)ctx;
	if (page == 0)
		table_put(out, "w", "1");
}

/* A message that is right, but for the time at which it comes. */
static void put_right(uint8_t type)
{
	const struct welcome w = {.rank = 1, .root = -1};
	const struct joined joined = {.here = 1, .size = SIZE};
	const struct pace pace = {.rank = 2};
	const struct workload work = {.rank = -1};
	switch (type) {
	case MSG_WELCOME:
		welcome_encode(&w, &body);
		break;
	case MSG_JOINED:
		joined_encode(&joined, &body);
		break;
	case MSG_ROSTER:
		put_roster(SIZE, SIZE);
		break;
	case MSG_BEAT:
		pace_encode(&pace, &body);
		break;
	case MSG_ABORT:
		put_err(ERR_INPUT, 2);
		break;
	case MSG_VERDICT:
		workload_encode(&work, &body);
		break;
	case MSG_FINAL:
		put_err(0, ERR_RANK_SELF);
		break;
	case MSG_ASK:
		buf_put_u32(&body, 0);
		break;
	case MSG_PLACES:
		put_place(2);
		break;
	case MSG_CLOCK:
		buf_put_u64(&body, 5);
		break;
	default:
		break;
	}
}

/* A job of more ranks than a roster has places for asks for those of @peer. */
static void ask_place(int size, uint32_t peer)
{
	open_job(1, size, false);
	job->state = JOB_AGREEING;
	put_roster((uint32_t)size, 0);
	tell(MSG_ROSTER);
	buf_put_u32(&job->places.asked, peer);
	job->places.awaited = 1;
}

static void be_at(enum job_state state)
{
	open_job(1, SIZE, false);
	job->callbacks.table = put_table;
	job->callbacks.forms_anew = fewest;
	job->state = JOB_AGREEING;
	if (state >= JOB_RUNNING) {
		put_right(MSG_ROSTER);
		tell(MSG_ROSTER);
		assert_int_equal(job->state, JOB_RUNNING);
	}
	job->state = state;
}

static void expect_distrust(const char *words)
{
	struct err err = {0};
	assert_true(job_rules_of(job)->failed);
	assert_int_equal(job_check(job, &err), -1);
	assert_int_equal(err.code, ERR_INTEGRITY);
	assert_int_equal(err.rank, ERR_RANK_SELF);
	if (!strstr(err.text, words) || strncmp(err.text, "the coordinator sent ", 21) != 0)
		fail_msg("'%s' does not say '%s'", err.text, words);
}

static void expect_trust(void)
{
	struct err err = {0};
	if (job_check(job, &err) < 0)
		fail_msg("%s", err.text);
}

/* What each state admits; of the others, every type. */
JOB_TEST(each_message_at_each_stage)
{
	static const struct {
		uint8_t type;
		const char
		        *states; /* seeking, joined, agreeing, running, voted, committing, done */
	} rows[] = {
	        {MSG_WELCOME, "yyy...."}, {MSG_JOINED, "yyy...."},    {MSG_BEAT, "yyyyyyy"},
	        {MSG_ROSTER, "..y...."},  {MSG_ASK, "..y.y.."},       {MSG_VERDICT, "....y.."},
	        {MSG_FINAL, "......y"},   {MSG_OTHER_JOB, "y......"},
	};
	for (int type = 0; type < 256; type++) {
		const char *states = ".......";
		if (type == MSG_ABORT)
			continue;
		for (size_t i = 0; i < LENGTH(rows); i++)
			if (rows[i].type == type)
				states = rows[i].states;
		for (int at = JOB_SEEKING; at <= JOB_DONE; at++) {
			be_at((enum job_state)at);
			put_right((uint8_t)type);
			tell((uint8_t)type);
			if (job_rules_of(job)->failed != (states[at] == '.'))
				fail_msg("type %d in state %d", type, at);
			if (states[at] == 'y')
				continue;
			expect_distrust("an unexpected control message");
			assert_int_equal(job->state, job_rules[at].lost);
		}
	}
}

JOB_TEST(an_early_verdict_commits_nothing)
{
	for (int at = JOB_SEEKING; at < JOB_VOTED; at++) {
		be_at((enum job_state)at);
		put_right(MSG_VERDICT);
		tell(MSG_VERDICT);
		expect_distrust("(VERDICT)");
		assert_false(job_decided(job));
	}
	be_at(JOB_VOTED);
	buf_put_u8(&body, 1);
	tell(MSG_VERDICT);
	expect_distrust("nothing was changed here");
	assert_true(job_decided(job)); /* another rank may have committed */
	assert_int_equal(job->state, JOB_IN_DOUBT);
}

JOB_TEST(a_welcome_out_of_range)
{
	static const int wrong[][3] = {{65535, 0, -1}, {2, 0, -1}, {1, 4, -1},
	                               {1, 0, 4},      {1, 0, 2}, /* nobody asked for it */
	                               {1, -2, -1},    {-1, 0, -1}};
	for (size_t i = 0; i < LENGTH(wrong); i++) {
		be_at(JOB_SEEKING);
		tell_welcome(wrong[i][0], wrong[i][1], wrong[i][2]);
		expect_distrust("WELCOME message");
		assert_int_equal(job_rank(job), 1);
	}
}

JOB_TEST(a_second_welcome_adds_only)
{
	static const int wrong[][3] = {{2, 3, 1}, {1, 0, 1}, {1, 3, 2}, {1, 3, -1}, {1, -1, 1}};
	for (size_t i = 0; i <= LENGTH(wrong); i++) {
		open_job(JOB_RANK_AUTO, SIZE, true);
		tell_welcome(1, -1, -1);
		tell_welcome(1, 3, 1);
		tell_welcome(1, 3, 1);
		expect_trust();
		assert_int_equal(job_rank(job), 1);
		assert_int_equal(job_root(job), 1);
		assert_int_equal(job_coordinator(job), 3);
		if (i < LENGTH(wrong)) {
			tell_welcome(wrong[i][0], wrong[i][1], wrong[i][2]);
			expect_distrust("WELCOME message");
			assert_int_equal(job_root(job), 1);
		}
	}
}

/* A rank that does not know the size learns it from ROSTER. */
JOB_TEST(numbers_beyond_the_roster)
{
	static const int welcomes[][3] = {{3, 0, 0}, {0, 3, 0}, {0, 0, 3}};
	for (size_t i = 0; i < 3; i++) {
		open_job(JOB_RANK_AUTO, 0, true);
		tell_welcome(welcomes[i][0], welcomes[i][1], welcomes[i][2]);
		expect_trust();
		job->state = JOB_AGREEING;
		put_roster(3, 3);
		tell(MSG_ROSTER);
		expect_distrust("a roster of 3 ranks");
	}
}

JOB_TEST(rosters_that_are_none)
{
	static const struct {
		uint32_t size;
		int places;
		const char *words;
	} wrong[] = {{0, 0, "ROSTER"},
	             {3, 3, "a roster of 3 ranks"},
	             {65536, 0, "a roster of 65536 ranks"},
	             {65537, 0, "ROSTER"},
	             {SIZE, 3, "a roster without all places"},
	             {SIZE, 5, "a place that this rank did not ask for"}};
	for (size_t i = 0; i < LENGTH(wrong); i++) {
		be_at(JOB_AGREEING);
		put_roster(wrong[i].size == 65537 ? 1 : wrong[i].size, wrong[i].places);
		if (wrong[i].size == 65537) { /* the encoder writes no such roster */
			body.len = 0;
			plan_encode(&(struct plan){.windows = 1, .streams = 1}, &body);
			buf_put_u32(&body, 65537);
			buf_put_u8(&body, 0);
		}
		tell(MSG_ROSTER);
		expect_distrust(wrong[i].words);
	}
	be_at(JOB_AGREEING);
	put_roster(SIZE, 3);
	put_place(2); /* twice */
	tell(MSG_ROSTER);
	expect_distrust("a place that this rank did not ask for");
}

JOB_TEST(places_nobody_asked_for)
{
	for (int i = 0; i < 4; i++) {
		ask_place(20, 7);
		expect_trust();
		put_place(i == 0 ? 6 : i == 1 ? 20 : 7);
		if (i == 2)
			put_place(7);
		tell(MSG_PLACES);
		if (i < 3)
			expect_distrust("a place that this rank did not ask for");
		if (i == 3) {
			expect_trust();
			assert_int_equal(job->places.awaited, 0);
			tell(MSG_PLACES);
			expect_distrust("(PLACES)");
		}
		assert_true(job->places.awaited >= 0);
	}
}

/* An answer needs its question. */
JOB_TEST(answers_come_once)
{
	be_at(JOB_RUNNING);
	job->said.question = ASKS_ROUND;
	buf_put_u32(&body, 7);
	tell(MSG_ANSWER);
	expect_trust();
	assert_int_equal(job->said.question, ASKS_NOTHING);
	tell(MSG_ANSWER);
	expect_distrust("(ANSWER)");
	be_at(JOB_RUNNING);
	job->said.question = ASKS_CLOCK;
	put_right(MSG_CLOCK);
	tell(MSG_CLOCK);
	expect_trust();
	assert_int_equal(job->said.clock_theirs, 5);
	put_right(MSG_CLOCK);
	tell(MSG_CLOCK);
	expect_distrust("(CLOCK)");
	be_at(JOB_RUNNING);
	job->said.question = ASKS_CLOCK;
	buf_put_u64(&body, UINT64_MAX);
	tell(MSG_CLOCK);
	expect_distrust("(CLOCK)");
}

static void put_next_session(int places)
{
	again_encode(&(struct again){.session = {7}, .window = 3}, &body);
	for (int i = 0; i < places; i++)
		put_place(i);
}

/* A rank that goes back: what may come when. */
JOB_TEST(a_lane_breaks)
{
	static const struct {
		enum job_back_state at;
		const char *comes; /* MOVED, BACK, AGAIN */
	} rows[] = {{BACK_NOT, ".y."},
	            {BACK_MOVED, "yy."},
	            {BACK_OVER, "..."},
	            {BACK_ASKED, "..."},
	            {BACK_STOPPED, "..y"}};
	static const uint8_t types[] = {MSG_MOVED, MSG_BACK, MSG_AGAIN};
	for (size_t i = 0; i < LENGTH(rows); i++)
		for (int k = 0; k < 3; k++) {
			be_at(JOB_RUNNING);
			job->callbacks.goes_back = true;
			job->back.state = rows[i].at;
			if (types[k] == MSG_BACK)
				put_err(ERR_PEER_LOST, 2);
			else if (types[k] == MSG_AGAIN)
				put_next_session(SIZE);
			tell(types[k]);
			if (rows[i].comes[k] == 'y')
				expect_trust();
			else
				expect_distrust(msg_name(types[k]));
			assert_int_equal(job_goes_back(job),
			                 rows[i].at == BACK_ASKED ||
			                         (types[k] == MSG_BACK && rows[i].comes[k] == 'y'));
		}
	assert_int_equal(job->back.window, 3);
	assert_int_equal(job->back.session[0], 7);
}

JOB_TEST(a_lane_breaks_and_the_coordinator_lies)
{
	for (int i = 0; i < 6; i++) {
		be_at(JOB_RUNNING);
		job->callbacks.goes_back = i != 0; /* this job does not go back */
		job->back.times = i == 1 ? JOB_RECONNECTS_MOST : 0;
		job->back.state = i < 4 ? BACK_NOT : BACK_STOPPED;
		if (i < 4)
			put_err(i == 2 ? 0 : ERR_PEER_LOST, i == 3 ? SIZE : 2);
		else
			put_next_session(i == 4 ? SIZE - 1 : SIZE);
		if (i == 5)
			put_place(2); /* twice */
		tell(i < 4 ? MSG_BACK : MSG_AGAIN);
		expect_distrust(i == 4   ? "a next session without all places"
		                : i == 5 ? "a place that this rank did not ask for"
		                         : "(BACK)");
	}
}

/* A rank was lost, and the others form the job anew: what that may end. */
JOB_TEST(the_job_is_formed_anew)
{
	struct err err = {0};
	fewest = 2;
	for (int at = JOB_SEEKING; at <= JOB_DONE; at++) {
		be_at((enum job_state)at);
		put_err(ERR_PEER_LOST, 3);
		tell(MSG_ANEW);
		if (at != JOB_RUNNING && at != JOB_VOTED) {
			expect_distrust("(ANEW)");
			continue;
		}
		assert_int_equal(job->state, JOB_JOINED);
		assert_int_equal(job_check(job, &err), -1); /* whatever runs ends */
		assert_int_equal(err.rank, 3);
		assert_true(job_forms_anew(job, &err));
		assert_int_equal(err.code, 0);
		job_form_anew(job);
		expect_trust();
		job->state = JOB_AGREEING;
		put_right(MSG_ROSTER);
		tell(MSG_ROSTER);
		expect_trust();
		assert_int_equal(job->state, JOB_RUNNING);
	}
	be_at(JOB_RUNNING);
	for (int i = 0; i <= SIZE; i++) { /* a rank cannot be lost twice */
		put_err(ERR_PEER_LOST, 3);
		tell(MSG_ANEW);
		if (i == SIZE)
			expect_distrust("(ANEW)");
		else
			assert_int_equal(job->state, JOB_JOINED);
		job_form_anew(job);
		job->state = JOB_RUNNING;
	}
}

JOB_TEST(the_job_is_formed_anew_and_the_coordinator_lies)
{
	struct err err = {.code = ERR_INPUT, .rank = ERR_RANK_SELF};
	for (int i = 0; i < 4; i++) {
		fewest = i == 0 ? 0 : i == 1 ? SIZE : 2; /* no rank may be missing */
		be_at(JOB_RUNNING);
		put_err(i == 2 ? 0 : ERR_PEER_LOST, i == 3 ? 1 : 3); /* this rank is not lost */
		tell(MSG_ANEW);
		expect_distrust("(ANEW)");
		assert_false(job_forms_anew(job, &err));
	}
	be_at(JOB_RUNNING); /* its own failure */
	assert_false(job_forms_anew(job, &err));
	assert_int_equal(err.code, ERR_INPUT);
}

/* What ends this rank is not the loss of another one, but a signal or its own failure. */
JOB_TEST(a_rank_ends_as_the_job_is_formed_anew)
{
	const struct err lacking = {.code = ERR_RESOURCE, .text = "no memory"};
	fewest = 2;
	for (int signalled = 0; signalled < 2; signalled++) {
		struct err err = {0};
		be_at(JOB_RUNNING);
		put_err(ERR_PEER_LOST, 3);
		tell(MSG_ANEW);
		assert_int_equal(job_check(job, &err), -1);
		assert_int_equal(err.rank, 3);
		if (signalled)
			job->signal = SIGTERM;
		else
			job_fail_later(job, &lacking);
		assert_false(job_forms_anew(job, &err));
		assert_int_equal(err.code, signalled ? 128 + SIGTERM : ERR_RESOURCE);
		assert_int_equal(err.rank, ERR_RANK_SELF);
	}
}

JOB_TEST(pages_are_asked_for_in_order)
{
	be_at(JOB_VOTED);
	for (uint32_t page = 0; page < 3; page++) {
		buf_put_u32(&body, page);
		tell(MSG_ASK);
		expect_trust();
	}
	buf_put_u32(&body, 1);
	tell(MSG_ASK);
	expect_distrust("(ASK)");
	be_at(JOB_VOTED);
	job->callbacks.table = NULL;
	put_right(MSG_ASK);
	tell(MSG_ASK);
	expect_distrust("(ASK)");
}

JOB_TEST(malformed_messages)
{
	static const uint8_t types[] = {MSG_WELCOME, MSG_JOINED, MSG_BEAT, MSG_ABORT,
	                                MSG_VERDICT, MSG_FINAL,  MSG_ASK,  MSG_OTHER_JOB};
	static const enum job_state stages[] = {JOB_SEEKING, JOB_SEEKING, JOB_RUNNING, JOB_RUNNING,
	                                        JOB_VOTED,   JOB_DONE,    JOB_VOTED,   JOB_SEEKING};
	for (size_t i = 0; i < sizeof types; i++) {
		be_at(stages[i]);
		put_right(types[i]);
		if (types[i] == MSG_OTHER_JOB)
			buf_put_u8(&body, 1);
		else
			body.len = 1;
		tell(types[i]);
		expect_distrust(msg_name(types[i]));
	}
	be_at(JOB_RUNNING);
	put_err(0, 2); /* an abort for no reason */
	tell(MSG_ABORT);
	expect_distrust("(ABORT)");
	be_at(JOB_RUNNING);
	put_err(ERR_INPUT, SIZE);
	tell(MSG_ABORT);
	expect_distrust("(ABORT)");
	be_at(JOB_RUNNING);
	pace_encode(&(struct pace){.rank = SIZE}, &body);
	tell(MSG_BEAT);
	expect_distrust("(BEAT)");
}

/* An ABORT after the verdict, or a good outcome without this rank's word. */
JOB_TEST(the_verdict_stands)
{
	for (int at = JOB_COMMITTING; at <= JOB_DONE; at++) {
		be_at((enum job_state)at);
		put_right(MSG_ABORT);
		tell(MSG_ABORT);
		expect_distrust("(ABORT) after the verdict");
		assert_true(job_decided(job));
	}
	be_at(JOB_COMMITTING);
	put_err(0, ERR_RANK_SELF);
	tell(MSG_FINAL);
	expect_distrust("(FINAL) after the verdict");
	be_at(JOB_COMMITTING);
	put_err(ERR_PEER_LOST, 1); /* it was too slow for the coordinator */
	tell(MSG_FINAL);
	expect_trust();
	assert_int_equal(job->state, JOB_FINAL);
}

/* A rank that has failed waits for the outcome alone. */
JOB_TEST(after_a_failure_only_the_abort_counts)
{
	struct err err = {.code = ERR_INPUT, .rank = ERR_RANK_SELF};
	be_at(JOB_RUNNING);
	job_fail_later(job, &err);
	tell(MSG_ROSTER);
	tell(MSG_CLOCK);
	assert_int_equal(job->state, JOB_RUNNING);
	put_err(ERR_DISAGREE, 3);
	tell(MSG_ABORT);
	assert_int_equal(job->state, JOB_ABORTED);
	assert_int_equal(job->end.failure.code, ERR_DISAGREE);
	tell(MSG_ROSTER);
	assert_int_equal(job->end.failure.code, ERR_DISAGREE);
}

/* A coordinator that does not answer while ranks join: what was missing is the cause. Later, that
 * it does not answer. */
JOB_TEST(a_silent_coordinator)
{
	for (int running = 0; running < 2; running++) {
		struct err err = {.code = ERR_RENDEZVOUS, .text = "sent no ROSTER message"},
		           e = {0};
		int fd[2];
		be_at(running ? JOB_RUNNING : JOB_AGREEING);
		assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, fd), 0);
		struct conn *conn = conn_tcp_new(fd[0], &e);
		assert_non_null(conn);
		assert_int_equal(ctl_start(&job->ctl, conn, &job->loop, &e), 0);
		job_fail(job, &err);
		assert_int_equal(err.code, running ? ERR_STALLED : ERR_RENDEZVOUS);
		assert_int_equal(err.rank, 0);
		assert_string_equal(err.text,
		                    running ? "no answer to a report: stopped or unreachable"
		                            : "sent no ROSTER message");
		close(fd[1]);
	}
}

int main(void)
{
	return unit_run(NULL, NULL);
}
