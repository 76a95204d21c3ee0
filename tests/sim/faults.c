/* The faults of a job: which, when, and what each does. */
#include "tests/model/collective_model.h"
#include "tests/sim/job.h"

#include <signal.h>

#include "lib/job/job.h"

static int64_t some_time(void)
{
	return now + rng_scale(&job.rng, 100 * US, 3 * SEC);
}

int random_host(void)
{
	return job.hosts[below((uint64_t)job.size)];
}

static struct proc *random_proc(void)
{
	return job.procs[below((uint64_t)job.size)];
}

/* Faults end with the job: the deadline of all is some time after the last of them. */
void extend(int64_t until)
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

static void reset_lane(void *a, uint64_t number)
{
	const int lane = net_lane(number);
	(void)a;
	if (lane >= 0 && net_reset(lane))
		strikes(LANES);
}

void break_lane(void)
{
	if (!has(LANES) || !job.lanes)
		return;
	job.lanes--;
	at(now + rng_scale(&insider.rng, US, 50 * MS), reset_lane, NULL, rng_next(&insider.rng));
}

static void reset_new_lane(void *a, uint64_t number)
{
	(void)a;
	if (net_reset((int)number))
		strikes(LANES);
}

/* After a short write of its answer the acceptor ends the connection, too: the dialler would wait
 * too long. */
void break_new_lane(int which)
{
	if (!job.breaks_early || has(SHORT_IO) || !has(LANES) || !job.lanes ||
	    !rng_chance(&job.early, 500))
		return;
	job.lanes--;
	at(now + rng_scale(&job.early, US, 100 * US), reset_new_lane, NULL, (uint64_t)which);
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

void power_fails(int host)
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

static void reset_link(void *a, uint64_t number)
{
	(void)a;
	if (net_reset((int)number))
		strikes(BREAKS);
}

/* At times rank 0 dies with its host soon after: nobody can be asked for the verdict. */
void break_link(int fd)
{
	const int number = net_number_of(fd);
	if (!has(BREAKS) || current->rank != job.breaks || number < 0)
		return;
	at(now + job.breaks_after, reset_link, NULL, (uint64_t)number);
	if (rng_chance(&job.fewer, 250))
		at(now + job.breaks_after + rng_scale(&job.fewer, US, 10 * MS), host_dies, NULL,
		   (uint64_t)job.hosts[0]);
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

void start_ranks(void)
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
		if ((has(MISSING) && r == late) || job.absent >> r & 1) {
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
void set_bounded_faults(void)
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
void set_unbounded_faults(void)
{
	static const int signals[] = {SIGTERM, SIGINT, SIGHUP, SIGTERM};
	for (uint64_t n = has(CRASH) ? 1 + below(2) : 0; n; n--)
		random_proc()->kill_at = 1 + (chance(300) ? below(3000) : below(900));
	if (has(HOST_DIES))
		at(some_time(), host_dies, NULL, (uint64_t)random_host());
	for (uint64_t n = has(RESET) ? 1 + below(3) : 0; n; n--)
		at(some_time(), reset, NULL, below(1000));
	job.breaks = (int)below((uint64_t)job.size);
	job.breaks_after = rng_scale(&job.rng, US, 100 * MS);
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

/* Does @p wait for a MOVED that the insider withholds? An honest coordinator sends its own once it
 * has those of all ranks. */
static bool awaits_insider(const struct proc *p)
{
	return p->moved && !p->all_moved && (insider.coordinates || !insider.proc->moved);
}

/* An insider that only speaks can keep the others for ever, if it withholds its MOVED, its VOTE or
 * its DONE, or a coordinator its MOVED or its VERDICT: it ends some time after all else must have.
 */
static void end_insider(void *a, uint64_t b)
{
	(void)a, (void)b;
	for (int r = 0; r < job.size; r++) {
		struct proc *p = job.procs[r];
		p->kept = p->state == PROC_RUNS && !p->voted && !awaits_insider(p);
	}
	proc_kill(insider.proc, 128 + SIGKILL);
}

void set_insider(void)
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

/* At most as often as a job goes back. */
static void draw_lanes(void)
{
	if (job.size == 1 || job.kind == COLL_BARRIER || job.insider >= 0 ||
	    !rng_chance(&insider.rng, 250))
		return;
	job.faults |= BIT(LANES);
	job.lanes = 1 + (int)rng_below(&insider.rng, JOB_RECONNECTS_MOST);
}

void draw_setting(void)
{
	job.tls = chance(150);
	job.store = chance(600);
	job.bounded = chance(450);
	draw_faults();
	draw_insider();
	draw_lanes();
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

/* Some jobs of the kinds that can go on without some ranks. Drawn apart, as the insider. */
void draw_fewer(void)
{
	struct rng *rng = &job.fewer;
	const bool fits = job.kind == COLL_ALLREDUCE || job.kind == COLL_REDUCE ||
	                  job.kind == COLL_BROADCAST || job.kind == COLL_BARRIER;
	/* The second of two rank 0s may begin a round after that of the first, with who is left. */
	if (!fits || job.size == 1 || has(INSIDER) || has(TWICE) || !rng_chance(rng, 500))
		return;
	const int least = job.store && !job.automatic ? 1 : job.size / 2 + 1;
	job.fewest = (int)rng_range(rng, least, job.size);
	job.grace = rng_scale(rng, 10 * MS, job.join_timeout / 2);
	if (reduces() && dtype_is_float(job.dtype) && rng_chance(rng, 700))
		job.op = REDUCE_AVG; /* of whole numbers: exact but for the division */
	/* Often nothing can end the job but that ranks are lost that it may do without. */
	if (job.fewest < job.size && !job.automatic && !has(RESTART) && rng_chance(rng, 400)) {
		job.bounded = false;
		job.faults &= BIT(LATENCY) | BIT(SMALL_BUFFERS) | BIT(SLOW_DISK) | BIT(LANES);
		job.faults |= rng_chance(rng, 700) ? BIT(CRASH) : BIT(HOST_DIES);
		job.timeout = rng_range(rng, 4 * SEC, 20 * SEC);
		job.join_timeout = rng_range(rng, 30 * SEC, 90 * SEC);
	}
	/* Without numbers any rank may coordinate: who is absent is only known without them. */
	for (int r = 1, left = job.size - job.fewest; r < job.size && left; r++)
		if (r != job.root && !has(RESTART) && rng_chance(rng, 250)) {
			job.absent |= 1u << r;
			job.faults |= BIT(ABSENT);
			left--;
		}
}
