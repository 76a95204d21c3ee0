/*
 * The part of NCCL's interface that the plug-in uses, as of version 2.18, so that it is built the
 * same where NCCL's header is not installed. Names, values and meanings are NVIDIA's (NCCL user
 * guide, "API"); where the header is found, a test compares them (tests/gpu/nccl_api.cc). A later
 * NCCL takes the shorter ncclConfig_t, whose size and version say what it has.
 */
#ifndef COLLCTL_CUDA_NCCL_API_H
#define COLLCTL_CUDA_NCCL_API_H

#include <limits.h>
#include <stddef.h>

#include <cuda_runtime_api.h>

#define NCCL_VERSION_CODE 21800

typedef struct ncclComm *ncclComm_t;

typedef struct {
	char internal[128];
} ncclUniqueId;

typedef enum {
	ncclSuccess = 0,
	ncclUnhandledCudaError = 1,
	ncclSystemError = 2,
	ncclInternalError = 3,
	ncclInvalidArgument = 4,
	ncclInvalidUsage = 5,
	ncclInProgress = 7,
} ncclResult_t;

typedef enum { ncclSum = 0, ncclProd = 1, ncclMax = 2, ncclMin = 3 } ncclRedOp_t;

typedef enum {
	ncclInt8 = 0,
	ncclUint8 = 1,
	ncclInt32 = 2,
	ncclUint32 = 3,
	ncclInt64 = 4,
	ncclUint64 = 5,
	ncclFloat32 = 7,
	ncclFloat64 = 8,
} ncclDataType_t;

typedef struct {
	size_t size;
	unsigned magic, version;
	int blocking, cgaClusterSize, minCTAs, maxCTAs;
} ncclConfig_t;

#define NCCL_CONFIG_INITIALIZER                                                                 \
	{                                                                                       \
		sizeof(ncclConfig_t), 0xcafebeef, NCCL_VERSION_CODE, INT_MIN, INT_MIN, INT_MIN, \
		        INT_MIN                                                                 \
	}

extern "C" {
const char *ncclGetErrorString(ncclResult_t);
ncclResult_t ncclGetVersion(int *version);
ncclResult_t ncclGetUniqueId(ncclUniqueId *);
ncclResult_t ncclCommInitRankConfig(ncclComm_t *, int nranks, ncclUniqueId, int rank,
                                    ncclConfig_t *);
ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t *);
ncclResult_t ncclCommAbort(ncclComm_t);
ncclResult_t ncclGroupStart(void);
ncclResult_t ncclGroupEnd(void);
ncclResult_t ncclReduce(const void *from, void *to, size_t count, ncclDataType_t, ncclRedOp_t,
                        int root, ncclComm_t, cudaStream_t);
}

#endif
