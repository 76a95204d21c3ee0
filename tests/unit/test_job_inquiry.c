/* A rank whose control link breaks after its vote asks the coordinator again. */
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "lib/base/buf.h"
#include "lib/base/clock.h"
#include "lib/base/xxh3.h"
#include "lib/job/job_internal.h"
#include "tests/unit/unit.h"

#define PATIENCE           (20 * NS_PER_SEC)
#define INQUIRY_TEST(name) TEST_WITH(name, set_up, tear_down)

static struct job_settings settings;
static struct job *job;
/* The coordinator's end. */
static struct gate *gate;
static int listener;
static struct conn *asked; /* the last inquiry */
static struct inquiry inquiry;
static int inquiries;
static struct ctl answers;
static uint8_t last; /* the type of the last message to the coordinator */

static void admit(void *ctx, struct conn *conn, const uint8_t opening[GATE_OPENING],
                  const struct addr *from)
{
	(void)ctx, (void)from;
	assert_int_equal(inquiry_decode(&inquiry, opening), 0);
	conn_free(asked);
	asked = conn;
	inquiries++;
}

static void on_message(void *ctx, uint8_t type, struct view v)
{
	(void)ctx, (void)v;
	last = type;
}

static void on_lost(void *ctx, const struct err *err)
{
	(void)ctx, (void)err;
}

/* Rank 1 of 2 has voted. */
static int set_up(void **state)
{
	static const struct job_conf conf = {.settings = &settings,
	                                     .name = "test",
	                                     .rank = 1,
	                                     .size = 2,
	                                     .coordinator = "127.0.0.1:1",
	                                     .listen_fd = -1};
	struct err err = ERR_INIT;
	struct gate_conf g = {.borrowed = true, .slots = 8, .per_source = 8, .admit = admit};
	(void)state;
	settings = (struct job_settings){.join_timeout = PATIENCE, .timeout = PATIENCE};
	job = job_open(&conf, &err);
	assert_non_null(job);
	for (int s = JOB_JOINED; s <= JOB_VOTED; s++)
		assert_true(job_move(job, (enum job_state)s));
	memcpy(job->said.plan.session, "a session, 16 by", 16);
	assert_int_equal(addr_resolve(&job->inquiry.at, "127.0.0.1", 0, true, &err), 0);
	g.fd = listener = addr_listen(&job->inquiry.at, 0, 0, 8, &err);
	g.loop = &job->loop;
	assert_true(listener >= 0);
	job->inquiry.possible = true;
	gate = gate_open(&g, &err);
	assert_non_null(gate);
	answers = (struct ctl){.on_message = on_message, .on_lost = on_lost};
	inquiries = 0;
	last = 0;
	return 0;
}

static void stop_listening(void)
{
	gate_close(gate);
	gate = NULL;
	if (listener >= 0)
		close(listener);
	listener = -1;
}

static int tear_down(void **state)
{
	(void)state;
	stop_listening();
	conn_free(asked);
	asked = NULL;
	ctl_release(&answers);
	job_close(job);
	return 0;
}

static void lose_link(void)
{
	const struct err cut = {.code = ERR_PEER_LOST, .text = "connection closed"};
	job_coordinator_lost(job, &cut);
}

static void turn(void)
{
	struct err err = ERR_INIT;
	assert_int_equal(loop_turn(&job->loop, clock_ns() + PATIENCE, &err), 0);
}

static void until_asked(int times)
{
	const int64_t end = clock_ns() + PATIENCE;
	while (inquiries < times && clock_ns() < end)
		turn();
	assert_int_equal(inquiries, times);
}

static void until_state(enum job_state state)
{
	const int64_t end = clock_ns() + PATIENCE;
	while (job->state != state && clock_ns() < end)
		turn();
	assert_int_equal(job->state, state);
}

/* The coordinator takes the new link. */
static void take(void)
{
	struct err err = ERR_INIT;
	ctl_release(&answers);
	assert_int_equal(ctl_start(&answers, asked, &job->loop, &err), 0);
	asked = NULL;
}

static void say(uint8_t type)
{
	uint8_t memory[64];
	struct buf b;
	const struct workload nobody = {.rank = -1};
	const struct pace none = {.rank = -1};
	const struct err success = ERR_INIT;
	buf_init_fixed(&b, memory, sizeof memory);
	if (type == MSG_VERDICT)
		workload_encode(&nobody, &b);
	else if (type == MSG_BEAT)
		pace_encode(&none, &b);
	else
		err_encode(&success, PHASE_COMMIT, &b);
	ctl_send(&answers, type, &b);
}

INQUIRY_TEST(the_verdict_and_the_outcome)
{
	lose_link();
	assert_int_equal(job->state, JOB_VOTED);
	until_asked(1);
	assert_int_equal(inquiry.rank, 1);
	assert_memory_equal(inquiry.session, job->said.plan.session, sizeof inquiry.session);
	assert_false(inquiry.has_verdict);
	take();
	say(MSG_BEAT);
	say(MSG_VERDICT);
	until_state(JOB_COMMITTING);
	assert_true(job_move(job, JOB_DONE));
	job_send_done(job);
	/* That link breaks, too, and DONE may be lost with it: it says it again. */
	ctl_release(&answers);
	until_asked(2);
	assert_true(inquiry.has_verdict);
	take();
	while (last != MSG_DONE)
		turn();
	say(MSG_FINAL);
	until_state(JOB_FINAL);
	assert_int_equal(job->end.outcome.code, 0);
}

/* The frame number @number of a plain connection. */
static void send_alert(int fd, uint32_t number)
{
	uint8_t alert[20] = {0};
	put_u32(alert, 0xfffffffe);
	put_u32(alert + 4, number);
	put_u32(alert + 16, (uint32_t)XXH3_64bits(alert, 16));
	assert_int_equal(write(fd, alert, sizeof alert), sizeof alert);
}

/* The coordinator got wrong bytes, and does not know whose they were. The alert does not say that
 * the job was aborted, as it would on a link that was answered. */
INQUIRY_TEST(an_alert_is_no_answer)
{
	lose_link();
	until_asked(1);
	send_alert(asked->fd, 0);
	until_asked(2);
	assert_int_equal(job->state, JOB_VOTED);
	take();
	say(MSG_BEAT);
	while (job->inquiry.asking)
		turn();
	send_alert(answers.conn->fd, 1);
	until_state(JOB_ABORTED);
}

INQUIRY_TEST(nobody_answers)
{
	settings.timeout = NS_PER_SEC / 5;
	lose_link();
	until_state(JOB_IN_DOUBT);
	assert_true(inquiries > 0);
	assert_int_equal(job->end.failure.code, ERR_PEER_LOST);
	assert_non_null(strstr(job->end.failure.text, "lost before it gave the verdict"));
}

/* A coordinator that has ended is not asked until --timeout. */
INQUIRY_TEST(nobody_listens)
{
	stop_listening();
	const int64_t from = clock_ns();
	lose_link();
	until_state(JOB_IN_DOUBT);
	assert_true(clock_ns() - from >= NS_PER_SEC);
	assert_int_equal(job->end.failure.code, ERR_PEER_LOST);
}

INQUIRY_TEST(a_signal)
{
	struct err err = ERR_INIT;
	lose_link();
	until_asked(1);
	job->signal = 15;
	assert_true(job_move(job, JOB_COMMITTING));
	assert_int_equal(job_finish(job, NULL, FATE_NEW, &err), -1);
	assert_int_equal(job->state, JOB_ORPHANED);
	assert_int_equal(err.code, ERR_PEER_LOST);
}

/* Who has not voted needs no verdict. */
INQUIRY_TEST(before_the_vote)
{
	job->state = JOB_RUNNING;
	lose_link();
	assert_int_equal(job->state, JOB_ABORTED);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
