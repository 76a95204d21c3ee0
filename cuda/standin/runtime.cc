/*
 * The stand-in: a CUDA runtime whose devices are host memory, for tests on machines without a GPU.
 * The plug-in's own code (cuda/ *.cu), compiled for the CPU, runs over it as over NVIDIA's.
 *
 * It has a GPU's manners. Memory of a device can be touched only while a copy or a kernel uses it:
 * a touch by the host faults, and so does one by the kernel of a device that has no access to it.
 * Each stream is a thread. A device that has failed does nothing more, and each call returns its
 * error.
 *
 * - COLLCTL_STANDIN_DEVICES=N: the number of devices, 0 to 8 (default 1)
 * - COLLCTL_STANDIN_PEERS=1: each device may access the memory of the others; 2: the driver says
 * so, but copies between devices write nothing
 * - COLLCTL_STANDIN_REGISTER=no|fails: host memory cannot be registered, and the driver says so; it
 * does not
 * - COLLCTL_STANDIN_DELAY=US,SEED: each copy and kernel takes up to US microseconds longer
 * - COLLCTL_STANDIN_RATE=BYTES: bytes a second that a device copies in each direction to and from
 *   host memory (default: not limited)
 * - COLLCTL_STANDIN_MEMORY=BYTES: memory of each device (default 1 GiB)
 * - COLLCTL_STANDIN_ALLOC_FAIL=K: the K-th allocation, of a device's or of pinned memory, fails
 * - COLLCTL_STANDIN_FAIL=K: the K-th copy or kernel fails
 * - COLLCTL_STANDIN_HANG=K: the K-th copy or kernel never completes
 * - COLLCTL_STANDIN_DRIVER=no|old|hang: there is no driver; it is older than the runtime; it never
 *   answers
 * - COLLCTL_STANDIN_CAPABILITY=NN: compute capability N.N (default 75)
 */
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include <condition_variable>
#include <deque>
#include <map>
#include <mutex>
#include <set>
#include <thread>
#include <vector>

#include "cuda/kernels.h"
#include "cuda/standin/standin.h"

#define DEVICES_MOST   8
#define HOST           (-1)
#define KERNEL_THREADS 3 /* that a kernel runs as, one after another */

typedef std::unique_lock<std::mutex> Lock;

namespace
{

/* Memory of a device, or pinned host memory. */
struct region {
	uint8_t *p;
	size_t bytes;
	int device; /* HOST */
	int users;  /* operations that run on it */
};

enum direction { TO_DEVICE, TO_HOST, DIRECTIONS };

struct device {
	uint64_t used;
	bool access[DEVICES_MOST];        /* to the memory of other devices */
	cudaError_t error;                /* once it has failed */
	int64_t copies_until[DIRECTIONS]; /* ns: its copies occupy it until then */
	std::set<const void *> kernels;   /* that are loaded */
};

struct operation {
	std::function<void(Lock &)> step; /* with the lock held; or */
	std::function<void()> work;       /* without */
	std::vector<const void *> uses; /* the memory of a copy; none: all that a kernel reaches */
	bool counts, fails, hangs;
	int64_t late; /* ns */
	size_t bytes; /* that occupy the device's copies in @direction */
	enum direction direction;
};

struct machine {
	std::mutex lock;
	std::condition_variable unused; /* a region has no users */
	std::map<const uint8_t *, region> regions;
	device devices[DEVICES_MOST];
	uint64_t dice;
	unsigned long long begun, allocations;
	bool kernels_meet;
	std::set<cudaEvent_t> events;
};

/* It stays when the process ends, because threads may still run. */
machine &m = *new machine();
/* In the static part of a thread's memory, which the leak sanitizer can walk. */
#define THREAD_LOCAL __attribute__((tls_model("initial-exec"))) thread_local
THREAD_LOCAL int current;
THREAD_LOCAL cudaError_t last;

} // namespace

struct CUstream_st {
	int device;
	std::thread *thread; /* NULL: nothing has been queued */
	std::condition_variable more;
	std::deque<operation> queue;
	bool busy, stop;
};

struct CUevent_st {
	std::condition_variable reached_more;
	uint64_t recorded, reached;
	int pending; /* operations that refer to it */
	int device;
	bool destroyed;
};

unsigned long long standin_setting(const char *name, unsigned long long otherwise)
{
	const char *s = getenv(name);
	return s && *s ? strtoull(s, NULL, 10) : otherwise;
}

namespace
{

cudaError_t result(cudaError_t error)
{
	if (error != cudaSuccess)
		last = error;
	return error;
}

bool driver_is(const char *what)
{
	const char *driver = getenv("COLLCTL_STANDIN_DRIVER");
	return driver && strcmp(driver, what) == 0;
}

int devices(void)
{
	const unsigned long long n = standin_setting("COLLCTL_STANDIN_DEVICES", 1);
	return n > DEVICES_MOST ? DEVICES_MOST : (int)n;
}

uint64_t memory(void)
{
	return standin_setting("COLLCTL_STANDIN_MEMORY", 1ull << 30);
}

int64_t now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

/* ---- memory; with the lock held ---- */

region *region_of(const void *p)
{
	auto at = m.regions.upper_bound((const uint8_t *)p);
	if (at == m.regions.begin())
		return NULL;
	region *r = &(--at)->second;
	return (const uint8_t *)p < r->p + r->bytes ? r : NULL;
}

bool inside(const void *p, size_t bytes, int device)
{
	const region *r = region_of(p);
	return r && r->device == device && bytes <= (size_t)(r->p + r->bytes - (const uint8_t *)p);
}

void use(region *r, int change)
{
	if (r->device == HOST)
		return;
	const bool was = r->users > 0;
	r->users += change;
	if (was != (r->users > 0) &&
	    mprotect(r->p, r->bytes, was ? PROT_NONE : PROT_READ | PROT_WRITE) != 0)
		abort();
	if (r->users == 0)
		m.unused.notify_all();
}

/* What an operation of @device reaches. */
std::vector<region *> reached(int device, const std::vector<const void *> &uses)
{
	std::vector<region *> all;
	for (const void *p : uses)
		if (region *r = region_of(p))
			all.push_back(r);
	if (uses.empty())
		for (auto &at : m.regions)
			if (at.second.device == device ||
			    (at.second.device != HOST &&
			     m.devices[device].access[at.second.device]))
				all.push_back(&at.second);
	return all;
}

/* ---- streams ---- */

/* Wait as long as a slow device would work. */
void lag(Lock &lock, cudaStream_t s, const operation &o)
{
	const uint64_t rate = standin_setting("COLLCTL_STANDIN_RATE", 0);
	int64_t until = now();
	if (rate && o.bytes) {
		int64_t &busy = m.devices[s->device].copies_until[o.direction];
		until = (busy > until ? busy : until) +
		        (int64_t)((double)o.bytes * 1e9 / (double)rate);
		busy = until;
	}
	until += o.late;
	for (int64_t left; (left = until - now()) > 0;)
		s->more.wait_for(lock, std::chrono::nanoseconds(left));
}

/* A device has failed: nobody waits for it, and its streams do not wait. */
void wake_all(void)
{
	for (cudaEvent_t event : m.events)
		event->reached_more.notify_all();
}

void run(Lock &lock, cudaStream_t s, operation &o)
{
	device &d = m.devices[s->device];
	if (o.step) {
		o.step(lock);
		return;
	}
	while (o.hangs)
		s->more.wait(lock);
	if (d.error != cudaSuccess)
		return;
	if (o.fails) {
		d.error = cudaErrorLaunchFailure;
		wake_all();
		return;
	}
	const std::vector<region *> all = reached(s->device, o.uses);
	for (region *r : all)
		use(r, 1);
	lock.unlock();
	o.work();
	lock.lock();
	for (region *r : all)
		use(r, -1);
	lag(lock, s, o);
}

void stream_main(cudaStream_t s)
{
	Lock lock(m.lock);
	for (;;) {
		while (s->queue.empty() && !s->stop)
			s->more.wait(lock);
		if (s->queue.empty())
			return;
		operation o = std::move(s->queue.front());
		s->queue.pop_front();
		run(lock, s, o);
	}
}

/* With the lock held. A stream's thread begins with its first operation; signals are for the
 * program's own threads. */
void queue(cudaStream_t s, operation &&o)
{
	s->queue.push_back(std::move(o));
	if (!s->thread) {
		sigset_t all, before;
		sigfillset(&all);
		pthread_sigmask(SIG_SETMASK, &all, &before);
		s->thread = new std::thread(stream_main, s);
		pthread_sigmask(SIG_SETMASK, &before, NULL);
	}
	s->more.notify_all();
}

int64_t delay(void)
{
	const char *text = getenv("COLLCTL_STANDIN_DELAY");
	const uint64_t us = text ? strtoull(text, NULL, 10) : 0;
	const char *seed = text ? strchr(text, ',') : NULL;
	if (m.dice == 0)
		m.dice = seed ? strtoull(seed + 1, NULL, 10) : 1;
	m.dice = m.dice * 6364136223846793005u + 1442695040888963407u;
	return us ? (int64_t)((m.dice >> 33) % (us + 1)) * 1000 : 0;
}

/* Queue a copy or a kernel. */
cudaError_t submit(Lock &, cudaStream_t s, operation &&o)
{
	if (m.devices[s->device].error != cudaSuccess)
		return m.devices[s->device].error;
	m.begun++;
	o.fails = m.begun == standin_setting("COLLCTL_STANDIN_FAIL", 0);
	o.hangs = m.begun == standin_setting("COLLCTL_STANDIN_HANG", 0);
	o.late = delay();
	queue(s, std::move(o));
	return cudaSuccess;
}

cudaError_t copy(void *dst, const void *src, size_t bytes, int to, int from, cudaStream_t s)
{
	Lock lock(m.lock);
	operation o = {};
	if ((to != HOST && !inside(dst, bytes, to)) ||
	    (from != HOST && !inside(src, bytes, from)) ||
	    (to == HOST && region_of(dst) && !inside(dst, bytes, HOST)) ||
	    (from == HOST && region_of(src) && !inside(src, bytes, HOST)))
		return cudaErrorInvalidValue;
	o.work = [=] { memmove(dst, src, bytes); };
	o.uses = {dst, src};
	o.bytes = to == HOST || from == HOST ? bytes : 0;
	o.direction = to == HOST ? TO_HOST : TO_DEVICE;
	return submit(lock, s, std::move(o));
}

/* The device that has @p, or HOST. */
int place_of(const void *p)
{
	Lock lock(m.lock);
	const region *r = region_of(p);
	return r ? r->device : HOST;
}

/* With the lock held: does this allocation fail? */
bool is_short(void)
{
	return ++m.allocations == standin_setting("COLLCTL_STANDIN_ALLOC_FAIL", 0);
}

cudaError_t allocate(void **p, size_t bytes, int device)
{
	Lock lock(m.lock);
	if (device != HOST && m.devices[device].error != cudaSuccess)
		return m.devices[device].error;
	if (is_short() || (device != HOST && bytes > memory() - m.devices[device].used))
		return cudaErrorMemoryAllocation;
	void *q = mmap(NULL, bytes, device == HOST ? PROT_READ | PROT_WRITE : PROT_NONE,
	               MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (q == MAP_FAILED)
		return cudaErrorMemoryAllocation;
	if (device != HOST)
		m.devices[device].used += bytes;
	m.regions[(uint8_t *)q] = {(uint8_t *)q, bytes, device, 0};
	*p = q;
	return cudaSuccess;
}

/* As CUDA's, it waits for the operations that use the memory. */
cudaError_t release(void *p, bool host, bool unmap)
{
	Lock lock(m.lock);
	auto at = m.regions.find((uint8_t *)p);
	if (at == m.regions.end() || (at->second.device == HOST) != host)
		return cudaErrorInvalidValue;
	region *r = &at->second;
	while (r->users > 0)
		m.unused.wait(lock);
	if (r->device != HOST)
		m.devices[r->device].used -= r->bytes;
	if (unmap)
		munmap(r->p, r->bytes);
	m.regions.erase(at);
	return cudaSuccess;
}

} // namespace

static bool is_fine(int device)
{
	return m.devices[device].error == cudaSuccess;
}

cudaError_t standin_launch(cudaStream_t stream, std::function<void()> work)
{
	Lock lock(m.lock);
	operation o = {};
	o.work = std::move(work);
	return submit(lock, stream, std::move(o));
}

void standin_kernels_meet(bool meet)
{
	Lock lock(m.lock);
	m.kernels_meet = meet;
}

/* ---- errors and devices ---- */

extern "C" {

const char *cudaGetErrorName(cudaError_t error)
{
	switch (error) {
	case cudaSuccess:
		return "cudaSuccess";
	case cudaErrorMemoryAllocation:
		return "cudaErrorMemoryAllocation";
	case cudaErrorInsufficientDriver:
		return "cudaErrorInsufficientDriver";
	case cudaErrorInvalidDevice:
		return "cudaErrorInvalidDevice";
	case cudaErrorLaunchFailure:
		return "cudaErrorLaunchFailure";
	case cudaErrorInvalidValue:
		return "cudaErrorInvalidValue";
	case cudaErrorNotSupported:
		return "cudaErrorNotSupported";
	default:
		return "cudaErrorUnknown";
	}
}

const char *cudaGetErrorString(cudaError_t error)
{
	return error == cudaErrorMemoryAllocation ? "out of memory (stand-in)"
	       : error == cudaErrorLaunchFailure  ? "launch failed (stand-in)"
	                                          : "an error of the stand-in";
}

cudaError_t cudaGetLastError(void)
{
	const cudaError_t error = last;
	last = cudaSuccess;
	return error;
}

cudaError_t cudaDriverGetVersion(int *version)
{
	*version = driver_is("no") ? 0 : driver_is("old") ? 12040 : CUDART_VERSION;
	return cudaSuccess;
}

cudaError_t cudaGetDeviceCount(int *count)
{
	while (driver_is("hang"))
		pause();
	if (driver_is("no") || driver_is("old"))
		return result(cudaErrorInsufficientDriver);
	*count = devices();
	return result(*count ? cudaSuccess : cudaErrorNoDevice);
}

cudaError_t cudaSetDevice(int device)
{
	if (device < 0 || device >= devices())
		return result(cudaErrorInvalidDevice);
	current = device;
	return cudaSuccess;
}

cudaError_t cudaGetDevice(int *device)
{
	*device = current;
	return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr attribute, int device)
{
	const int capability = (int)standin_setting("COLLCTL_STANDIN_CAPABILITY", 75);
	const char *registers = getenv("COLLCTL_STANDIN_REGISTER");
	if (device < 0 || device >= devices())
		return result(cudaErrorInvalidDevice);
	switch (attribute) {
	case cudaDevAttrComputeCapabilityMajor:
		*value = capability / 10;
		return cudaSuccess;
	case cudaDevAttrComputeCapabilityMinor:
		*value = capability % 10;
		return cudaSuccess;
	case cudaDevAttrMultiProcessorCount:
		*value = 4;
		return cudaSuccess;
	case cudaDevAttrHostRegisterSupported:
		*value = !registers || strcmp(registers, "no") != 0;
		return cudaSuccess;
	case cudaDevAttrPageableMemoryAccessUsesHostPageTables:
		*value = 0;
		return cudaSuccess;
	default:
		return result(cudaErrorInvalidValue);
	}
}

cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *properties, int device)
{
	if (device < 0 || device >= devices())
		return result(cudaErrorInvalidDevice);
	snprintf(properties->name, sizeof properties->name, "stand-in %d", device);
	return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer)
{
	*can = device != peer && standin_setting("COLLCTL_STANDIN_PEERS", 0);
	return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags)
{
	Lock lock(m.lock);
	bool &access = m.devices[current].access[peer];
	if (flags || peer == current || !standin_setting("COLLCTL_STANDIN_PEERS", 0))
		return result(cudaErrorPeerAccessUnsupported);
	if (access)
		return result(cudaErrorPeerAccessAlreadyEnabled);
	access = true;
	return cudaSuccess;
}

/* ---- memory ---- */

cudaError_t cudaMemGetInfo(size_t *left, size_t *total)
{
	Lock lock(m.lock);
	*total = memory();
	*left = *total - m.devices[current].used;
	return cudaSuccess;
}

cudaError_t cudaMalloc(void **p, size_t bytes)
{
	return result(allocate(p, bytes, current));
}

cudaError_t cudaFree(void *p)
{
	return result(release(p, false, true));
}

cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned flags)
{
	return result(flags == cudaHostAllocPortable ? allocate(p, bytes, HOST)
	                                             : cudaErrorInvalidValue);
}

cudaError_t cudaFreeHost(void *p)
{
	return result(release(p, true, true));
}

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags)
{
	Lock lock(m.lock);
	if (flags != cudaHostRegisterPortable || region_of(p))
		return result(cudaErrorInvalidValue);
	if (getenv("COLLCTL_STANDIN_REGISTER"))
		return result(cudaErrorNotSupported);
	if (is_short())
		return result(cudaErrorMemoryAllocation);
	m.regions[(uint8_t *)p] = {(uint8_t *)p, bytes, HOST, 0};
	return cudaSuccess;
}

cudaError_t cudaHostUnregister(void *p)
{
	return result(release(p, true, false));
}

cudaError_t cudaPointerGetAttributes(struct cudaPointerAttributes *at, const void *p)
{
	Lock lock(m.lock);
	const region *r = region_of(p);
	*at = {};
	at->type = !r                  ? cudaMemoryTypeUnregistered
	           : r->device == HOST ? cudaMemoryTypeHost
	                               : cudaMemoryTypeDevice;
	at->device = r && r->device != HOST ? r->device : 0;
	return cudaSuccess;
}

/* ---- streams and events ---- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned)
{
	*stream = new CUstream_st();
	(*stream)->device = current;
	return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	{
		Lock lock(m.lock);
		stream->stop = true;
		stream->more.notify_all();
	}
	if (stream->thread)
		stream->thread->join();
	delete stream->thread;
	delete stream;
	return cudaSuccess;
}

/* Of cudaStreamPerThread, whose operations are complete when the call returns. */
cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	cudaEvent_t end;
	if (stream == cudaStreamPerThread)
		return cudaSuccess;
	cudaError_t error = cudaEventCreateWithFlags(&end, cudaEventDisableTiming);
	if (error != cudaSuccess)
		return error;
	error = cudaEventRecord(end, stream);
	if (error == cudaSuccess)
		error = cudaEventSynchronize(end);
	cudaEventDestroy(end);
	return error;
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned)
{
	Lock lock(m.lock);
	*event = new CUevent_st();
	(*event)->device = current;
	m.events.insert(*event);
	return cudaSuccess;
}

static void forget(cudaEvent_t event)
{
	if (--event->pending > 0 || !event->destroyed)
		return;
	m.events.erase(event);
	delete event;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	Lock lock(m.lock);
	event->destroyed = true;
	event->pending++;
	forget(event);
	return cudaSuccess;
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	Lock lock(m.lock);
	operation o = {};
	if (stream->device != event->device)
		return result(cudaErrorInvalidValue);
	if (m.devices[stream->device].error != cudaSuccess)
		return result(m.devices[stream->device].error);
	const uint64_t number = ++event->recorded;
	event->pending++;
	o.step = [=](Lock &) {
		event->reached = number;
		event->reached_more.notify_all();
		forget(event);
	};
	queue(stream, std::move(o));
	return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
	Lock lock(m.lock);
	const uint64_t number = event->recorded;
	operation o = {};
	if (m.devices[stream->device].error != cudaSuccess)
		return result(m.devices[stream->device].error);
	event->pending++;
	o.step = [=](Lock &held) {
		while (event->reached < number && is_fine(event->device) && is_fine(stream->device))
			event->reached_more.wait(held);
		forget(event);
	};
	queue(stream, std::move(o));
	return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	Lock lock(m.lock);
	const uint64_t number = event->recorded;
	while (event->reached < number && is_fine(event->device))
		event->reached_more.wait(lock);
	return result(m.devices[event->device].error);
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
	Lock lock(m.lock);
	const cudaError_t error = m.devices[event->device].error;
	return error != cudaSuccess               ? result(error)
	       : event->reached < event->recorded ? cudaErrorNotReady
	                                          : cudaSuccess;
}

/* ---- copies and kernels ---- */

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream)
{
	Lock lock(m.lock);
	region *r = region_of(p);
	if (!r || (bytes && !inside(p, bytes, r->device)))
		return result(cudaErrorInvalidValue);
	if (stream != cudaStreamPerThread) {
		operation o = {};
		o.work = [=] { memset(p, value, bytes); };
		o.uses = {p};
		return result(submit(lock, stream, std::move(o)));
	}
	use(r, 1);
	memset(p, value, bytes);
	use(r, -1);
	return cudaSuccess;
}

cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind kind,
                            cudaStream_t stream)
{
	const int to = place_of(dst), from = place_of(src);
	if ((to == HOST) != (kind == cudaMemcpyDeviceToHost) ||
	    (from == HOST) != (kind == cudaMemcpyHostToDevice))
		return result(cudaErrorInvalidValue);
	return result(copy(dst, src, bytes, to, from, stream));
}

cudaError_t cudaMemcpyPeerAsync(void *dst, int to, const void *src, int from, size_t bytes,
                                cudaStream_t stream)
{
	if (standin_setting("COLLCTL_STANDIN_PEERS", 0) == 2)
		return cudaSuccess;
	return result(copy(dst, src, bytes, to, from, stream));
}

cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *attributes, const void *kernel)
{
	Lock lock(m.lock);
	const cudaError_t error = m.devices[current].error;
	if (error == cudaSuccess) {
		m.devices[current].kernels.insert(kernel);
		*attributes = {};
	}
	return result(error);
}

/* Without nvcc a kernel is a struct host_kernel (cuda/kernels.h). */
cudaError_t cudaLaunchKernel(const void *kernel, dim3 blocks, dim3 threads, void **args, size_t,
                             cudaStream_t stream)
{
	const struct host_kernel *k = (const struct host_kernel *)kernel;
	if (current != stream->device)
		return result(cudaErrorInvalidValue);
	{
		Lock lock(m.lock);
		if (m.devices[current].kernels.insert(kernel).second && m.kernels_meet)
			return result(cudaErrorLaunchFailure);
	}
	const uint64_t all = (uint64_t)blocks.x * threads.x;
	const uint64_t n = all < KERNEL_THREADS ? all : KERNEL_THREADS;
	const uint8_t *first = (const uint8_t *)args[0];
	const std::vector<uint64_t> copy((const uint64_t *)first,
	                                 (const uint64_t *)(first + k->bytes));
	return result(standin_launch(stream, [=] {
		for (uint64_t thread = 0; thread < n; thread++)
			k->run(copy.data(), thread, n);
	}));
}
}
