/* Draws a job and its faults from a seed, runs it, judges how it ended. */
#include "algorithms/table.h"
#include "tests/sim/sim.h"

#include <dirent.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lib/sched/sched.h"
#include "tests/model/collective_model.h"

#define SWITCHES_MOST 3000000
#define INPUTS_MOST   2
#define OLD           "the old output"
#define CONTROL_PORT  7766
#define SECRET        "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff\n"

enum fault {
	/* from which a job must end well, if they are bounded */
	LATENCY,
	SMALL_BUFFERS,
	SHORT_IO,
	PAUSE,
	PARTITION,
	STORE_FAILS,
	STALE_RECORD,
	RESTART,
	SLOW_DISK,
	LATE,
	REPLAY,
	SCAN,
	/* from which it may fail */
	CRASH,
	HOST_DIES,
	RESET,
	CUT,
	LONG_PAUSE,
	DISK_FAILS,
	STORE_LIES,
	SIGNALS,
	FLIPS,
	MISSING,
	TWICE,
	/* drawn apart */
	INSIDER,
	FAULTS
};

static const char *const names[FAULTS] = {
        "latency",      "small-buffers", "short-io",  "pause",   "partition",  "store-fails",
        "stale-record", "restart",       "slow-disk", "late",    "replay",     "scan",
        "crash",        "host-dies",     "reset",     "cut",     "long-pause", "disk-fails",
        "store-lies",   "signal",        "flips",     "missing", "twice",      "insider"};

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

#define BIT(fault) (1u << (fault))
#define LOSSES     (~0u << CRASH)

struct job {
	enum coll_kind kind;
	int size, root;
	enum dtype dtype;
	const char *descr;
	enum reduce_op op;
	bool tls, store, automatic, counts, sync;
	const char *algorithm;
	uint64_t rows[RANKS_MOST]; /* of each rank's input */
	/* Where its part for each rank begins; with --counts as they say. */
	uint64_t cuts[RANKS_MOST][RANKS_MOST + 1];
	int ninputs[RANKS_MOST];
	uint8_t *in[RANKS_MOST][INPUTS_MOST];
	int hosts[RANKS_MOST];
	bool had_old[RANKS_MOST];
	int streams;
	uint64_t memory; /* 0: the default */
	bool ordered;
	int64_t timeout, join_timeout;
	bool bounded;
	unsigned faults;           /* drawn: bits */
	unsigned struck;           /* happened while ranks ran: bits */
	int signalled;             /* signals that processes got */
	int crashed;               /* processes that crashed */
	unsigned dark;             /* hosts whose power has failed: bits */
	uint8_t *want[RANKS_MOST]; /* the outputs; NULL: this rank has none */
	uint64_t nwant[RANKS_MOST];
	struct proc *procs[RANKS_MOST]; /* whose end counts */
	struct proc *first;             /* the coordinator before its restart */
	int insider;                    /* its rank; -1: nobody */
	int64_t deadline;
	struct rng rng;
};

static struct job job;
unsigned insiders = 250;

const char *fault_name(int bit)
{
	return names[bit];
}

int fault_names(void)
{
	return FAULTS;
}

static uint64_t below(uint64_t n)
{
	return rng_below(&job.rng, n);
}

static bool chance(unsigned per_mille)
{
	return rng_chance(&job.rng, per_mille);
}

/* ---- drawing what is computed ---- */

static bool reduces(void)
{
	return coll_reduces(job.kind);
}

static bool rooted(void)
{
	return job.kind == COLL_REDUCE || job.kind == COLL_BROADCAST || job.kind == COLL_SCATTER ||
	       job.kind == COLL_GATHER;
}

static bool has_input(int r)
{
	return (job.kind != COLL_BROADCAST && job.kind != COLL_SCATTER) || r == job.root;
}

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

static size_t bytes_of(uint64_t rows)
{
	return rows * dtype_size(job.dtype);
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

/* ---- what must come out ---- */

static struct model model_of_job(void)
{
	struct model m = {.kind = job.kind,
	                  .size = job.size,
	                  .root = job.root,
	                  .dtype = job.dtype,
	                  .op = job.op};
	for (int r = 0; r < job.size; r++) {
		m.rows[r] = job.rows[r];
		m.cut[r] = job.cuts[r];
		m.ninputs[r] = job.ninputs[r];
		for (int i = 0; i < job.ninputs[r]; i++)
			m.in[r][i] = job.in[r][i];
	}
	return m;
}

static void expect(void)
{
	const struct model m = model_of_job();
	for (int r = 0; r < job.size; r++) {
		if (job.kind == COLL_BARRIER || !model_has_output(&m, r))
			continue;
		job.nwant[r] = model_rows(&m, r);
		job.want[r] = world_alloc(bytes_of(job.nwant[r] + 1));
		for (uint64_t k = 0; k < job.nwant[r]; k++)
			model_element(&m, r, k, job.want[r] + bytes_of(k));
	}
}

/* ---- files ---- */

static void write_file(const char *path, const void *data, size_t n)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	if (fd < 0 || write(fd, data, n) != (ssize_t)n || close(fd) < 0) {
		perror(path);
		exit(2);
	}
}

static void write_input(int r, int i)
{
	size_t n = bytes_of(job.rows[r]);
	uint8_t *file = world_alloc(128 + n);
	char path[32];
	memcpy(file, "\x93NUMPY\x01\x00\x76\x00", 10);
	int len = snprintf((char *)file + 10, 118,
	                   "{'descr': '%s', 'fortran_order': False, 'shape': (%llu,), }", job.descr,
	                   (unsigned long long)job.rows[r]);
	memset(file + 10 + len, ' ', (size_t)(117 - len));
	file[127] = '\n';
	memcpy(file + 128, job.in[r][i], n);
	snprintf(path, sizeof path, "r%d/in%d.npy", r, i);
	write_file(path, file, 128 + n);
}

/* Remove all files of rank @r; how many names were there besides the inputs and the output? */
static int clear_folder(int r)
{
	char path[400];
	int strange = 0;
	snprintf(path, sizeof path, "r%d", r);
	mkdir(path, 0700);
	DIR *d = opendir(path);
	for (struct dirent *e; d && (e = readdir(d));) {
		if (strcmp(e->d_name, ".") == 0 || strcmp(e->d_name, "..") == 0)
			continue;
		strange += strncmp(e->d_name, "in", 2) != 0 && strcmp(e->d_name, "out.npy") != 0;
		snprintf(path, sizeof path, "r%d/%s", r, e->d_name);
		unlink(path);
	}
	if (d)
		closedir(d);
	return strange;
}

static void write_files(void)
{
	char path[32], text[512] = "";
	for (int r = 0; r < job.size; r++) {
		clear_folder(r);
		for (int i = 0; has_input(r) && job.kind != COLL_BARRIER && i < job.ninputs[r]; i++)
			write_input(r, i);
		snprintf(path, sizeof path, "r%d/out.npy", r);
		job.had_old[r] = chance(500);
		if (job.had_old[r])
			write_file(path, OLD, strlen(OLD));
		size_t at_ = strlen(text);
		snprintf(text + at_, sizeof text - at_, "h%d%s\n", job.hosts[r], r ? "" : ":7766");
	}
	write_file("hosts", text, strlen(text));
	write_file("secret", SECRET, strlen(SECRET));
}

enum found { FOUND_OLD, FOUND_NEW, FOUND_WRONG };

static enum found look_at_output(int r)
{
	char path[32], shape[64], descr[32];
	snprintf(path, sizeof path, "r%d/out.npy", r);
	FILE *f = fopen(path, "r");
	if (!f)
		return job.had_old[r] ? FOUND_WRONG : FOUND_OLD;
	size_t n = job.want[r] ? bytes_of(job.nwant[r]) : 0, cap = n + 4096;
	uint8_t *file = world_alloc(cap + 1);
	size_t got = fread(file, 1, cap, f);
	fclose(f);
	if (job.had_old[r] && got == strlen(OLD) && memcmp(file, OLD, got) == 0)
		return FOUND_OLD;
	if (!job.want[r] || got < 10 + n || memcmp(file, "\x93NUMPY", 6) != 0)
		return FOUND_WRONG;
	size_t header = 10 + (size_t)file[8] + 256 * (size_t)file[9];
	snprintf(shape, sizeof shape, "(%llu,)", (unsigned long long)job.nwant[r]);
	snprintf(descr, sizeof descr, "'%s'", job.descr);
	if (got != header + n || memcmp(file + header, job.want[r], n) != 0)
		return FOUND_WRONG;
	file[header] = '\0';
	return strstr((char *)file + 10, shape) && strstr((char *)file + 10, descr) ? FOUND_NEW
	                                                                            : FOUND_WRONG;
}

/* A whole .npy file, whatever is in it? *@sum then identifies its bytes. An insider may have given
 * any input. */
static bool is_whole(int r, uint64_t *sum)
{
	char path[32], *shape, *descr;
	uint64_t n = 1;
	struct stat st;
	snprintf(path, sizeof path, "r%d/out.npy", r);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, &st) < 0 || st.st_size > 64 << 20)
		return fd >= 0 && close(fd) != 0;
	const size_t len = (size_t)st.st_size;
	uint8_t *file = world_alloc(len + 1);
	bool whole = read(fd, file, len) == (ssize_t)len && len > 10 &&
	             memcmp(file, "\x93NUMPY", 6) == 0;
	close(fd);
	const size_t header = 10 + (whole ? (size_t)file[8] + 256 * (size_t)file[9] : 0);
	if (!whole || header > len)
		return false;
	*sum = 14695981039346656037u;
	for (size_t i = 0; i < len; i++)
		*sum = (*sum ^ file[i]) * 0x100000001b3u;
	file[header - 1] = '\0';
	shape = strstr((char *)file + 10, "'shape': (");
	descr = strstr((char *)file + 10, "'descr': '");
	if (!shape || !descr)
		return false;
	for (char *p = shape + 10; *p != ')';) {
		n *= strtoull(p, &p, 10);
		p += strspn(p, ", ");
	}
	return len - header == n * strtoull(descr + 12, NULL, 10);
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

static struct proc *make_proc(int r)
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

/* ---- faults ---- */

static bool has(enum fault f)
{
	return job.faults >> f & 1;
}

static void strikes(enum fault f)
{
	job.struck |= 1u << f;
}

static int64_t some_time(void)
{
	return now + rng_scale(&job.rng, 100 * US, 3 * SEC);
}

static int random_host(void)
{
	return job.hosts[below((uint64_t)job.size)];
}

static struct proc *random_proc(void)
{
	return job.procs[below((uint64_t)job.size)];
}

/* Faults end with the job: the deadline of all is some time after the last of them. */
static void extend(int64_t until)
{
	int64_t least = until + job.join_timeout + 8 * job.timeout + 60 * SEC;
	if (job.deadline < least)
		job.deadline = least;
}

static void block(void *a, uint64_t b)
{
	(void)a;
	strikes(b >> 8 ? CUT : PARTITION);
	link_block((int)(b / 16 % 16), (int)(b % 16));
}

static void release(void *a, uint64_t b)
{
	(void)a;
	link_release((int)(b / 16), (int)(b % 16));
}

/* Stop one direction of a link at @begin for @ns; 0: for ever. */
static void stop_link(enum fault f, int from, int to, int64_t begin, int64_t ns)
{
	uint64_t link = (uint64_t)from * 16 + (uint64_t)to;
	at(begin, block, NULL, link | (uint64_t)(f == CUT) << 8);
	if (ns) {
		at(begin + ns, release, NULL, link);
		extend(begin + ns);
	}
}

/* @most 0: for ever. All links of a host, or one, or several; each stopped and released at times of
 * its own. */
static void partition(enum fault f, int64_t most)
{
	int host = random_host(), other = chance(200) && job.store ? STORE_HOST : random_host();
	bool all = chance(400), both = chance(600);
	int64_t begin = some_time();
	for (int r = 0; r < HOSTS_MOST; r++) {
		if (r == host || (!all && r != other && !chance(200)))
			continue;
		int64_t spread = rng_scale(&job.rng, 0, most ? most / 2 : SEC);
		int64_t ns = most ? 1 + rng_range(&job.rng, 0, most / 2) : 0;
		bool out = both || chance(500), in = both || !out;
		if (out)
			stop_link(f, host, r, begin + (int64_t)below((uint64_t)spread + 1), ns);
		if (in)
			stop_link(f, r, host, begin + (int64_t)below((uint64_t)spread + 1), ns);
	}
}

static void pause_proc(void *a, uint64_t ns)
{
	strikes((int64_t)ns > job.timeout / 4 ? LONG_PAUSE : PAUSE);
	proc_pause(a, now + (int64_t)ns);
}

static void pause_at(struct proc *p, int64_t when, int64_t ns)
{
	at(when, pause_proc, p, (uint64_t)ns);
	extend(when + ns);
}

static void reset(void *a, uint64_t b)
{
	(void)a;
	if (net_connections() && net_reset((int)(b % (uint64_t)net_connections())))
		strikes(RESET);
}

static void scan(void *a, uint64_t b)
{
	(void)a;
	net_scan((int)(b >> 1), b & 1);
}

static void send_signal(void *a, uint64_t sig)
{
	struct proc *p = a;
	if (p->state == PROC_RUNS) {
		strikes(SIGNALS);
		job.signalled++;
	}
	proc_signal(p, (int)sig);
}

static void power_fails(int host)
{
	if (!job.sync) /* --no-sync promises nothing */
		return;
	disk_power_fails(host, &job.rng);
	job.dark |= 1u << host;
}

static void host_dies(void *a, uint64_t host)
{
	(void)a;
	strikes(HOST_DIES);
	net_host_dies((int)host);
	for (int i = 0; i < nprocs; i++)
		if (procs[i].host == (int)host && procs[i].state == PROC_NEW)
			procs[i].state = PROC_KILLED;
		else if (procs[i].host == (int)host)
			proc_kill(&procs[i], 128 + SIGKILL);
	power_fails((int)host);
}

static void set_latencies(void)
{
	int64_t scale = rng_scale(&job.rng, 50 * US, 40 * MS);
	unsigned tail = chance(400) ? (unsigned)below(30) : 0;
	for (int i = 0; i < HOSTS_MOST; i++)
		for (int k = 0; k < HOSTS_MOST; k++) {
			if (i == k)
				continue;
			links[i][k].least = rng_scale(&job.rng, 10 * US, scale);
			links[i][k].most = links[i][k].least + rng_scale(&job.rng, 10 * US, scale);
			links[i][k].tail = tail;
		}
}

/* When the first coordinator has written its record it is killed; then the ranks come. */
static void wait_for_record(void *a, uint64_t tries)
{
	if (!store_puts && tries) {
		at(now + MS, wait_for_record, a, tries - 1);
		return;
	}
	proc_kill(job.first, 128 + SIGKILL);
	for (int r = 0; r < job.size; r++) {
		job.procs[r]->started = now + job.procs[r]->started;
		proc_start(job.procs[r]);
	}
}

static void start_ranks(void)
{
	int64_t spread = rng_scale(&job.rng, 10 * US, 300 * MS);
	int late = has(LATE) ? (int)below((uint64_t)job.size) : -1;
	for (int r = 0; r < job.size; r++) {
		int64_t delay = rng_range(&job.rng, 0, spread);
		if (r == late)
			delay += rng_range(&job.rng, 0, job.join_timeout / 4);
		job.procs[r]->started = delay;
	}
	if (job.first) {
		proc_start(job.first);
		at(now + MS, wait_for_record, NULL, 5000);
		return;
	}
	for (int r = 0; r < job.size; r++) {
		struct proc *p = job.procs[r];
		if (has(MISSING) && r == late) {
			proc_kill(p, 128 + SIGKILL);
			continue;
		}
		p->started += now;
		proc_start(p);
	}
}

static void plant_record(void)
{
	static const int ports[] = {22, 4242, 8080};
	char record[200];
	int host = chance(500) ? STRANGER_HOST : random_host();
	int port = ports[below(3)];
	if (chance(700))
		net_stranger(port, (enum stranger)(1 + below(3)));
	snprintf(record, sizeof record, "{\"v\":1,\"addr\":\"10.0.0.%d:%d\",\"nonce\":\"%032d\"}",
	         host + 1, port, 7);
	store_plant("collctl/default", record);
}

static void set_disk(struct proc *p)
{
	static const int errors[] = {ENOSPC, EIO, EDQUOT};
	if (chance(300)) {
		p->disk.room = below(30000);
	} else if (chance(150)) {
		p->disk.read_fails_at = 1 + below(4);
	} else {
		p->disk.fail_at = 1 + below(14);
		p->disk.fail_errno = errors[below(3)];
		p->disk.fail_on = chance(500);
	}
}

static void set_store_faults(void)
{
	struct store_conf *s = &store_faults;
	s->errors = chance(400) ? (unsigned)below(800) : 0;
	s->refuses = chance(400) ? (unsigned)below(800) : 0;
	s->breaks = chance(400) ? (unsigned)below(500) : 0;
	s->loses = !job.bounded && chance(300) ? (unsigned)below(300) : 0;
	s->drops = !job.bounded && chance(300) ? (unsigned)below(300) : 0;
	s->slow = chance(400) ? rng_scale(&job.rng, MS, SEC) : 0;
	/* Ranks without numbers could each take the place of the coordinator that it forgets. */
	s->forgets = !(job.bounded && job.automatic) && chance(400) ? (unsigned)below(100) : 0;
	s->forgets_puts = s->forgets ? (unsigned)below(1000) : 0;
	s->lies = has(STORE_LIES) ? (unsigned)below(500) : 0;
	s->heals = job.bounded ? now + rng_scale(&job.rng, 10 * MS, 4 * SEC) : NEVER;
}

/* What must not hurt. */
static void set_bounded_faults(void)
{
	int64_t most = job.timeout / 4; /* that a rank or a link stands still */
	if (job.store && !job.tls && most > 4 * SEC)
		most = 4 * SEC; /* see permitted(): no dial is given up */
	if (has(LATENCY))
		set_latencies();
	if (has(SMALL_BUFFERS)) {
		/* The answer to an opening always fits the buffer of a new connection. */
		net.send_most = (size_t)rng_scale(&job.rng, job.tls ? 1000 : 100, 8192);
		net.receive_most = (size_t)rng_scale(&job.rng, job.tls ? 1000 : 100, 8192);
	}
	if (has(SHORT_IO))
		net.short_io = 1 + (unsigned)below(700);
	for (uint64_t n = has(PAUSE) ? 1 + below(2) : 0; n; n--)
		pause_at(random_proc(), some_time(), rng_scale(&job.rng, MS, most));
	if (has(PARTITION))
		partition(PARTITION, most);
	if (has(SLOW_DISK)) {
		struct proc *p = random_proc();
		p->disk.slow = rng_scale(&job.rng, 10 * US, 30 * MS);
		p->disk.slow_sync = rng_scale(&job.rng, 10 * US, most);
	}
	if (has(STORE_FAILS) || has(STORE_LIES))
		set_store_faults();
	if (has(STALE_RECORD))
		plant_record();
	if (has(REPLAY)) {
		net.replays = true;
		/* Without TLS who repeats the opening of a lane has the lane. */
		net.replays_hellos_only = !job.tls;
		net.replay_after = rng_scale(&job.rng, 10 * US, SEC);
	}
	for (uint64_t n = has(SCAN) ? 1 + below(5) : 0; n; n--)
		at(some_time(), scan, NULL, below(1000));
}

/* What may make a job fail, but nothing wrong. */
static void set_unbounded_faults(void)
{
	static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGTERM};
	for (uint64_t n = has(CRASH) ? 1 + below(2) : 0; n; n--)
		random_proc()->kill_at = 1 + (chance(300) ? below(3000) : below(900));
	if (has(HOST_DIES))
		at(some_time(), host_dies, NULL, (uint64_t)random_host());
	for (uint64_t n = has(RESET) ? 1 + below(3) : 0; n; n--)
		at(some_time(), reset, NULL, below(1000));
	if (has(CUT))
		partition(CUT, chance(500) ? 0 : 3 * job.timeout);
	if (has(LONG_PAUSE))
		pause_at(random_proc(), some_time(),
		         rng_scale(&job.rng, job.timeout / 2, 100 * SEC));
	if (has(DISK_FAILS))
		set_disk(random_proc());
	for (uint64_t n = has(SIGNALS) ? 1 + below(2) : 0; n; n--)
		at(some_time(), send_signal, random_proc(), (uint64_t)signals[below(4)]);
	if (has(FLIPS))
		net.flips = 1000 + (unsigned)below(100000);
	if (has(TWICE)) {
		struct proc *p = make_proc((int)below((uint64_t)job.size));
		p->started = some_time();
		proc_start(p);
	}
}

/* An insider that only speaks can keep the others for ever: it ends some time after all else must
 * have. Who has not voted by then was kept by it. */
static void end_insider(void *a, uint64_t b)
{
	(void)a, (void)b;
	for (int r = 0; r < job.size; r++)
		job.procs[r]->kept = job.procs[r]->state == PROC_RUNS;
	proc_kill(insider.proc, 128 + SIGKILL);
}

static void set_insider(void)
{
	struct rng *rng = &insider.rng;
	const int r = job.insider;
	insider_draw(job.procs[r], job.size, !job.automatic && r == 0);
	/* Its input is its own affair. */
	for (int i = 0; i < job.ninputs[r] && rng_chance(rng, 300); i++)
		for (uint64_t k = 0; k < job.rows[r]; k++) {
			uint8_t *x = job.in[r][i] + bytes_of(k);
			model_encode(job.dtype,
			             model_number(job.dtype, x) + (double)rng_below(rng, 2), x);
		}
	const int64_t end = now + job.join_timeout + 8 * job.timeout + 30 * SEC;
	at(end, end_insider, NULL, 0);
	extend(end);
}

static void draw_faults(void)
{
	int n = job.bounded ? CRASH : INSIDER;
	for (uint64_t i = below(4); i; i--)
		job.faults |= 1u << below((uint64_t)n);
	if (!job.bounded && job.faults >> CRASH == 0)
		job.faults |= 1u << (CRASH + below(INSIDER - CRASH));
	unsigned for_stores = BIT(STORE_FAILS) | BIT(STORE_LIES) | BIT(STALE_RECORD) | BIT(RESTART);
	if (job.faults & for_stores)
		job.store = true;
	if (has(STALE_RECORD) && has(RESTART))
		job.faults &= ~(BIT(RESTART));
	/* A record without a MAC is no record of a job with TLS, and nobody else's either: rank 0
	 * waits for it to go. */
	if (has(STALE_RECORD))
		job.tls = false;
	if (has(MISSING))
		job.faults |= BIT(LATE);
}

/* Most insiders are the only fault. */
static void draw_insider(void)
{
	job.insider = -1;
	if (job.size == 1 || !rng_chance(&insider.rng, insiders))
		return;
	job.bounded = false;
	job.faults &= rng_chance(&insider.rng, 600)
	                      ? 0
	                      : ~(BIT(RESTART) | BIT(TWICE) | BIT(STALE_RECORD) | BIT(MISSING));
	job.faults |= BIT(INSIDER);
	job.insider = rng_chance(&insider.rng, 400)
	                      ? 0
	                      : (int)rng_below(&insider.rng, (uint64_t)job.size);
}

static void draw_setting(void)
{
	job.tls = chance(150);
	job.store = chance(600);
	job.bounded = chance(450);
	draw_faults();
	draw_insider();
	job.automatic = job.store && !rooted() && !has(RESTART) && !has(TWICE) &&
	                !(has(REPLAY) && !job.tls) && chance(250);
	for (int r = 0; r < job.size; r++)
		job.hosts[r] = job.store && r && chance(250) ? job.hosts[r - 1] : r;
	job.timeout = (4 + (int64_t)below(20)) * SEC;
	job.join_timeout = (30 + (int64_t)below(60)) * SEC;
	if (!job.bounded) {
		job.timeout = rng_scale(&job.rng, 500 * MS, 10 * SEC);
		job.join_timeout = rng_scale(&job.rng, SEC, 30 * SEC);
	}
}

/* ---- judging ---- */

/* No other process was started as this rank. */
static bool is_alone(int r)
{
	for (int i = 0; i < nprocs; i++)
		if (&procs[i] != job.procs[r] && procs[i].rank == r)
			return false;
	return true;
}

/* Which faults have happened? Those of a kind that goes on all the time have, if drawn. */
static void find_struck(void)
{
	static const enum fault steady[] = {LATENCY,      SMALL_BUFFERS, SHORT_IO, SLOW_DISK,
	                                    STALE_RECORD, RESTART,       LATE,     REPLAY,
	                                    SCAN,         MISSING};
	for (size_t i = 0; i < sizeof steady / sizeof steady[0]; i++)
		job.struck |= job.faults & 1u << steady[i];
	if (store_faults.struck)
		job.struck |= job.faults & (BIT(STORE_FAILS) | BIT(STORE_LIES));
	if (net.struck)
		strikes(FLIPS);
	if (insider.said)
		strikes(INSIDER);
	for (int i = 0; i < nprocs; i++) {
		const struct proc *p = &procs[i];
		if (p->kill_at && p->steps >= p->kill_at) {
			strikes(CRASH);
			job.crashed++;
		}
		if (p->disk.struck)
			strikes(DISK_FAILS);
		if (has(TWICE) && !is_alone(p->rank) && p->started <= now)
			strikes(TWICE);
	}
}

static bool struck(unsigned faults)
{
	return job.struck & faults;
}

/* Did a rank that dialled again end because its seat was taken? */
static bool has_lost_seat(void)
{
	for (int i = 0; i < nprocs; i++)
		if (procs[i].code == 7 && procs[i].redialled)
			return true;
	return false;
}

/* Does a fault that happened explain the exit code of @p? */
static bool permitted(const struct proc *p)
{
	int c = p->code;
	switch (c) {
	case 0:
		return true;
	case 5:
		/* Pauses may be longer than a short time to join. */
		return struck(LOSSES | BIT(STORE_FAILS) | BIT(STALE_RECORD) | BIT(PAUSE) |
		              BIT(PARTITION));
	case 8:
		/* A rank that waits for the last one is lost to the others when its time to join
		 * ends. So is the first of two processes of one rank, if the store fails another
		 * rank; and a rank that dials again and finds its seat taken. A barrier reports the
		 * links whose dials all ended as in case 9. */
		return struck((LOSSES & ~(BIT(MISSING) | BIT(TWICE))) | BIT(LATE)) ||
		       (struck(BIT(TWICE)) && struck(BIT(STORE_FAILS))) || has_lost_seat() ||
		       (job.kind == COLL_BARRIER && struck(BIT(SHORT_IO)));
	case 9:
		/* An answer to an opening that is written short ends the connection; in a short
		 * timeout all dials may end so. A rank that joined a late coordinator gives up when
		 * its time to join ends. A flipped length makes the reader wait. */
		return struck(BIT(CUT) | BIT(LONG_PAUSE) | BIT(HOST_DIES) | BIT(SHORT_IO) |
		              BIT(LATE) | BIT(FLIPS));
	case 3:
	case 4:
		return struck(BIT(DISK_FAILS));
	case 6:
		return struck(BIT(FLIPS) | BIT(STORE_LIES));
	case 10:
		return struck(BIT(FLIPS));
	case 7: /* for a rank whose seat is taken */
		return p->redialled || !is_alone(p->rank);
	case 128 + SIGTERM:
	case 128 + SIGINT:
	case 128 + SIGHUP:
		return struck(BIT(SIGNALS));
	default:
		return false;
	}
}

static void complain(struct verdict *v, const char *fmt, ...)
{
	size_t len = strlen(v->text);
	va_list ap;
	v->ok = false;
	va_start(ap, fmt);
	vsnprintf(v->text + len, sizeof v->text - len, fmt, ap);
	va_end(ap);
	len = strlen(v->text);
	snprintf(v->text + len, sizeof v->text - len, "\n");
}

static const char *said(const struct proc *p)
{
	return p->said.text;
}

static void judge_rank(struct verdict *v, int r, enum found found)
{
	const struct proc *p = job.procs[r];
	bool killed = p->state == PROC_KILLED;
	if (found == FOUND_WRONG)
		complain(v, "rank %d: its output is neither the old one nor the right one", r);
	if (!killed && p->code == 0 && job.want[r] && found != FOUND_NEW)
		complain(v, "rank %d: ended with 0 without its new output", r);
	/* Where a rank could not name its output, the others have theirs, and name that rank. */
	if (!killed && p->code != 0 && found == FOUND_NEW && p->code != 4 &&
	    !strstr(said(p), "after the verdict") && !has(DISK_FAILS) && is_alone(r))
		complain(v, "rank %d: ended with %d, has its new output and does not say so", r,
		         p->code);
	if (job.bounded && p->code != 0)
		complain(v, "rank %d: ended with %d where all faults were bounded", r, p->code);
	if (!job.bounded && !killed && !permitted(p))
		complain(v, "rank %d: ended with %d, which no fault of this job explains", r,
		         p->code);
}

static bool lists_links(const char *line)
{
	int n;
	char word[8];
	return sscanf(line, "collctl: rank %*d (%*[^)]): %d %7[a-z] failed:", &n, word) == 2 &&
	       strncmp(word, "link", 4) == 0;
}

/* The rank that @p names in its last message, -1: none; a list of failed links names none. */
static int culprit(const struct proc *p)
{
	int rank = -1;
	for (const char *line = said(p); line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, "collctl: the job begins again", 29) == 0)
			continue;
		if (strncmp(line, "collctl: ", 9) == 0 &&
		    (sscanf(line, "collctl: rank %d", &rank) != 1 || lists_links(line)))
			rank = -1;
	}
	return rank;
}

/* Who was not ended by a signal, and whose failure is that of the job: not who never joined because
 * the store failed it, or its seat was taken, nor who can't know the missing rank's number, nor who
 * cannot resolve the address that an insider gave. */
static bool must_agree(const struct proc *p)
{
	bool unsure = job.automatic || insider.proc || struck(BIT(STORE_FAILS) | BIT(STALE_RECORD));
	bool alone = p->code == 7 || (p->code == 5 && unsure);
	return p->state == PROC_ENDED && p->code < 128 && !alone && p != insider.proc;
}

/* May a rank have been out of contact with the others, have read other bytes, or failed, too? Where
 * a rank came late, those who waited for it may also give the coordinator up before its own time to
 * join ends, and it names one of them. */
static bool out_of_contact(void)
{
	const unsigned harmless = BIT(CRASH) | BIT(DISK_FAILS) | BIT(SIGNALS) | BIT(MISSING);
	const unsigned failures = job.struck & (harmless & ~BIT(MISSING));
	/* Who fails itself names itself. */
	bool several = (failures & (failures - 1)) || job.signalled > 1 || job.crashed > 1;
	return several || struck(LOSSES & ~harmless) || struck(BIT(PAUSE) | BIT(PARTITION)) ||
	       (struck(BIT(LATE)) && !struck(BIT(MISSING)));
}

/* What the last message of @p says, without its own number, the culprit's host and, of the loss of
 * the coordinator, what it was doing itself. */
static const char *cause(const struct proc *p, int rank, char *text, size_t cap)
{
	const char *last = "";
	int own, used = 0;
	for (const char *line = said(p); line; line = strchr(line, '\n')) {
		line += *line == '\n';
		if (strncmp(line, "collctl: ", 9) == 0 &&
		    strncmp(line + 9, "the job begins", 14) != 0)
			last = line + 9;
	}
	const bool named = sscanf(last, "rank %d%n", &own, &used) == 1;
	const char *rest = last + used; /* the host is named as far as a rank knows it */
	if (strncmp(rest, " (", 2) == 0 && strchr(rest, ')'))
		rest = strchr(rest, ')') + 1;
	if (named && own != rank)
		snprintf(text, cap, "rank %d%.*s", own, (int)strcspn(rest, "\n"), rest);
	else
		snprintf(text, cap, "%.*s", (int)strcspn(rest, "\n"), rest);
	static const char *const phases[] = {" while ", " during ", " before it gave the verdict"};
	for (size_t i = 0; i < 3; i++) {
		char *phase = strstr(text, phases[i]);
		if (phase && (culprit(p) == 0 || job.automatic))
			*phase = '\0';
	}
	return text;
}

/* All surviving ranks name one culprit, with one code and one text; but who had not joined when the
 * others lost a rank ends with 5. */
static void judge_agreement(struct verdict *v)
{
	int first = -1;
	for (int r = 0; r < job.size; r++) {
		const struct proc *p = job.procs[r];
		if (!must_agree(p))
			continue;
		first = first < 0 ? r : first;
		const struct proc *q = job.procs[first];
		bool codes = p->code == q->code || p->code == 5 || q->code == 5;
		if (!codes || culprit(p) != culprit(q))
			complain(
			        v,
			        "rank %d: ended with %d and names %d, but rank %d with %d names %d",
			        first, q->code, culprit(q), r, p->code, culprit(p));
		char one[1024], other[1024];
		if (p->code == q->code && p->code != 5 &&
		    strcmp(cause(q, -1, one, sizeof one), cause(p, -1, other, sizeof other)) != 0 &&
		    strcmp(cause(q, first, one, sizeof one), cause(p, r, other, sizeof other)) != 0)
			complain(v, "rank %d says '%s', but rank %d '%s'", first, one, r, other);
	}
}

/* What must not be there: files outside the ranks' folders. */
static void judge_names(struct verdict *v)
{
	DIR *d = opendir(".");
	for (struct dirent *e; d && (e = readdir(d));) {
		int r = e->d_name[0] == 'r' ? atoi(e->d_name + 1) : -1;
		bool known = e->d_name[0] == '.' || strcmp(e->d_name, "hosts") == 0 ||
		             strcmp(e->d_name, "secret") == 0 || (r >= 0 && r < RANKS_MOST);
		if (!known)
			complain(v, "there is a file '%s'", e->d_name);
	}
	if (d)
		closedir(d);
}

static bool is_honest(int r)
{
	return job.procs[r] != insider.proc;
}

/* No fault but the insider and what every job must bear. */
static bool only_insider(void)
{
	return !struck(~(BIT(INSIDER) | BIT(LATENCY) | BIT(SMALL_BUFFERS) | BIT(SHORT_IO) |
	                 BIT(REPLAY) | BIT(SCAN)));
}

/* The digests of a result that all ranks have are compared. */
static bool is_compared(void)
{
	return job.kind == COLL_ALLREDUCE || job.kind == COLL_BROADCAST ||
	       job.kind == COLL_ALLGATHER;
}

/* An honest rank beside an insider. Returns whether it has committed. */
static bool judge_honest(struct verdict *v, int r, uint64_t *sum)
{
	const struct proc *p = job.procs[r];
	const enum found found = look_at_output(r);
	const bool zero = p->state == PROC_ENDED && p->code == 0;
	*sum = 0;
	if ((found == FOUND_WRONG || found == FOUND_NEW) && (!is_whole(r, sum) || !job.want[r]))
		complain(v, "rank %d: its output is neither the old one nor a whole one", r);
	if (zero && job.want[r] && found == FOUND_OLD)
		complain(v, "rank %d: ended with 0 without its new output", r);
	if (p->misled && (zero || p->named_at))
		complain(v, "rank %d: committed although %s", r, p->misled);
	if (p->misled && insider.once && only_insider() && p->code != 10)
		complain(v, "rank %d: ended with %d although %s", r, p->code, p->misled);
	if ((zero || p->named_at) && !p->voted)
		complain(v, "rank %d: committed without its vote", r);
	if (p->kept && !p->voted && only_insider())
		complain(v, "rank %d: is kept by the insider, and has not voted", r);
	return zero || p->named_at;
}

/*
 * An honest coordinator gives its verdict when all honest ranks have voted, and for equal results
 * where the ranks compare them. A lying one can give it to some.
 */
static void judge_insider(struct verdict *v)
{
	uint64_t sums[RANKS_MOST];
	int committed = -1;
	find_struck();
	for (int r = 0; r < job.size; r++)
		if (is_honest(r) && judge_honest(v, r, &sums[r]))
			committed = r;
	for (int r = 0; committed >= 0 && !insider.coordinates && r < job.size; r++) {
		if (!is_honest(r))
			continue;
		if (!job.procs[r]->voted)
			complain(v, "rank %d: has not voted, but rank %d has committed", r,
			         committed);
		if (job.procs[r]->again)
			complain(v, "rank %d: would begin again, but the verdict was given", r);
		if (is_compared() && sums[r] && sums[committed] && sums[r] != sums[committed])
			complain(v, "ranks %d and %d: committed different results", r, committed);
	}
	if (committed < 0 && !insider.coordinates && !insider.poses && only_insider())
		judge_agreement(v);
}

/* The files that an ended rank leaves. */
static void judge_leftovers(struct verdict *v)
{
	for (int r = 0; r < job.size; r++) {
		bool survived = true;
		for (int i = 0; i < nprocs; i++)
			survived &= procs[i].rank != r || procs[i].state == PROC_ENDED;
		int left = clear_folder(r);
		/* Where a folder could not be synced, names may come back when the power fails. */
		bool back = struck(BIT(DISK_FAILS)) && (job.dark >> job.hosts[r] & 1);
		if (survived && left && !back)
			complain(v, "rank %d: left %d temporary files", r, left);
	}
}

static void judge(struct verdict *v)
{
	enum found found[RANKS_MOST];
	bool zero = false, named = false;
	find_struck();
	for (int i = 0; i < nprocs; i++)
		zero |= procs[i].state == PROC_ENDED && procs[i].code == 0;
	v->succeeded = true;
	for (int r = 0; r < job.size; r++) {
		found[r] = look_at_output(r);
		named |= found[r] == FOUND_NEW;
		v->succeeded &= job.procs[r]->code == 0;
		judge_rank(v, r, found[r]);
	}
	for (int r = 0; r < job.size && job.kind != COLL_BARRIER; r++) {
		const struct proc *p = job.procs[r];
		if (zero && job.want[r] && found[r] != FOUND_NEW)
			complain(v, "rank %d: has the old output where another rank ended with 0",
			         r);
		if (named && job.want[r] && !p->sealed && is_alone(r))
			complain(v,
			         "rank %d: never finished its output, but another rank's has "
			         "replaced the old one",
			         r);
	}
	bool given = zero || named, verdict = given; /* may have been given */
	for (int r = 0; r < job.size; r++) {
		given |= strstr(said(job.procs[r]), "after the verdict") != NULL;
		verdict |= strstr(said(job.procs[r]), "the verdict") != NULL;
	}
	for (int r = 0; given && r < job.size; r++)
		if (job.procs[r]->again && is_alone(r))
			complain(v, "rank %d: would begin again, but the verdict was given", r);
	if (!verdict && !out_of_contact())
		judge_agreement(v);
}

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
	net_begin();
	disk_begin();
	store_begin();
	draw_work();
	draw_setting();
	expect();
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
