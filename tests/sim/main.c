/*
 * sim [--seed N] [--jobs N] [--insiders N] [--workers N] [--until-failure] [--trace] [--twice]:
 * simulate jobs with the seeds N, N + 1, ..., of which N per mille have an insider; each that goes
 * wrong prints its seed and how to replay it. Exit code 1 if one did or if not all were done, 2 for
 * a wrong option, 128 + the number of a signal.
 */
#include "tests/sim/sim.h"

#include <ctype.h>
#include <getopt.h>
#include <openssl/rand.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define BATCH        100 /* jobs of one process: what killed ranks leave in memory goes with it */
#define FAULTS_MOST  32
#define WORKERS_MOST 64

struct tally {
	_Atomic uint64_t next, done, failed, succeeded, bounded, switches, with[FAULTS_MOST], sum;
	_Atomic uint64_t first_failed;
	_Atomic bool stop;
	_Atomic int signal;
	_Atomic uint64_t at[WORKERS_MOST]; /* the job that each worker is at, counted from 0 */
};

struct options {
	uint64_t seed, jobs;
	int workers;
	bool until_failure, trace, twice;
};

static struct options options = {.seed = 1, .jobs = 1000, .workers = 1};
static struct tally *tally;
static char folder[256];

static int seeded_bytes(unsigned char *buf, int n)
{
	rng_bytes(&product_rng, buf, (size_t)n);
	return 1;
}

static int seeded_status(void)
{
	return 1;
}

static void seed_openssl(void)
{
	static const RAND_METHOD method = {
	        .bytes = seeded_bytes, .pseudorand = seeded_bytes, .status = seeded_status};
	/* The one call that makes OpenSSL's random numbers follow from the seed. */
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wdeprecated-declarations"
	RAND_set_rand_method(&method);
#pragma GCC diagnostic pop
}

/* @text may be cut: whatever follows begins a line. */
static void print_lines(const char *text)
{
	const size_t n = strlen(text);
	printf("%s%s", text, n && text[n - 1] != '\n' ? "\n" : "");
}

static void failed(uint64_t seed, const char *text)
{
	uint64_t first = tally->first_failed;
	tally->failed++;
	while (seed < first && !atomic_compare_exchange_weak(&tally->first_failed, &first, seed))
		;
	if (options.until_failure)
		tally->stop = true;
	printf("FAILED seed %llu; again: make check-sim SEED=%llu JOBS=1 INSIDERS=%u\n",
	       (unsigned long long)seed, (unsigned long long)seed, insiders);
	print_lines(text);
	fflush(stdout);
}

static void count(uint64_t seed, const struct verdict *v)
{
	tally->done++;
	tally->succeeded += v->succeeded;
	tally->bounded += v->bounded;
	tally->switches += v->switches;
	tally->sum += v->trace * (2 * seed + 1);
	for (int i = 0; i < fault_names(); i++)
		tally->with[i] += v->faults >> i & 1;
	if (!v->ok)
		failed(seed, v->text);
}

static void simulate(uint64_t seed)
{
	struct verdict v, again;
	job_simulate(seed, &v);
	if (options.twice) {
		job_simulate(seed, &again);
		if (again.trace != v.trace || again.switches != v.switches) {
			v.ok = false;
			snprintf(v.text, sizeof v.text,
			         "the second run of this seed took another way\n");
		}
	}
	count(seed, &v);
	if (options.trace && v.ok)
		print_lines(v.text);
}

static void run_batch(uint64_t first, uint64_t end, int worker)
{
	char place[280];
	snprintf(place, sizeof place, "%s/%d", folder, worker);
	if (chdir(place) < 0) {
		perror(place);
		exit(2);
	}
	tracing = options.trace;
	for (uint64_t i = first; i < end && !tally->stop; i++) {
		alarm(60); /* of real time: the simulator itself hangs */
		simulate(options.seed + i);
		tally->at[worker] = i + 1;
	}
}

/* Run the jobs @first to @end - 1 in child processes: after a crash, another one goes on. */
static int run_apart(uint64_t first, uint64_t end, int worker)
{
	while (first < end && !tally->stop) {
		int status;
		char text[64];
		tally->at[worker] = first;
		pid_t pid = fork();
		if (pid == 0) {
			run_batch(first, end, worker);
			fflush(stdout);
			_exit(0);
		}
		if (pid < 0 || waitpid(pid, &status, 0) < 0) {
			perror("sim: a process for jobs");
			return -1;
		}
		first = tally->at[worker];
		if (status == 0 && (first == end || tally->stop))
			continue;
		snprintf(text, sizeof text, "the simulator ended with status %d\n", status);
		failed(options.seed + first, text);
		tally->done++;
		first++;
	}
	return 0;
}

static int work(int worker)
{
	while (!tally->stop) {
		uint64_t first = atomic_fetch_add(&tally->next, BATCH);
		if (first >= options.jobs)
			break;
		uint64_t left = options.jobs - first;
		if (run_apart(first, first + (left < BATCH ? left : BATCH), worker) < 0)
			return -1;
	}
	return 0;
}

/* Returns -1 if a worker could not work. */
static int run_workers(void)
{
	int ret = 0, status;
	for (int w = 0; w < options.workers; w++) {
		pid_t pid = fork();
		if (pid == 0)
			_exit(work(w) < 0);
		if (pid < 0) {
			perror("sim: a worker");
			ret = -1;
		}
	}
	while (wait(&status) > 0)
		if (status != 0) {
			fprintf(stderr, "sim: a worker ended with status %d\n", status);
			ret = -1;
		}
	return ret;
}

static int run(void)
{
	char place[280];
	int ret = 0;
	for (int w = 0; w < options.workers; w++) {
		snprintf(place, sizeof place, "%s/%d", folder, w);
		if (mkdir(place, 0700) < 0) {
			perror(place);
			return -1;
		}
	}
	fflush(stdout);
	if (options.jobs == 1) /* without a fork: for a debugger */
		run_batch(0, 1, 0);
	else
		ret = run_workers();
	snprintf(place, sizeof place, "rm -rf %s", folder);
	if (system(place) != 0)
		ret = -1;
	return ret;
}

static void on_signal(int sig)
{
	tally->signal = sig;
	tally->stop = true; /* the jobs under way end, and the folder goes */
}

static uint64_t number(const char *option, const char *text, uint64_t least)
{
	char *end;
	errno = 0;
	uint64_t n = strtoull(text, &end, 10);
	if (!isdigit((unsigned char)text[0]) || *end || errno || n < least) {
		fprintf(stderr, "sim: --%s: '%s' is not a number from %llu\n", option, text,
		        (unsigned long long)least);
		exit(2);
	}
	return n;
}

static void parse(int argc, char **argv)
{
	static const struct option known[] = {
	        {"seed", 1, NULL, 's'},          {"jobs", 1, NULL, 'j'},
	        {"insiders", 1, NULL, 'i'},      {"workers", 1, NULL, 'w'},
	        {"until-failure", 0, NULL, 'u'}, {"trace", 0, NULL, 't'},
	        {"twice", 0, NULL, '2'},         {0}};
	int c;
	uint64_t workers = 1;
	while ((c = getopt_long(argc, argv, "", known, NULL)) >= 0) {
		if (c == 's')
			options.seed = number("seed", optarg, 0);
		else if (c == 'j')
			options.jobs = number("jobs", optarg, 1);
		else if (c == 'i')
			insiders = (unsigned)number("insiders", optarg, 0);
		else if (c == 'w')
			workers = number("workers", optarg, 1);
		else if (c == 'u')
			options.until_failure = true;
		else if (c == 't')
			options.trace = true;
		else if (c == '2')
			options.twice = true;
		else
			exit(2);
	}
	options.workers = (int)(workers < WORKERS_MOST ? workers : WORKERS_MOST);
	if (argc > optind) {
		fprintf(stderr, "sim: '%s' is no option\n", argv[optind]);
		exit(2);
	}
}

static void print_tally(double seconds)
{
	uint64_t done = tally->done;
	if (done != options.jobs)
		printf("only %llu of %llu jobs were done\n", (unsigned long long)done,
		       (unsigned long long)options.jobs);
	printf("%llu jobs of seeds %llu to %llu in %.1f s: %llu failed; %llu bounded, %llu "
	       "succeeded, %.0f switches a job, trace %016llx\n",
	       (unsigned long long)done, (unsigned long long)options.seed,
	       (unsigned long long)(options.seed + options.jobs - 1), seconds,
	       (unsigned long long)tally->failed, (unsigned long long)tally->bounded,
	       (unsigned long long)tally->succeeded,
	       done ? (double)tally->switches / (double)done : 0.0, (unsigned long long)tally->sum);
	printf("faults:");
	for (int i = 0; i < fault_names(); i++)
		printf(" %s %llu", fault_name(i), (unsigned long long)tally->with[i]);
	printf("\n");
	if (tally->failed)
		printf("first failed: seed %llu, job %llu\n",
		       (unsigned long long)tally->first_failed,
		       (unsigned long long)(tally->first_failed - options.seed + 1));
}

/* In memory, where there is such a place. */
static int make_folder(void)
{
	const char *other = getenv("TMPDIR");
	const char *place = access("/dev/shm", W_OK) == 0 ? "/dev/shm" : other ? other : "/tmp";
	snprintf(folder, sizeof folder, "%.200s/collctl-sim.XXXXXX", place);
	return mkdtemp(folder) ? 0 : -1;
}

int main(int argc, char **argv)
{
	struct timespec began, ended;
	parse(argc, argv);
	tally = mmap(NULL, sizeof *tally, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1,
	             0);
	if (tally == MAP_FAILED || make_folder() < 0) {
		perror(folder);
		return 2;
	}
	tally->first_failed = UINT64_MAX;
	signal(SIGTERM, on_signal);
	signal(SIGINT, on_signal);
	seed_openssl();
	clock_gettime(CLOCK_MONOTONIC, &began);
	int ret = run();
	clock_gettime(CLOCK_MONOTONIC, &ended);
	print_tally((double)(ended.tv_sec - began.tv_sec) +
	            (double)(ended.tv_nsec - began.tv_nsec) / 1e9);
	if (tally->signal)
		return 128 + tally->signal;
	return ret < 0 || tally->failed || tally->done != options.jobs ? 1 : 0;
}
