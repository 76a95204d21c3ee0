/*
 * bench: sweeps a collective by size and algorithm inside one job. The ranks join once; the mesh
 * has the edges of every schedule of the sweep. Vectors are in memory: bench uses no files.
 *
 * Iterations follow one another without a barrier, as in nccl-tests: in collectives in which no
 * rank waits for the last one, a time is then how often one can be done in a second. With
 * --barrier, and for a tuning file, a barrier comes before each iteration, and a time is how long
 * one takes, as in a job. Each rank measures each iteration. An iteration's time is the largest of
 * all ranks; an allreduce over the same mesh finds it after the case.
 */
#include "algorithms/table.h"
#include "lib/coll/bench/bench.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/base/sort.h"
#include "lib/base/fields.h"
#include "lib/coll/agreement/offer.h"
#include "lib/coll/drive.h"
#include "lib/coll/files/written.h"
#include "lib/coll/task.h"
#include "lib/price/fill.h"
#include "lib/price/tuning.h"

#define MEMORY (64u << 20) /* bytes for the connections' buffers */
/* Of the buffers of a case, generously: untouched pages cost nothing. */
#define ARENA_OF(bytes) (8 * (bytes) + (64ull << 20))
#define CHECK_RUNS      2          /* the second reuses the buffers of the first */
#define MERGE_BYTES     8          /* of a merged element: a time or a count */
#define NAMES_MAX       (1u << 20) /* bytes of the names of all cases' algorithms */

struct bench {
	struct coll *life;
	const struct coll_request *request;
	enum reduce_op op;
	enum dtype dtype;
	int rank, size;
	int host_cpus;   /* as in struct select_args */
	const int *host; /* likewise */
	struct bench_head head;

	const struct coll_algorithm **algorithms; /* of the sweep; NULL: auto */
	size_t nalgorithms;
	uint64_t *off, *merge_off; /* [size + 1] */
	uint64_t *weighted_off;    /* [size + 1]: of a case with COLL_WEIGHTED */
	struct network network;    /* on the coordinator, while it chooses */
	bool agreed;               /* terms are known */
	struct bench_terms terms;
	size_t turn;        /* of the next case that `auto` chooses, in terms.chosen */
	struct buf offered; /* the details of the intent */
	struct drive drive; /* the template for each case's drive */
	double *times;      /* [iters] */
	uint64_t wrong;     /* over all cases and ranks */
	struct select_tuning tuning, found; /* read; to write */
};

/* ---- figures ---- */

double bench_bus_factor(enum coll_kind kind, int size)
{
	double n = size;
	switch (kind) {
	case COLL_ALLREDUCE:
		return size > 1 ? 2 * (n - 1) / n : 1;
	case COLL_REDUCE_SCATTER:
	case COLL_ALLGATHER:
	case COLL_GATHER:
	case COLL_SCATTER:
	case COLL_ALLTOALL:
		return size > 1 ? (n - 1) / n : 1;
	default:
		return 1;
	}
}

/* Is a size the bytes of the blocks of all ranks? */
static bool is_blocks(enum coll_kind kind)
{
	return kind == COLL_REDUCE_SCATTER || kind == COLL_ALLGATHER || kind == COLL_GATHER ||
	       kind == COLL_SCATTER || kind == COLL_ALLTOALL;
}

/* ---- options ---- */

static bool diverges(const struct bench *b, const struct coll_algorithm *alg)
{
	return (alg->flags & COLL_DIVERGENT) && coll_reduces(b->request->kind) &&
	       reduce_order_matters(b->op, b->dtype) && !b->request->divergent;
}

static int add_algorithm(struct bench *b, const char *name, struct err *err)
{
	const struct coll_algorithm *alg;
	if (request_algorithm(b->request->kind, name, &alg, err) < 0 ||
	    request_check_device(b->request, alg, err) < 0)
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
	const char *s = b->request->algorithm;
	if (!(b->algorithms = err_calloc(coll_algorithms_len + strlen(s) + 1, sizeof *b->algorithms,
	                                 "the algorithms", err)))
		return -1;
	if (strcmp(s, "all") == 0) {
		for (size_t i = 0; i < coll_algorithms_len; i++)
			if (coll_algorithms[i]->kind == b->request->kind &&
			    (b->request->devices.wanted ||
			     !(coll_algorithms[i]->flags & COLL_DEVICES)) &&
			    !diverges(b, coll_algorithms[i]))
				b->algorithms[b->nalgorithms++] = coll_algorithms[i];
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

/* Choose the type and the operation. A barrier, and collectives that only move elements, need them
 * too. */
static int choose_operation(struct bench *b, struct err *err)
{
	const struct coll_request *r = b->request;
	b->op = r->op;
	b->dtype = r->bench.dtype;
	if (r->kind == COLL_BARRIER) {
		b->op = REDUCE_BAND;
		b->dtype = DTYPE_U8;
	} else if (!coll_reduces(r->kind) && reduce_op_defined(REDUCE_SUM, b->dtype)) {
		b->op = REDUCE_SUM;
	}
	if (!reduce_op_defined(b->op, b->dtype))
		return err_set(err, ERR_USAGE, "--op %s is not defined on %s",
		               reduce_op_name(r->op), dtype_name(b->dtype));
	return 0;
}

static int check(struct coll *life, struct err *err)
{
	struct bench *b = life->state;
	const struct coll_request *r = b->request = life->request;
	b->life = life;
	if (choose_operation(b, err) < 0)
		return -1;
	tuning_init(&b->tuning);
	if (r->tuning && tuning_read(&b->tuning, r->tuning, err) < 0)
		return -1;
	if (tuning_read_old(&b->found, r->tuning_out, err) < 0)
		return -1;
	return list_algorithms(b, err);
}

/* ---- the sweep ---- */

/* The size after @size; 0: none. */
static uint64_t next_size(const struct bench *b, uint64_t size)
{
	uint64_t factor = (uint64_t)b->request->bench.factor;
	if (b->request->kind == COLL_BARRIER || size > b->request->bench.maxbytes / factor)
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
	if (b->request->kind == COLL_BARRIER) {
		c->size = 0;
		c->count = 1;
	}
	coll_split(c->count, b->size, b->off);
	if (b->request->kind == COLL_BARRIER) /* its notice is in the first block */
		c->count = 0;
	c->args = (struct coll_args){
	        .rank = b->rank,
	        .size = b->size,
	        .root = b->request->root,
	        .ninputs = 1,
	        .off = b->off,
	        .host = b->host,
	        .base = (unsigned)b->request->base,
	        .steps = (unsigned)b->request->steps,
	        .esize = (unsigned)dtype_size(b->dtype),
	};
}

/* Choose the case's algorithm. 1: chosen; 0: skipped, because `all` skips algorithms that would
 * fall back to another; -1: error. */
static int choose(struct bench *b, size_t k, struct bench_case *c, struct err *err)
{
	const struct coll_algorithm *asked = b->algorithms[k];
	if (!asked && b->agreed) {
		if (b->turn == b->terms.n)
			return malformed(err, "ROSTER", "algorithm");
		asked = b->terms.chosen[b->turn++];
	} else if (!asked) {
		struct select_args s = {
		        .kind = b->request->kind,
		        .size = b->size,
		        .bytes = c->size,
		        .op = b->op,
		        .dtype = b->dtype,
		        .divergent = b->request->divergent,
		        .insecure = b->request->settings.insecure,
		        .memory = b->request->settings.lanes != JOB_LANES_TCP,
		        .base = c->args.base,
		        .steps = c->args.steps,
		        .root = c->args.root,
		        .network = b->network.n ? &b->network : NULL,
		        .host_cpus = b->host_cpus,
		        .host = b->host,
		        .tuning = b->request->tuning ? &b->tuning : NULL,
		};
		if (select_auto(&s, &asked, err) < 0)
			return -1;
		if (asked && b->network.n && bench_terms_add(&b->terms, asked, err) < 0)
			return -1;
	}
	if (!asked)
		return err_set(err, ERR_USAGE, "no algorithm of %s can run this job",
		               coll_name(b->request->kind));
	c->algorithm = coll_resolve(asked, &c->args);
	if (c->algorithm->flags & COLL_WEIGHTED && b->terms.shares) {
		fill_cuts(b->terms.shares, b->size, coll_count(&c->args), c->args.esize,
		          b->weighted_off);
		c->args.off = b->weighted_off;
	}
	return c->algorithm == asked || strcmp(b->request->algorithm, "all") != 0;
}

static int for_each_case(struct bench *b,
                         int (*fn)(struct bench *, struct bench_case *, void *ctx, struct err *),
                         void *ctx, struct err *err)
{
	uint64_t size = b->request->bench.minbytes;
	b->turn = 0;
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
	buf_put_text(names, c->algorithm->name);
	return 0;
}

/* Add the algorithms of all cases as facts, because the ranks' tuning files may differ. */
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

static int describe(struct bench *b, struct intent *in, struct err *err)
{
	const struct coll_request *r = b->request;
	char text[FACT_VALUE];
	in->memory = UINT64_MAX;
	in->ninputs = 1;
	intent_add(in, "--dtype", dtype_name(b->dtype)); /* with its default */
	snprintf(text, sizeof text, "%d", r->root);
	intent_add(in, "--root", text);
	intent_add(in, "--barrier",
	           b->head.barrier ? "given (or implied by --tuning-out)" : "not given");
	/* Without a tuning file the choice depends on the ranks' hosts, which are unknown here; all
	 * ranks then choose alike. */
	intent_add(in, "--tuning", r->tuning ? "given" : "not given");
	return add_algorithms(b, in, err);
}

static int add_edges(struct bench *b, struct bench_case *c, void *used, struct err *err)
{
	(void)b;
	return exec_edges(c->algorithm, &c->args, used, err);
}

static struct drive drive_of(const struct bench *b, const struct exec_vector *vector)
{
	struct drive d = b->drive;
	d.conf = (struct exec_conf){.vectors = vector, .nvectors = 1, .streams = 1, .repeat = true};
	return d;
}

/* ---- merging the times and counts of all ranks ---- */

struct merge {
	void *data;
};

static int merge_read(void *ctx, int vector, int input, void *buf, uint64_t pos, uint64_t n,
                      struct err *err)
{
	const struct merge *m = ctx;
	(void)vector;
	(void)input;
	(void)err;
	memcpy(buf, (const uint8_t *)m->data + pos * MERGE_BYTES, n * MERGE_BYTES);
	return 0;
}

static int merge_write(void *ctx, int vector, const void *buf, uint64_t pos, uint64_t n, bool final,
                       struct err *err)
{
	const struct merge *m = ctx;
	(void)vector;
	(void) final;
	(void)err;
	memcpy((uint8_t *)m->data + pos * MERGE_BYTES, buf, n * MERGE_BYTES);
	return 0;
}

static struct coll_args merge_args(struct bench *b, uint64_t count)
{
	coll_split(count, b->size, b->merge_off);
	return (struct coll_args){.rank = b->rank,
	                          .size = b->size,
	                          .ninputs = 1,
	                          .stores = true,
	                          .off = b->merge_off};
}

static const struct coll_algorithm *merge_algorithm(void)
{
	return coll_find(COLL_ALLREDUCE, "recursive_doubling");
}

/* Allreduce @data in place: times by max, counts by sum. */
static int merge(struct bench *b, void *data, uint64_t count, enum dtype dtype, enum reduce_op op,
                 struct err *err)
{
	struct merge m = {data};
	struct exec_vector vector = {
	        .algorithm = merge_algorithm(),
	        .args = merge_args(b, count),
	        .op = op,
	        .dtype = dtype,
	        .windows = 1,
	};
	struct drive d = drive_of(b, &vector);
	d.conf.io = (struct fileio_ops){merge_read, merge_write, &m};
	int ret = drive_run(&d, err);
	exec_free(d.exec);
	return ret;
}

/* ---- the barrier before an iteration ---- */

static int barrier_read(void *ctx, int vector, int input, void *buf, uint64_t pos, uint64_t n,
                        struct err *err)
{
	(void)ctx;
	(void)vector;
	(void)input;
	(void)pos;
	(void)err;
	memset(buf, 0, n);
	return 0;
}

/* Ranks leave it at nearly the same time. */
static const struct coll_algorithm *barrier_algorithm(void)
{
	return coll_find(COLL_BARRIER, "dissemination");
}

static struct exec_vector barrier_vector(struct bench *b)
{
	struct exec_vector v = {.algorithm = barrier_algorithm(),
	                        .args = merge_args(b, 1),
	                        .op = REDUCE_BAND,
	                        .dtype = DTYPE_U8,
	                        .windows = 1};

	v.args.stores = false;
	return v;
}

/* ---- a case ---- */

/* Run the schedule of @d to its end, iteration @i. */
static int iterate(struct drive *d, int i, struct err *err)
{
	if (i)
		exec_repeat(d->exec);
	return drive_go(d, err);
}

static int run_drive(struct bench *b, const struct bench_case *c, struct bench_values *v,
                     struct err *err)
{
	bool timed = !v->checking;
	struct exec_vector vector = {
	        .algorithm = c->algorithm,
	        .args = c->args,
	        .op = b->op,
	        .dtype = b->dtype,
	        .divisor = b->size,
	        .windows = 1,
	};
	vector.args.stores = v->checking;
	vector.args.devices = devices_count(b->life->devices);
	vector.args.unlinked = devices_are_unlinked(b->life->devices);
	const struct exec_vector notice = barrier_vector(b);
	struct drive d = drive_of(b, &vector), barrier = drive_of(b, &notice);
	const bool waits = timed && b->head.barrier;
	d.devices = b->life->devices;
	d.conf.io = (struct fileio_ops){bench_read, bench_write, v};
	barrier.conf.io.read = barrier_read;
	const int runs = timed ? b->request->bench.warmup + b->request->bench.iters : CHECK_RUNS;
	barrier.files.fd = d.files.fd = -1;
	int ret = waits ? drive_begin(&barrier, err) : 0;
	if (ret == 0)
		ret = drive_begin(&d, err);
	v->filled = timed;
	for (int i = 0; ret == 0 && i < runs; i++) {
		if (waits && (ret = iterate(&barrier, i, err)) < 0)
			break;
		int64_t began = clock_ns();
		ret = iterate(&d, i, err);
		if (timed && i >= b->request->bench.warmup)
			b->times[i - b->request->bench.warmup] =
			        (double)(clock_ns() - began) / NS_PER_SEC;
	}
	drive_end(&d);
	drive_end(&barrier);
	exec_free(d.exec);
	exec_free(barrier.exec);
	return ret;
}

static int check_values(struct bench *b, const struct bench_case *c, struct bench_row *row,
                        struct err *err)
{
	struct bench_values v = {.kind = b->request->kind,
	                         .op = b->op,
	                         .dtype = b->dtype,
	                         .divisor = b->size,
	                         .args = &c->args,
	                         .checking = true,
	                         .buf = err_malloc(BENCH_SCRATCH, "the values", err)};
	if (!v.buf)
		return -1;
	int ret = run_drive(b, c, &v, err);
	free(v.buf);
	row->checked = true;
	row->wrong = v.wrong;
	if (ret == 0)
		ret = merge(b, &row->wrong, 1, DTYPE_U64, REDUCE_SUM, err);
	b->wrong += row->wrong;
	return ret;
}

/* The smallest of the sorted times such that a fraction @share of them is no larger. */
static double percentile(const double *times, int n, double share)
{
	int k = (int)(share * n + 0.999999) - 1;
	return times[k < 0 ? 0 : k];
}

static void fill_row(const struct bench *b, const struct bench_case *c, struct bench_row *row)
{
	int n = b->request->bench.iters;
	sort_doubles(b->times, (size_t)n);
	row->algorithm = c->algorithm;
	row->size = c->count * dtype_size(b->dtype);
	row->count = is_blocks(b->request->kind) ? c->count / (uint64_t)b->size : c->count;
	row->min = b->times[0];
	row->p50 = percentile(b->times, n, 0.5);
	row->p99 = percentile(b->times, n, 0.99);
	row->algbw = row->p50 > 0 ? (double)row->size / row->p50 : 0;
	row->busbw = row->algbw * bench_bus_factor(b->request->kind, b->size);
}

static int record(struct bench *b, const struct bench_row *row, struct err *err)
{
	struct select_measured m = {.alg = row->algorithm,
	                            .size = b->size,
	                            .secure = !b->request->settings.insecure,
	                            .memory = b->head.memory_lanes > 0 && !b->head.tcp_lanes,
	                            .bytes = row->size,
	                            .seconds = row->p50};
	return b->size > 1 && row->size && row->p50 > 0 ? tuning_add(&b->found, &m, err) : 0;
}

static int run_case(struct bench *b, struct bench_case *c, void *ctx, struct err *err)
{
	struct bench_row row = {0};
	struct bench_values v = {.dtype = b->dtype, .args = &c->args};
	const struct coll_observer *o = b->life->observer;
	(void)ctx;
	if ((b->request->bench.check && check_values(b, c, &row, err) < 0) ||
	    run_drive(b, c, &v, err) < 0 ||
	    merge(b, b->times, (uint64_t)b->request->bench.iters, DTYPE_F64, REDUCE_MAX, err) < 0)
		return -1;
	fill_row(b, c, &row);
	if (o->measured)
		o->measured(o->ctx, &b->head, &row);
	return b->request->tuning_out && b->rank == 0 ? record(b, &row, err) : 0;
}

/* Measure the devices. The ranks agree on --barrier but not on --tuning-out, so they merge their
 * rates, of which some have none, wherever a rank may write a file. */
static int measure_devices(struct bench *b, struct err *err)
{
	struct bench_device_rates rates = {0};
	struct coll *life = b->life;
	if (!b->head.barrier)
		return 0;
	if (b->request->tuning_out && life->devices &&
	    bench_devices(life->job, life->devices, coll_memory(life), coll_device_memory(life),
	                  &rates, err) < 0)
		return -1;
	if (merge(b, &rates, BENCH_DEVICE_RATES, DTYPE_F64, REDUCE_MAX, err) < 0)
		return -1;
	bench_device_set(&b->found.rates, &rates);
	return 0;
}

/* ---- stages ---- */

static int make_room(struct bench *b, struct err *err)
{
	size_t n = (size_t)b->size + 1;
	b->off = err_calloc(n, sizeof *b->off, "the blocks", err);
	b->merge_off = err_calloc(n, sizeof *b->merge_off, "the blocks", err);
	b->weighted_off = err_calloc(n, sizeof *b->weighted_off, "the blocks", err);
	b->times = err_calloc((size_t)b->request->bench.iters, sizeof *b->times, "the times", err);
	if (!b->off || !b->merge_off || !b->weighted_off || !b->times)
		return -1;
	b->head = (struct bench_head){
	        .collective = coll_name(b->request->kind),
	        .op = coll_reduces(b->request->kind) ? reduce_op_name(b->op) : "none",
	        .dtype = b->dtype,
	        .rank = b->rank,
	        .size = b->size,
	        .warmup = b->request->bench.warmup,
	        .iters = b->request->bench.iters,
	        .insecure = b->request->settings.insecure,
	        .barrier = b->request->bench.barrier || b->request->tuning_out,
	        .barrier_auto = b->request->kind == COLL_BARRIER &&
	                        strcmp(b->request->algorithm, "auto") == 0,
	};
	return 0;
}

static int offer(struct coll *life, struct err *err)
{
	struct bench *b = life->state;
	b->rank = life->rank;
	b->size = life->size;
	if (make_room(b, err) < 0)
		return -1;
	const struct network_found link = coll_offered_link(life);
	buf_init(&b->offered, DETAILS_MAX);
	message_put(&network_found_message, &link, &b->offered);
	if (b->offered.failed)
		return err_nomem(err, "the bench", DETAILS_MAX);
	life->intent.details = view_of(b->offered.data, b->offered.len);
	return describe(b, &life->intent, err);
}

static int pass(struct bench *b, struct bench_case *c, void *ctx, struct err *err)
{
	(void)b;
	(void)c;
	(void)ctx;
	(void)err;
	return 0;
}

/* On the coordinator: choose the algorithms, and the shares, by the links of all hosts. */
static int decide(void *ctx, const struct intent *const *intents, struct plan *plan,
                  struct err *err)
{
	struct coll *life = ctx;
	struct bench *b = life->state;
	const struct coll_request *r = b->request;
	struct network *n = &b->network;
	plan->windows = plan->streams = 1;
	b->host_cpus = (int)plan->host_cpus;
	b->host = plan->host;
	int ret = bench_network(n, b->host, b->size, intents, r->tuning, err);
	const struct coll_args args = {.size = b->size, .root = r->root, .host = b->host};
	if (ret == 0)
		ret = coll_find_network(life, b->host, r->tuning ? &b->tuning : NULL, n, err);
	if (ret == 0) {
		b->terms.shares =
		        err_calloc((size_t)b->size, sizeof *b->terms.shares, "the shares", err);
		ret = b->terms.shares ? network_shares(n, r->kind, &args, b->terms.shares, err)
		                      : -1;
	}
	if (ret == 0)
		ret = for_each_case(b, pass, NULL, err);
	network_release(n);
	return ret;
}

static void terms(void *ctx, int rank, struct buf *out)
{
	const struct coll *life = ctx;
	const struct bench *b = life->state;
	(void)rank;
	bench_terms_put(out, &b->terms, b->size);
}

static int adopt(struct coll *life, struct err *err)
{
	struct bench *b = life->state;
	struct err why = ERR_INIT;
	bench_terms_release(&b->terms);
	b->host_cpus = (int)life->plan.host_cpus;
	b->host = life->plan.host;
	b->agreed = true;
	if (bench_terms_get(life->plan.details, b->request->kind, b->size, &b->terms, &why) == 0 &&
	    for_each_case(b, pass, NULL, &why) == 0)
		return 0;
	return err_rank(err, why.code,
	                why.code == ERR_RESOURCE ? ERR_RANK_SELF : job_coordinator(life->job), "%s",
	                why.text);
}

static bool meshes(const struct coll *life)
{
	(void)life;
	return true;
}

static int connect_all(struct coll *life, struct err *err)
{
	struct bench *b = life->state;
	uint8_t *used = err_calloc((size_t)b->size, 1, "the edges", err);
	struct exec_vector vector = {.args = merge_args(b, (uint64_t)b->size)};
	b->drive = (struct drive){.job = life->job,
	                          .memory = MEMORY,
	                          .window_bytes = ARENA_OF(b->request->bench.maxbytes),
	                          .lane_bytes = b->request->bench.maxbytes};
	struct drive d = drive_of(b, &vector);
	int ret = used ? 0 : -1;
	if (ret == 0)
		ret = exec_edges(merge_algorithm(), &vector.args, used, err);
	const struct exec_vector notice = barrier_vector(b);
	if (ret == 0 && b->rank == 0)
		ret = written_probe(b->request, err);
	if (ret == 0 && b->head.barrier)
		ret = exec_edges(barrier_algorithm(), &notice.args, used, err);
	if (ret == 0)
		ret = for_each_case(b, add_edges, used, err);
	if (ret == 0)
		ret = drive_connect_edges(&d, used, err);
	b->drive.mesh = d.mesh;
	free(used);
	return ret;
}

static int run(struct coll *life, struct err *err)
{
	struct bench *b = life->state;
	const struct coll_observer *o = life->observer;
	if (b->drive.mesh)
		mesh_count(b->drive.mesh, &b->head.memory_lanes, &b->head.tcp_lanes);
	if (b->rank == 0 && o->measuring)
		o->measuring(o->ctx, &b->head);
	return measure_devices(b, err) < 0 ? -1 : for_each_case(b, run_case, NULL, err);
}

static int seal(struct coll *life, const uint8_t **digest, struct err *err)
{
	struct bench *b = life->state;
	const struct coll_observer *o = life->observer;
	const char *out = b->request->tuning_out;
	(void)digest;
	if (b->rank == 0 && o->benched && o->benched(o->ctx, &b->head, err) < 0)
		return -1;
	if (!out || b->rank != 0)
		return 0;
	bench_fit(&b->found);
	return tuning_write(&b->found, out, err);
}

static void report(struct coll *life, struct coll_result *r)
{
	const struct bench *b = life->state;
	if (b->wrong)
		err_set(&r->err, ERR_INTEGRITY, "%llu elements of the results are wrong",
		        (unsigned long long)b->wrong);
}

static void release(struct coll *life)
{
	struct bench *b = life->state;
	free(b->algorithms);
	free(b->off);
	free(b->merge_off);
	free(b->weighted_off);
	bench_terms_release(&b->terms);
	network_release(&b->network);
	buf_release(&b->offered);
	free(b->times);
	tuning_release(&b->tuning);
	tuning_release(&b->found);
}

const struct coll_task coll_task_bench = {
        .state_size = sizeof(struct bench),
        .check = check,
        .offer = offer,
        .meshes = meshes,
        .decide = decide,
        .terms = terms,
        .adopt = adopt,
        .connect = connect_all,
        .run = run,
        .seal = seal,
        .report = report,
        .release = release,
};
