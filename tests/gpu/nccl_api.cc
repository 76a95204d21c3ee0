/*
 * Prints the values of cuda/nccl_api.h, or of NVIDIA's header if NCCL_HEADER names it: what the
 * plug-in passes to NCCL must be the same in both. (Types and arguments are compared by compiling
 * cuda/standin/nccl.cc with either.)
 */
#ifdef NCCL_HEADER
#include NCCL_HEADER
#else
#include "cuda/nccl_api.h"
#endif

#include <stdio.h>

#define SHOW(value) printf(#value " %ld\n", (long)(value))

int main(void)
{
	const ncclConfig_t config = NCCL_CONFIG_INITIALIZER;

	SHOW(ncclSuccess);
	SHOW(ncclUnhandledCudaError);
	SHOW(ncclSystemError);
	SHOW(ncclInternalError);
	SHOW(ncclInvalidArgument);
	SHOW(ncclInvalidUsage);
	SHOW(ncclInProgress);
	SHOW(ncclSum);
	SHOW(ncclProd);
	SHOW(ncclMin);
	SHOW(ncclMax);
	SHOW(ncclInt8);
	SHOW(ncclUint8);
	SHOW(ncclInt32);
	SHOW(ncclUint32);
	SHOW(ncclInt64);
	SHOW(ncclUint64);
	SHOW(ncclFloat32);
	SHOW(ncclFloat64);
	SHOW(sizeof(ncclUniqueId));
	SHOW(config.magic);
	SHOW(config.blocking);
	SHOW(offsetof(ncclConfig_t, size));
	SHOW(offsetof(ncclConfig_t, magic));
	SHOW(offsetof(ncclConfig_t, version));
	SHOW(offsetof(ncclConfig_t, blocking));
	SHOW(offsetof(ncclConfig_t, maxCTAs));
	return 0;
}
