/*
 * A plug-in on this machine's GPUs: folds and identities have the bits of the host's, copies
 * arrive, also from several threads and to registered memory, ends of tasks are found, drain ends,
 * and what cannot be is refused with a reason. Usage: check PLUGIN [EVERY];
 * only every EVERY-th fold runs. Exit code 77: there is no plug-in, driver or GPU.
 */
#include <pthread.h>
#include <string.h>
#include <sys/mman.h>

#include "tests/gpu/folds.h"
#include "tests/gpu/plugin.h"

#define DEVICES 8    /* at most */
#define MARGIN  4096 /* bytes after the result that are compared, too */
#define DRAINED 64   /* tasks that run when drain begins */

static struct {
	const struct gpu_plugin *p;
	struct gpu *gpu;
	int ndevices;
	uint8_t *host;                /* pinned */
	uint8_t *inputs[FOLD_INPUTS]; /* input k on device k mod ndevices */
	uint8_t *dst;                 /* on device 0 */
	int bad;
} g;

static void expect(bool fine, const char *what)
{
	printf("%s %s\n", fine ? "ok" : "FAILED", what);
	g.bad += !fine;
}

static void *device_memory(int device, size_t bytes)
{
	char why[GPU_WHY] = "";
	void *p = g.p->alloc(g.gpu, device, bytes, why, sizeof why);

	if (!p) {
		printf("%s\n", why);
		exit(1);
	}
	return p;
}

static int to_device(int device, void *dst, const void *src, size_t n)
{
	memcpy(g.host, src, n);
	return plugin_copy(g.p, g.gpu, device, dst, g.host, n);
}

static int from_device(int device, void *dst, const void *src, size_t n)
{
	if (plugin_copy(g.p, g.gpu, device, g.host, src, n) < 0)
		return -1;
	memcpy(dst, g.host, n);
	return 0;
}

/* ---- folds and identities ---- */

static int run(void *ctx, const struct fold_case *c, const uint8_t *const *inputs, uint8_t *dst)
{
	const void *in[FOLD_INPUTS];
	const size_t first = c->offset > c->to ? c->offset : c->to;
	const size_t used = first + c->n * dtype_size(c->dtype) + MARGIN;
	const size_t bytes = used < FOLD_BYTES ? used : FOLD_BYTES;

	(void)ctx;
	for (int k = 0; k < c->ninputs; k++) {
		if (to_device(k % g.ndevices, g.inputs[k], inputs[k], bytes) < 0)
			return -1;
		in[k] = g.inputs[k];
	}
	if (to_device(0, g.dst, dst, bytes) < 0)
		return -1;
	if (c->in_place)
		in[0] = g.dst;
	const struct gpu_task t = {.op = GPU_FOLD,
	                           .dst = g.dst + c->to,
	                           .n = c->n,
	                           .inputs = in,
	                           .ninputs = c->ninputs,
	                           .offset = c->offset,
	                           .dtype = (int)c->dtype,
	                           .acc = (int)c->acc,
	                           .reduce = (int)c->op};
	if (plugin_do(g.p, g.gpu, &t) < 0)
		return -1;
	return from_device(0, dst, g.dst, bytes);
}

static void check_identities(void)
{
	static const uint64_t lengths[] = {1, 5, 63, 4097};
	static uint8_t found[70000], expected[70000];
	int bad = 0;

	for (int op = 0; op < REDUCE_OPS; op++)
		for (int d = 1; d < DTYPES; d++)
			for (int i = 0; i < 8; i++) {
				const enum dtype dtype = (enum dtype)d;
				if (!reduce_op_defined((enum reduce_op)op, dtype) ||
				    reduce_is_joint((enum reduce_op)op))
					continue;
				const size_t size = dtype_size(dtype), step = size > 8 ? 8 : size;
				const size_t at = i % 2 ? 3 * step : 0;
				const uint64_t n = lengths[i / 2];
				memset(expected, 0xa5, sizeof expected);
				bad += to_device(0, g.dst, expected, sizeof expected) < 0;
				identity_expect((enum reduce_op)op, dtype, n, expected + at);
				const struct gpu_task t = {.op = GPU_IDENTITY,
				                           .dst = g.dst + at,
				                           .n = n,
				                           .dtype = (int)dtype,
				                           .acc = (int)dtype,
				                           .reduce = op};
				bad += plugin_do(g.p, g.gpu, &t) < 0 ||
				       from_device(0, found, g.dst, sizeof found) < 0 ||
				       memcmp(found, expected, sizeof found) != 0;
			}
	expect(bad == 0, "identities have the host's bits");
}

/* ---- copies, drain ---- */

static void check_copies(void)
{
	static uint8_t bytes[FOLD_BYTES], back[FOLD_BYTES];
	bool fine = true;

	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (uint8_t)(i * 7 + i / 251);
	for (int from = 0; from < g.ndevices; from++)
		for (int to = 0; to < g.ndevices; to++) {
			uint8_t *a = device_memory(from, FOLD_BYTES);
			uint8_t *b = device_memory(to, FOLD_BYTES);
			memset(back, 0, sizeof back);
			fine = fine && from_device(to, back, b, FOLD_BYTES) == 0 && back[0] == 0 &&
			       !memcmp(back, back + 1, FOLD_BYTES - 1); /* zeroed */
			fine = fine && to_device(from, a, bytes, FOLD_BYTES) == 0 &&
			       plugin_copy(g.p, g.gpu, to, b + 3, a + 1, FOLD_BYTES - 3) == 0 &&
			       from_device(to, back, b, FOLD_BYTES) == 0 &&
			       !memcmp(back + 3, bytes + 1, FOLD_BYTES - 3);
			g.p->release(g.gpu, from, a, FOLD_BYTES);
			g.p->release(g.gpu, to, b, FOLD_BYTES);
		}
	expect(fine, "copies between the host and all devices");
}

static void check_drain(void)
{
	char why[GPU_WHY];
	void *cookie;
	bool fine = true;

	for (size_t i = 0; i < DRAINED; i++) {
		const size_t n = FOLD_BYTES / DRAINED, at = i * n;
		const struct gpu_task t = {.op = GPU_COPY,
		                           .dst = (i % 2 ? g.host : g.dst) + at,
		                           .src = (i % 2 ? g.inputs[0] : g.host) + at,
		                           .n = n};
		fine = fine && plugin_submit(g.p, g.gpu, &t) == 0;
	}
	fine = fine && g.p->drain(g.gpu, INT64_C(60000000000)) == 0;
	expect(fine && g.p->next(g.gpu, &cookie, why, sizeof why) == 0,
	       "drain ends, and next reports none of the tasks that it waited for");
	expect(plugin_copy(g.p, g.gpu, 0, g.dst, g.host, FOLD_BYTES) == 0, "a task after drain");
}

/* ---- memory of the caller, several threads ---- */

static void refused(bool was, const char *why, const char *what);

static void check_registered(void)
{
	const size_t half = FOLD_BYTES, bytes = 2 * half;
	uint8_t *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	char why[GPU_WHY] = "";

	if (p == MAP_FAILED || g.p->register_host(g.gpu, p, bytes, why, sizeof why) < 0) {
		expect(p != MAP_FAILED && *why, "memory that is not registered has a reason");
		printf("skipped: registered memory: %s\n", why);
		return;
	}
	for (size_t i = 0; i < half; i++)
		p[i] = (uint8_t)(i * 5 + i / 253);
	expect(plugin_copy(g.p, g.gpu, 0, g.dst, p, half) == 0 &&
	               plugin_copy(g.p, g.gpu, 0, p + half, g.dst, half) == 0 &&
	               !memcmp(p, p + half, half),
	       "copies from and to registered memory");
	g.p->unregister_host(g.gpu, p, bytes);
	const struct gpu_task t = {.op = GPU_COPY, .dst = g.dst, .src = p, .n = 64};
	refused(g.p->submit(g.gpu, &t, why, sizeof why) < 0, why,
	        "a copy of memory that was registered");
	munmap(p, bytes);
}

#define THREADS 3
#define ROUNDS  40

struct user {
	pthread_t thread;
	struct gpu *gpu;
	uint8_t *host, *device;
	int seed;
	bool fine;
};

/* Copy there and back, and double on the device. */
static void *use(void *arg)
{
	struct user *u = arg;

	u->fine = true;
	for (int round = 0; u->fine && round < ROUNDS; round++) {
		const void *in[] = {u->device, u->device};
		const struct gpu_task twice = {.op = GPU_FOLD,
		                               .dst = u->device,
		                               .n = FOLD_BYTES,
		                               .inputs = in,
		                               .ninputs = 2,
		                               .dtype = DTYPE_U8,
		                               .acc = DTYPE_U8,
		                               .reduce = REDUCE_SUM};
		for (size_t i = 0; i < FOLD_BYTES; i++)
			u->host[i] = (uint8_t)(i * 3 + (size_t)(round + u->seed));
		u->fine = plugin_copy(g.p, u->gpu, 0, u->device, u->host, FOLD_BYTES) == 0 &&
		          plugin_do(g.p, u->gpu, &twice) == 0 &&
		          plugin_copy(g.p, u->gpu, 0, u->host, u->device, FOLD_BYTES) == 0;
		for (size_t i = 0; u->fine && i < FOLD_BYTES; i++)
			u->fine = u->host[i] == (uint8_t)(2 * (i * 3 + (size_t)(round + u->seed)));
	}
	return NULL;
}

static bool user_open(struct user *u, const int *list)
{
	char why[GPU_WHY] = "";
	bool stuck;

	u->gpu =
	        g.p->open(list, g.ndevices, GPU_PATH_AUTO, &plugin_limits, &stuck, why, sizeof why);
	u->host = u->gpu ? g.p->alloc_host(u->gpu, FOLD_BYTES, why, sizeof why) : NULL;
	u->device = u->host ? g.p->alloc(u->gpu, 0, FOLD_BYTES, why, sizeof why) : NULL;
	if (!u->device)
		printf("%s\n", why);
	return u->device;
}

static void check_threads(const int *list)
{
	struct user users[THREADS] = {{.seed = 0}};
	bool fine = true;

	for (int i = 0; i < THREADS; i++) {
		users[i].seed = i;
		fine = fine && user_open(&users[i], list);
	}
	for (int i = 0; fine && i < THREADS; i++)
		if (pthread_create(&users[i].thread, NULL, use, &users[i]) != 0)
			exit(1);
	for (int i = 0; fine && i < THREADS; i++)
		pthread_join(users[i].thread, NULL);
	for (int i = 0; i < THREADS; i++) {
		struct user *u = &users[i];
		fine = fine && u->fine;
		if (!u->gpu)
			continue;
		g.p->release(u->gpu, 0, u->device, FOLD_BYTES);
		g.p->release_host(u->gpu, u->host, FOLD_BYTES);
		fine = g.p->drain(u->gpu, 0) == 0 && g.p->close(u->gpu) == 0 && fine;
	}
	expect(fine, "several threads, each with the devices opened for itself");
}

/* ---- how the end of a task is known ---- */

static bool is_readable(void)
{
	struct pollfd fd = {.fd = g.p->event_fd(g.gpu), .events = POLLIN};

	return poll(&fd, 1, 0) == 1;
}

static void check_ends(void)
{
	const struct gpu_task t = {
	        .op = GPU_COPY, .dst = g.dst, .src = g.host, .n = FOLD_BYTES, .cookie = &g};
	char why[GPU_WHY];
	void *cookie = NULL;
	int got;

	g.p->drain(g.gpu, 0); /* empties event_fd */
	bool fine = plugin_submit(g.p, g.gpu, &t) == 0;
	while (fine && (got = g.p->next(g.gpu, &cookie, why, sizeof why)) == 0)
		;
	expect(fine && got == 1 && cookie == &g && !is_readable(),
	       "next finds a task that has ended, without a thread");
	fine = plugin_submit(g.p, g.gpu, &t) == 0;
	while (fine && (got = g.p->next(g.gpu, &cookie, why, sizeof why)) == 0 && !is_readable())
		g.p->will_sleep(g.gpu);
	expect(fine && got >= 0 && (got == 1 || g.p->next(g.gpu, &cookie, why, sizeof why) == 1),
	       "next finds a task that threads begin and cease to wait for");
}

/* ---- what is refused ---- */

static void refused(bool was, const char *why, const char *what)
{
	char line[2 * GPU_WHY];

	snprintf(line, sizeof line, "%s is refused: %s", what, why);
	expect(was && *why, line);
}

static void check_refusals(int devices)
{
	static uint8_t pageable[64];
	char why[GPU_WHY] = "";
	bool stuck;
	const void *in[] = {g.inputs[0], g.inputs[0]};

	refused(!g.p->open(&devices, 1, GPU_PATH_AUTO, &plugin_limits, &stuck, why, sizeof why),
	        why, "a device that does not exist");
	*why = 0;
	refused(!g.p->alloc(g.gpu, 0, (size_t)1 << 60, why, sizeof why), why, "too much memory");
	struct gpu_task t = {
	        .op = GPU_COPY, .device = g.ndevices, .dst = g.dst, .src = g.host, .n = 64};
	*why = 0;
	refused(g.p->submit(g.gpu, &t, why, sizeof why) < 0, why, "a task for no device");
	t.device = 0;
	t.src = pageable;
	*why = 0;
	refused(g.p->submit(g.gpu, &t, why, sizeof why) < 0, why, "a copy of pageable memory");
	t.src = g.host;
	t.n = FOLD_BYTES + 1;
	*why = 0;
	refused(g.p->submit(g.gpu, &t, why, sizeof why) < 0, why, "a copy of more than is there");
	t = (struct gpu_task){.op = GPU_FOLD,
	                      .dst = g.dst,
	                      .n = 1,
	                      .inputs = in,
	                      .ninputs = 2,
	                      .dtype = DTYPE_C64,
	                      .acc = DTYPE_C64,
	                      .reduce = REDUCE_MIN};
	*why = 0;
	refused(g.p->submit(g.gpu, &t, why, sizeof why) < 0, why, "the minimum of complex numbers");
	expect(plugin_copy(g.p, g.gpu, 0, g.dst, g.host, 64) == 0, "a task after refusals");
}

int main(int argc, char **argv)
{
	const int list[DEVICES] = {0, 1, 2, 3, 4, 5, 6, 7};
	char why[GPU_WHY] = "", name[128] = "";
	uint64_t left = 0, total = 0;
	int devices;
	bool stuck;
	long cases;

	const int every = argc == 3 ? atoi(argv[2]) : 1;
	if (argc < 2 || argc > 3 || every < 1) {
		fprintf(stderr, "usage: check PLUGIN [EVERY]\n");
		return 2;
	}
	g.p = plugin_open(argv[1], &devices);
	for (g.ndevices = 1; g.ndevices <= devices && g.ndevices <= DEVICES; g.ndevices++) {
		g.gpu = g.p->open(list, g.ndevices, GPU_PATH_AUTO, &plugin_limits, &stuck, why,
		                  sizeof why);
		if (!g.gpu || g.p->describe(g.gpu, 0, name, sizeof name, &left, &total, why,
		                            sizeof why) < 0) {
			printf("%s\n", why);
			return 1;
		}
		printf("%s, %d of %d devices, the first is %s with %llu of %llu bytes free, path "
		       "'%s'\n",
		       g.p->name, g.ndevices, devices, name, (unsigned long long)left,
		       (unsigned long long)total, g.p->path(g.gpu));
		g.host = g.p->alloc_host(g.gpu, FOLD_BYTES, why, sizeof why);
		if (!g.host) {
			printf("%s\n", why);
			return 1;
		}
		for (int k = 0; k < FOLD_INPUTS; k++)
			g.inputs[k] = device_memory(k % g.ndevices, FOLD_BYTES);
		g.dst = device_memory(0, FOLD_BYTES);
		const int differ = folds_check(run, NULL, every, &cases);
		printf("%ld folds\n", cases);
		expect(differ == 0, "folds have the host's bits");
		check_identities();
		check_copies();
		check_drain();
		check_ends();
		check_registered();
		check_threads(list);
		check_refusals(devices);
		for (int k = 0; k < FOLD_INPUTS; k++)
			g.p->release(g.gpu, k % g.ndevices, g.inputs[k], FOLD_BYTES);
		g.p->release(g.gpu, 0, g.dst, FOLD_BYTES);
		g.p->release_host(g.gpu, g.host, FOLD_BYTES);
		expect(g.p->drain(g.gpu, 0) == 0, "drain without tasks");
		g.p->close(g.gpu);
	}
	return g.bad != 0;
}
