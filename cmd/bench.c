/*
 * bench: sweeps a collective by size and algorithm inside one job. The ranks join once; the mesh
 * has the edges of every schedule of the sweep. Vectors are in memory: no file is touched.
 *
 * Iterations follow one another without a barrier, as in nccl-tests. Each rank takes the time of
 * each of its iterations; an iteration's time is the largest of these, found by an allreduce over
 * the same mesh after the case.
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "cmd/bench.h"
#include "cmd/commands.h"
#include "cmd/joining.h"
#include "cmd/tuning.h"
#include "lib/base/clock.h"
#include "lib/exec/drive.h"

#define MEMORY      (64u << 20) /* bytes for the connections' buffers */
#define CHECK_RUNS  2           /* the second one over buffers that were used */
#define MERGE_BYTES 8           /* of an element that is merged: a time, a number */
#define NAMES_MAX   (1u << 20)  /* bytes of the names of all cases' algorithms */

struct bench {
	const struct options *o;
	enum coll_kind kind;
	enum reduce_op op;
	enum dtype dtype;
	struct joining joining;
	struct job *job;
	int rank, size;
	int host_cpus; /* as in struct select_args */
	enum bench_form form;
	struct bench_head head;

	const struct coll_algorithm **algorithms; /* of the sweep; NULL: auto */
	size_t nalgorithms;
	uint64_t *off, *merge_off;          /* [size + 1] */
	struct drive drive;                 /* what the cases' drives begin with */
	double *times;                      /* [iters] */
	uint64_t wrong;                     /* over all cases and ranks */
	struct select_tuning tuning, found; /* --tuning, --tuning-out */
	json_t *rows;
	enum phase phase;
};

/* ---- what is asked for ---- */

static bool diverges(const struct bench *b, const struct coll_algorithm *alg)
{
	return (alg->flags & COLL_DIVERGENT) && coll_reduces(b->kind) &&
	       reduce_order_matters(b->op, b->dtype) && !b->o->allow_divergent;
}

static int add_algorithm(struct bench *b, const char *name, struct err *err)
{
	const struct coll_algorithm *alg;
	if (algorithm_named(b->kind, name, &alg, err) < 0)
		return -1;
	if (alg && diverges(b, alg))
		return err_set(err, ERR_USAGE,
		               "--algorithm %s adds in a different order on each rank: give "
		               "--allow-divergent, or another --op or --dtype",
		               name);
	b->algorithms[b->nalgorithms++] = alg;
	return 0;
}

static int list_algorithms(struct bench *b, struct err *err)
{
	char name[64];
	const char *s = b->o->algorithm;
	b->algorithms = calloc(coll_algorithms_len + strlen(s) + 1, sizeof *b->algorithms);
	if (!b->algorithms)
		return err_nomem(err, "the algorithms", strlen(s) * sizeof *b->algorithms);
	if (strcmp(s, "all") == 0) {
		for (size_t i = 0; i < coll_algorithms_len; i++)
			if (coll_algorithms[i].kind == b->kind && !diverges(b, &coll_algorithms[i]))
				b->algorithms[b->nalgorithms++] = &coll_algorithms[i];
		return 0;
	}
	for (;;) {
		size_t n = strcspn(s, ",");
		snprintf(name, sizeof name, "%.*s", (int)(n < sizeof name ? n : sizeof name - 1),
		         s);
		if (add_algorithm(b, name, err) < 0)
			return -1;
		if (!s[n])
			return 0;
		s += n + 1;
	}
}

static int check_options(struct bench *b, const char *collective, struct err *err)
{
	const struct options *o = b->o;
	if (coll_by_name(collective, &b->kind) < 0)
		return err_set(err, ERR_USAGE, "bench: '%s' is no collective", collective);
	if (o->json && o->csv)
		return err_set(err, ERR_USAGE, "--json and --csv both want stdout");
	if (o->minbytes > o->maxbytes)
		return err_set(err, ERR_USAGE, "--minbytes is larger than --maxbytes");
	if (operation_named(b->kind, o->op, &b->op, err) < 0)
		return -1;
	b->dtype = o->dtype ? dtype_by_name(o->dtype) : DTYPE_F32;
	if (b->kind == COLL_BARRIER) {
		b->op = REDUCE_BAND;
		b->dtype = DTYPE_U8;
	} else if (!coll_reduces(b->kind)) {
		b->op = reduce_op_defined(REDUCE_SUM, b->dtype) ? REDUCE_SUM : b->op;
	}
	if (!reduce_op_defined(b->op, b->dtype))
		return err_set(err, ERR_USAGE, "--op %s is not defined on %s", o->op,
		               dtype_name(b->dtype));
	tuning_init(&b->tuning);
	tuning_init(&b->found);
	if (o->tuning && tuning_read(&b->tuning, o->tuning, err) < 0)
		return -1;
	if (o->tuning_out && access(o->tuning_out, F_OK) == 0 &&
	    tuning_read(&b->found, o->tuning_out, err) < 0)
		return -1;
	return list_algorithms(b, err);
}

/* What needs the number of ranks. */
static int check_size(const struct bench *b, struct err *err)
{
	if (b->kind == COLL_EXCHANGE && !b->o->steps)
		return err_set(err, ERR_USAGE, "--steps: how many partners has each rank?");
	if (b->o->root_host)
		return err_set(err, ERR_USAGE, "--root: '%s' is no rank: bench takes a number",
		               b->o->root_host);
	return options_fit(b->o, b->kind, b->size, err);
}

/* ---- the sweep ---- */

/* The size after @size; 0: none. */
static uint64_t next_size(const struct bench *b, uint64_t size)
{
	uint64_t factor = (uint64_t)b->o->stepfactor;
	if (b->kind == COLL_BARRIER || size > b->o->maxbytes / factor)
		return 0;
	return size ? size * factor : 1;
}

struct bench_case {
	uint64_t size, count; /* count: elements of the vector */
	const struct coll_algorithm *algorithm;
	struct coll_args args;
};

static void lay_out(const struct bench *b, struct bench_case *c)
{
	c->count = c->size / dtype_size(b->dtype);
	if (b->kind == COLL_BARRIER) {
		c->size = 0;
		c->count = 1;
	}
	coll_split(c->count, b->size, b->off);
	if (b->kind == COLL_BARRIER) /* its notice stands in the first block */
		c->count = 0;
	c->args = (struct coll_args){
	        .rank = b->rank,
	        .size = b->size,
	        .root = b->o->root,
	        .ninputs = 1,
	        .off = b->off,
	        .base = (unsigned)b->o->base,
	        .steps = (unsigned)b->o->steps,
	        .esize = (unsigned)dtype_size(b->dtype),
	};
}

/* The case's algorithm. 1: chosen; 0: `all` leaves out what stands for another here; -1. */
static int choose(const struct bench *b, size_t k, struct bench_case *c, struct err *err)
{
	const struct coll_algorithm *asked = b->algorithms[k];
	if (!asked) {
		struct select_args s = {
		        .kind = b->kind,
		        .size = b->size,
		        .bytes = c->size,
		        .op = b->op,
		        .dtype = b->dtype,
		        .divergent = b->o->allow_divergent,
		        .insecure = b->o->insecure,
		        .base = c->args.base,
		        .steps = c->args.steps,
		        .host_cpus = b->host_cpus,
		        .tuning = b->o->tuning ? &b->tuning : NULL,
		};
		asked = select_auto(&s);
	}
	if (!asked)
		return err_set(err, ERR_USAGE, "no algorithm of %s serves this",
		               coll_name(b->kind));
	c->algorithm = coll_resolve(asked, &c->args);
	return c->algorithm == asked || strcmp(b->o->algorithm, "all") != 0;
}

static int for_each_case(struct bench *b,
                         int (*fn)(struct bench *, struct bench_case *, void *ctx, struct err *),
                         void *ctx, struct err *err)
{
	uint64_t size = b->o->minbytes;
	do {
		for (size_t k = 0; k < b->nalgorithms; k++) {
			struct bench_case c = {.size = size};
			lay_out(b, &c);
			int chosen = choose(b, k, &c, err);
			if (chosen < 0 || (chosen && fn(b, &c, ctx, err) < 0))
				return -1;
		}
		size = next_size(b, size);
	} while (size);
	return 0;
}

static int name_case(struct bench *b, struct bench_case *c, void *ctx, struct err *err)
{
	struct buf *names = ctx;
	(void)b;
	(void)err;
	if (names->len)
		buf_put_u8(names, ' ');
	buf_put(names, c->algorithm->name, strlen(c->algorithm->name));
	return 0;
}

/* The algorithms of all cases: the ranks' tuning files may differ. */
static int add_algorithms(struct bench *b, struct intent *in, struct err *err)
{
	struct buf names;
	buf_init(&names, NAMES_MAX);
	int ret = for_each_case(b, name_case, &names, err);
	buf_put_u8(&names, '\0');
	if (ret == 0 && names.failed)
		ret = err_nomem(err, "the algorithms", NAMES_MAX);
	if (ret == 0)
		intent_add(in, "algorithms", (const char *)names.data);
	buf_release(&names);
	return ret;
}

static int describe(struct bench *b, const char *collective, struct intent *in, struct err *err)
{
	const struct options *o = b->o;
	char text[FACT_VALUE] = "";
	in->memory = UINT64_MAX;
	in->ninputs = 1;
	/* One fact with the collectives', so that they don't take a bench for one of them. */
	snprintf(text, sizeof text, "bench %s", collective);
	intent_add(in, "collective", text);
	intent_add(in, "--algorithm", o->algorithm);
	intent_add(in, "--op", reduce_op_name(b->op));
	intent_add(in, "--dtype", dtype_name(b->dtype));
	snprintf(text, sizeof text, "%d", o->root);
	intent_add(in, "--root", text);
	snprintf(text, sizeof text, "-b %llu -e %llu -f %d", (unsigned long long)o->minbytes,
	         (unsigned long long)o->maxbytes, o->stepfactor);
	intent_add(in, "sizes", text);
	snprintf(text, sizeof text, "-w %d --iters %d", o->warmup, o->iters);
	intent_add(in, "repetitions", text);
	intent_add(in, "--check", o->check ? "yes" : "no");
	intent_add(in, "--allow-divergent", o->allow_divergent ? "yes" : "no");
	snprintf(text, sizeof text, "%d", o->base);
	intent_add(in, "--base", text);
	snprintf(text, sizeof text, "%d", o->steps);
	intent_add(in, "--steps", text);
	/* With a file the choice is the file's, else it depends on where the ranks are, which none
	 * knows yet: then all find the same. */
	intent_add(in, "--tuning", o->tuning ? "given" : "not given");
	return add_algorithms(b, in, err);
}

static int add_edges(struct bench *b, struct bench_case *c, void *used, struct err *err)
{
	(void)b;
	return exec_edges(c->algorithm, &c->args, used, err);
}

static struct drive drive_of(const struct bench *b, const struct exec_part *part)
{
	struct drive d = b->drive;
	d.conf = (struct exec_conf){.parts = part, .nparts = 1, .streams = 1, .repeat = true};
	return d;
}

/* ---- what the ranks tell each other ---- */

struct merge {
	void *data;
};

static int merge_read(void *ctx, int part, int input, void *buf, uint64_t pos, uint64_t n,
                      struct err *err)
{
	const struct merge *m = ctx;
	(void)part;
	(void)input;
	(void)err;
	memcpy(buf, (const uint8_t *)m->data + pos * MERGE_BYTES, n * MERGE_BYTES);
	return 0;
}

static int merge_write(void *ctx, int part, const void *buf, uint64_t pos, uint64_t n, bool final,
                       struct err *err)
{
	const struct merge *m = ctx;
	(void)part;
	(void) final;
	(void)err;
	memcpy((uint8_t *)m->data + pos * MERGE_BYTES, buf, n * MERGE_BYTES);
	return 0;
}

static struct coll_args merge_args(struct bench *b, uint64_t count)
{
	coll_split(count, b->size, b->merge_off);
	return (struct coll_args){
	        .rank = b->rank, .size = b->size, .ninputs = 1, .noutputs = 1, .off = b->merge_off};
}

static const struct coll_algorithm *merge_algorithm(void)
{
	return coll_find(COLL_ALLREDUCE, "recursive_doubling");
}

/* Allreduce @data in place: times by max, numbers by sum. */
static int merge(struct bench *b, void *data, uint64_t count, enum dtype dtype, enum reduce_op op,
                 struct err *err)
{
	struct merge m = {data};
	struct exec_part part = {
	        .algorithm = merge_algorithm(),
	        .args = merge_args(b, count),
	        .op = op,
	        .dtype = dtype,
	        .windows = 1,
	};
	struct drive d = drive_of(b, &part);
	d.conf.io = (struct fileio_ops){merge_read, merge_write, &m};
	int ret = drive_run(&d, err);
	exec_free(d.exec);
	return ret;
}

/* ---- a case ---- */

static int run_drive(struct bench *b, const struct bench_case *c, struct bench_values *v,
                     struct err *err)
{
	bool timed = !v->checking;
	struct exec_part part = {
	        .algorithm = c->algorithm,
	        .args = c->args,
	        .op = b->op,
	        .dtype = b->dtype,
	        .divisor = b->size,
	        .windows = 1,
	};
	part.args.noutputs = v->checking ? 1 : 0;
	struct drive d = drive_of(b, &part);
	d.conf.io = (struct fileio_ops){bench_read, bench_write, v};
	int ret = drive_begin(&d, err), runs = timed ? b->o->warmup + b->o->iters : CHECK_RUNS;
	v->filled = timed;
	for (int i = 0; ret == 0 && i < runs; i++) {
		int64_t began = clock_ns();
		if (i)
			exec_repeat(d.exec);
		ret = drive_go(&d, err);
		if (timed && i >= b->o->warmup)
			b->times[i - b->o->warmup] = (double)(clock_ns() - began) / NS_PER_SEC;
	}
	drive_end(&d);
	exec_free(d.exec);
	return ret;
}

static int check_values(struct bench *b, const struct bench_case *c, struct bench_row *row,
                        struct err *err)
{
	struct bench_values v = {.kind = b->kind,
	                         .op = b->op,
	                         .dtype = b->dtype,
	                         .divisor = b->size,
	                         .args = &c->args,
	                         .checking = true,
	                         .buf = malloc(BENCH_SCRATCH)};
	if (!v.buf)
		return err_nomem(err, "the values", BENCH_SCRATCH);
	int ret = run_drive(b, c, &v, err);
	free(v.buf);
	row->checked = true;
	row->wrong = v.wrong;
	if (ret == 0)
		ret = merge(b, &row->wrong, 1, DTYPE_U64, REDUCE_SUM, err);
	b->wrong += row->wrong;
	return ret;
}

static int by_value(const void *a, const void *b)
{
	double x = *(const double *)a, y = *(const double *)b;
	return (x > y) - (x < y);
}

/* The smallest of the sorted times that @share of them don't exceed. */
static double percentile(const double *times, int n, double share)
{
	int k = (int)(share * n + 0.999999) - 1;
	return times[k < 0 ? 0 : k];
}

static void fill_row(const struct bench *b, const struct bench_case *c, struct bench_row *row)
{
	int n = b->o->iters;
	qsort(b->times, (size_t)n, sizeof *b->times, by_value);
	row->algorithm = c->algorithm;
	row->size = c->count * dtype_size(b->dtype);
	row->count = bench_is_blocks(b->kind) ? c->count / (uint64_t)b->size : c->count;
	row->min = b->times[0];
	row->p50 = percentile(b->times, n, 0.5);
	row->p99 = percentile(b->times, n, 0.99);
	row->algbw = row->p50 > 0 ? (double)row->size / row->p50 : 0;
	row->busbw = row->algbw * bench_bus_factor(b->kind, b->size);
}

static int record(struct bench *b, const struct bench_row *row, struct err *err)
{
	struct select_measured m = {.alg = row->algorithm,
	                            .size = b->size,
	                            .secure = !b->o->insecure,
	                            .bytes = row->size,
	                            .seconds = row->p50};
	return b->size > 1 && row->size && row->p50 > 0 ? tuning_add(&b->found, &m, err) : 0;
}

static int run_case(struct bench *b, struct bench_case *c, void *ctx, struct err *err)
{
	struct bench_row row = {0};
	struct bench_values v = {.dtype = b->dtype, .args = &c->args};
	(void)ctx;
	if ((b->o->check && check_values(b, c, &row, err) < 0) || run_drive(b, c, &v, err) < 0 ||
	    merge(b, b->times, (uint64_t)b->o->iters, DTYPE_F64, REDUCE_MAX, err) < 0)
		return -1;
	fill_row(b, c, &row);
	if (b->rank == 0)
		bench_print_row(&b->head, &row, b->form);
	json_array_append_new(b->rows, bench_row_json(&b->head, &row));
	return b->o->tuning_out && b->rank == 0 ? record(b, &row, err) : 0;
}

/* ---- the job ---- */

static int prepare(struct bench *b, struct err *err)
{
	size_t n = (size_t)b->size + 1;
	b->off = calloc(n, sizeof *b->off);
	b->merge_off = calloc(n, sizeof *b->merge_off);
	b->times = calloc((size_t)b->o->iters, sizeof *b->times);
	if (!b->off || !b->merge_off || !b->times)
		return err_nomem(err, "the blocks and times", 2 * n * sizeof *b->off);
	b->head = (struct bench_head){
	        .collective = coll_name(b->kind),
	        .op = coll_reduces(b->kind) ? reduce_op_name(b->op) : "none",
	        .dtype = b->dtype,
	        .rank = b->rank,
	        .size = b->size,
	        .warmup = b->o->warmup,
	        .iters = b->o->iters,
	        .insecure = b->o->insecure,
	};
	return 0;
}

static int connect_all(struct bench *b, struct err *err)
{
	uint8_t *used = calloc((size_t)b->size, 1);
	struct exec_part part = {.args = merge_args(b, (uint64_t)b->size)};
	b->drive = (struct drive){.job = b->job, .memory = MEMORY, .lane_bytes = b->o->maxbytes};
	struct drive d = drive_of(b, &part);
	int ret = used ? 0 : err_nomem(err, "the edges", (unsigned long long)b->size);
	if (ret == 0)
		ret = exec_edges(merge_algorithm(), &part.args, used, err);
	if (ret == 0)
		ret = for_each_case(b, add_edges, used, err);
	if (ret == 0)
		ret = drive_connect_edges(&d, used, err);
	b->drive.mesh = d.mesh;
	free(used);
	return ret;
}

static int run(struct bench *b, const char *collective, struct err *err)
{
	struct intent in = {0};
	struct plan plan = {0};
	if (job_enter(b->job, err) < 0)
		return -1;
	b->rank = job_rank(b->job);
	if (prepare(b, err) < 0 || describe(b, collective, &in, err) < 0 ||
	    job_agree(b->job, &in, b->size > 1, NULL, NULL, &plan, err) < 0)
		return -1;
	b->host_cpus = (int)plan.host_cpus;
	b->phase = PHASE_CONNECT;
	if (connect_all(b, err) < 0)
		return -1;
	b->phase = PHASE_RUN;
	if (b->rank == 0)
		bench_print_head(&b->head, b->form);
	if (for_each_case(b, run_case, NULL, err) < 0)
		return -1;
	b->phase = PHASE_COMMIT;
	if (b->o->tuning_out && b->rank == 0) {
		bench_fit(&b->found);
		if (tuning_write(&b->found, b->o->tuning_out, err) < 0)
			return -1;
	}
	return job_vote(b->job, NULL, err);
}

static int print_result(struct bench *b, const struct command *cmd, const char *collective,
                        const struct err *err)
{
	int code = err->code ? report(err, b->rank) : 0;
	if (!b->o->json)
		return code;
	int printed = report_json(json_pack(
	        "{s:s, s:b, s:o, s:o, s:s, s:O, s:o}", "command", cmd->name, "ok", !err->code,
	        "rank", b->rank >= 0 ? json_integer(b->rank) : json_null(), "size",
	        b->size ? json_integer(b->size) : json_null(), "collective", collective, "rows",
	        b->rows, "error",
	        err->code ? report_error_json(err, b->rank, phase_name(b->phase)) : json_null()));
	return code ? code : printed;
}

static void release(struct bench *b)
{
	free(b->algorithms);
	free(b->off);
	free(b->merge_off);
	free(b->times);
	json_decref(b->rows);
	tuning_release(&b->tuning);
	tuning_release(&b->found);
	joining_release(&b->joining);
}

int cmd_bench(const struct command *cmd, struct options *o, int argc, char **argv)
{
	struct bench b = {.o = o, .rank = -1, .rows = json_array()};
	struct err err = {.rank = ERR_RANK_SELF};
	(void)argc;
	b.form = o->json ? BENCH_JSON : o->csv ? BENCH_CSV : BENCH_TABLE;
	if (check_options(&b, argv[1], &err) == 0 && joining_init(&b.joining, o, &err) == 0) {
		b.rank = b.joining.conf.rank >= 0 ? b.joining.conf.rank : -1;
		b.size = b.joining.conf.size;
		if (check_size(&b, &err) == 0)
			b.job = job_open(&b.joining.conf, &err);
	}
	if (b.job && run(&b, argv[1], &err) < 0)
		job_fail(b.job, &err);
	else if (b.wrong)
		err_set(&err, ERR_INTEGRITY, "%llu elements of the results are wrong",
		        (unsigned long long)b.wrong);
	int code = print_result(&b, cmd, argv[1], &err);
	job_close(b.job);
	release(&b);
	return code;
}
