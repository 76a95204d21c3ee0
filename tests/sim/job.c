/* Draws a job from a seed, and runs it. */
#include "algorithms/table.h"
#include "tests/model/collective_model.h"
#include "tests/sim/job.h"

#include <signal.h>
#include <stdarg.h>

#define SWITCHES_MOST 3000000

static const char *const names[FAULTS] = {
        "latency",      "small-buffers", "short-io",  "pause",   "partition",  "store-fails",
        "stale-record", "restart",       "slow-disk", "late",    "replay",     "scan",
        "crash",        "host-dies",     "reset",     "cut",     "long-pause", "disk-fails",
        "store-lies",   "signal",        "flips",     "missing", "twice",      "breaks",
        "insider",      "lanes",         "absent"};

static const struct {
	enum dtype dtype;
	const char *descr;
} types[] = {{DTYPE_I32, "<i4"},
             {DTYPE_I64, "<i8"},
             {DTYPE_U8, "|u1"},
             {DTYPE_F32, "<f4"},
             {DTYPE_F64, "<f8"}};

static const enum reduce_op ops[] = {REDUCE_SUM,  REDUCE_PROD, REDUCE_MIN, REDUCE_MAX,
                                     REDUCE_BAND, REDUCE_BOR,  REDUCE_BXOR};
#define OPS       (sizeof ops / sizeof ops[0])
#define FLOAT_OPS 4 /* of them */

struct job job;
unsigned insiders = 250;

const char *fault_name(int bit)
{
	return names[bit];
}

int fault_names(void)
{
	return FAULTS;
}

/* ---- drawing what is computed ---- */

static const char *draw_algorithm(void)
{
	const struct coll_algorithm *fit[64];
	uint64_t n = 0;
	for (size_t i = 0; i < coll_algorithms_len && n < 64; i++) {
		const struct coll_algorithm *a = coll_algorithms[i];
		bool divergent = (a->flags & COLL_DIVERGENT) && dtype_is_float(job.dtype);
		if (a->kind == job.kind && !divergent && !(a->flags & COLL_DEVICES))
			fit[n++] = a;
	}
	return n && !chance(400) ? fit[below(n)]->name : "auto";
}

static int64_t draw_value(void)
{
	int64_t v = (int64_t)below(201) - 100;
	if (job.op == REDUCE_PROD && reduces())
		v = (int64_t)below(2) + 1;
	return job.dtype == DTYPE_U8 ? v & 255 : v;
}

static void draw_work(void)
{
	static const enum coll_kind kinds[] = {
	        COLL_ALLREDUCE, COLL_ALLREDUCE, COLL_ALLREDUCE, COLL_REDUCE,    COLL_REDUCE_SCATTER,
	        COLL_BROADCAST, COLL_SCATTER,   COLL_GATHER,    COLL_ALLGATHER, COLL_ALLTOALL,
	        COLL_SCAN,      COLL_EXSCAN,    COLL_BARRIER};
	job.size = 1 + (int)below(chance(300) ? 8 : 4);
	job.kind = kinds[below(sizeof kinds / sizeof kinds[0])];
	const uint64_t type = below(sizeof types / sizeof types[0]);
	job.dtype = types[type].dtype;
	job.descr = types[type].descr;
	job.op = ops[below(dtype_is_float(job.dtype) ? FLOAT_OPS : OPS)];
	job.root = rooted() ? (int)below((uint64_t)job.size) : 0;
	job.algorithm = draw_algorithm();
	job.streams = chance(300) ? 1 + (int)below(3) : 0;
	job.sync = !chance(500);
	job.memory = chance(200) ? (64u << 10) << below(4) : 0; /* windows */
	job.ordered = reduces() && strcmp(job.algorithm, "auto") == 0 && chance(200);
	bool same_rows = reduces();
	uint64_t rows = chance(80) ? 8000 + below(12000) : (uint64_t)rng_scale(&job.rng, 0, 3000);
	for (int r = 0; r < job.size; r++) {
		job.rows[r] = same_rows || chance(500) ? rows : below(rows + 1);
		job.ninputs[r] =
		        reduces() && job.kind != COLL_SCAN && job.kind != COLL_EXSCAN && chance(200)
		                ? 2
		                : 1;
		for (int i = 0; i < job.ninputs[r]; i++) {
			job.in[r][i] = world_alloc(bytes_of(job.rows[r] + 1));
			for (uint64_t k = 0; k < job.rows[r]; k++)
				model_encode(job.dtype, (double)draw_value(),
				             job.in[r][i] + bytes_of(k));
		}
	}
	job.counts = (job.kind == COLL_REDUCE_SCATTER || job.kind == COLL_SCATTER) && chance(300);
	uint64_t left = job.rows[job.root], parts[RANKS_MOST + 1] = {0};
	for (int r = 0; r < job.size; r++) {
		const uint64_t n = r == job.size - 1 ? left : below(left + 1);
		parts[r + 1] = parts[r] + n;
		left -= n;
	}
	for (int r = 0; r < job.size; r++)
		if (job.counts)
			memcpy(job.cuts[r], parts, sizeof parts);
		else
			model_split(job.rows[r], job.size, job.cuts[r]);
}

/* ---- command lines ---- */

static void arg(struct proc *p, const char *fmt, ...)
{
	va_list ap;
	if (p->argc == ARGS_MOST)
		abort();
	va_start(ap, fmt);
	if (vasprintf(&p->argv[p->argc++], fmt, ap) < 0)
		abort();
	va_end(ap);
}

static void counts_arg(struct proc *p)
{
	char text[256] = "";
	for (int r = 0; r < job.size; r++) {
		size_t at_ = strlen(text);
		snprintf(text + at_, sizeof text - at_, "%s%llu", r ? "," : "",
		         (unsigned long long)(job.cuts[job.root][r + 1] - job.cuts[job.root][r]));
	}
	arg(p, "--counts");
	arg(p, "%s", text);
}

struct proc *make_proc(int r)
{
	struct proc *p = proc_new(r, job.hosts[r]);
	p->given = p->number = job.automatic ? -1 : r;
	arg(p, "collctl");
	arg(p, "%s", coll_name(job.kind));
	arg(p, "-n%d", job.size);
	if (job.automatic)
		arg(p, "-rauto");
	else
		arg(p, "-r%d", r);
	if (job.store)
		arg(p, "-Rhttp://10.0.0.%d:8500", STORE_HOST + 1);
	else
		arg(p, "-Hhosts");
	arg(p, job.tls ? "--secret-file=secret" : "--insecure");
	arg(p, "--retry=1");
	if (tracing)
		arg(p, "-vv");
	arg(p, "--timeout=%lldms", (long long)(job.timeout / MS));
	arg(p, "--join-timeout=%lldms", (long long)(job.join_timeout / MS));
	if (job.fewest) {
		arg(p, "--min-ranks=%d", job.fewest);
		arg(p, "--grace=%lldms", (long long)(job.grace / MS));
	}
	if (strcmp(job.algorithm, "auto") != 0)
		arg(p, "--algorithm=%s", job.algorithm);
	if (job.kind == COLL_BARRIER)
		return p;
	/* The simulated hosts share no memory, and the simulator decides which thread runs. */
	arg(p, "--lanes=tcp");
	arg(p, "--threads=1");
	if (rooted())
		arg(p, "--root=%d", job.root);
	if (reduces())
		arg(p, "--op=%s", reduce_op_name(job.op));
	if (job.streams)
		arg(p, "--streams=%d", job.streams);
	if (job.memory)
		arg(p, "--memory=%llu", (unsigned long long)job.memory);
	if (job.ordered)
		arg(p, "--order=rank");
	if (!job.sync)
		arg(p, "--no-sync");
	if (job.counts)
		counts_arg(p);
	arg(p, "-or%d/out.npy", r);
	for (int i = 0; has_input(r) && i < job.ninputs[r]; i++)
		arg(p, "r%d/in%d.npy", r, i);
	return p;
}

/* ---- a run ---- */

static void describe(struct verdict *v)
{
	size_t at_ = 0;
	char text[1200];
	at_ += (size_t)snprintf(text, sizeof text,
	                        "  %s regime, faults:", job.bounded ? "bounded" : "unbounded");
	for (int i = 0; i < FAULTS; i++)
		if (job.faults >> i & 1)
			at_ += (size_t)snprintf(text + at_, sizeof text - at_, " %s%s", names[i],
			                        job.struck >> i & 1 ? "" : " (none struck)");
	complain(v, "%s", text);
	if (insider.proc)
		complain(v, "  insider: process %d, %llu times", insider.proc->id,
		         (unsigned long long)insider.said);
	for (int i = 0; i < nprocs; i++) {
		static const char *const states[] = {"did not start", "did not end", "ended",
		                                     "killed"};
		const struct proc *p = &procs[i];
		at_ = (size_t)snprintf(text, sizeof text, "  %d: %s %d at %.3f s:", i,
		                       states[p->state], p->code,
		                       (double)(p->ended ? p->ended - 1000 * SEC : -SEC) / 1e9);
		for (int k = 1; k < p->argc && at_ < sizeof text; k++)
			at_ += (size_t)snprintf(text + at_, sizeof text - at_, " %s", p->argv[k]);
		complain(v, "%s", text);
		if (*said(p))
			complain(v, "     %.300s", said(p));
	}
}

void job_simulate(uint64_t seed, struct verdict *v)
{
	memset(v, 0, sizeof *v);
	v->ok = true;
	sched_begin();
	memset(&job, 0, sizeof job);
	job.rng.s = seed * 0x9e3779b97f4a7c15u + 1;
	sched_rng.s = rng_next(&job.rng);
	net_rng.s = rng_next(&job.rng);
	product_rng.s = rng_next(&job.rng);
	insider_begin();
	insider.rng.s = job.rng.s ^ 0x6a09e667f3bcc909u;
	job.fewer.s = job.rng.s ^ 0xbb67ae8584caa73bu;
	job.early.s = job.rng.s ^ 0x3c6ef372fe94f82bu;
	job.breaks_early = rng_chance(&job.early, 500);
	net_begin();
	disk_begin();
	store_begin();
	draw_work();
	draw_setting();
	draw_fewer();
	expect(all_ranks());
	int64_t began = now;
	extend(now);
	if (has(RESTART))
		job.first = make_proc(0);
	for (int r = 0; r < job.size; r++)
		job.procs[r] = make_proc(r);
	if (has(INSIDER))
		set_insider();
	write_files();
	set_bounded_faults();
	if (!job.bounded)
		set_unbounded_faults();
	start_ranks();
	bool ended = sched_run(&job.deadline, SWITCHES_MOST);
	if (!ended)
		complain(v, "%s",
		         switches >= SWITCHES_MOST ? "goes round in circles" : "a rank hangs");
	else {
		/* Who has ended with 0 has stored its output. */
		if (chance(500))
			power_fails(random_host());
		if (insider.proc)
			judge_insider(v);
		else
			judge(v);
		judge_leftovers(v);
		judge_names(v);
	}
	bool ok = v->ok;
	if (!ok || tracing)
		describe(v);
	for (int i = 0; i < nprocs; i++)
		proc_kill(&procs[i], 128 + SIGKILL);
	v->ok = ok;
	v->bounded = job.bounded;
	v->faults = job.faults;
	v->trace = trace;
	v->switches = switches;
	v->virtual_ns = now - began;
	disk_begin();
	store_end();
	world_free_all();
}
