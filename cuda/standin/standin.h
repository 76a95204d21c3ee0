/*
 * What the stand-in's NCCL (nccl.cc) needs of its runtime (runtime.cc).
 */
#ifndef COLLCTL_CUDA_STANDIN_H
#define COLLCTL_CUDA_STANDIN_H

#include <cuda_runtime_api.h>

#include <functional>
#include <vector>

#define STANDIN_API __attribute__((visibility("default")))

/* A setting of the environment: an unsigned number, @otherwise if it is absent. */
STANDIN_API unsigned long long standin_setting(const char *name, unsigned long long otherwise);

struct touch {
	const void *p;
	size_t bytes;
	bool writes;
};

/* Queue @work on the stream: it runs on the stream's thread, as a kernel of its device, and makes
 * only these touches. */
STANDIN_API cudaError_t standin_launch(cudaStream_t stream, const std::vector<touch> &touches,
                                       std::function<void()> work);

/* Say whether kernels of different devices wait for each other. A GPU that loads a kernel may wait
 * for those that run, then for ever. Here, the launch of a kernel that is not loaded fails. */
STANDIN_API void standin_kernels_meet(bool meet);

#endif
