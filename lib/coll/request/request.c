#include "algorithms/table.h"
#include "lib/coll/request/request.h"

#include <stdio.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/coll/agreement/agree_wire.h"
#include "lib/coll/request/paths.h"

/* Zero members mean: divided by elements, results differ between ranks, arrays only. */
static const struct coll_rules rules[COLL_KINDS] = {
        [COLL_ALLREDUCE] = {.replicated = true, .sets = true, .averages = true, .radix = true},
        [COLL_REDUCE] = {.sets = true, .averages = true, .rooted = true},
        [COLL_REDUCE_SCATTER] = {.cut = CUT_ROWS, .averages = true},
        [COLL_BROADCAST] = {.replicated = true, .sets = true, .bytes = true, .rooted = true},
        [COLL_SCATTER] = {.cut = CUT_ROWS, .rooted = true},
        [COLL_GATHER] = {.cut = CUT_JOINED, .bytes = true, .rooted = true},
        [COLL_ALLGATHER] = {.cut = CUT_JOINED, .replicated = true, .radix = true},
        [COLL_ALLTOALL] = {.cut = CUT_ROWS, .radix = true},
};

const struct coll_rules *coll_rules(enum coll_kind kind)
{
	return &rules[kind];
}

bool coll_reads(enum coll_kind kind, int rank, int size, int root)
{
	const struct coll_layout l = coll_layout(kind, rank, size, root);
	return l.in_lo < l.in_hi;
}

bool coll_writes(enum coll_kind kind, int rank, int size, int root)
{
	const struct coll_layout l = coll_layout(kind, rank, size, root);
	return l.out_lo < l.out_hi;
}

const char *integers_name(enum coll_integers how)
{
	static const char *const names[] = {"not given", "first", "equal", "round"};
	return names[how];
}

/* ---- algorithms and operations ---- */

/* Append the names of the algorithms of @kind with @flags. */
static void list_names(enum coll_kind kind, unsigned flags, char *names, size_t cap)
{
	size_t n = strlen(names);

	for (size_t i = 0; i < coll_algorithms_len; i++) {
		const struct coll_algorithm *a = coll_algorithms[i];

		if (a->kind == kind && (a->flags & flags) == flags && n < cap)
			n += (size_t)snprintf(names + n, cap - n, "%s%s", n ? ", " : "", a->name);
	}
}

int request_algorithm(enum coll_kind kind, const char *name, const struct coll_algorithm **out,
                      struct err *err)
{
	char names[512] = "auto";

	*out = coll_find(kind, name);
	if (*out || strcmp(name, "auto") == 0)
		return 0;
	list_names(kind, 0, names, sizeof names);
	return err_set(err, ERR_USAGE, "--algorithm: %s has no algorithm '%s'; expected one of %s",
	               coll_name(kind), name, names);
}

int request_check_device(const struct coll_request *r, const struct coll_algorithm *alg,
                         struct err *err)
{
	if (alg && (alg->flags & COLL_DEVICES) && !r->devices.wanted)
		return err_set(err, ERR_USAGE, "--algorithm %s needs --device cuda", alg->name);
	return 0;
}

bool request_uses_devices(const struct coll_request *r)
{
	return r->devices.wanted && (r->work != WORK_COLLECTIVE || !request_is_joint(r));
}

int request_check_order(const struct coll_algorithm *alg, struct err *err)
{
	char names[256] = "";

	if (alg->flags & COLL_ORDERED)
		return 0;
	list_names(alg->kind, COLL_ORDERED, names, sizeof names);
	return err_set(err, ERR_USAGE,
	               "--algorithm %s cannot add in rank order: choose one that can (%s), or "
	               "remove --order rank",
	               alg->name, names);
}

int request_check_joint(const struct coll_request *r, const struct coll_algorithm *alg,
                        struct err *err)
{
	char names[256] = "", op[REDUCE_OP_TEXT];

	if (!request_is_joint(r) || !alg || (alg->flags & COLL_JOINT))
		return 0;
	reduce_op_text(r->op, &r->param, op);
	list_names(alg->kind, COLL_JOINT, names, sizeof names);
	if (request_is_q8(r))
		return err_set(
		        err, ERR_USAGE,
		        "--algorithm %s adds arrays in pairs, and --wire q8 needs all inputs "
		        "at once: choose one that has them (%s), or auto",
		        alg->name, names);
	return err_set(err, ERR_USAGE,
	               "--algorithm %s adds arrays in pairs, and --op %s needs all inputs at once: "
	               "choose one that has them (%s), or auto",
	               alg->name, op, names);
}

int request_check_op(enum coll_kind kind, enum reduce_op op, struct err *err)
{
	if ((reduce_is_joint(op) || op == REDUCE_SLERP) && coll_reduces(kind) &&
	    !coll_takes_several(kind))
		return err_set(err, ERR_USAGE,
		               "--op %s is not defined for %s: it is for allreduce, reduce and "
		               "reduce-scatter",
		               reduce_op_name(op), coll_name(kind));
	if ((kind == COLL_SCAN || kind == COLL_EXSCAN) && op == REDUCE_AVG)
		return err_set(err, ERR_USAGE,
		               "--op avg is not defined for %s, whose ranks add different numbers "
		               "of arrays: use sum",
		               coll_name(kind));
	return 0;
}

int request_check_contributions(const struct coll_request *r, uint64_t n, struct err *err)
{
	if (!coll_reduces(r->kind) || r->op != REDUCE_SLERP || n == 2)
		return 0;
	return err_set(err, ERR_USAGE,
	               "--op slerp: interpolates between two inputs, but the ranks give %" PRIu64,
	               n);
}

int request_check_ranks(enum coll_kind kind, int root, int steps, int size, struct err *err)
{
	if (root >= size)
		return err_set(err, ERR_USAGE, "--root %d: a job of %d ranks has ranks 0 to %d",
		               root, size, size - 1);
	if (kind == COLL_EXCHANGE && size % (1 << steps))
		return err_set(err, ERR_USAGE,
		               "--steps %d: %d (2 to that power) does not divide the %d ranks",
		               steps, 1 << steps, size);
	return 0;
}

/* ---- a collective ---- */

double request_weight(const struct coll_request *r, int input)
{
	return r->nweights ? r->weights[r->nweights > 1 ? input : 0] : 1;
}

enum dtype request_output_dtype(const struct coll_request *r, enum dtype dtype)
{
	return dtype_converted(dtype, r->output_dtype);
}

bool request_is_joint(const struct coll_request *r)
{
	return coll_reduces(r->kind) && (reduce_is_joint(r->op) || r->origin || request_is_q8(r));
}

/* A trimmed mean of which nothing is cut is the mean, in an order that does not depend on that of
 * the contributions. */
static bool runs_as_mean(const struct coll_request *r)
{
	return r->op == REDUCE_DARE || (r->origin && (r->op == REDUCE_SUM || r->op == REDUCE_AVG));
}

enum reduce_op request_run_op(const struct coll_request *r)
{
	if (r->op == REDUCE_SLERP)
		return REDUCE_AVG;
	return runs_as_mean(r) ? REDUCE_TRIMMED : r->op;
}

double request_run_part(const struct coll_request *r)
{
	return r->op == REDUCE_TRIMMED ? r->param.part : 0;
}

bool request_runs_mean(const struct coll_request *r)
{
	return r->op == REDUCE_AVG || r->op == REDUCE_SLERP || reduce_is_joint(r->op) || r->origin;
}

bool request_is_weighted(const struct coll_request *r)
{
	bool weighted = false;
	for (int i = 0; i < r->nweights; i++)
		weighted |= r->weights[i] != 1;
	return weighted;
}

int request_check_weights(const struct coll_request *r, int n, struct err *err)
{
	if (r->nweights <= 1 || r->nweights == n)
		return 0;
	return err_set(err, ERR_USAGE,
	               "--weight: has %d weights for %d local input%s: give one for all, or one "
	               "for each",
	               r->nweights, n, n == 1 ? "" : "s");
}

int request_check_inputs(const struct coll_request *r, int n, char *const *paths, struct err *err)
{
	if (n <= 1 || coll_takes_several(r->kind) || r->each || r->consolidate)
		return 0;
	return err_set(
	        err, ERR_USAGE,
	        "%s: '%s' is one operand too many: give one input, or --each to process each "
	        "separately",
	        r->command, paths[1]);
}

static int check_names(const struct coll_request *r, struct err *err)
{
	int pipes = 0;
	for (int i = 0; i < r->ninputs; i++)
		pipes += strcmp(r->inputs[i], "-") == 0;
	if (pipes > 1)
		return err_set(err, ERR_USAGE, "stdin: is given as input twice");
	if (paths_check_all(r->inputs, r->ninputs, err) < 0)
		return -1;
	return paths_check_all((char *const *)r->outputs, r->noutputs, err);
}

static int check_origin(const struct coll_request *r, struct err *err)
{
	if (!r->origin && r->have_scale)
		return err_set(err, ERR_USAGE, "--scale: needs --origin");
	if (!r->origin && (r->op == REDUCE_TIES || r->op == REDUCE_DARE))
		return err_set(err, ERR_USAGE,
		               "--op %s: merges differences to an origin: give --origin FILE",
		               reduce_op_name(r->op));
	if (!r->origin)
		return 0;
	if (r->op != REDUCE_SUM && r->op != REDUCE_AVG && !reduce_is_joint(r->op))
		return err_set(err, ERR_USAGE,
		               "--origin: differences cannot be merged by --op %s: expected sum, "
		               "avg, median, trimmed:F, ties:D or dare:D,SEED",
		               reduce_op_name(r->op));
	if (r->each)
		return err_set(err, ERR_USAGE,
		               "--origin: is one file, and --each has several: remove one of them");
	return 0;
}

static int check_outer(const struct coll_request *r, struct err *err)
{
	if (r->momentum && !r->have_outer)
		return err_set(err, ERR_USAGE, "--momentum: needs --outer");
	if (!r->have_outer)
		return 0;
	if (!r->origin || !r->momentum)
		return err_set(err, ERR_USAGE, "--outer: needs --origin and --momentum");
	if (r->have_scale)
		return err_set(
		        err, ERR_USAGE,
		        "--scale: the learning rate of --outer takes its place: remove one of "
		        "them");
	if (r->noutputs > 1)
		return err_set(err, ERR_USAGE, "--outer: -o is given %d times: give it once",
		               r->noutputs);
	return 0;
}

static int check_reduction(const struct coll_request *r, struct err *err)
{
	if (request_check_op(r->kind, r->op, err) < 0 || check_origin(r, err) < 0 ||
	    check_outer(r, err) < 0)
		return -1;
	if (r->nweights > 1 && r->each)
		return err_set(err, ERR_USAGE,
		               "--weight: has %d weights: with --each all inputs have the same one",
		               r->nweights);
	if (request_is_weighted(r) && r->op != REDUCE_AVG)
		return err_set(err, ERR_USAGE,
		               "--weight: only averages use it: give --op avg, or remove it");
	if (r->op == REDUCE_SLERP && r->each)
		return err_set(err, ERR_USAGE,
		               "--op slerp: interpolates between two inputs, and --each takes each "
		               "alone: remove it");
	if (!r->integers || request_runs_mean(r))
		return 0;
	return err_set(err, ERR_USAGE,
	               "--integers: only averages use it: give --op avg, or remove it");
}

/* --consolidate and --shard-dim move the contents of checkpoints. */
static int check_pieces(const struct coll_request *r, struct err *err)
{
	const char *with = r->each                             ? "--each"
	                   : r->files.raw_file                 ? "--raw-file"
	                   : r->stats                          ? "--stats"
	                   : r->counts                         ? "--counts"
	                   : r->output_dtype                   ? "--output-dtype"
	                   : r->consolidate && r->files.nstrip ? "--strip"
	                                                       : NULL;
	if (r->check_replicas && !r->consolidate)
		return err_set(err, ERR_USAGE, "--check-replicas: needs --consolidate");
	if (!request_moves_pieces(r) || !with)
		return 0;
	return err_set(err, ERR_USAGE, "%s: cannot be given with %s: remove one of the two", with,
	               r->consolidate ? "--consolidate" : "--shard-dim");
}

const char *request_compares(const struct coll_request *r)
{
	return r->delta ? "--delta" : r->update ? "--update" : r->resume ? "--resume" : NULL;
}

static int check_files(const struct coll_request *r, struct err *err)
{
	if (check_pieces(r, err) < 0)
		return -1;
	if (r->checksum && !r->update && !r->delta)
		return err_set(err, ERR_USAGE, "--checksum: needs --update or --delta");
	if (r->kind == COLL_GATHER && r->update && !r->files.raw_file)
		return err_set(err, ERR_USAGE, "--update: %s needs --raw-file with it", r->command);
	if (r->deletes && !r->files.raw_file)
		return err_set(err, ERR_USAGE,
		               "--delete: needs --raw-file, and a folder as input and output");
	if (r->links && !r->files.raw_file)
		return err_set(err, ERR_USAGE,
		               "--links: needs --raw-file, and a folder as input and output");
	if ((r->deletes || r->links) && r->each)
		return err_set(err, ERR_USAGE, "%s: takes one folder: remove --each",
		               r->deletes ? "--delete" : "--links");
	const char *compares = request_compares(r);
	if (compares && !r->files.raw_file &&
	    (r->files.ninclude || r->files.nexclude || r->output_dtype))
		return err_set(err, ERR_USAGE,
		               "%s: compares whole files: remove it, or --include and --exclude",
		               compares);
	if (r->times && !r->files.raw_file)
		return err_set(err, ERR_USAGE, "--times: needs --raw-file");
	if (r->output_dtype && r->files.raw_file)
		return err_set(err, ERR_USAGE,
		               "--output-dtype: --raw-file copies bytes: remove one of them");
	if (r->with_files && (r->each || r->files.raw_file))
		return err_set(err, ERR_USAGE,
		               "--with-files: copies the files beside the tensors of a set: remove "
		               "it, or %s",
		               r->each ? "--each" : "--raw-file, which copies all files");
	if (r->max_shard && !coll_rules(r->kind)->sets && !r->consolidate)
		return err_set(err, ERR_USAGE, "--max-shard-size: %s needs --consolidate with it",
		               r->command);
	if (r->max_shard && r->each)
		return err_set(
		        err, ERR_USAGE,
		        "--max-shard-size: with --each, each output is as its input: remove one "
		        "of them");
	return inputs_check(&r->files, err);
}

/* Does --wire q8 fit the other settings? */
static int check_q8(const struct coll_request *r, struct err *err)
{
	if (!request_is_q8(r))
		return r->have_max_error ? err_set(err, ERR_USAGE, "--max-error: needs --wire q8")
		                         : 0;
	if (r->kind != COLL_ALLREDUCE)
		return err_set(err, ERR_USAGE,
		               "--wire q8: %s has no sums in blocks: it is for allreduce",
		               r->command);
	if (r->op != REDUCE_SUM && r->op != REDUCE_AVG)
		return err_set(err, ERR_USAGE,
		               "--wire q8: --op %s needs the exact values: expected sum or avg",
		               reduce_op_name(r->op));
	if (r->origin)
		return err_set(err, ERR_USAGE,
		               "--wire q8: differences to --origin travel as they are or lossless: "
		               "remove one of them");
	if (r->have_max_error && r->max_error < 0)
		return err_set(err, ERR_USAGE, "--max-error: %g is below 0", r->max_error);
	if (r->settings.lanes == JOB_LANES_MEMORY)
		return err_set(err, ERR_USAGE,
		               "--wire q8: memory lanes carry no blocks: remove --lanes memory");
	return 0;
}

static int check_collective(const struct coll_request *r, struct err *err)
{
	const struct coll_algorithm *alg = NULL;
	if (check_q8(r, err) < 0)
		return -1;
	if (check_names(r, err) < 0 || request_check_inputs(r, r->ninputs, r->inputs, err) < 0)
		return -1;
	if (coll_reduces(r->kind) && check_reduction(r, err) < 0)
		return -1;
	if (request_algorithm(r->kind, r->algorithm, &alg, err) < 0 ||
	    request_check_device(r, alg, err) < 0 ||
	    (alg && r->ordered && !reduce_is_joint(r->op) && request_check_order(alg, err) < 0))
		return -1;
	if (coll_reduces(r->kind) && request_check_joint(r, alg, err) < 0)
		return -1;
	if (r->ordered && r->device_path == GPU_PATH_NCCL)
		return err_set(
		        err, ERR_USAGE,
		        "--device-path nccl lets NCCL choose the order: remove it, or --order "
		        "rank");
	if (r->kind == COLL_EXCHANGE && !r->steps)
		return err_set(err, ERR_USAGE, "%s: give the number of partners: --steps C",
		               r->command);
	if (check_files(r, err) < 0)
		return -1;
	/* Ranks other than the root write too. */
	if (coll_writes(r->kind, 1, 2, 0) && !r->noutputs)
		return err_set(err, ERR_USAGE, "%s: no output: give -o FILE", r->command);
	return 0;
}

/* ---- all kinds ---- */

static int check_verify(const struct coll_request *r, struct err *err)
{
	if (!r->ninputs)
		return err_set(err, ERR_USAGE, "%s: no input: name the files to compare",
		               r->command);
	return check_files(r, err) < 0 ? -1 : check_names(r, err);
}

static int check_bench(const struct coll_request *r, struct err *err)
{
	if (r->bench.minbytes > r->bench.maxbytes)
		return err_set(err, ERR_USAGE, "--minbytes is larger than --maxbytes");
	if (reduce_is_joint(r->op) || r->op == REDUCE_SLERP)
		return err_set(err, ERR_USAGE,
		               "--op %s: bench measures only operations that add arrays in pairs: "
		               "choose another",
		               reduce_op_name(r->op));
	return request_check_op(r->kind, r->op, err);
}

static int check_fewer(const struct job_settings *s, struct err *err)
{
	if (!s->min_ranks)
		return !s->have_grace
		               ? 0
		               : err_set(err, ERR_USAGE,
		                         "--grace: for how many ranks? give --min-ranks K, too");
	if (s->grace >= s->join_timeout)
		return err_set(err, ERR_USAGE,
		               "--grace %g s is not shorter than --join-timeout %g s",
		               (double)s->grace / NS_PER_SEC, (double)s->join_timeout / NS_PER_SEC);
	return 0;
}

int request_check_fewest(const struct job_settings *s, int size, bool one, struct err *err)
{
	if (s->min_ranks > size)
		return err_set(err, ERR_USAGE, "--min-ranks %d: the job has %d rank%s",
		               s->min_ranks, size, size == 1 ? "" : "s");
	if (s->min_ranks && !one && 2 * s->min_ranks <= size)
		return err_set(err, ERR_USAGE,
		               "--min-ranks %d: without a store (--rendezvous), or with --rank "
		               "auto, more than half of the %d ranks must take part, so that no "
		               "two parts of them both begin: give at least %d",
		               s->min_ranks, size, size / 2 + 1);
	return 0;
}

int request_check(const struct coll_request *r, struct err *err)
{
	if (check_fewer(&r->settings, err) < 0)
		return -1;
	switch (r->work) {
	case WORK_BARRIER:
	case WORK_CHECK:
		return 0;
	case WORK_VERIFY:
		return check_verify(r, err);
	case WORK_BENCH:
		return check_bench(r, err);
	case WORK_COLLECTIVE:
		break;
	}
	return check_collective(r, err);
}

static int check_counts(const struct coll_request *r, int size, struct err *err)
{
	uint64_t sum;
	if (r->ncounts != size)
		return err_set(err, ERR_USAGE, "--counts: has %d numbers for %d ranks", r->ncounts,
		               size);
	if (rows_sum(r->counts, size, &sum) < 0)
		return err_set(err, ERR_USAGE, "--counts: too many rows");
	return 0;
}

int request_check_size(const struct coll_request *r, int size, struct err *err)
{
	if (r->work == WORK_BARRIER || r->work == WORK_VERIFY || r->work == WORK_CHECK)
		return 0;
	if (r->work == WORK_BENCH && r->kind == COLL_EXCHANGE && !r->steps)
		return err_set(err, ERR_USAGE, "--steps: give the number of partners of each rank");
	if (r->work == WORK_BENCH && r->root_host)
		return err_set(err, ERR_USAGE,
		               "--root: '%s' is not a number: bench needs the number of a rank",
		               r->root_host);
	if (request_check_ranks(r->kind, r->root, r->steps, size, err) < 0)
		return -1;
	return r->counts ? check_counts(r, size, err) : 0;
}
