/*
 * The part of the CUDA runtime's interface that the plug-in uses, for a build without CUDA: the
 * stand-in's runtime (runtime.cc) implements it. Names, values and meanings are NVIDIA's (CUDA
 * Runtime API reference); where a toolkit is found, runtime.cc is also compiled against its header,
 * which finds what differs.
 */
#ifndef COLLCTL_CUDA_STANDIN_RUNTIME_API_H
#define COLLCTL_CUDA_STANDIN_RUNTIME_API_H

#include <stddef.h>

#define CUDART_VERSION 13000

typedef enum cudaError {
	cudaSuccess = 0,
	cudaErrorInvalidValue = 1,
	cudaErrorMemoryAllocation = 2,
	cudaErrorInsufficientDriver = 35,
	cudaErrorNoDevice = 100,
	cudaErrorInvalidDevice = 101,
	cudaErrorPeerAccessUnsupported = 217,
	cudaErrorNotReady = 600,
	cudaErrorIllegalAddress = 700,
	cudaErrorPeerAccessAlreadyEnabled = 704,
	cudaErrorLaunchFailure = 719,
	cudaErrorNotSupported = 801,
	cudaErrorUnknown = 999,
} cudaError_t;

enum cudaMemcpyKind {
	cudaMemcpyHostToHost = 0,
	cudaMemcpyHostToDevice = 1,
	cudaMemcpyDeviceToHost = 2,
	cudaMemcpyDeviceToDevice = 3,
};

enum cudaDeviceAttr {
	cudaDevAttrMultiProcessorCount = 16,
	cudaDevAttrComputeCapabilityMajor = 75,
	cudaDevAttrComputeCapabilityMinor = 76,
	cudaDevAttrHostRegisterSupported = 99,
	cudaDevAttrPageableMemoryAccessUsesHostPageTables = 100,
};

struct cudaDeviceProp {
	char name[256];
};

struct cudaFuncAttributes {
	int maxThreadsPerBlock;
};

struct dim3 {
	unsigned x, y, z;
	constexpr dim3(unsigned nx = 1, unsigned ny = 1, unsigned nz = 1) : x(nx), y(ny), z(nz)
	{
	}
};

typedef struct CUstream_st *cudaStream_t;
typedef struct CUevent_st *cudaEvent_t;

#define cudaStreamNonBlocking    0x01
#define cudaEventBlockingSync    0x01
#define cudaEventDisableTiming   0x02
#define cudaHostAllocPortable    0x01
#define cudaHostRegisterPortable 0x01
#define cudaStreamPerThread      ((cudaStream_t)0x2)

extern "C" {

const char *cudaGetErrorName(cudaError_t);
const char *cudaGetErrorString(cudaError_t);
cudaError_t cudaGetLastError(void);

cudaError_t cudaDriverGetVersion(int *version);
cudaError_t cudaGetDeviceCount(int *count);
cudaError_t cudaSetDevice(int device);
cudaError_t cudaGetDevice(int *device);
cudaError_t cudaDeviceGetAttribute(int *value, enum cudaDeviceAttr, int device);
cudaError_t cudaGetDeviceProperties(struct cudaDeviceProp *, int device);
cudaError_t cudaDeviceGetPCIBusId(char *id, int bytes, int device);
cudaError_t cudaDeviceCanAccessPeer(int *can, int device, int peer);
cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags);

cudaError_t cudaMemGetInfo(size_t *left, size_t *total);
cudaError_t cudaMalloc(void **p, size_t bytes);
cudaError_t cudaFree(void *p);
cudaError_t cudaHostAlloc(void **p, size_t bytes, unsigned flags);
cudaError_t cudaFreeHost(void *p);
cudaError_t cudaHostRegister(void *p, size_t bytes, unsigned flags);
cudaError_t cudaHostUnregister(void *p);

cudaError_t cudaStreamCreateWithFlags(cudaStream_t *, unsigned flags);
cudaError_t cudaStreamDestroy(cudaStream_t);
cudaError_t cudaStreamSynchronize(cudaStream_t);
cudaError_t cudaStreamWaitEvent(cudaStream_t, cudaEvent_t, unsigned flags);
cudaError_t cudaEventCreateWithFlags(cudaEvent_t *, unsigned flags);
cudaError_t cudaEventDestroy(cudaEvent_t);
cudaError_t cudaEventRecord(cudaEvent_t, cudaStream_t);
cudaError_t cudaEventSynchronize(cudaEvent_t);
cudaError_t cudaEventQuery(cudaEvent_t);

cudaError_t cudaMemsetAsync(void *p, int value, size_t bytes, cudaStream_t);
cudaError_t cudaMemcpyAsync(void *dst, const void *src, size_t bytes, enum cudaMemcpyKind,
                            cudaStream_t);
cudaError_t cudaMemcpyPeerAsync(void *dst, int to, const void *src, int from, size_t bytes,
                                cudaStream_t);
cudaError_t cudaFuncGetAttributes(struct cudaFuncAttributes *, const void *kernel);
cudaError_t cudaLaunchKernel(const void *kernel, dim3 blocks, dim3 threads, void **args,
                             size_t shared_bytes, cudaStream_t);
}

#endif
