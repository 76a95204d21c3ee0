/*
 * The stand-in: a CUDA runtime whose devices are host memory, for tests on machines without a GPU.
 * The plug-in's own code (cuda/ *.cu), compiled for the CPU, runs over it as over NVIDIA's.
 *
 * It has a GPU's manners. Memory of a device can be touched only while a copy or a kernel uses it:
 * a touch by the host faults, and so does one by the kernel of a device that has no access to it.
 * Each stream is a thread. Frees wait for what has been queued. A device that has failed does
 * nothing more, and each call that concerns it returns its error. Copies and kernels that touch the
 * same memory in no order end the process (conflicts.h).
 *
 * With COLLCTL_STANDIN_DELAY it does what CUDA permits, also what no GPU does often: it draws how
 * slow each stream is; copies and kernels are done in parts, in any order, with pauses before,
 * between and after them; events are late; a copy of pageable memory reads it at any time until its
 * end, or the call waits for the end; an allocation or the release of pinned memory waits for the
 * device, or not; new memory begins with garbage, and so does that to which a copy writes; the copy
 * or kernel that fails has done a part.
 *
 * - COLLCTL_STANDIN_DEVICES=N: the number of devices, 0 to 8 (default 1)
 * - COLLCTL_STANDIN_PEERS=1: each device may access the memory of the others; 2: the driver says
 * so, but copies between devices write nothing
 * - COLLCTL_STANDIN_REGISTER=no|fails: host memory cannot be registered, and the driver says so; it
 * does not
 * - COLLCTL_STANDIN_DELAY=US,SEED: each copy and kernel takes up to US microseconds longer, on a
 *   slow stream twice that
 * - COLLCTL_STANDIN_DIRECT=1: for measurements. What a stream without other work is given is done
 * in the call, by the thread of the caller, and the memory of devices stays open: then copies and
 *   kernels cost what they cost the processor, and no changes of threads and page tables
 * - COLLCTL_STANDIN_RATE=BYTES: bytes a second that a device copies in each direction to and from
 *   host memory (default: not limited)
 * - COLLCTL_STANDIN_MEMORY=BYTES: memory of each device (default 1 GiB)
 * - COLLCTL_STANDIN_ALLOC_FAIL=K: the K-th allocation, of a device's or of pinned memory, fails
 * - COLLCTL_STANDIN_FAIL=K[,hang]: the K-th copy or kernel fails; streams of other devices that
 * wait for this one go on, or wait for ever
 * - COLLCTL_STANDIN_HANG=K: the K-th copy or kernel never completes
 * - COLLCTL_STANDIN_DRIVER=no|old|hang: there is no driver; it is older than the runtime; it never
 *   answers
 * - COLLCTL_STANDIN_PCI=TEXT: the PCI bus ID of device k is TEXT and k (default: 0000:00:00.k)
 * - COLLCTL_STANDIN_CAPABILITY=NN: compute capability N.N (default 75)
 * - CUDA_DEVICE_MAX_CONNECTIONS=N: streams share N queues of a device (default: each has its own)
 */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "cuda/kernels.h"
#include "cuda/standin/machine.h"

#define KERNEL_THREADS 3    /* that a kernel runs as, one after another ... */
#define KERNEL_LARGE   4096 /* ... unless it has as many: each goes through all of its memory */
#define THREADS_MOST   6    /* when strict */
#define PARTS_MOST     4    /* of a copy, when strict */
#define GARBAGE_MOST   ((size_t)256 << 10) /* bytes at the beginning of new memory */

/* In the static part of a thread's memory, which the leak sanitizer can walk. */
#define THREAD_LOCAL __attribute__((tls_model("initial-exec"))) thread_local

namespace
{

THREAD_LOCAL int current;
THREAD_LOCAL cudaError_t last;
THREAD_LOCAL cudaStream_t own[DEVICES_MOST]; /* cudaStreamPerThread; NULL: it has no work */

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

/* With the lock held: the error of a device that has failed, which all its calls return. */
cudaError_t failure(int device)
{
	return m.devices[device].error;
}

/* ---- copies ---- */

/* Part @part of [0, bytes): from *begin to *end. */
void range(size_t bytes, unsigned part, unsigned parts, size_t *begin, size_t *end)
{
	*begin = bytes / parts * part;
	*end = part + 1 == parts ? bytes : bytes / parts * (part + 1);
}

unsigned parts_of(size_t bytes)
{
	return is_strict() && bytes >= PARTS_MOST ? 1 + (unsigned)draw(PARTS_MOST) : 1;
}

cudaError_t copy(void *dst, const void *src, size_t bytes, int to, int from, cudaStream_t s)
{
	Lock lock(m.lock);
	operation o = {};
	auto d = std::make_shared<deed>();
	const bool pageable = (to == HOST && !region_of(dst)) || (from == HOST && !region_of(src));
	if ((to != HOST && !inside(dst, bytes, to)) ||
	    (from != HOST && !inside(src, bytes, from)) ||
	    (to == HOST && region_of(dst) && !inside(dst, bytes, HOST)) ||
	    (from == HOST && region_of(src) && !inside(src, bytes, HOST)))
		return cudaErrorInvalidValue;
	o.work = [=](unsigned part, unsigned parts) {
		char *at = d->late.empty() ? (char *)dst : (char *)d->late.data();
		size_t begin, end;
		range(bytes, part, parts, &begin, &end);
		memmove(at + begin, (const char *)src + begin, end - begin);
	};
	o.parts = parts_of(bytes);
	d->what = "a copy";
	d->touches = {{dst, bytes, true}, {src, bytes, false}};
	if (is_strict() && (to == HOST || from == HOST))
		d->host = &d->touches[to == HOST ? 0 : 1];
	o.does = d;
	o.bytes = to == HOST || from == HOST ? bytes : 0;
	o.direction = to == HOST ? TO_HOST : TO_DEVICE;
	const cudaError_t error = queue_work(lock, s, std::move(o), true);
	if (error != cudaSuccess || !pageable || !is_odd())
		return error;
	await_mark(lock, *mark_end(lock, s));
	return failure(s->device);
}

/* The device that has @p, or HOST. */
int place_of(const void *p)
{
	Lock lock(m.lock);
	const region *r = region_of(p);
	return r ? r->device : HOST;
}

/* ---- kernels ---- */

/* What a kernel touches. */
struct toucher : host_touch {
	std::vector<touch> touches;

	void reads(const void *p, uint64_t bytes) override
	{
		touches.push_back({p, bytes, false});
	}
	void writes(const void *p, uint64_t bytes) override
	{
		touches.push_back({p, bytes, true});
	}
	void stores(const void *const *at, const void *pointer) override
	{
		writes(at, sizeof *at);
		m.pointers[at] = pointer;
	}
	const void *loads(const void *const *at) override
	{
		reads(at, sizeof *at);
		return m.pointers[at];
	}
};

/* ---- memory ---- */

/* With the lock held: does this allocation fail? */
bool is_short(void)
{
	return ++m.allocations == standin_setting("COLLCTL_STANDIN_ALLOC_FAIL", 0);
}

/* Source: CUDA programming guide, "Implicit synchronization". */
cudaError_t allocate(void **p, size_t bytes, int device)
{
	Lock lock(m.lock);
	if (is_odd())
		await_device(lock, current);
	if (cudaError_t error = failure(current))
		return error;
	if (is_short() || (device != HOST && bytes > memory() - m.devices[device].used))
		return cudaErrorMemoryAllocation;
	const size_t room = room_of(bytes, device);
	void *q = mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (q == MAP_FAILED)
		return cudaErrorMemoryAllocation;
	if (room != bytes)
		(void)madvise(q, room, MADV_HUGEPAGE);
	if (is_strict()) /* not all: pages that exist make each operation slower */
		memset(q, GARBAGE, bytes < GARBAGE_MOST ? bytes : GARBAGE_MOST);
	if (device != HOST && !m.direct && mprotect(q, room, PROT_NONE) != 0)
		abort();
	if (device != HOST)
		m.devices[device].used += bytes;
	m.regions[(uint8_t *)q] = {(uint8_t *)q, bytes, device, 0};
	*p = q;
	return cudaSuccess;
}

/* The memory that begins at @p, on a device or not. NULL: there is none. */
region *begins_at(const void *p, bool host)
{
	auto at = m.regions.find((const uint8_t *)p);
	return at != m.regions.end() && (at->second.device == HOST) == host ? &at->second : NULL;
}

void forget(Lock &lock, region *r)
{
	await_users(lock, r);
	m.pointers.erase(m.pointers.lower_bound((const void *const *)r->p),
	                 m.pointers.lower_bound((const void *const *)(r->p + r->bytes)));
	m.regions.erase(r->p);
}

cudaError_t release(void *p)
{
	Lock lock(m.lock);
	region *r = begins_at(p, false);
	if (!r)
		return cudaErrorInvalidValue;
	const int device = r->device;
	conflicts_release(p, r->bytes);
	await_device(lock, device);
	if (cudaError_t error = failure(device))
		return error;
	const size_t bytes = r->bytes;
	m.devices[device].used -= bytes;
	forget(lock, r);
	munmap(p, room_of(bytes, device));
	return cudaSuccess;
}

cudaError_t release_host(void *p, bool unmap)
{
	Lock lock(m.lock);
	region *r = begins_at(p, true);
	if (!r)
		return cudaErrorInvalidValue;
	conflicts_release(p, r->bytes);
	if (!is_odd())
		await_device(lock, HOST);
	if (cudaError_t error = failure(current))
		return error;
	const size_t bytes = r->bytes;
	forget(lock, r);
	if (unmap)
		munmap(p, bytes);
	return cudaSuccess;
}

} // namespace

cudaError_t standin_launch(cudaStream_t stream, const std::vector<touch> &touches,
                           std::function<void()> work)
{
	Lock lock(m.lock);
	operation o = {};
	o.work = [=](unsigned, unsigned) { work(); };
	o.parts = 1;
	o.does = std::make_shared<deed>();
	o.waits = true;
	o.does->what = "a kernel of NCCL";
	o.does->touches = touches;
	o.is_kernel = true;
	return queue_work(lock, stream, std::move(o), true);
}

void standin_kernels_meet(bool meet)
{
	Lock lock(m.lock);
	m.kernels_meet = meet;
}

struct CUevent_st {
	std::shared_ptr<mark> recorded; /* NULL: never */
	int device;
};

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
	Lock lock(m.lock);
	return result(failure(device));
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

cudaError_t cudaDeviceGetPCIBusId(char *id, int bytes, int device)
{
	const char *text = getenv("COLLCTL_STANDIN_PCI");
	const int n = snprintf(id, (size_t)bytes, "%s%d", text ? text : "0000:00:00.", device);
	return result(n < bytes ? cudaSuccess : cudaErrorInvalidValue);
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
	if (cudaError_t error = failure(current))
		return result(error);
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
	return result(failure(current));
}

cudaError_t cudaMalloc(void **p, size_t bytes)
{
	return result(allocate(p, bytes, current));
}

cudaError_t cudaFree(void *p)
{
	return result(release(p));
}

cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned flags)
{
	return result(flags == cudaHostAllocPortable ? allocate(p, bytes, HOST)
	                                             : cudaErrorInvalidValue);
}

cudaError_t cudaFreeHost(void *p)
{
	return result(release_host(p, true));
}

cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags)
{
	Lock lock(m.lock);
	if (is_odd())
		await_device(lock, current);
	if (cudaError_t error = failure(current))
		return result(error);
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
	return result(release_host(p, false));
}

/* ---- streams and events ---- */

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *stream, unsigned)
{
	Lock lock(m.lock);
	if (cudaError_t error = failure(current))
		return result(error);
	*stream = stream_make(current);
	return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream)
{
	Lock lock(m.lock);
	const int device = stream->device;
	stream_end(lock, stream);
	return result(failure(device));
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream)
{
	Lock lock(m.lock);
	cudaStream_t s = stream == cudaStreamPerThread ? own[current] : stream;
	const int device = s ? s->device : current;
	if (s)
		await_told(lock, *mark_end(lock, s));
	if (s && s == own[device]) {
		own[device] = NULL;
		stream_end(lock, s);
	}
	return result(failure(device));
}

cudaError_t cudaEventCreateWithFlags(cudaEvent_t *event, unsigned)
{
	Lock lock(m.lock);
	if (cudaError_t error = failure(current))
		return result(error);
	*event = new CUevent_st();
	(*event)->device = current;
	return cudaSuccess;
}

cudaError_t cudaEventDestroy(cudaEvent_t event)
{
	Lock lock(m.lock);
	const int device = event->device;
	delete event;
	return result(failure(device));
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream)
{
	Lock lock(m.lock);
	if (stream->device != event->device)
		return result(cudaErrorInvalidValue);
	if (cudaError_t error = failure(stream->device))
		return result(error);
	event->recorded = mark_end(lock, stream);
	return cudaSuccess;
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned)
{
	Lock lock(m.lock);
	if (cudaError_t error = failure(stream->device))
		return result(error);
	follow(lock, stream, event->recorded);
	return cudaSuccess;
}

cudaError_t cudaEventSynchronize(cudaEvent_t event)
{
	Lock lock(m.lock);
	const int device = event->device;
	const std::shared_ptr<mark> recorded = event->recorded;
	if (recorded)
		await_told(lock, *recorded);
	return result(failure(device));
}

cudaError_t cudaEventQuery(cudaEvent_t event)
{
	Lock lock(m.lock);
	if (cudaError_t error = failure(event->device))
		return result(error);
	if (!event->recorded)
		return cudaSuccess;
	if (!event->recorded->reached)
		return cudaErrorNotReady;
	conflicts_tell(event->recorded->known);
	return cudaSuccess;
}

/* ---- copies and kernels ---- */

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t stream)
{
	Lock lock(m.lock);
	region *r = region_of(p);
	if (!r || (bytes && !inside(p, bytes, r->device)))
		return result(cudaErrorInvalidValue);
	const bool counts = stream != cudaStreamPerThread;
	if (!counts && !own[current])
		own[current] = stream_make(current);
	operation o = {};
	o.work = [=](unsigned part, unsigned parts) {
		size_t begin, end;
		range(bytes, part, parts, &begin, &end);
		memset((char *)p + begin, value, end - begin);
	};
	o.parts = parts_of(bytes);
	o.does = std::make_shared<deed>();
	o.does->what = "a fill";
	o.does->touches = {{p, bytes, true}};
	return result(queue_work(lock, counts ? stream : own[current], std::move(o), counts));
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
	const uint8_t *first = (const uint8_t *)args[0];
	const std::vector<uint64_t> copy((const uint64_t *)first,
	                                 (const uint64_t *)(first + k->bytes));
	const uint64_t all = (uint64_t)blocks.x * threads.x;
	Lock lock(m.lock);
	if (m.devices[current].kernels.insert(kernel).second && m.kernels_meet)
		return result(cudaErrorLaunchFailure);
	uint64_t n = is_strict() ? 1 + draw(THREADS_MOST) : all < KERNEL_LARGE ? KERNEL_THREADS : 1;
	n = all < n ? all : n;
	operation o = {};
	o.work = [=](unsigned part, unsigned parts) {
		for (uint64_t thread = part; thread < n; thread += parts)
			k->run(copy.data(), thread, n);
	};
	o.parts = is_strict() ? (unsigned)n : 1;
	toucher touched;
	k->touch(copy.data(), &touched);
	o.does = std::make_shared<deed>();
	o.does->what = "a kernel";
	o.does->touches = std::move(touched.touches);
	o.is_kernel = true;
	return result(queue_work(lock, stream, std::move(o), true));
}
}
