/*
 * The stand-in's NCCL: reductions of host memory, on the streams of the stand-in's runtime, for
 * tests of the plug-in's use of NCCL. Its kernels wait for each other, as NCCL's do; its sums begin
 * with the last device, so that a result that depends on the order differs from the devices'. With
 * NCCL_DEBUG it writes to stdout, as NCCL does.
 * COLLCTL_NCCL_PATH names it.
 *
 * COLLCTL_STANDIN_NCCL:
 * - old: an earlier version
 * - fail: no communicator can be made
 * - hang: making a communicator never ends; it can be aborted
 * - dead: nor does the abort end
 * - fail=K, hang=K: the K-th reduction fails; its kernels never end, unless they are aborted
 */
#ifdef NCCL_HEADER
#include NCCL_HEADER
#else
#include "cuda/nccl_api.h"
#endif
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <condition_variable>
#include <memory>
#include <mutex>
#include <vector>

#include "cuda/standin/standin.h"

#define API          extern "C" STANDIN_API
#define RUNNING_MOST 1024
#define LOOKS        2

namespace
{

/* A reduction: each device brings its elements, the root combines them. */
struct meeting {
	std::mutex lock;
	std::condition_variable changed;
	std::vector<std::vector<uint8_t>> elements; /* of each device */
	unsigned here = 0;
	bool ended = false, hangs = false;
};

struct clique {
	int size;
	unsigned long long reductions;
};

/* A call inside a group. */
struct call {
	ncclComm_t comm;
	const void *from;
	void *to;
	size_t count;
	ncclDataType_t type;
	ncclRedOp_t op;
	int root;
	cudaStream_t stream;
};

struct group {
	int depth;
	std::shared_ptr<clique> made; /* by the communicators of this group */
	std::vector<call> calls;
	std::vector<std::shared_ptr<meeting>> running;
};
group &g = *new group(); /* of the only thread that calls */

bool setting_is(const char *what)
{
	const char *s = getenv("COLLCTL_STANDIN_NCCL");
	return s && strcmp(s, what) == 0;
}

/* K of "what=K"; 0: another setting. */
unsigned long long setting_of(const char *what)
{
	const char *s = getenv("COLLCTL_STANDIN_NCCL");
	const size_t n = strlen(what);
	return s && strncmp(s, what, n) == 0 && s[n] == '=' ? strtoull(s + n + 1, NULL, 10) : 0;
}

size_t size_of(ncclDataType_t type)
{
	return type == ncclInt8 || type == ncclUint8                            ? 1
	       : type == ncclInt32 || type == ncclUint32 || type == ncclFloat32 ? 4
	                                                                        : 8;
}

template <class T> T combine(ncclRedOp_t op, T x, T y)
{
	return op == ncclSum    ? (T)(x + y)
	       : op == ncclProd ? (T)(x * y)
	       : op == ncclMin  ? (x < y ? x : y)
	                        : (x > y ? x : y);
}

/* W: unsigned, in which sums and products wrap; T has the order. */
template <class T, class W> void combine_all(ncclRedOp_t op, void *to, const void *from, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		T x, y;
		memcpy(&x, (const T *)to + i, sizeof x);
		memcpy(&y, (const T *)from + i, sizeof y);
		x = op == ncclSum || op == ncclProd ? (T)combine<W>(op, (W)x, (W)y)
		                                    : combine<T>(op, x, y);
		memcpy((T *)to + i, &x, sizeof x);
	}
}

typedef void combine_fn(ncclRedOp_t op, void *to, const void *from, size_t n);
combine_fn *const combines[] = {
        /* by ncclDataType_t; 6: ncclFloat16 */
        combine_all<int8_t, uint32_t>,
        combine_all<uint8_t, uint32_t>,
        combine_all<int32_t, uint32_t>,
        combine_all<uint32_t, uint32_t>,
        combine_all<int64_t, uint64_t>,
        combine_all<uint64_t, uint64_t>,
        NULL,
        combine_all<float, float>,
        combine_all<double, double>,
};

/* What device @rank's kernel does. */
void meet(meeting &m, const call &c, int rank)
{
	const size_t bytes = c.count * size_of(c.type);
	std::unique_lock<std::mutex> lock(m.lock);

	m.elements[(size_t)rank].assign((const uint8_t *)c.from, (const uint8_t *)c.from + bytes);
	m.here++;
	m.changed.notify_all();
	while (!m.ended && (m.hangs || m.here < m.elements.size()))
		m.changed.wait(lock);
	if (rank != c.root || m.ended)
		return;
	std::vector<uint8_t> sum = m.elements.back();
	for (size_t d = m.elements.size() - 1; d-- > 0;)
		combines[c.type](c.op, sum.data(), m.elements[d].data(), c.count);
	memcpy(c.to, sum.data(), bytes);
}

} // namespace

struct ncclComm {
	std::shared_ptr<clique> all;
	int rank;
	int looks; /* until the last call has ended */
};

API const char *ncclGetErrorString(ncclResult_t result)
{
	return result == ncclSystemError ? "unhandled system error (stand-in)"
	                                 : "NCCL error (stand-in)";
}

API ncclResult_t ncclGetVersion(int *version)
{
	*version = setting_is("old") ? 21400 : NCCL_VERSION_CODE;
	return ncclSuccess;
}

API ncclResult_t ncclGetUniqueId(ncclUniqueId *id)
{
	if (getenv("NCCL_DEBUG"))
		puts("NCCL INFO");
	*id = {};
	return ncclSuccess;
}

API ncclResult_t ncclCommInitRankConfig(ncclComm_t *comm, int nranks, ncclUniqueId, int rank,
                                        ncclConfig_t *config)
{
	if (g.depth == 0 || config->blocking != 0)
		return ncclInvalidUsage;
	if (setting_is("fail"))
		return ncclSystemError;
	if (!g.made) {
		g.made = std::make_shared<clique>();
		g.made->size = nranks;
	}
	*comm = new ncclComm{g.made, rank, LOOKS};
	return ncclInProgress;
}

API ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t *state)
{
	const bool goes_on = comm->looks > 0 || setting_is("hang") || setting_is("dead");
	comm->looks -= comm->looks > 0;
	*state = goes_on ? ncclInProgress : ncclSuccess;
	return ncclSuccess;
}

API ncclResult_t ncclCommAbort(ncclComm_t comm)
{
	while (setting_is("dead"))
		pause();
	for (auto &m : g.running) {
		std::unique_lock<std::mutex> lock(m->lock);
		m->ended = true;
		m->changed.notify_all();
	}
	delete comm;
	standin_kernels_meet(false);
	return ncclSuccess;
}

API ncclResult_t ncclGroupStart(void)
{
	g.depth++;
	return ncclSuccess;
}

API ncclResult_t ncclReduce(const void *from, void *to, size_t count, ncclDataType_t type,
                            ncclRedOp_t op, int root, ncclComm_t comm, cudaStream_t stream)
{
	if (g.depth == 0)
		return ncclInvalidUsage;
	comm->looks = LOOKS;
	g.calls.push_back({comm, from, to, count, type, op, root, stream});
	return ncclInProgress;
}

API ncclResult_t ncclGroupEnd(void)
{
	std::vector<call> calls;

	g.depth--;
	g.made.reset();
	calls.swap(g.calls);
	if (calls.empty())
		return ncclSuccess;
	standin_kernels_meet(true);
	clique &all = *calls[0].comm->all;
	if (calls.size() != (size_t)all.size)
		return ncclInvalidUsage;
	all.reductions++;
	if (all.reductions == setting_of("fail"))
		return ncclSystemError;
	auto m = std::make_shared<meeting>();
	m->elements.resize(calls.size());
	m->hangs = all.reductions == setting_of("hang");
	g.running.push_back(m);
	if (g.running.size() > RUNNING_MOST) /* the first has long ended */
		g.running.erase(g.running.begin());
	for (const call &c : calls) {
		const int rank = c.comm->rank;
		const size_t bytes = c.count * size_of(c.type);
		std::vector<touch> touches = {{c.from, bytes, false}};
		if (rank == c.root)
			touches.push_back({c.to, bytes, true});
		if (standin_launch(c.stream, touches, [=] { meet(*m, c, rank); }) != cudaSuccess)
			return ncclUnhandledCudaError;
	}
	return ncclInProgress;
}
