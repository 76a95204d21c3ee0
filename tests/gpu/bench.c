/*
 * The speed of a plug-in on GPU 0: folds of 2, 4 and 8 buffers beside the device's own copies, and
 * copies from and to the host beside plain ones of the driver. Usage: bench PLUGIN. Exit code 77:
 * there is no plug-in, driver or GPU.
 */
#include <stdbool.h>
#include <string.h>

#include "lib/base/clock.h"
#include "lib/data/kernels/reduce.h"
#include "tests/gpu/plugin.h"

#define BYTES  ((size_t)256 << 20) /* of a buffer */
#define PIECE  ((size_t)4 << 20)   /* of a task */
#define INPUTS 8
#define TRIALS 5
#define TURNS  8 /* of a whole buffer, so that starting counts little */

static const struct gpu_plugin *plugin;
static struct gpu *gpu;
static uint8_t *host, *dst, *inputs[INPUTS];

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

static void driver_open(void)
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
	if (!library || !cu.init || !cu.retain || !cu.set || !cu.sync || !cu.to_device ||
	    !cu.to_host || !cu.on_device || cu.init(0) || cu.retain(&context, 0) ||
	    cu.set(context)) {
		printf("skipped: the driver does not answer\n");
		exit(SKIPPED);
	}
}

/* GB/s of the best trial; @moved: bytes that a trial reads and writes. */
static double best(bool (*trial)(const void *arg), const void *arg, double moved)
{
	double gbs = 0;

	for (int i = 0; i <= TRIALS; i++) { /* the first one warms up */
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
	return !cu.on_device((uintptr_t)dst, (uintptr_t)inputs[0], BYTES) && !cu.sync();
}

static bool driver_to_device(const void *arg)
{
	(void)arg;
	return !cu.to_device((uintptr_t)dst, host, BYTES) && !cu.sync();
}

static bool driver_to_host(const void *arg)
{
	(void)arg;
	return !cu.to_host(host, (uintptr_t)dst, BYTES) && !cu.sync();
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

	for (size_t done = 0; done < (size_t)j->turns * BYTES; done += j->piece, n++) {
		const size_t at = done % BYTES;
		struct gpu_task t = j->task;
		t.dst = (uint8_t *)t.dst + at;
		t.src = t.src ? (const uint8_t *)t.src + at : NULL;
		t.offset = at;
		t.n = j->piece / j->esize;
		if (plugin_submit(plugin, gpu, &t) < 0)
			return false;
	}
	return plugin_wait(plugin, gpu, n) == 0;
}

static void print(const char *what, double gbs, double of)
{
	printf("%-40s %8.1f GB/s %6.1f %%\n", what, gbs, 100 * gbs / of);
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
				                whole ? BYTES : PIECE,
				                dtype_size(types[i].dtype),
				                whole ? TURNS : 1};
				snprintf(name, sizeof name, "sum %s in %s, %d buffers, %s",
				         dtype_name(types[i].dtype), dtype_name(types[i].acc), k,
				         whole ? "whole" : "4 MiB tasks");
				print(name, best(in_pieces, &j, (double)j.turns * BYTES * (k + 1)),
				      copy);
			}
}

static void bench_host(void)
{
	const struct job to = {{.op = GPU_COPY, .dst = dst, .src = host}, PIECE, 1, 1};
	const struct job from = {{.op = GPU_COPY, .dst = host, .src = dst}, PIECE, 1, 1};
	const double down = best(driver_to_device, NULL, BYTES);
	const double up = best(driver_to_host, NULL, BYTES);

	print("driver, host to device", down, down);
	print("host to device, 4 MiB tasks", best(in_pieces, &to, BYTES), down);
	print("driver, device to host", up, up);
	print("device to host, 4 MiB tasks", best(in_pieces, &from, BYTES), up);
}

int main(int argc, char **argv)
{
	const int first = 0;
	char why[GPU_WHY] = "";
	int devices;
	bool stuck;

	if (argc != 2) {
		fprintf(stderr, "usage: bench PLUGIN\n");
		return 2;
	}
	plugin = plugin_open(argv[1], &devices);
	gpu = plugin->open(&first, 1, GPU_PATH_AUTO, &plugin_limits, &stuck, why, sizeof why);
	if (gpu) {
		driver_open();
		host = plugin->alloc_host(gpu, BYTES, why, sizeof why);
	}
	if (host)
		dst = plugin->alloc(gpu, 0, BYTES, why, sizeof why);
	for (int k = 0; dst && k < INPUTS; k++)
		inputs[k] = plugin->alloc(gpu, 0, BYTES, why, sizeof why);
	if (!dst || !inputs[INPUTS - 1]) {
		printf("%s\n", why);
		return 1;
	}
	const double copy = best(driver_on_device, NULL, 2.0 * BYTES);
	print("driver, copy on the device", copy, copy);
	bench_folds(copy);
	bench_host();
	return 0;
}
