/*
 * Does the stand-in end a program that breaks the contract of cuda/plugin.h, and do what its
 * variables say? Each case runs in a separate process. Where nothing orders what two tasks, or a
 * task and the host, do to the same memory, it must end with a sentence that names both, whether
 * the devices are slow or not. Usage: standin PLUGIN.
 */
#include <signal.h>
#include <stdbool.h>
#include <string.h>
#include <sys/wait.h>

#include "lib/data/kernels/reduce.h"
#include "tests/gpu/plugin.h"

#define BYTES 4096
#define HALF  (BYTES / 2)

#define LATE   "COLLCTL_STANDIN_DELAY", "50,1"
#define DIRECT "COLLCTL_STANDIN_DIRECT", "1"

static struct {
	const char *path;
	const struct gpu_plugin *p;
	struct gpu *gpu;
	uint8_t *host, *a, *b; /* pinned; on device 0 */
	int bad;
} g;

static void copy(void *dst, const void *src, uint64_t n)
{
	const struct gpu_task t = {.op = GPU_COPY, .dst = dst, .src = src, .n = n};

	if (plugin_submit(g.p, g.gpu, &t) < 0)
		exit(1);
}

static void fold(void *dst, const void *input, uint64_t n)
{
	const struct gpu_task t = {.op = GPU_FOLD,
	                           .dst = dst,
	                           .n = n,
	                           .inputs = &input,
	                           .ninputs = 1,
	                           .dtype = DTYPE_U8,
	                           .acc = DTYPE_U8,
	                           .reduce = REDUCE_SUM};

	if (plugin_submit(g.p, g.gpu, &t) < 0)
		exit(1);
}

static void await(int tasks)
{
	if (plugin_wait(g.p, g.gpu, tasks) < 0)
		exit(1);
}

/* ---- what is right ---- */

static void neighbours(void)
{
	copy(g.a, g.host, HALF);
	copy(g.a + HALF, g.host + HALF, HALF);
	await(2);
}

static void both_read(void)
{
	copy(g.a, g.host, BYTES);
	copy(g.b, g.host, BYTES);
	await(2);
	fold(g.b, g.a, BYTES);
	copy(g.host, g.a, BYTES);
	await(2);
}

static void in_order(void)
{
	memset(g.host, 3, BYTES);
	copy(g.a, g.host, BYTES);
	await(1);
	memset(g.host, 4, BYTES);
	fold(g.b, g.a, BYTES);
	await(1);
	copy(g.host, g.b, BYTES);
	await(1);
	if (g.host[0] != 3 || memcmp(g.host, g.host + 1, BYTES - 1) != 0)
		exit(1);
}

/* ---- what is not ---- */

static void read_too_early(void)
{
	copy(g.a, g.host, BYTES);
	fold(g.b, g.a + BYTES - 1, 1);
}

static void write_too_early(void)
{
	fold(g.b, g.a, BYTES);
	copy(g.a + BYTES - 1, g.host, 1);
}

static void write_twice(void)
{
	copy(g.a, g.host, BYTES);
	copy(g.a, g.host + 1, 1);
}

static void through_the_host(void)
{
	copy(g.host, g.a, BYTES);
	copy(g.b, g.host, BYTES);
}

static void release_pinned(void)
{
	copy(g.a, g.host, BYTES);
	g.p->release_host(g.gpu, g.host, BYTES);
}

static void release_device(void)
{
	fold(g.b, g.a, BYTES);
	g.p->release(g.gpu, 0, g.a, BYTES);
}

static void change_source(void)
{
	copy(g.a, g.host, BYTES);
	g.host[BYTES - 1]++;
	await(1);
}

static void change_result(void)
{
	copy(g.host, g.a, BYTES);
	g.host[BYTES - 1]++;
	await(1);
}

/* What the host reads too early is garbage, however fast the device is. */
static void read_result(void)
{
	int got;
	char why[GPU_WHY];
	void *cookie;

	copy(g.host, g.a, BYTES); /* zeros */
	if (!g.host[0] || memcmp(g.host, g.host + 1, BYTES - 1) != 0)
		exit(1);
	while ((got = g.p->next(g.gpu, &cookie, why, sizeof why)) == 0)
		if (!g.host[0])
			exit(1);
	if (got < 0 || g.host[0] || memcmp(g.host, g.host + 1, BYTES - 1) != 0)
		exit(1);
}

static void touch_device(void)
{
	g.a[0]++;
}

/* ---- COLLCTL_STANDIN_DIRECT ---- */

/* What the device is given is done in the call, and its memory is open. */
static void at_once(void)
{
	memset(g.host, 3, BYTES);
	copy(g.a, g.host, BYTES);
	if (g.a[0] != 3 || memcmp(g.a, g.a + 1, BYTES - 1) != 0)
		exit(1);
	await(1);
	fold(g.b, g.a, BYTES);
	if (memcmp(g.a, g.b, BYTES) != 0)
		exit(1);
	await(1);
	memset(g.host, 0, BYTES);
	copy(g.host, g.b, BYTES);
	if (memcmp(g.host, g.b, BYTES) != 0)
		exit(1);
	await(1);
}

/* ---- the cases ---- */

static const struct {
	const char *name;
	void (*run)(void);
	const char *says;            /* NULL: it is right */
	const char *setting, *value; /* NULL: none */
	int signal;
} cases[] = {
        {"halves of memory", neighbours, NULL, NULL, NULL, 0},
        {"two copies read the same", both_read, NULL, NULL, NULL, 0},
        {"one after the other", in_order, NULL, NULL, NULL, 0},
        {"the same, delayed", in_order, NULL, LATE, 0},
        {"a fold reads what a copy writes", read_too_early, "; nothing orders them", NULL, NULL,
         SIGABRT},
        {"a copy writes what a fold reads", write_too_early, "; nothing orders them", NULL, NULL,
         SIGABRT},
        {"two copies write the same", write_twice, "; nothing orders them", NULL, NULL, SIGABRT},
        {"the same, at once", write_twice, "; nothing orders them", DIRECT, SIGABRT},
        {"two copies by pinned memory", through_the_host, "; nothing orders them", NULL, NULL,
         SIGABRT},
        {"pinned memory is released", release_pinned, "; the host releases memory there", NULL,
         NULL, SIGABRT},
        {"a device's memory is released", release_device, "; the host releases memory there", NULL,
         NULL, SIGABRT},
        {"the host writes what a copy reads", change_source, "; the host changed them", LATE,
         SIGABRT},
        {"the host writes what a copy writes", change_result, "; the host changed them", LATE,
         SIGABRT},
        {"the host reads what a copy writes", read_result, NULL, LATE, 0},
        {"the host touches a device's memory", touch_device, "", NULL, NULL, SIGSEGV},
        {"tasks are done at once", at_once, NULL, DIRECT, 0},
};

static void run_case(size_t i)
{
	const int list[] = {0};
	char why[GPU_WHY] = "";
	int devices;
	bool stuck;

	unsetenv("COLLCTL_STANDIN_DELAY");
	if (cases[i].setting)
		setenv(cases[i].setting, cases[i].value, 1);
	g.p = plugin_open(g.path, &devices);
	g.gpu = g.p->open(list, 1, GPU_PATH_AUTO, &plugin_limits, &stuck, why, sizeof why);
	g.host = g.gpu ? g.p->alloc_host(g.gpu, BYTES, why, sizeof why) : NULL;
	g.a = g.host ? g.p->alloc(g.gpu, 0, BYTES, why, sizeof why) : NULL;
	g.b = g.a ? g.p->alloc(g.gpu, 0, BYTES, why, sizeof why) : NULL;
	if (!g.b) {
		printf("%s\n", why);
		exit(1);
	}
	cases[i].run();
}

/* Run it in another process, and put into @said what it says. Returns its status. */
static int watch_case(size_t i, char *said, size_t cap)
{
	int ends[2], status = 0;
	size_t n = 0;
	ssize_t got;

	if (pipe(ends) < 0)
		exit(1);
	fflush(stdout);
	const pid_t pid = fork();
	if (pid == 0) {
		dup2(ends[1], STDERR_FILENO);
		close(ends[0]);
		close(ends[1]);
		run_case(i);
		_exit(0);
	}
	close(ends[1]);
	while (n + 1 < cap && (got = read(ends[0], said + n, cap - n - 1)) > 0)
		n += (size_t)got;
	said[n] = '\0';
	said[strcspn(said, "\n")] = '\0';
	close(ends[0]);
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		exit(1);
	return status;
}

int main(int argc, char **argv)
{
	char said[1024];

	if (argc != 2) {
		fprintf(stderr, "usage: standin PLUGIN\n");
		return 2;
	}
	g.path = argv[1];
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		const int status = watch_case(i, said, sizeof said);
		const int signal = WIFSIGNALED(status) ? WTERMSIG(status) : 0;
		const bool fine = cases[i].says
		                          ? signal == cases[i].signal && strstr(said, cases[i].says)
		                          : status == 0 && !*said;
		printf("%s %s: %s\n", fine ? "ok" : "FAILED", cases[i].name,
		       *said ? said : "nothing is said");
		g.bad += !fine;
	}
	return g.bad != 0;
}
