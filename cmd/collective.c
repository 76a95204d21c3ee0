/* The life of a collective: from the command line through join, agreement and data to the commit.
 * See collective.h. */
#include "cmd/collective.h"

#include <string.h>

#include "cmd/bench.h"
#include "lib/base/clock.h"
#include "lib/base/offload.h"

/* The others: cut by elements, a result of each rank's own. */
static const struct coll_rules rules[COLL_KINDS] = {
        [COLL_ALLREDUCE] = {.replicated = true},
        [COLL_REDUCE_SCATTER] = {.cut = CUT_ROWS},
        [COLL_BROADCAST] = {.replicated = true},
        [COLL_SCATTER] = {.cut = CUT_ROWS},
        [COLL_GATHER] = {.cut = CUT_JOINED},
        [COLL_ALLGATHER] = {.cut = CUT_JOINED, .replicated = true},
        [COLL_ALLTOALL] = {.cut = CUT_ROWS},
};

static struct coll_layout parts(const struct collective *c)
{
	return coll_layout(c->kind, c->rank, c->size, c->o->root);
}

bool collective_reads(const struct collective *c)
{
	return parts(c).in_lo < parts(c).in_hi;
}

bool collective_writes(const struct collective *c)
{
	return parts(c).out_lo < parts(c).out_hi;
}

uint64_t collective_bytes(const struct collective *c)
{
	const struct coll_args *args = &c->layout.args;
	uint64_t in = coll_in_at(c->kind, args, parts(c).in_hi);
	uint64_t out = coll_out_at(c->kind, args, parts(c).out_hi);
	return (in > out ? in : out) * args->esize;
}

bool collective_diverges(const struct collective *c, const struct coll_algorithm *alg)
{
	return coll_reduces(c->kind) && (alg->flags & COLL_DIVERGENT) &&
	       reduce_order_matters(c->op, c->info.dtype);
}

/* ---- the command line ---- */

static int check_output(const struct collective *c, bool writes, struct err *err)
{
	if (!writes || c->o->noutputs)
		return 0;
	return err_set(err, ERR_USAGE, "%s: no output: give -o FILE", c->cmd->name);
}

/* What the rank's own part asks for. Asked once the job is joined, so that all hear of it. */
static int check_part(const struct collective *c, int npaths, struct err *err)
{
	if (collective_reads(c) && npaths == 0)
		return err_set(err, ERR_USAGE, "%s: rank %d is the root: give its input",
		               c->cmd->name, c->rank);
	return check_output(c, collective_writes(c), err);
}

static int check_raw_file(const struct options *o, struct err *err)
{
	const char *with = o->dtype    ? "--dtype"
	                   : o->shape  ? "--shape"
	                   : o->format ? "--format"
	                               : NULL;
	if (!o->raw_file || !with)
		return 0;
	return err_set(err, ERR_USAGE, "%s: --raw-file takes the bytes as they are: leave one out",
	               with);
}

static int check_reduction(struct collective *c, struct err *err)
{
	c->ordered = strcmp(c->o->order, "rank") == 0;
	return operation_named(c->kind, c->o->op, &c->op, err);
}

/* All that can be said before the job is joined. */
static int check_options(struct collective *c, struct err *err)
{
	const struct options *o = c->o;
	const struct coll_layout other = coll_layout(c->kind, 1, 2, 0);
	const struct coll_algorithm *alg = NULL;
	if (coll_reduces(c->kind) && check_reduction(c, err) < 0)
		return -1;
	if (algorithm_named(c->kind, o->algorithm, &alg, err) < 0)
		return -1;
	if (alg && c->ordered && algorithm_orders(alg, err) < 0)
		return -1;
	if (c->kind == COLL_EXCHANGE && !o->steps)
		return err_set(err, ERR_USAGE, "%s: with how many partners? (--steps C)",
		               c->cmd->name);
	if (check_raw_file(o, err) < 0)
		return -1;
	return check_output(c, other.out_lo < other.out_hi,
	                    err); /* who is not the root writes too */
}

/* A named algorithm may give every rank bits of its own only where that is wanted. */
static int check_divergence(const struct collective *c, struct err *err)
{
	const struct coll_algorithm *alg = coll_find(c->kind, c->o->algorithm);
	if (!alg || c->o->allow_divergent || !c->ninputs || !collective_diverges(c, alg))
		return 0;
	return err_set(err, ERR_USAGE,
	               "--algorithm %s adds in a different order on each rank, so that the bits of "
	               "a %s of %s differ: give --allow-divergent, or take another",
	               alg->name, reduce_op_name(c->op), dtype_name(c->info.dtype));
}

/* ---- moving ---- */

static int move(struct collective *c, struct err *err)
{
	uint64_t bytes = collective_bytes(c);
	c->part = (struct exec_part){
	        .algorithm = c->algorithm,
	        .args = c->layout.args,
	        .op = c->op,
	        .dtype = c->dtype,
	        .ordered = c->ordered,
	        .divisor = c->divisor,
	        .windows = c->plan.windows,
	};
	c->drive = (struct drive){
	        .job = c->job,
	        .memory = c->plan.memory / 4,
	        .lane_bytes = bytes,
	        .conf =
	                {
	                        .parts = &c->part,
	                        .nparts = 1,
	                        .streams = (int)c->plan.streams,
	                        .io = {files_read, files_write, c},
	                        .threads = bytes > INLINE_BYTES,
	                },
	};
	if (files_prepare(c, err) < 0 || drive_connect(&c->drive, err) < 0)
		return -1;
	c->times.connect = clock_ns();
	c->phase = PHASE_RUN;
	return drive_run(&c->drive, err);
}

/* ---- committing ---- */

static int seal(void *ctx, struct err *err)
{
	return files_seal(ctx, err);
}

/* On a thread of its own, for fsync may take long and heartbeats must go on; not worth one where
 * it can't. */
static int seal_aside(struct collective *c, struct err *err)
{
	struct offload o;
	struct err stopped = {.rank = ERR_RANK_SELF};
	if (!c->noutputs || (c->o->no_sync && collective_bytes(c) <= INLINE_BYTES))
		return seal(c, err);
	if (offload_start(&o, seal, c, err) < 0)
		return -1;
	if (job_await(c->job, o.eventfd, &stopped) < 0) {
		offload_finish(&o, NULL);
		*err = stopped;
		return -1;
	}
	return offload_finish(&o, err);
}

static int commit(struct collective *c, struct err *err)
{
	bool same = c->rules->replicated && !collective_diverges(c, c->algorithm);
	struct err mine = {.rank = ERR_RANK_SELF};
	job_phase(c->job, PHASE_COMMIT);
	if (seal_aside(c, err) < 0 || job_vote(c->job, same ? c->digest_bytes : NULL, err) < 0)
		return -1;
	files_commit(c, &mine);
	return job_finish(c->job, &mine, err);
}

/* ---- from the command line to the end ---- */

/* Everything from joining to the commit. c->phase tells where it failed. */
static int run(struct collective *c, char **paths, int npaths, struct err *err)
{
	if (job_enter(c->job, err) < 0)
		return -1;
	c->rank = job_rank(c->job);
	if (check_part(c, npaths, err) < 0 || files_open_inputs(c, paths, npaths, err) < 0 ||
	    check_divergence(c, err) < 0 || terms_agree(c, err) < 0)
		return -1;
	c->times.join = clock_ns();
	c->phase = PHASE_CONNECT;
	if (files_name_outputs(c, err) < 0 || files_open_outputs(c, err) < 0 || move(c, err) < 0)
		return -1;
	c->times.run = clock_ns();
	c->phase = PHASE_COMMIT;
	if (commit(c, err) < 0)
		return -1;
	c->times.commit = clock_ns();
	return 0;
}

static struct result result_of(const struct collective *c)
{
	bool agreed = c->layout.args.off != NULL;
	uint64_t count = agreed ? coll_count(&c->layout.args) : c->info.count;
	struct result r = {
	        .command = c->cmd->name,
	        .rank = c->rank,
	        .size = c->size,
	        .requested = c->o->algorithm,
	        .algorithm = c->algorithm ? c->algorithm->name : c->o->algorithm,
	        .op = coll_reduces(c->kind) ? c->o->op : NULL,
	        .dtype = c->info.dtype ? dtype_name(c->info.dtype) : NULL,
	        .count = count,
	        .bytes = count * dtype_size(c->info.dtype),
	        .output = c->noutputs ? c->outputs[0].path : NULL,
	        .stats = c->drive.stats,
	        .peers = c->drive.npeers,
	        .windows = c->plan.windows,
	        .streams = c->plan.streams,
	        .times = c->times,
	        .bus_factor = bench_bus_factor(c->kind, c->size),
	};
	if (c->times.commit && c->noutputs)
		digest_text(c->digest_bytes, r.digest);
	return r;
}

static json_t *input_names(const struct collective *c)
{
	json_t *names = json_array();
	for (int i = 0; i < c->ninputs; i++)
		json_array_append_new(names, json_string(c->inputs[i].path));
	return names;
}

/* Open the job, unless the command line is wrong already. */
static int prepare(struct collective *c, struct err *err)
{
	if (coll_by_name(c->cmd->name, &c->kind) < 0)
		return err_set(err, ERR_OTHER, "%s is no collective", c->cmd->name);
	c->rules = &rules[c->kind];
	if (check_options(c, err) < 0 || joining_init(&c->joining, c->o, err) < 0)
		return -1;
	c->rank = c->joining.conf.rank >= 0 ? c->joining.conf.rank : -1;
	c->size = c->joining.conf.size;
	if (terms_check(c, err) < 0)
		return -1;
	c->job = job_open(&c->joining.conf, err);
	return c->job ? 0 : -1;
}

int cmd_collective(const struct command *cmd, struct options *o, int argc, char **argv)
{
	struct collective c = {.cmd = cmd, .o = o, .rank = -1, .dtype = DTYPE_NONE};
	struct err err = {.rank = ERR_RANK_SELF};
	c.times.start = clock_ns();
	int ret = prepare(&c, &err);
	if (ret == 0)
		ret = run(&c, argv + 1, argc - 1, &err);
	if (ret < 0 && c.job)
		job_fail(c.job, &err);
	/* The user hears of a failure at once, also where rank 0 still has others to tell. */
	struct result r = result_of(&c);
	int code = result_print(&r, o, ret < 0 ? &err : NULL, phase_name(c.phase), input_names(&c));
	exec_free(c.drive.exec); /* its file threads and lanes go before the mesh */
	job_close(c.job);
	files_release(&c);
	terms_release(&c);
	joining_release(&c.joining);
	return code;
}
