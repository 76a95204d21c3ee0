/* Whole ranks, each a process, over loopback: tables that are shown, and who is the slowest. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "lib/base/clock.h"
#include "lib/job/job.h"
#include "tests/unit/unit.h"

#define SIZE     4
#define ODD      2 /* the rank that has another table */
#define PATIENCE (100 * NS_PER_SEC)
#define ENTRIES  30000 /* some pages */

enum what { ANOTHER_SHAPE, ANOTHER_RESULT, ANOTHER_PACE };

struct outcome {
	bool committed;
	struct err err;
	struct job_progress progress;
};

struct rank {
	struct job *job;
	int rank;
	enum what what;
	bool voting;
	int seen[2]; /* a pipe: a byte of each rank that has seen who is the slowest */
};

/* Entry 25000 of the odd rank differs: in its shape, or from the vote on in its digest. */
static void show(void *ctx, uint32_t page, struct buf *out)
{
	const struct rank *r = ctx;
	size_t len = 0; /* of the page that entry i is in */
	uint32_t at = 0;
	for (int i = 0; i < ENTRIES && at <= page; i++) {
		char name[32], value[32];
		bool odd = r->rank == ODD && i == 25000 &&
		           r->what == (r->voting ? ANOTHER_RESULT : ANOTHER_SHAPE);
		snprintf(name, sizeof name, "layer.%05d", i);
		snprintf(value, sizeof value, r->voting ? "digest %d" : "f32 (%d)", odd ? 1 : i);
		if (at == page)
			table_put(out, name, value);
		len += 4 + strlen(name) + strlen(value);
		if (len >= TABLE_PAGE) {
			len = 0;
			at++;
		}
	}
}

/* The odd one stays the slowest until all the others have seen it. */
static int leave(struct rank *r, struct err *err)
{
	char c = 0;
	if (r->rank != ODD)
		return write(r->seen[1], &c, 1) == 1 ? 0 : err_errno(err, ERR_OTHER, "write");
	for (int i = 1; i < SIZE; i++)
		if (job_await(r->job, r->seen[0], err) < 0 || read(r->seen[0], &c, 1) != 1)
			return err_set(err, ERR_OTHER, "the others have seen nothing");
	return 0;
}

/* Move until it is known that the odd one is the slowest. */
static int run(struct rank *r, struct job_progress *p, struct err *err)
{
	int64_t end = clock_ns() + PATIENCE;
	do {
		job_phase(r->job, PHASE_RUN); /* nothing has stalled */
		job_moved(r->job, r->rank == ODD ? 250 : 500, 1000);
		if (job_turn(r->job, err) < 0)
			return -1;
		job_progress(r->job, p);
	} while (clock_ns() < end && (p->slowest != ODD || p->slowest_phase != PHASE_RUN));
	return leave(r, err);
}

static int take_part(struct rank *r, struct job_progress *p, struct err *err)
{
	uint8_t digest[VOTE_DIGEST] = {r->rank == ODD && r->what == ANOTHER_RESULT};
	const struct job_callbacks callbacks = {.table = show, .noun = "tensor", .ctx = r};
	struct intent in = {0};
	struct plan plan;
	if (job_enter(r->job, NULL, NULL, err) < 0)
		return -1;
	snprintf(in.subject, sizeof in.subject, "%d.safetensors", r->rank);
	intent_add(&in, "tensors", r->rank == ODD && r->what == ANOTHER_SHAPE ? "77" : "33");
	snprintf(in.table, sizeof in.table, "tensors");
	if (job_offer(r->job, &in, false, &callbacks, err) < 0 || job_agree(r->job, &plan, err) < 0)
		return -1;
	if (r->what == ANOTHER_PACE && run(r, p, err) < 0)
		return -1;
	r->voting = true;
	if (job_vote(r->job, digest, err) < 0)
		return -1;
	return job_finish(r->job, NULL, FATE_NEW, err);
}

static void be_rank(struct rank *r, int listen_fd, const char *at, int out)
{
	struct job_conf conf = {
	        .name = "test",
	        .rank = r->rank,
	        .size = SIZE,
	        .coordinator = at,
	        .listen_fd = r->rank ? -1 : listen_fd,
	        .settings = &(struct job_settings){.join_timeout = PATIENCE, .timeout = PATIENCE},
	};
	struct outcome o = {.err = {.rank = ERR_RANK_SELF}};
	if (r->rank)
		close(listen_fd);
	r->job = job_open(&conf, &o.err);
	if (r->job) {
		o.committed = take_part(r, &o.progress, &o.err) == 0;
		if (!o.committed)
			job_fail(r->job, &o.err);
		job_close(r->job);
	}
	_exit(write(out, &o, sizeof o) == sizeof o ? 0 : 1);
}

static void run_job(enum what what, struct outcome o[SIZE])
{
	struct err err = {0};
	struct addr a;
	char at[ADDR_TEXT];
	int out[SIZE][2];
	pid_t pid[SIZE];
	struct rank rank = {.what = what};
	assert_int_equal(addr_resolve(&a, "127.0.0.1", 0, true, &err), 0);
	int fd = addr_listen(&a, 0, 0, 64, &err);
	assert_true(fd >= 0);
	addr_text(&a, true, at);
	assert_int_equal(pipe(rank.seen), 0);
	for (int r = 0; r < SIZE; r++) {
		assert_int_equal(pipe(out[r]), 0);
		rank.rank = r;
		pid[r] = fork();
		assert_true(pid[r] >= 0);
		if (pid[r] == 0)
			be_rank(&rank, fd, at, out[r][1]);
		close(out[r][1]);
	}
	close(fd);
	close(rank.seen[0]);
	close(rank.seen[1]);
	for (int r = 0; r < SIZE; r++) {
		int status;
		assert_int_equal(read(out[r][0], &o[r], sizeof o[r]), sizeof o[r]);
		close(out[r][0]);
		assert_int_equal(waitpid(pid[r], &status, 0), pid[r]);
		assert_int_equal(status, 0);
	}
}

static void expect_failure(const struct outcome o[SIZE], int code, const char *words)
{
	for (int r = 0; r < SIZE; r++) {
		assert_false(o[r].committed);
		if (o[r].err.code != code || o[r].err.rank != ODD)
			fail_msg("rank %d hears %d, rank %d: '%s'", r, o[r].err.code, o[r].err.rank,
			         o[r].err.text);
		assert_string_equal(o[r].err.text, words);
	}
}

TEST(another_shape_is_named)
{
	struct outcome o[SIZE];
	run_job(ANOTHER_SHAPE, o);
	expect_failure(o, ERR_DISAGREE,
	               "2.safetensors: tensor 'layer.25000' f32 (1) differs from f32 (25000) on "
	               "ranks 0, 1, 3");
}

TEST(another_result_is_named)
{
	struct outcome o[SIZE];
	run_job(ANOTHER_RESULT, o);
	expect_failure(o, ERR_INTEGRITY,
	               "its result differs from that of ranks 0, 1, 3: tensor 'layer.25000' digest "
	               "1 differs from digest 25000");
}

TEST(the_slowest_is_known_to_all)
{
	struct outcome o[SIZE];
	run_job(ANOTHER_PACE, o);
	for (int r = 0; r < SIZE; r++) {
		const struct job_progress *p = &o[r].progress;
		if (!o[r].committed)
			fail_msg("rank %d: %d '%s'", r, o[r].err.code, o[r].err.text);
		assert_int_equal(p->phase, PHASE_RUN);
		assert_int_equal(p->moved, r == ODD ? 250 : 500);
		assert_int_equal(p->total, 1000);
		assert_int_equal(p->slowest, ODD);
		assert_int_equal(p->slowest_phase, PHASE_RUN);
		assert_true(p->slowest_done > .249 && p->slowest_done < .251);
	}
}

int main(void)
{
	return unit_run(NULL, NULL);
}
