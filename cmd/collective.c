/*
 * The body that all collectives over arrays share: open the inputs, join, agree, move, commit.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/commands.h"
#include "cmd/joining.h"
#include "cmd/result.h"
#include "cmd/stdio_file.h"
#include "lib/base/clock.h"
#include "lib/base/offload.h"
#include "lib/data/array.h"
#include "lib/data/digest.h"
#include "lib/data/outfile.h"
#include "lib/exec/drive.h"
#include "lib/exec/select.h"

#define STAGING      (256u << 10) /* bytes of a file thread's conversions */
#define WINDOW_BYTES (4u << 20)   /* of a window, about: a few of them fit the last cache */
#define INLINE_BYTES (64u << 10)  /* smaller files are read and written without threads */
#define STREAMS      3            /* windows under way at once: one read, one moved, one written */

struct output {
	struct outfile file;
	bool open, is_stdout;
	char *path;
};

struct collective {
	const struct command *cmd;
	const struct options *o;
	enum coll_kind kind;
	enum reduce_op op;
	bool ordered;
	struct joining joining;
	struct job *job;
	int rank, size;

	struct array_file *inputs;
	int ninputs;
	struct output *outputs;
	int noutputs;
	struct array_info info; /* of the inputs, and of the output but for its header's length */
	char header[ARRAY_HEADER_MAX];
	long header_len;

	struct intent intent;
	struct plan plan;
	const struct coll_algorithm *algorithm;
	enum dtype dtype; /* of the buffers and the wire */
	double divisor;
	uint64_t *off;
	struct coll_args args;
	struct drive drive;
	struct digest *digest;
	uint8_t digest_bytes[DIGEST_BYTES];
	uint8_t *read_staging, *write_staging;
	struct times times;
	enum phase phase; /* where a failure happened */
};

/* ---- inputs ---- */

/* Whoever writes to a pipe may take long: meanwhile the job goes on, and can be stopped. */
static int await_pipe(void *ctx, int fd, struct err *err)
{
	const struct collective *c = ctx;
	return job_await(c->job, fd, err);
}

static int open_inputs(struct collective *c, char **paths, int n, struct err *err)
{
	const struct options *o = c->o;
	struct array_hints hints = {.shape = o->shape};
	char shape[ARRAY_SHAPE_TEXT], first[ARRAY_SHAPE_TEXT];
	if (o->dtype)
		hints.dtype = dtype_by_name(o->dtype);
	if (o->format)
		hints.format = strcmp(o->format, "raw") == 0 ? ARRAY_RAW : ARRAY_NPY;
	c->inputs = calloc((size_t)n, sizeof *c->inputs);
	if (!c->inputs)
		return err_nomem(err, "the inputs", (size_t)n * sizeof *c->inputs);
	for (int i = 0; i < n; i++) {
		struct array_file *f = &c->inputs[i];
		char *path = joining_path(paths[i], c->rank, c->size, err);
		int ret = path ? stdio_array_open(f, path, &hints, await_pipe, c, err) : -1;
		free(path);
		if (ret < 0)
			return -1;
		c->ninputs++;
		if (f->info.dtype != c->inputs[0].info.dtype)
			return err_set(err, ERR_INPUT, "%s: dtype %s differs from %s of %s",
			               f->path, dtype_name(f->info.dtype),
			               dtype_name(c->inputs[0].info.dtype), c->inputs[0].path);
		if (!array_same(&f->info, &c->inputs[0].info))
			return err_set(err, ERR_INPUT, "%s: shape %s differs from %s of %s",
			               f->path, array_shape_text(&f->info, shape),
			               array_shape_text(&c->inputs[0].info, first),
			               c->inputs[0].path);
	}
	c->info = c->inputs[0].info;
	if (!reduce_op_defined(c->op, c->info.dtype))
		return err_set(err, ERR_USAGE, "%s: --op %s is not defined on %s",
		               c->inputs[0].path, reduce_op_name(c->op), dtype_name(c->info.dtype));
	return 0;
}

/* ---- outputs ---- */

static int name_outputs(struct collective *c, struct err *err)
{
	const struct options *o = c->o;
	enum array_format format;
	if (o->noutputs != 1 && o->noutputs != c->ninputs)
		return err_set(
		        err, ERR_USAGE,
		        "-o is given %d times: give it once, or once for each of the %d inputs",
		        o->noutputs, c->ninputs);
	c->outputs = calloc((size_t)o->noutputs, sizeof *c->outputs);
	if (!c->outputs)
		return err_nomem(err, "the outputs", (size_t)o->noutputs * sizeof *c->outputs);
	c->noutputs = o->noutputs;
	for (int i = 0; i < c->noutputs; i++) {
		struct output *out = &c->outputs[i];
		out->path = joining_path(o->outputs[i], c->rank, c->size, err);
		if (!out->path)
			return -1;
		out->is_stdout = strcmp(out->path, "-") == 0;
		if (out->is_stdout || o->format)
			continue;
		if (array_format_of(out->path, ARRAY_FORMAT_AUTO, &format, err) < 0)
			return -1;
		if (format != c->info.format)
			return err_set(err, ERR_USAGE,
			               "%s: the output has the input's format: end its name in %s",
			               out->path,
			               c->info.format == ARRAY_NPY ? ".npy" : ".bin or .raw");
	}
	return 0;
}

static int open_outputs(struct collective *c, struct err *err)
{
	c->header_len = array_header(&c->info, c->header, sizeof c->header);
	if (c->header_len < 0)
		return err_set(err, ERR_OUTPUT, "%s: the header of this shape is too long",
		               c->outputs[0].path);
	uint64_t size = (uint64_t)c->header_len + array_bytes(&c->info);
	for (int i = 0; i < c->noutputs; i++) {
		struct output *out = &c->outputs[i];
		int ret = out->is_stdout ? stdio_spool_open(&out->file, size, err)
		                         : outfile_open(&out->file, out->path, size, !c->o->no_sync,
		                                        c->o->force, err);
		if (ret < 0)
			return -1;
		out->open = true;
		if (outfile_pwrite(&out->file, c->header, (size_t)c->header_len, 0, err) < 0)
			return -1;
	}
	return 0;
}

/* ---- the files' side of the executor ---- */

static int store(struct collective *c, const void *buf, uint64_t pos, size_t bytes, struct err *err)
{
	digest_update(c->digest, pos, buf, bytes);
	for (int i = 0; i < c->noutputs; i++)
		if (outfile_pwrite(&c->outputs[i].file, buf, bytes, (uint64_t)c->header_len + pos,
		                   err) < 0)
			return -1;
	return 0;
}

static int read_elements(void *ctx, int input, void *buf, uint64_t pos, uint64_t n, struct err *err)
{
	struct collective *c = ctx;
	const struct array_file *f = &c->inputs[input];
	size_t esize = dtype_size(c->info.dtype), wide = dtype_size(c->dtype);
	if (c->dtype == c->info.dtype)
		return array_pread(f, buf, n * esize, f->info.offset + pos * esize, err);
	convert_fn *convert = convert_kernel(c->dtype, c->info.dtype);
	for (uint64_t i = 0, len; i < n; i += len) {
		len = n - i < STAGING / wide ? n - i : STAGING / wide;
		if (array_pread(f, c->read_staging, len * esize, f->info.offset + (pos + i) * esize,
		                err) < 0)
			return -1;
		convert((uint8_t *)buf + i * wide, c->read_staging, len);
	}
	return 0;
}

static int write_elements(void *ctx, const void *buf, uint64_t pos, uint64_t n, bool final,
                          struct err *err)
{
	struct collective *c = ctx;
	size_t esize = dtype_size(c->info.dtype), wide = dtype_size(c->dtype);
	bool divide = final && c->op == REDUCE_AVG;
	if (c->dtype == c->info.dtype && !divide)
		return store(c, buf, pos * esize, n * esize, err);
	for (uint64_t i = 0, len; i < n; i += len) {
		const uint8_t *from = (const uint8_t *)buf + i * wide;
		len = n - i < STAGING / wide ? n - i : STAGING / wide;
		if (divide)
			final_kernel(c->info.dtype, c->dtype)(c->write_staging, from, c->divisor,
			                                      len);
		else
			convert_kernel(c->info.dtype, c->dtype)(c->write_staging, from, len);
		if (store(c, c->write_staging, (pos + i) * esize, len * esize, err) < 0)
			return -1;
	}
	return 0;
}

/* ---- agreeing ---- */

static void describe(struct collective *c)
{
	struct intent *in = &c->intent;
	char shape[ARRAY_SHAPE_TEXT];
	intent_add(in, "collective", c->cmd->name);
	intent_add(in, "--op", c->o->op);
	intent_add(in, "dtype", dtype_name(c->info.dtype));
	intent_add(in, "shape", array_shape_text(&c->info, shape));
	intent_add(in, "--algorithm", c->o->algorithm);
	intent_add(in, "--order", c->o->order);
	snprintf(in->subject, sizeof in->subject, "%s", c->inputs[0].path);
	in->memory = c->o->memory;
	in->ninputs = (uint32_t)c->ninputs;
	in->streams = (uint32_t)c->o->streams;
}

/* The type that travels. An average of f16 is summed in f32 where the algorithm would round each
 * partial sum, for that may overflow; sums in rank order over several local inputs travel in f64,
 * to be rounded once. */
static enum dtype wire_dtype(const struct collective *c, const struct coll_algorithm *alg,
                             uint64_t total_inputs)
{
	enum dtype d = c->info.dtype;
	if (c->ordered && total_inputs > (uint64_t)c->size)
		return reduce_acc_dtype(c->op, d, true);
	if (d == DTYPE_F16 && c->op == REDUCE_AVG &&
	    (!(alg->flags & COLL_FINAL) || total_inputs > (uint64_t)c->size))
		return DTYPE_F32;
	return d;
}

static int choose_algorithm(struct collective *c, struct err *err)
{
	struct select_args s = {
	        .kind = c->kind,
	        .size = c->size,
	        .bytes = array_bytes(&c->info),
	        .op = c->op,
	        .dtype = c->info.dtype,
	        .ordered = c->ordered,
	        .divergent = c->o->allow_divergent,
	};
	if (strcmp(c->o->algorithm, "auto") == 0) {
		c->algorithm = select_auto(&s);
		if (c->o->explain)
			explain_choice(&s, c->algorithm);
		return c->algorithm ? 0
		                    : err_set(err, ERR_USAGE, "no algorithm of %s serves this",
		                              coll_name(c->kind));
	}
	c->algorithm = coll_find(c->kind, c->o->algorithm);
	return c->algorithm
	               ? 0
	               : err_set(err, ERR_OTHER, "rank 0 has no algorithm %s", c->o->algorithm);
}

/* How many windows: as many as the memory asks for, and so many that their buffers stay in the
 * cache; more than one stream only where there are windows to overlap. */
static int choose_windows(struct collective *c, const struct intent *const *intents,
                          struct plan *plan, struct err *err)
{
	struct coll_args args = c->args;
	uint64_t footprint, most_inputs = 1, streams = 0;
	for (int r = 0; r < c->size; r++) {
		if (intents[r]->ninputs > most_inputs)
			most_inputs = intents[r]->ninputs;
		if (intents[r]->streams > streams)
			streams = intents[r]->streams;
	}
	args.ninputs = (int)most_inputs;
	if (exec_footprint(c->algorithm, &args, c->op, (enum dtype)plan->dtype, c->ordered,
	                   &footprint, err) < 0)
		return -1;
	uint64_t windows = (footprint + WINDOW_BYTES / 2) / WINDOW_BYTES;
	if (windows < 1)
		windows = 1;
	if (!streams)
		streams = windows > 1 ? STREAMS : 1;
	/* Half of the memory for the windows, the rest for connections, threads and schedules. */
	uint64_t room = plan->memory / 2 / streams;
	if (room == 0)
		room = 1;
	if (footprint / windows > room)
		windows = footprint / room + 1;
	if (windows > UINT32_MAX)
		windows = UINT32_MAX;
	plan->windows = (uint32_t)windows;
	plan->streams = (uint32_t)(streams < windows ? streams : windows);
	return 0;
}

static int decide(void *ctx, const struct intent *const *intents, struct plan *plan,
                  struct err *err)
{
	struct collective *c = ctx;
	if (choose_algorithm(c, err) < 0)
		return -1;
	snprintf(plan->algorithm, sizeof plan->algorithm, "%s", c->algorithm->name);
	plan->dtype = (uint8_t)wire_dtype(c, c->algorithm, plan->total_inputs);
	return choose_windows(c, intents, plan, err);
}

static int lay_out(struct collective *c, struct err *err)
{
	c->off = calloc((size_t)c->size + 1, sizeof *c->off);
	if (!c->off)
		return err_nomem(err, "the blocks", (size_t)c->size * sizeof *c->off);
	coll_split(c->info.count, c->size, c->off);
	c->args = (struct coll_args){
	        .rank = c->rank,
	        .size = c->size,
	        .ninputs = c->ninputs,
	        .noutputs = 1,
	        .off = c->off,
	};
	return 0;
}

static int agree(struct collective *c, struct err *err)
{
	describe(c);
	if (job_agree(c->job, &c->intent, c->size > 1, decide, c, &c->plan, err) < 0)
		return -1;
	c->algorithm = coll_find(c->kind, c->plan.algorithm);
	if (!c->algorithm || c->plan.dtype == DTYPE_NONE || c->plan.dtype >= DTYPES)
		return err_rank(err, ERR_DISAGREE, 0,
		                "it chose algorithm %s, which is unknown here", c->plan.algorithm);
	c->dtype = (enum dtype)c->plan.dtype;
	c->divisor = (double)c->plan.total_inputs;
	return 0;
}

/* ---- moving ---- */

static int prepare_io(struct collective *c, struct err *err)
{
	size_t esize = dtype_size(c->info.dtype), n = (size_t)c->size;
	uint64_t *starts = calloc(n, sizeof *starts);
	c->read_staging = malloc(STAGING);
	c->write_staging = malloc(STAGING);
	if (starts) {
		for (size_t j = 0; j < n; j++)
			starts[j] = c->off[j] * esize;
		c->digest = digest_new(&c->info, starts, n);
	}
	free(starts);
	if (!c->digest || !c->read_staging || !c->write_staging)
		return err_nomem(err, "the digest and staging", 2 * STAGING);
	return 0;
}

static int move(struct collective *c, struct err *err)
{
	c->drive = (struct drive){
	        .job = c->job,
	        .memory = c->plan.memory / 4,
	        .lane_bytes = array_bytes(&c->info),
	        .conf =
	                {
	                        .algorithm = c->algorithm,
	                        .args = c->args,
	                        .op = c->op,
	                        .dtype = c->dtype,
	                        .ordered = c->ordered,
	                        .divisor = c->divisor,
	                        .windows = c->plan.windows,
	                        .streams = (int)c->plan.streams,
	                        .io = {read_elements, write_elements, c, dtype_size(c->dtype)},
	                        .threads = array_bytes(&c->info) > INLINE_BYTES,
	                },
	};
	if (prepare_io(c, err) < 0 || drive_connect(&c->drive, err) < 0)
		return -1;
	c->times.connect = clock_ns();
	c->phase = PHASE_RUN;
	return drive_run(&c->drive, err);
}

/* ---- committing ---- */

static int read_back(void *ctx, void *buf, size_t bytes, uint64_t pos, struct err *err)
{
	struct collective *c = ctx;
	return outfile_pread(&c->outputs[0].file, buf, bytes, (uint64_t)c->header_len + pos, err);
}

static int seal(void *ctx, struct err *err)
{
	struct collective *c = ctx;
	for (int i = 0; i < c->ninputs; i++)
		if (array_unchanged(&c->inputs[i], err) < 0)
			return -1;
	if (digest_final(c->digest, read_back, c, c->digest_bytes, err) < 0)
		return -1;
	for (int i = 0; i < c->noutputs; i++)
		if (outfile_seal(&c->outputs[i].file, err) < 0)
			return -1;
	return 0;
}

/* On a thread of its own, for fsync may take long and heartbeats must go on; not worth one where
 * it can't. */
static int seal_aside(struct collective *c, struct err *err)
{
	struct offload o;
	struct err stopped = {.rank = ERR_RANK_SELF};
	if (c->o->no_sync && array_bytes(&c->info) <= INLINE_BYTES)
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
	struct err mine = {.rank = ERR_RANK_SELF};
	job_phase(c->job, PHASE_COMMIT);
	if (seal_aside(c, err) < 0)
		return -1;
	const uint8_t *digest = c->algorithm->flags & COLL_DIVERGENT ? NULL : c->digest_bytes;
	if (job_vote(c->job, digest, err) < 0)
		return -1;
	for (int i = 0; i < c->noutputs && !mine.code; i++) {
		struct output *out = &c->outputs[i];
		if (out->is_stdout)
			stdio_spool_copy(&out->file, &mine);
		else
			outfile_commit(&out->file, &mine);
	}
	return job_finish(c->job, &mine, err);
}

/* ---- from the command line to the end ---- */

static int check_options(struct collective *c, struct err *err)
{
	const struct options *o = c->o;
	const struct coll_algorithm *alg = NULL;
	if (reduce_op_by_name(o->op, &c->op) < 0)
		return err_set(err, ERR_USAGE, "--op: '%s' is no operation", o->op);
	c->ordered = strcmp(o->order, "rank") == 0;
	if (algorithm_named(c->kind, o->algorithm, &alg, err) < 0)
		return -1;
	if (alg && c->ordered && !(alg->flags & COLL_ORDERED))
		return err_set(
		        err, ERR_USAGE,
		        "--algorithm %s can't add in rank order: take one that can (direct), "
		        "or leave --order rank out",
		        alg->name);
	if (o->noutputs == 0)
		return err_set(err, ERR_USAGE, "%s: no output: give -o FILE", c->cmd->name);
	return 0;
}

/* Everything from joining to the commit. c->phase tells where it failed. */
static int run(struct collective *c, char **paths, int npaths, struct err *err)
{
	if (job_enter(c->job, err) < 0)
		return -1;
	c->rank = job_rank(c->job);
	if (open_inputs(c, paths, npaths, err) < 0 || name_outputs(c, err) < 0 ||
	    lay_out(c, err) < 0 || agree(c, err) < 0)
		return -1;
	c->times.join = clock_ns();
	c->phase = PHASE_CONNECT;
	if (open_outputs(c, err) < 0 || move(c, err) < 0)
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
	struct result r = {
	        .command = c->cmd->name,
	        .rank = c->rank,
	        .size = c->size,
	        .algorithm = c->algorithm ? c->algorithm->name : c->o->algorithm,
	        .op = c->o->op,
	        .dtype = c->ninputs ? dtype_name(c->info.dtype) : NULL,
	        .count = c->info.count,
	        .bytes = c->ninputs ? array_bytes(&c->info) : 0,
	        .output = c->noutputs ? c->outputs[0].path : NULL,
	        .stats = c->drive.stats,
	        .peers = c->drive.npeers,
	        .windows = c->plan.windows,
	        .streams = c->plan.streams,
	        .times = c->times,
	        .bus_factor = c->size > 1 ? 2.0 * (c->size - 1) / c->size : 1,
	};
	if (c->times.commit)
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

static void release(struct collective *c)
{
	for (int i = 0; i < c->ninputs; i++)
		array_close(&c->inputs[i]);
	for (int i = 0; i < c->noutputs; i++) {
		if (c->outputs[i].open)
			outfile_release(&c->outputs[i].file);
		free(c->outputs[i].path);
	}
	digest_free(c->digest);
	free(c->inputs);
	free(c->outputs);
	free(c->off);
	free(c->read_staging);
	free(c->write_staging);
	joining_release(&c->joining);
}

int cmd_collective(const struct command *cmd, struct options *o, int argc, char **argv)
{
	struct collective c = {.cmd = cmd, .o = o, .rank = -1, .dtype = DTYPE_NONE};
	struct err err = {.rank = ERR_RANK_SELF};
	int ret = -1;
	c.times.start = clock_ns();
	if (coll_by_name(cmd->name, &c.kind) == 0 && check_options(&c, &err) == 0 &&
	    joining_init(&c.joining, o, &err) == 0) {
		c.rank = c.joining.conf.rank >= 0 ? c.joining.conf.rank : -1;
		c.size = c.joining.conf.size;
		c.job = job_open(&c.joining.conf, &err);
	}
	if (c.job)
		ret = run(&c, argv + 1, argc - 1, &err);
	if (ret < 0 && c.job)
		job_fail(c.job, &err);
	/* The user hears of a failure at once, also where rank 0 still has others to tell. */
	struct result r = result_of(&c);
	int code = result_print(&r, o, ret < 0 ? &err : NULL, phase_name(c.phase), input_names(&c));
	exec_free(c.drive.exec); /* its file threads and lanes go before the mesh */
	job_close(c.job);
	release(&c);
	return code;
}
