/* The plug-in for NVIDIA GPUs: opening devices, and their memory. */
#include "cuda/gpu.h"

#include <ctype.h>
#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

/* The compute capability of the oldest devices that the build has code for. */
#define LEAST_MAJOR 7
#define LEAST_MINOR 5
#define NCCL_END_NS 1000000000 /* that NCCL may take to end, or half of what it may to start */

#ifdef __CUDACC__
#define TEXT(x)    TEXT_OF(x)
#define TEXT_OF(x) #x
#define NAME       "CUDA " TEXT(__CUDACC_VER_MAJOR__) "." TEXT(__CUDACC_VER_MINOR__)
/* A driver serves all toolkits of its major version. */
#define NEEDS "CUDA " TEXT(__CUDACC_VER_MAJOR__) " or later"
#else
#define NAME  "stand-in"
#define NEEDS NAME
#endif

int gpu_fail(char *why, size_t cap, cudaError_t error, const char *format, ...)
{
	va_list args;

	if (cap == 0)
		return -1;
	va_start(args, format);
	const int n = vsnprintf(why, cap, format, args);
	va_end(args);
	if (error != cudaSuccess && n >= 0 && (size_t)n < cap)
		snprintf(why + n, cap - (size_t)n, " (%s: %s)", cudaGetErrorName(error),
		         cudaGetErrorString(error));
	(void)cudaGetLastError(); /* an error that is reported must not fail the next call */
	return -1;
}

/* ---- threads ---- */

void gpu_condition(pthread_cond_t *condition)
{
	pthread_condattr_t monotonic;

	pthread_condattr_init(&monotonic);
	pthread_condattr_setclock(&monotonic, CLOCK_MONOTONIC);
	pthread_cond_init(condition, &monotonic);
	pthread_condattr_destroy(&monotonic);
}

bool gpu_thread(pthread_t *thread, void *(*fn)(void *), void *arg)
{
	sigset_t all, before;

	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &before);
	const int error = pthread_create(thread, NULL, fn, arg);
	pthread_sigmask(SIG_SETMASK, &before, NULL);
	return error == 0;
}

struct timespec gpu_until(int64_t ns)
{
	struct timespec until;

	clock_gettime(CLOCK_MONOTONIC, &until);
	ns += until.tv_nsec;
	until.tv_sec += ns / 1000000000;
	until.tv_nsec = ns % 1000000000;
	return until;
}

/* ---- devices ---- */

static int count(char *why, size_t cap)
{
	int n = 0, driver = 0;
	const cudaError_t error = cudaGetDeviceCount(&n);

	if (error == cudaSuccess)
		return n;
	if (error == cudaErrorNoDevice) {
		(void)cudaGetLastError();
		return 0;
	}
	if (cudaDriverGetVersion(&driver) == cudaSuccess && driver == 0)
		return gpu_fail(why, cap, cudaSuccess, "no NVIDIA driver is installed (%s)",
		                cudaGetErrorName(error));
	if (error == cudaErrorInsufficientDriver)
		return gpu_fail(
		        why, cap, cudaSuccess,
		        "the NVIDIA driver is for CUDA %d.%d, but this plug-in needs %s (%s)",
		        driver / 1000, driver % 1000 / 10, NEEDS, cudaGetErrorName(error));
	return gpu_fail(why, cap, error, "the NVIDIA driver does not answer");
}

static cudaError_t make_fetched(struct device *device)
{
	GPU_TRY(cudaEventCreateWithFlags(&device->fetched, cudaEventDisableTiming));
	return cudaEventRecord(device->fetched, device->lanes[LANE_TO_HOST_2].stream);
}

static uint64_t between(uint64_t least, uint64_t n, uint64_t most)
{
	return n < least ? least : n < most ? n : most;
}

static cudaError_t make_stage(struct device *device)
{
	const struct gpu *gpu = device->gpu;

	GPU_TRY(cudaSetDevice(device->ordinal));
	if (device->index == 0 && !device->stage)
		GPU_TRY(cudaMalloc(&device->stage, gpu->stage_bytes));
	for (int i = 0; i < BOUNCE; i++) {
		if (!device->bounce[i])
			GPU_TRY(cudaHostAlloc(&device->bounce[i], gpu->bounce_bytes,
			                      cudaHostAllocPortable));
		if (!device->emptied[i])
			GPU_TRY(cudaEventCreateWithFlags(&device->emptied[i],
			                                 cudaEventDisableTiming));
	}
	return cudaSuccess;
}

cudaError_t gpu_make_stage(struct device *device)
{
	if (device->emptied[BOUNCE - 1]) /* the last that is made */
		return cudaSuccess;
	pthread_mutex_lock(&device->gpu->launching);
	const cudaError_t error = make_stage(device);
	pthread_mutex_unlock(&device->gpu->launching);
	return error;
}

static cudaError_t examine(struct device *device, int *major, int *minor)
{
	int registers = 0, shares = 0;
	const struct {
		int *value;
		enum cudaDeviceAttr what;
	} attributes[] = {{major, cudaDevAttrComputeCapabilityMajor},
	                  {minor, cudaDevAttrComputeCapabilityMinor},
	                  {&device->processors, cudaDevAttrMultiProcessorCount},
	                  {&registers, cudaDevAttrHostRegisterSupported},
	                  {&shares, cudaDevAttrPageableMemoryAccessUsesHostPageTables}};

	GPU_TRY(cudaSetDevice(device->ordinal));
	for (const auto &a : attributes)
		GPU_TRY(cudaDeviceGetAttribute(a.value, a.what, device->ordinal));
	device->gpu->pins |= !registers || shares;
	return cudaSuccess;
}

static cudaError_t set_up(struct device *device)
{
	GPU_TRY(cudaMalloc((void **)&device->table, TABLE * sizeof *device->table));
	for (int i = 0; i < LANES; i++)
		if (i != LANE_NCCL || device->gpu->asked == GPU_PATH_NCCL)
			GPU_TRY(lane_start(&device->lanes[i], device));
	return device->gpu->ndevices > 1 ? make_fetched(device) : cudaSuccess;
}

static int open_device(struct device *device, char *why, size_t cap)
{
	int major = 0, minor = 0;
	cudaError_t error = examine(device, &major, &minor);

	if (error == cudaSuccess &&
	    (major < LEAST_MAJOR || (major == LEAST_MAJOR && minor < LEAST_MINOR)))
		return gpu_fail(why, cap, cudaSuccess,
		                "GPU %d has compute capability %d.%d, but this plug-in needs %d.%d",
		                device->ordinal, major, minor, LEAST_MAJOR, LEAST_MINOR);
	if (error == cudaSuccess)
		error = set_up(device);
	if (error != cudaSuccess)
		return gpu_fail(why, cap, error, "GPU %d cannot be opened", device->ordinal);
	return 0;
}

/* Can each device access the memory of all others? */
static bool all_peers(const int *ordinals, int n)
{
	for (int i = 0; i < n; i++)
		for (int j = 0; j < n; j++) {
			int can = 0;
			if (i != j && (cudaDeviceCanAccessPeer(&can, ordinals[i], ordinals[j]) !=
			                       cudaSuccess ||
			               !can))
				return false;
		}
	return true;
}

/* Let each device access the memory of all others. False: some cannot. */
static bool enable_peers(const int *ordinals, int n)
{
	cudaError_t error = all_peers(ordinals, n) ? cudaSuccess : cudaErrorPeerAccessUnsupported;

	for (int i = 0; i < n && error == cudaSuccess; i++) {
		error = cudaSetDevice(ordinals[i]);
		for (int j = 0; j < n && error == cudaSuccess; j++) {
			if (i != j)
				error = cudaDeviceEnablePeerAccess(ordinals[j], 0);
			if (error == cudaErrorPeerAccessAlreadyEnabled)
				error = cudaSuccess;
		}
	}
	(void)cudaGetLastError();
	return error == cudaSuccess;
}

/* Copy a word from each device's table to that of each other device: by its copies, then by its
 * kernels. *lost: another one arrived. Drivers report access that an IOMMU prevents. */
static cudaError_t try_peers(struct gpu *gpu, bool *lost)
{
	for (int to = 0; to < gpu->ndevices; to++)
		for (int from = 0; from < gpu->ndevices; from++)
			for (int by_kernel = 0; by_kernel < 2 && to != from; by_kernel++)
				GPU_TRY(gpu_try_access(&gpu->devices[to], &gpu->devices[from],
				                       by_kernel, lost));
	return cudaSuccess;
}

static void close_device(struct device *device)
{
	(void)cudaSetDevice(device->ordinal);
	for (int i = 0; i < LANES; i++)
		lane_stop(&device->lanes[i]);
	for (int i = 0; i < BOUNCE; i++) {
		if (device->emptied[i])
			cudaEventDestroy(device->emptied[i]);
		if (device->bounce[i])
			cudaFreeHost(device->bounce[i]);
	}
	if (device->fetched)
		cudaEventDestroy(device->fetched);
	if (device->stage)
		cudaFree(device->stage);
	if (device->table)
		cudaFree(device->table);
}

static int close_all(struct gpu *gpu)
{
	/* Threads and streams that are still busy stay behind. */
	if (gpu_drain(gpu, 0) < 0)
		return -1;
	const int64_t ns = gpu->start_ns / 2;
	const struct timespec until = gpu_until(ns < NCCL_END_NS ? ns : NCCL_END_NS);
	if (nccl_close(gpu, &until) < 0)
		return -1;
	for (int i = 0; i < gpu->ndevices; i++)
		close_device(&gpu->devices[i]);
	(void)cudaGetLastError();
	pthread_cond_destroy(&gpu->idle);
	pthread_mutex_destroy(&gpu->launching);
	pthread_mutex_destroy(&gpu->lock);
	close(gpu->event_fd);
	free(gpu->places);
	free(gpu);
	return 0;
}

/* Room for @n devices, none of which is open. NULL: errno. */
static struct gpu *make(int n)
{
	struct gpu *gpu = (struct gpu *)calloc(1, sizeof *gpu + (size_t)n * sizeof *gpu->devices);

	if (!gpu)
		return NULL;
	gpu->done.last = &gpu->done.first;
	gpu->event_fd = eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC);
	if (gpu->event_fd < 0) {
		free(gpu);
		return NULL;
	}
	gpu_condition(&gpu->idle);
	pthread_mutex_init(&gpu->lock, NULL);
	pthread_mutex_init(&gpu->launching, NULL);
	gpu->ndevices = n;
	return gpu;
}

/* Sizes of the buffers that the plug-in needs for itself, within the limits. */
static cudaError_t choose_sizes(struct gpu *gpu, const struct gpu_limits *limits)
{
	const uint64_t pieces = (uint64_t)gpu->ndevices * BOUNCE;
	size_t stage = limits->own, left, total;

	for (int i = 0; i < gpu->ndevices && !limits->own; i++) {
		GPU_TRY(cudaSetDevice(gpu->devices[i].ordinal));
		GPU_TRY(cudaMemGetInfo(&left, &total));
		if (i == 0 || left / 8 < stage)
			stage = left / 8;
	}
	gpu->stage_bytes = between(STAGE_LEAST, stage, STAGE_MOST);
	gpu->bounce_bytes =
	        between(BOUNCE_LEAST, limits->pinned / pieces / 4096 * 4096, BOUNCE_MOST);
	return cudaSuccess;
}

/* The ways between the devices. */
static int open_paths(struct gpu *gpu, const int *ordinals, char *why, size_t cap)
{
	bool lost = false;

	gpu->peers = gpu->asked != GPU_PATH_HOST && enable_peers(ordinals, gpu->ndevices);
	if (gpu->peers) {
		const cudaError_t error = try_peers(gpu, &lost);
		if (error != cudaSuccess)
			return gpu_fail(why, cap, error,
			                "the devices' access to each other's memory fails");
		gpu->peers = !lost;
	}
	if (gpu->asked == GPU_PATH_PEER && !gpu->peers)
		return gpu_fail(why, cap, cudaSuccess,
		                lost ? "data between the devices' memories are lost: the system's "
		                       "IOMMU may be the cause"
		                     : "the devices cannot access each other's memory");
	/* What NCCL cannot add needs it, and windows will leave no memory. Without NCCL the caller
	 * has no inputs on devices that the first does not access. */
	const bool staged = gpu->asked == GPU_PATH_NCCL && !gpu->peers;
	for (int i = 0; i < gpu->ndevices && staged; i++) {
		const cudaError_t error = gpu_make_stage(&gpu->devices[i]);
		if (error != cudaSuccess)
			return gpu_fail(why, cap, error,
			                "%zu bytes on GPU %d for inputs on other GPUs",
			                gpu->stage_bytes, gpu->devices[i].ordinal);
	}
	return 0;
}

static int open_devices(struct gpu *gpu, const int *ordinals, const struct gpu_limits *limits,
                        char *why, size_t cap)
{
	cudaError_t error;

	for (int i = 0; i < gpu->ndevices; i++) {
		struct device *device = &gpu->devices[i];
		device->gpu = gpu;
		device->index = i;
		device->ordinal = ordinals[i];
	}
	for (int i = 0; i < gpu->ndevices; i++)
		if (open_device(&gpu->devices[i], why, cap) < 0)
			return -1;
	if ((gpu->ndevices > 1 || gpu->asked == GPU_PATH_NCCL) &&
	    (error = choose_sizes(gpu, limits)) != cudaSuccess)
		return gpu_fail(why, cap, error, "the devices' free memory");
	if (gpu->ndevices > 1 && open_paths(gpu, ordinals, why, cap) < 0)
		return -1;
	return gpu->asked == GPU_PATH_NCCL ? nccl_open(gpu, why, cap) : 0;
}

static struct gpu *open_all(const int *ordinals, int n, enum gpu_path path,
                            const struct gpu_limits *limits, bool *stuck, char *why, size_t cap)
{
	struct gpu *gpu = n > GPU_DEVICES_MOST ? NULL : make(n);

	*stuck = false;
	if (!gpu) {
		gpu_fail(why, cap, cudaSuccess, "%d devices cannot be opened: %s", n,
		         n > GPU_DEVICES_MOST ? "too many" : strerror(errno));
		return NULL;
	}
	gpu->asked = path;
	gpu->start_ns = limits->start_ns;
	if (open_devices(gpu, ordinals, limits, why, cap) == 0)
		return gpu;
	*stuck = close_all(gpu) < 0;
	return NULL;
}

static int describe(struct gpu *gpu, int device, char *name, size_t name_cap, uint64_t *free_bytes,
                    uint64_t *total_bytes, char *why, size_t cap)
{
	struct cudaDeviceProp properties;
	size_t left = 0, total = 0;

	if (device < 0 || device >= gpu->ndevices)
		return gpu_fail(why, cap, cudaSuccess, "no device %d: %d are open", device,
		                gpu->ndevices);
	const int ordinal = gpu->devices[device].ordinal;
	cudaError_t error = cudaSetDevice(ordinal);
	if (error == cudaSuccess)
		error = cudaMemGetInfo(&left, &total);
	if (error == cudaSuccess)
		error = cudaGetDeviceProperties(&properties, ordinal);
	if (error != cudaSuccess)
		return gpu_fail(why, cap, error, "GPU %d does not answer", ordinal);
	snprintf(name, name_cap, "%s", properties.name);
	*free_bytes = left;
	*total_bytes = total;
	return 0;
}

static const char *path(struct gpu *gpu)
{
	return gpu->nccl_folds ? "nccl" : gpu->ndevices == 1 ? "" : gpu->peers ? "peer" : "host";
}

/* The NUMA node of its slot; -1: it is not known. Source: Linux, sysfs-bus-pci. */
static int node_of(const struct device *device)
{
	char id[64] = "", path[128];
	int node = -1;

	if (cudaDeviceGetPCIBusId(id, sizeof id, device->ordinal) != cudaSuccess)
		(void)cudaGetLastError();
	for (char *c = id; *c; c++)
		*c = (char)tolower(*c);
	snprintf(path, sizeof path, "/sys/bus/pci/devices/%s/numa_node", id);
	FILE *f = fopen(path, "re");
	if (f && fscanf(f, "%d", &node) != 1)
		node = -1;
	if (f)
		fclose(f);
	return node;
}

static int node(struct gpu *gpu)
{
	const int first = node_of(&gpu->devices[0]);

	for (int i = 1; i < gpu->ndevices; i++)
		if (node_of(&gpu->devices[i]) != first)
			return -1;
	return first;
}

static uint64_t pinned(struct gpu *gpu)
{
	uint64_t bytes = 0;

	for (int d = 0; d < gpu->ndevices; d++)
		for (int i = 0; i < BOUNCE; i++)
			bytes += gpu->devices[d].bounce[i] ? gpu->bounce_bytes : 0;
	return bytes;
}

/* ---- memory ---- */

static cudaError_t alloc_zeros(void **p, int ordinal, size_t bytes)
{
	GPU_TRY(cudaSetDevice(ordinal));
	GPU_TRY(cudaMalloc(p, bytes ? bytes : 1));
	GPU_TRY(cudaMemsetAsync(*p, 0, bytes, cudaStreamPerThread));
	return cudaStreamSynchronize(cudaStreamPerThread);
}

static void *alloc_now(struct gpu *gpu, int device, size_t bytes, char *why, size_t cap)
{
	void *p = NULL;
	size_t left = 0, total = 0;
	cudaError_t error = alloc_zeros(&p, gpu->devices[device].ordinal, bytes);

	if (error == cudaSuccess && place_add(gpu, p, bytes, device))
		return p;
	if (error == cudaSuccess)
		error = cudaErrorMemoryAllocation;
	if (p)
		cudaFree(p);
	if (error == cudaErrorMemoryAllocation && cudaMemGetInfo(&left, &total) == cudaSuccess)
		gpu_fail(why, cap, error, "GPU %d has no %zu bytes: %zu of %zu are free",
		         gpu->devices[device].ordinal, bytes, left, total);
	else
		gpu_fail(why, cap, error, "%zu bytes on GPU %d", bytes,
		         gpu->devices[device].ordinal);
	return NULL;
}

static void *alloc(struct gpu *gpu, int device, size_t bytes, char *why, size_t cap)
{
	if (device < 0 || device >= gpu->ndevices) {
		gpu_fail(why, cap, cudaSuccess, "no device %d: %d are open", device, gpu->ndevices);
		return NULL;
	}
	pthread_mutex_lock(&gpu->launching);
	void *p = alloc_now(gpu, device, bytes, why, cap);
	pthread_mutex_unlock(&gpu->launching);
	return p;
}

static void release(struct gpu *gpu, int device, void *p, size_t bytes)
{
	(void)bytes;
	if (!p)
		return;
	place_remove(gpu, p);
	pthread_mutex_lock(&gpu->launching);
	(void)cudaSetDevice(gpu->devices[device].ordinal);
	if (cudaFree(p) != cudaSuccess)
		(void)cudaGetLastError();
	pthread_mutex_unlock(&gpu->launching);
}

/* Pages that exist are pinned faster than the driver makes them, and huge ones are fewer. */
static void *register_pages(size_t bytes, cudaError_t *error)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	*error = cudaErrorMemoryAllocation;
	if (p == MAP_FAILED)
		return NULL;
	(void)madvise(p, bytes, MADV_HUGEPAGE);
	memset(p, 0, bytes);
	*error = cudaHostRegister(p, bytes, cudaHostRegisterPortable);
	if (*error == cudaSuccess)
		return p;
	munmap(p, bytes);
	return NULL;
}

static void *alloc_host_now(struct gpu *gpu, size_t bytes, char *why, size_t cap)
{
	void *p = NULL;
	cudaError_t error = cudaSetDevice(gpu->devices[0].ordinal);

	if (error == cudaSuccess && !gpu->pins)
		p = register_pages(bytes, &error);
	gpu->registered |= p != NULL;
	if (gpu->pins || (!gpu->registered && error != cudaErrorMemoryAllocation)) {
		(void)cudaGetLastError();
		error = cudaHostAlloc(&p, bytes, cudaHostAllocPortable);
		gpu->pins |= error == cudaSuccess;
		if (error == cudaSuccess)
			memset(p, 0, bytes);
	}
	if (error != cudaSuccess)
		gpu_fail(why, cap, error, "%zu bytes of pinned memory", bytes);
	return error == cudaSuccess ? p : NULL;
}

static void release_host(struct gpu *gpu, void *p, size_t bytes)
{
	if (!p)
		return;
	place_remove(gpu, p);
	pthread_mutex_lock(&gpu->launching);
	if ((gpu->pins ? cudaFreeHost(p) : cudaHostUnregister(p)) != cudaSuccess)
		(void)cudaGetLastError();
	pthread_mutex_unlock(&gpu->launching);
	if (!gpu->pins)
		munmap(p, bytes ? bytes : 1);
}

static void *alloc_host(struct gpu *gpu, size_t bytes, char *why, size_t cap)
{
	pthread_mutex_lock(&gpu->launching);
	void *p = alloc_host_now(gpu, bytes ? bytes : 1, why, cap);
	pthread_mutex_unlock(&gpu->launching);
	if (!p || place_add(gpu, p, bytes, PLACE_HOST))
		return p;
	release_host(gpu, p, bytes);
	gpu_fail(why, cap, cudaSuccess, "no memory to remember %zu bytes of pinned memory", bytes);
	return NULL;
}

static void unregister_host(struct gpu *gpu, void *p, size_t bytes)
{
	(void)bytes;
	place_remove(gpu, p);
	pthread_mutex_lock(&gpu->launching);
	if (cudaHostUnregister(p) != cudaSuccess)
		(void)cudaGetLastError();
	pthread_mutex_unlock(&gpu->launching);
}

static int register_host(struct gpu *gpu, void *p, size_t bytes, char *why, size_t cap)
{
	pthread_mutex_lock(&gpu->launching);
	cudaError_t error = cudaSetDevice(gpu->devices[0].ordinal);
	if (error == cudaSuccess)
		error = gpu->pins ? cudaErrorNotSupported
		                  : cudaHostRegister(p, bytes, cudaHostRegisterPortable);
	if (error != cudaSuccess)
		(void)cudaGetLastError();
	pthread_mutex_unlock(&gpu->launching);
	if (error != cudaSuccess)
		return gpu_fail(why, cap, error, "%zu bytes cannot be pinned", bytes);
	if (place_add(gpu, p, bytes, PLACE_HOST))
		return 0;
	unregister_host(gpu, p, bytes);
	return gpu_fail(why, cap, cudaSuccess, "no memory to remember %zu bytes of pinned memory",
	                bytes);
}

static int event_fd(struct gpu *gpu)
{
	return gpu->event_fd;
}

extern "C" __attribute__((visibility("default"))) const struct gpu_plugin collctl_gpu_plugin = {
        .size = sizeof(struct gpu_plugin),
        .version = GPU_PLUGIN_VERSION,
        .name = NAME,
        .count = count,
        .open = open_all,
        .close = close_all,
        .describe = describe,
        .path = path,
        .alloc = alloc,
        .release = release,
        .alloc_host = alloc_host,
        .release_host = release_host,
        .submit = gpu_submit,
        .event_fd = event_fd,
        .next = gpu_next,
        .drain = gpu_drain,
        .pinned = pinned,
        .nccl = nccl_report,
        .register_host = register_host,
        .unregister_host = unregister_host,
        .will_sleep = gpu_will_sleep,
        .node = node,
};
