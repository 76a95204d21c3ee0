/*
 * The speed of a plug-in on GPU 0: folds of 2, 4 and 8 buffers beside the device's own copies, and
 * copies from and to the host beside plain ones of the driver, or over the stand-in, which has no
 * driver, beside its own. A time is that of many tasks, submitted at once and waited for once.
 *
 * Usage: bench [--mib N] [--trials N] [--json FILE] PLUGIN; buffers of N MiB (512), the best of N
 * trials (5). FILE gets the figures, too.
 * Exit code 77: there is no plug-in, driver or GPU.
 */
#include <getopt.h>
#include <stdbool.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/data/kernels/reduce.h"
#include "tests/gpu/plugin.h"

#define MIB    512               /* of a buffer: no cache has it */
#define PIECE  ((size_t)4 << 20) /* of a task, at most */
#define INPUTS 8
#define TRIALS 5
#define QUEUED 16 /* tasks of a whole buffer, so that starting counts little */

static const struct gpu_plugin *plugin;
static struct gpu *gpu;
static uint8_t *host, *dst, *inputs[INPUTS];
static size_t bytes = (size_t)MIB << 20; /* of a buffer */
static int trials = TRIALS;
static FILE *json; /* NULL: not asked for */

/* The driver's own copies, in the context that the plug-in uses. */
static struct {
	int (*init)(unsigned);
	int (*retain)(void **context, int device);
	int (*set)(void *context);
	int (*sync)(void);
	int (*to_device)(unsigned long long dst, const void *src, size_t n);
	int (*to_host)(void *dst, unsigned long long src, size_t n);
	int (*on_device)(unsigned long long dst, unsigned long long src, size_t n);
} cu;

/* False: there is none. */
static bool driver_open(void)
{
	void *library = dlopen("libcuda.so.1", RTLD_NOW | RTLD_LOCAL), *context;

	if (library) {
		*(void **)&cu.init = dlsym(library, "cuInit");
		*(void **)&cu.retain = dlsym(library, "cuDevicePrimaryCtxRetain");
		*(void **)&cu.set = dlsym(library, "cuCtxSetCurrent");
		*(void **)&cu.sync = dlsym(library, "cuCtxSynchronize");
		*(void **)&cu.to_device = dlsym(library, "cuMemcpyHtoD_v2");
		*(void **)&cu.to_host = dlsym(library, "cuMemcpyDtoH_v2");
		*(void **)&cu.on_device = dlsym(library, "cuMemcpyDtoD_v2");
	}
	return library && cu.init && cu.retain && cu.set && cu.sync && cu.to_device && cu.to_host &&
	       cu.on_device && !cu.init(0) && !cu.retain(&context, 0) && !cu.set(context);
}

/* GB/s of the best trial; @moved: bytes that a trial reads and writes. */
static double best(bool (*trial)(const void *arg), const void *arg, double moved)
{
	double gbs = 0;

	for (int i = 0; i <= trials; i++) { /* the first one warms up */
		const int64_t start = clock_ns();
		if (!trial(arg))
			exit(1);
		const double speed = moved / (double)(clock_ns() - start);
		gbs = i > 0 && speed > gbs ? speed : gbs;
	}
	return gbs;
}

static bool driver_on_device(const void *arg)
{
	(void)arg;
	return !cu.on_device((uintptr_t)dst, (uintptr_t)inputs[0], bytes) && !cu.sync();
}

static bool driver_to_device(const void *arg)
{
	(void)arg;
	return !cu.to_device((uintptr_t)dst, host, bytes) && !cu.sync();
}

static bool driver_to_host(const void *arg)
{
	(void)arg;
	return !cu.to_host(host, (uintptr_t)dst, bytes) && !cu.sync();
}

static size_t piece(void)
{
	return bytes < PIECE ? bytes : PIECE;
}

/* A task in pieces of @piece bytes, all submitted at once, @turns times. */
struct job {
	struct gpu_task task;
	size_t piece, esize; /* esize 1: a copy */
	int turns;
};

static bool in_pieces(const void *arg)
{
	const struct job *j = arg;
	int n = 0;

	for (size_t done = 0, len; done < (size_t)j->turns * bytes; done += len, n++) {
		const size_t at = done % bytes;
		len = bytes - at < j->piece ? bytes - at : j->piece;
		struct gpu_task t = j->task;
		t.dst = (uint8_t *)t.dst + at;
		t.src = t.src ? (const uint8_t *)t.src + at : NULL;
		t.offset = at;
		t.n = len / j->esize;
		if (plugin_submit(plugin, gpu, &t) < 0)
			return false;
	}
	return plugin_wait(plugin, gpu, n) == 0;
}

static void print(const char *what, double gbs, double of)
{
	static const char *comma = "";

	printf("%-40s %8.1f GB/s %6.1f %%\n", what, gbs, 100 * gbs / of);
	if (json)
		fprintf(json, "%s{\"what\": \"%s\", \"gbs\": %.4g, \"of\": %.4g}", comma, what, gbs,
		        of);
	comma = ", ";
}

/* The same copies by the driver, or by the plug-in where there is none. */
static double baseline(bool (*driver)(const void *), void *to, const void *from, double moved)
{
	const struct job own = {{.op = GPU_COPY, .dst = to, .src = from}, bytes, 1, 1};

	return cu.sync ? best(driver, NULL, moved) : best(in_pieces, &own, moved);
}

static void bench_folds(double copy)
{
	static const struct {
		enum dtype dtype, acc;
	} types[] = {{DTYPE_F32, DTYPE_F32},   {DTYPE_BF16, DTYPE_F32},   {DTYPE_F16, DTYPE_F32},
	             {DTYPE_F64, DTYPE_F64},   {DTYPE_I32, DTYPE_I32},    {DTYPE_U8, DTYPE_U8},
	             {DTYPE_BF16, DTYPE_BF16}, {DTYPE_F8E4M3, DTYPE_F32}, {DTYPE_F8E5M2, DTYPE_F32},
	             {DTYPE_F32, DTYPE_F64},   {DTYPE_C64, DTYPE_C64}};
	char name[80];

	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		for (int k = 2; k <= INPUTS; k *= 2)
			for (int whole = 0; whole < 2; whole++) {
				struct job j = {{.op = GPU_FOLD,
				                 .dst = dst,
				                 .inputs = (const void *const *)inputs,
				                 .ninputs = k,
				                 .dtype = (int)types[i].dtype,
				                 .acc = (int)types[i].acc,
				                 .reduce = REDUCE_SUM},
				                whole ? bytes : piece(),
				                dtype_size(types[i].dtype),
				                whole ? QUEUED : 1};
				snprintf(name, sizeof name, "sum %s in %s, %d buffers, %s",
				         dtype_name(types[i].dtype), dtype_name(types[i].acc), k,
				         whole ? "whole" : "4 MiB tasks");
				print(name,
				      best(in_pieces, &j,
				           (double)j.turns * (double)bytes * (k + 1)),
				      copy);
			}
}

static void bench_host(void)
{
	const struct job to = {{.op = GPU_COPY, .dst = dst, .src = host}, piece(), 1, 1};
	const struct job from = {{.op = GPU_COPY, .dst = host, .src = dst}, piece(), 1, 1};
	const double down = baseline(driver_to_device, dst, host, (double)bytes);
	const double up = baseline(driver_to_host, host, dst, (double)bytes);

	print("plain copies, host to device", down, down);
	print("host to device, 4 MiB tasks", best(in_pieces, &to, (double)bytes), down);
	print("plain copies, device to host", up, up);
	print("device to host, 4 MiB tasks", best(in_pieces, &from, (double)bytes), up);
}

/* False: an argument is wrong. */
static bool arguments(int argc, char **argv)
{
	static const struct option options[] = {{"mib", required_argument, NULL, 'm'},
	                                        {"trials", required_argument, NULL, 't'},
	                                        {"json", required_argument, NULL, 'j'},
	                                        {0}};
	int c;

	while ((c = getopt_long(argc, argv, "", options, NULL)) != -1) {
		if (c == 'm' && atoi(optarg) > 0)
			bytes = (size_t)atoi(optarg) << 20;
		else if (c == 't' && atoi(optarg) > 0)
			trials = atoi(optarg);
		else if (c == 'j' && (json = fopen(optarg, "w")))
			continue;
		else
			return false;
	}
	return optind == argc - 1;
}

int main(int argc, char **argv)
{
	const int first = 0;
	char why[GPU_WHY] = "";
	int devices;
	bool stuck, driver = false;

	if (!arguments(argc, argv)) {
		fprintf(stderr, "usage: bench [--mib N] [--trials N] [--json FILE] PLUGIN\n");
		return 2;
	}
	plugin = plugin_open(argv[optind], &devices);
	gpu = plugin->open(&first, 1, GPU_PATH_AUTO, &plugin_limits, &stuck, why, sizeof why);
	if (gpu) {
		driver = strcmp(plugin->name, "stand-in") != 0;
		if (driver && !driver_open()) {
			printf("skipped: the driver does not answer\n");
			return SKIPPED;
		}
		host = plugin->alloc_host(gpu, bytes, why, sizeof why);
	}
	if (host)
		dst = plugin->alloc(gpu, 0, bytes, why, sizeof why);
	for (int k = 0; dst && k < INPUTS; k++)
		inputs[k] = plugin->alloc(gpu, 0, bytes, why, sizeof why);
	if (!dst || !inputs[INPUTS - 1]) {
		printf("%s (--mib N: smaller buffers)\n", why);
		return 1;
	}
	if (json)
		fprintf(json, "{\"mib\": %zu, \"baseline\": \"%s\", \"rows\": [", bytes >> 20,
		        driver ? "the driver's copies" : "plain copies of the plug-in");
	const double copy = baseline(driver_on_device, dst, inputs[0], 2.0 * (double)bytes);
	print("plain copies on the device", copy, copy);
	bench_folds(copy);
	bench_host();
	if (json && (fputs("]}\n", json) < 0 || fclose(json) != 0))
		return 1;
	return 0;
}
