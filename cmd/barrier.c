/*
 * barrier: `auto` only joins and votes, over the links to rank 0, without a mesh; ranks that are
 * missing are named when --join-timeout ends. A named algorithm also tries the links of its
 * schedule (all_to_all: every link) and goes on past those that fail.
 */
#include <stdlib.h>
#include <string.h>

#include "cmd/commands.h"
#include "cmd/joining.h"
#include "cmd/progress.h"
#include "cmd/result.h"
#include "lib/base/clock.h"
#include "lib/exec/exec.h"
#include "lib/job/probe.h"

struct barrier {
	const struct options *o;
	const struct coll_algorithm *algorithm; /* NULL: auto */
	struct joining joining;
	struct job *job;
	struct plan plan;
	struct probe_stats probe;
	int peers;
	struct progress progress;
	struct times times;
	enum phase phase;
};

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

/* The peers that the algorithm's schedule sends to (EXEC_OUT) or receives from (EXEC_IN). */
static int peers_of(const uint8_t *used, int size, int direction, int *peers)
{
	int n = 0;
	for (int p = 0; p < size; p++)
		if (used[p] & direction)
			peers[n++] = p;
	return n;
}

/* Try the algorithm's links, each with a notice of many packets. A rank that gets no notice learns
 * from the vote which links failed; no rank passes the vote before all ranks have reached it. */
static int move(struct barrier *b, struct err *err)
{
	int size = b->joining.conf.size, ret = -1;
	uint64_t *off = calloc((size_t)size + 1, sizeof *off);
	uint8_t *used = calloc((size_t)size, 1);
	int *out = calloc(2 * (size_t)size, sizeof *out);
	if (!off || !used || !out) {
		err_nomem(err, "the links", (size_t)size * sizeof *out);
		goto done;
	}
	for (int j = 1; j <= size; j++)
		off[j] = 1;
	struct coll_args args = {
	        .rank = job_rank(b->job), .size = size, .ninputs = 1, .noutputs = 1, .off = off};
	if (size > 1 && exec_edges(b->algorithm, &args, used, err) < 0)
		goto done;
	for (int p = 0; p < size; p++)
		b->peers += used[p] != 0;
	int *in = out + size, nout = peers_of(used, size, EXEC_OUT, out);
	int nin = peers_of(used, size, EXEC_IN, in);
	ret = nout + nin ? probe_links(b->job, out, nout, in, nin, &b->probe, err) : 0;
	b->times.connect = clock_ns();
done:
	free(off);
	free(used);
	free(out);
	return ret;
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

static const char *remark(const struct barrier *b)
{
	if (!b->algorithm)
		return BARRIER_AUTO;
	return strcmp(b->algorithm->name, "all_to_all") == 0
	               ? "every link carries full-size packets"
	               : "its links carry full-size packets";
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
	if (b.job) {
		progress_start_job(&b.progress, o, cmd->name, b.job);
		ret = run(&b, &err);
	}
	if (ret < 0 && b.job)
		job_fail(b.job, &err);
	progress_stop(&b.progress);
	struct result r = {
	        .command = cmd->name,
	        .rank = b.job ? job_rank(b.job) : -1,
	        .size = b.joining.conf.size,
	        .requested = o->algorithm,
	        .algorithm = o->algorithm,
	        .stats = {.bytes_sent = b.probe.bytes_sent,
	                  .bytes_received = b.probe.bytes_received,
	                  .bytes_moved = b.probe.bytes_sent + b.probe.bytes_received,
	                  .messages = b.probe.messages},
	        .peers = b.peers,
	        .times = b.times,
	        .remark = remark(&b),
	        .bus_factor = 1,
	};
	int code = result_print(&r, o, ret < 0 ? &err : NULL, phase_name(b.phase), json_array());
	job_close(b.job);
	joining_release(&b.joining);
	return code;
}
