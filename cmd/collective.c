/* The life of a collective: from the command line through join, agreement and data to the commit.
 * See collective.h. */
#include "cmd/collective.h"

#include <string.h>

#include "cmd/bench.h"
#include "cmd/paths.h"
#include "lib/base/clock.h"

/* The others: cut by elements, a result of each rank's own, arrays alone. */
static const struct coll_rules rules[COLL_KINDS] = {
        [COLL_ALLREDUCE] = {.replicated = true, .sets = true},
        [COLL_REDUCE] = {.sets = true},
        [COLL_REDUCE_SCATTER] = {.cut = CUT_ROWS},
        [COLL_BROADCAST] = {.replicated = true, .sets = true},
        [COLL_SCATTER] = {.cut = CUT_ROWS},
        [COLL_GATHER] = {.cut = CUT_JOINED},
        [COLL_ALLGATHER] = {.cut = CUT_JOINED, .replicated = true},
        [COLL_ALLTOALL] = {.cut = CUT_ROWS},
};

static struct coll_layout layout_of(const struct collective *c)
{
	return coll_layout(c->kind, c->rank, c->size, c->root);
}

bool collective_reads(const struct collective *c)
{
	return layout_of(c).in_lo < layout_of(c).in_hi;
}

bool collective_writes(const struct collective *c)
{
	return layout_of(c).out_lo < layout_of(c).out_hi;
}

/* Bytes that this rank reads or writes, whichever is more. */
static uint64_t collective_bytes(const struct collective *c)
{
	uint64_t in = 0, out = 0;
	for (int i = 0; i < c->nparts; i++) {
		const struct part *p = &c->parts[i];
		const struct coll_args *args = &p->layout.args;
		struct coll_layout l = coll_layout(p->kind, c->rank, c->size, args->root);
		in += coll_in_at(p->kind, args, l.in_hi) * dtype_size(p->dtype);
		out += coll_out_at(p->kind, args, l.out_hi) * dtype_size(p->dtype);
	}
	return in > out ? in : out;
}

/* Does the algorithm give the ranks results of different bits? */
static bool part_diverges(const struct part *p, const struct coll_algorithm *alg)
{
	return coll_reduces(p->kind) && (alg->flags & COLL_DIVERGENT) &&
	       reduce_order_matters(p->op, p->dtype);
}

bool collective_replicates(const struct collective *c)
{
	bool same = c->rules->replicated;
	for (int i = 0; i < c->nparts; i++)
		same &= !part_diverges(&c->parts[i], c->parts[i].algorithm);
	return same;
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

static int check_reduction(struct collective *c, struct err *err)
{
	const struct options *o = c->o;
	c->ordered = strcmp(o->order, "rank") == 0;
	if (operation_named(c->kind, o->op, &c->op, err) < 0)
		return -1;
	if (c->op == REDUCE_AVG || (o->weight == 1 && !o->integers))
		return 0;
	return err_set(err, ERR_USAGE, "%s is for averages: give --op avg, or leave it out",
	               o->integers ? "--integers" : "--weight");
}

int collective_check_inputs(const struct collective *c, int n, char **paths, struct err *err)
{
	if (n <= 1 || coll_takes_several(c->kind) || c->o->each)
		return 0;
	return err_set(
	        err, ERR_USAGE,
	        "%s: '%s' is one operand too many: give one, or --each to process each separately",
	        c->cmd->name, paths[1]);
}

static int check_operands(const struct collective *c, int n, char **paths, struct err *err)
{
	for (int i = 0, pipes = 0; i < n; i++) {
		pipes += strcmp(paths[i], "-") == 0;
		if (pipes > 1)
			return err_set(err, ERR_USAGE, "stdin: is given as input twice");
	}
	if (paths_check_all(paths, n, err) < 0 ||
	    paths_check_all((char **)c->o->outputs, c->o->noutputs, err) < 0)
		return -1;
	return collective_check_inputs(c, n, paths, err);
}

/* All that can be said before the job is joined. */
static int check_options(struct collective *c, int npaths, char **paths, struct err *err)
{
	const struct options *o = c->o;
	const struct coll_layout other = coll_layout(c->kind, 1, 2, 0);
	const struct coll_algorithm *alg = NULL;
	if (check_operands(c, npaths, paths, err) < 0)
		return -1;
	if (coll_reduces(c->kind) && check_reduction(c, err) < 0)
		return -1;
	if (algorithm_named(c->kind, o->algorithm, &alg, err) < 0)
		return -1;
	if (alg && c->ordered && algorithm_orders(alg, err) < 0)
		return -1;
	if (c->kind == COLL_EXCHANGE && !o->steps)
		return err_set(err, ERR_USAGE, "%s: with how many partners? (--steps C)",
		               c->cmd->name);
	if (inputs_check(o, err) < 0)
		return -1;
	return check_output(c, other.out_lo < other.out_hi,
	                    err); /* who is not the root writes too */
}

/* A named algorithm may give every rank bits of its own only where that is wanted. */
static int check_divergence(const struct collective *c, struct err *err)
{
	const struct coll_algorithm *alg = coll_find(c->kind, c->o->algorithm);
	for (int i = 0; alg && !c->o->allow_divergent && i < c->nparts; i++) {
		const struct part *p = &c->parts[i];
		if (p->kind != c->kind || !part_diverges(p, alg))
			continue;
		return err_set(err, ERR_USAGE,
		               "--algorithm %s adds in a different order on each rank, so that the "
		               "bits of "
		               "a %s of %s differ: give --allow-divergent, or take another",
		               alg->name, reduce_op_name(p->op), dtype_name(p->dtype));
	}
	return 0;
}

/* ---- moving ---- */

static int list_parts(struct collective *c, struct err *err)
{
	c->exec_parts = calloc((size_t)c->nparts, sizeof *c->exec_parts);
	if (!c->exec_parts)
		return err_nomem(err, "the parts", (size_t)c->nparts * sizeof *c->exec_parts);
	for (int i = 0; i < c->nparts; i++) {
		const struct part *p = &c->parts[i];
		c->exec_parts[i] = (struct exec_part){
		        .algorithm = p->algorithm,
		        .args = p->layout.args,
		        .op = p->op,
		        .dtype = p->wire,
		        .ordered = c->ordered,
		        .late = p->late,
		        .divisor = c->divisor,
		        .windows = p->windows,
		};
	}
	return 0;
}

static int move(struct collective *c, struct err *err)
{
	uint64_t bytes = collective_bytes(c);
	if (list_parts(c, err) < 0)
		return -1;
	c->drive = (struct drive){
	        .job = c->job,
	        .memory = c->plan.memory / 4,
	        .lane_bytes = bytes,
	        .conf =
	                {
	                        .parts = c->exec_parts,
	                        .nparts = c->nparts,
	                        .streams = (int)c->plan.streams,
	                        .io = {move_read, move_write, c},
	                        .threads = bytes > INLINE_BYTES,
	                },
	};
	if (move_prepare(c, err) < 0 || drive_connect(&c->drive, err) < 0)
		return -1;
	c->times.connect = clock_ns();
	c->phase = PHASE_RUN;
	progress_files(&c->progress, bytes, c->sink);
	return drive_run(&c->drive, err);
}

/* ---- committing ---- */

static int seal(void *ctx, struct err *err)
{
	return files_seal(ctx, err);
}

/* fsync may take long; what can't is not worth a thread. */
static int seal_aside(struct collective *c, struct err *err)
{
	bool small = collective_bytes(c) <= INLINE_BYTES;
	if (!c->sink || (c->o->no_sync && small))
		return seal(c, err);
	return job_aside(c->job, seal, c, err);
}

static int commit(struct collective *c, struct err *err)
{
	bool same = collective_replicates(c);
	struct err mine = {.rank = ERR_RANK_SELF};
	job_phase(c->job, PHASE_COMMIT);
	if (seal_aside(c, err) < 0)
		return -1;
	c->sealing = same;
	if (job_vote(c->job, same ? c->digest : NULL, err) < 0)
		return -1;
	files_commit(c, &mine);
	c->in_place = !mine.code;
	return job_finish(c->job, &mine, err);
}

/* ---- from the command line to the end ---- */

/* Everything from joining to the commit. c->phase tells where it failed. */
static int run(struct collective *c, char **paths, int npaths, struct err *err)
{
	if (job_enter(c->job, err) < 0)
		return -1;
	c->rank = job_rank(c->job);
	if (c->joining.conf.present.finds_root)
		c->root = job_root(c->job);
	if (check_part(c, npaths, err) < 0 || files_open_inputs(c, paths, npaths, err) < 0 ||
	    check_divergence(c, err) < 0 || terms_agree(c, err) < 0)
		return -1;
	c->times.join = clock_ns();
	c->phase = PHASE_CONNECT;
	if (files_settle_order(c, err) < 0 || files_name_outputs(c, err) < 0 ||
	    files_open_outputs(c, err) < 0 || stats_scan(c, err) < 0 || move(c, err) < 0)
		return -1;
	c->times.run = clock_ns();
	c->phase = PHASE_COMMIT;
	if (commit(c, err) < 0)
		return -1;
	c->times.commit = clock_ns();
	return 0;
}

/* ---- telling ---- */

/* The part that moves most, whose algorithm stands for all. */
static const struct part *largest(const struct collective *c)
{
	const struct part *most = c->parts;
	for (int i = 1; i < c->nparts; i++)
		if (array_bytes(&c->parts[i].info) > array_bytes(&most->info))
			most = &c->parts[i];
	return c->nparts ? most : NULL;
}

/* Elements of a part, of the collective once it is laid out. */
static uint64_t count_of(const struct part *p)
{
	return p->layout.args.off ? coll_count(&p->layout.args) : p->info.count;
}

static struct result result_of(const struct collective *c)
{
	const struct part *p = largest(c);
	bool named =
	        c->shape != OF_BYTES && c->nitems && (c->nitems > 1 || *c->items[0].tensor.name);
	struct result r = {
	        .command = c->cmd->name,
	        .rank = c->rank,
	        .size = c->size,
	        .requested = c->o->algorithm,
	        .algorithm = p && p->algorithm ? p->algorithm->name : c->o->algorithm,
	        .op = coll_reduces(c->kind) ? c->o->op : NULL,
	        .dtype = p && p->dtype ? dtype_name(p->dtype) : NULL,
	        .tensors = named ? c->nitems : 0,
	        .output = c->sink ? c->output : NULL,
	        .stats = c->drive.stats,
	        .peers = c->drive.npeers,
	        .streams = c->plan.streams,
	        .times = c->times,
	        .bus_factor = bench_bus_factor(c->kind, c->size),
	};
	for (int i = 0; i < c->nparts; i++) {
		r.count += count_of(&c->parts[i]);
		r.bytes += count_of(&c->parts[i]) * dtype_size(c->parts[i].dtype);
		r.windows += c->parts[i].windows;
		if (c->parts[i].dtype != p->dtype)
			r.dtype = "mixed";
	}
	if (c->in_place && c->sink)
		digest_text(c->digest, r.digest);
	return r;
}

static json_t *input_names(const struct collective *c)
{
	json_t *names = json_array();
	/* A set that is broadcast has its index behind it. */
	int n = c->shape == OF_BYTES && !c->o->each && c->ninputs ? 1 : c->ninputs;
	for (int i = 0; i < n; i++)
		json_array_append_new(names, report_path_json(c->inputs[i].path));
	return names;
}

/* With --root HOST, and with --rank auto, only the job knows which rank is the root. */
static int find_root(struct collective *c, struct err *err)
{
	struct presence *p = &c->joining.conf.present;
	bool any_rank = c->joining.conf.rank == JOB_RANK_AUTO && c->size > 1;
	if (!(c->cmd->opts & OPTS_ROOT))
		return 0;
	if (c->o->root_host) {
		presence_set(p->root, sizeof p->root, c->o->root_host);
		p->finds_root = true;
	} else if (any_rank && !c->o->have_root) {
		if (c->kind != COLL_BROADCAST && c->kind != COLL_SCATTER)
			return err_set(
			        err, ERR_USAGE,
			        "%s: with --rank auto say which host is the root: --root HOST",
			        c->cmd->name);
		p->finds_root = true;
	}
	return 0;
}

/* Open the job, unless the command line is wrong already. */
static int prepare(struct collective *c, int npaths, char **paths, struct err *err)
{
	if (coll_by_name(c->cmd->name, &c->kind) < 0)
		return err_set(err, ERR_OTHER, "%s is no collective", c->cmd->name);
	c->rules = &rules[c->kind];
	if (check_options(c, npaths, paths, err) < 0 || joining_init(&c->joining, c->o, err) < 0)
		return -1;
	c->rank = c->joining.conf.rank >= 0 ? c->joining.conf.rank : -1;
	c->size = c->joining.conf.size;
	c->root = c->o->root;
	if (terms_check(c, err) < 0 || find_root(c, err) < 0 ||
	    joining_present(&c->joining, npaths ? paths[0] : NULL,
	                    c->o->noutputs ? c->o->outputs[0] : NULL, err) < 0)
		return -1;
	c->job = job_open(&c->joining.conf, err);
	return c->job ? 0 : -1;
}

int cmd_collective(const struct command *cmd, struct options *o, int argc, char **argv)
{
	struct collective c = {.cmd = cmd, .o = o, .rank = -1};
	struct err err = {.rank = ERR_RANK_SELF};
	c.times.start = clock_ns();
	int ret = prepare(&c, argc - 1, argv + 1, &err);
	if (ret == 0)
		progress_start_job(&c.progress, o, cmd->name, c.job);
	if (ret == 0)
		ret = run(&c, argv + 1, argc - 1, &err);
	if (ret < 0 && c.job)
		job_fail(c.job, &err);
	progress_stop(&c.progress);
	/* The user hears of a failure at once, also where rank 0 still has others to tell. */
	struct result r = result_of(&c);
	if (ret == 0 && o->stats)
		r.found = stats_tell(&c);
	int code = result_print(&r, o, ret < 0 ? &err : NULL, phase_name(c.phase), input_names(&c));
	exec_free(c.drive.exec); /* its file threads and lanes go before the mesh */
	job_close(c.job);
	move_release(&c);
	stats_release(&c);
	gathered_release(&c);
	parts_release(&c);
	files_release(&c);
	terms_release(&c);
	joining_release(&c.joining);
	free(c.exec_parts);
	return code;
}
