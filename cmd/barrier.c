/*
 * barrier: `auto` is the join and the verdict, without a mesh: who is missing is known when the
 * time to join is over. A named algorithm runs over its edges, one element of `band` each.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/commands.h"
#include "cmd/joining.h"
#include "cmd/result.h"
#include "lib/base/clock.h"
#include "lib/exec/drive.h"

#define MEMORY (16u << 20) /* bytes for the connections' buffers */

struct barrier {
	const struct options *o;
	const struct coll_algorithm *algorithm; /* NULL: auto */
	struct joining joining;
	struct job *job;
	struct plan plan;
	struct exec_part part;
	struct drive drive;
	uint64_t *off;
	struct times times;
	enum phase phase;
};

/* The notice: one element, all ones; what comes out of the conjunction is not looked at. */
static int read_notice(void *ctx, int part, int input, void *buf, uint64_t pos, uint64_t n,
                       struct err *err)
{
	(void)ctx;
	(void)part;
	(void)input;
	(void)pos;
	(void)err;
	memset(buf, 0xff, n);
	return 0;
}

static int drop_notice(void *ctx, int part, const void *buf, uint64_t pos, uint64_t n, bool final,
                       struct err *err)
{
	(void)ctx;
	(void)part;
	(void)buf;
	(void)pos;
	(void)n;
	(void) final;
	(void)err;
	return 0;
}

static int decide(void *ctx, const struct intent *const *intents, struct plan *plan,
                  struct err *err)
{
	const struct barrier *b = ctx;
	(void)intents;
	(void)err;
	if (b->algorithm)
		strcpy(plan->algorithm, b->algorithm->name);
	plan->windows = plan->streams = 1;
	return 0;
}

static int move(struct barrier *b, struct err *err)
{
	int size = b->joining.conf.size;
	b->off = calloc((size_t)size + 1, sizeof *b->off);
	if (!b->off)
		return err_nomem(err, "the blocks", (size_t)size * sizeof *b->off);
	for (int j = 1; j <= size; j++)
		b->off[j] = 1;
	b->part = (struct exec_part){
	        .algorithm = b->algorithm,
	        .args = {.rank = job_rank(b->job),
	                 .size = size,
	                 .ninputs = 1,
	                 .noutputs = 1,
	                 .off = b->off},
	        .op = REDUCE_BAND,
	        .dtype = DTYPE_U8,
	        .windows = 1,
	};
	b->drive = (struct drive){
	        .job = b->job,
	        .memory = MEMORY,
	        .lane_bytes = 64,
	        .conf = {.parts = &b->part,
	                 .nparts = 1,
	                 .streams = 1,
	                 .io = {read_notice, drop_notice, NULL}},
	};
	if (drive_connect(&b->drive, err) < 0)
		return -1;
	b->times.connect = clock_ns();
	b->phase = PHASE_RUN;
	return drive_run(&b->drive, err);
}

static int run(struct barrier *b, struct err *err)
{
	struct intent in = {.memory = UINT64_MAX, .ninputs = 1};
	intent_add(&in, "collective", "barrier");
	intent_add(&in, "--algorithm", b->o->algorithm);
	if (job_enter(b->job, err) < 0 ||
	    job_agree(b->job, &in, b->algorithm && b->joining.conf.size > 1, decide, b, &b->plan,
	              err) < 0)
		return -1;
	b->times.join = clock_ns();
	b->phase = PHASE_CONNECT;
	if (b->algorithm && move(b, err) < 0)
		return -1;
	b->times.run = clock_ns();
	b->phase = PHASE_COMMIT;
	if (job_vote(b->job, NULL, err) < 0)
		return -1;
	b->times.commit = clock_ns();
	return 0;
}

int cmd_barrier(const struct command *cmd, struct options *o, int argc, char **argv)
{
	struct barrier b = {.o = o};
	struct err err = {.rank = ERR_RANK_SELF};
	int ret = -1;
	(void)argc;
	(void)argv;
	b.times.start = clock_ns();
	if (algorithm_named(COLL_BARRIER, o->algorithm, &b.algorithm, &err) == 0 &&
	    joining_init(&b.joining, o, &err) == 0)
		b.job = job_open(&b.joining.conf, &err);
	if (b.job)
		ret = run(&b, &err);
	if (ret < 0 && b.job)
		job_fail(b.job, &err);
	struct result r = {
	        .command = cmd->name,
	        .rank = b.job ? job_rank(b.job) : -1,
	        .size = b.joining.conf.size,
	        .requested = o->algorithm,
	        .algorithm = o->algorithm,
	        .stats = b.drive.stats,
	        .peers = b.drive.npeers,
	        .times = b.times,
	        .bus_factor = 1,
	};
	int code = result_print(&r, o, ret < 0 ? &err : NULL, phase_name(b.phase), json_array());
	exec_free(b.drive.exec);
	job_close(b.job);
	joining_release(&b.joining);
	free(b.off);
	return code;
}
