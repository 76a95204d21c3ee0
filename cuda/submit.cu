/* Tasks: which stream does their work, and how. */
#include "cuda/gpu.h"

extern "C" {
#include "lib/data/kernels/element.h"
}

#define BLOCKS_PER_PROCESSOR 8 /* enough for all of its threads */

/* ---- copies from device to device ---- */

/* In @stream of @to, through pieces of host memory: each is read by @from and then written by @to.
 */
static cudaError_t fetch(struct device *to, cudaStream_t stream, void *dst, struct device *from,
                         const void *src, uint64_t bytes)
{
	const cudaStream_t source = from->lanes[LANE_TO_HOST_2].stream;

	GPU_TRY(gpu_make_stage(to));
	to->gpu->fetches = true;
	for (uint64_t done = 0; done < bytes;) {
		const unsigned piece = to->next_piece++ % BOUNCE;
		const uint64_t left = bytes - done,
		               n = left < to->gpu->bounce_bytes ? left : to->gpu->bounce_bytes;
		void *host = to->bounce[piece];

		GPU_TRY(cudaStreamWaitEvent(source, to->emptied[piece], 0));
		GPU_TRY(cudaMemcpyAsync(host, (const char *)src + done, n, cudaMemcpyDeviceToHost,
		                        source));
		GPU_TRY(cudaEventRecord(from->fetched, source));
		GPU_TRY(cudaStreamWaitEvent(stream, from->fetched, 0));
		GPU_TRY(cudaMemcpyAsync((char *)dst + done, host, n, cudaMemcpyHostToDevice,
		                        stream));
		GPU_TRY(cudaEventRecord(to->emptied[piece], stream));
		done += n;
	}
	return cudaSuccess;
}

static cudaError_t copy_between(struct device *to, cudaStream_t stream, void *dst,
                                struct device *from, const void *src, uint64_t bytes)
{
	if (to == from)
		return cudaMemcpyAsync(dst, src, bytes, cudaMemcpyDeviceToDevice, stream);
	if (to->gpu->peers)
		return cudaMemcpyPeerAsync(dst, to->ordinal, src, from->ordinal, bytes, stream);
	return fetch(to, stream, dst, from, src, bytes);
}

/* ---- kernels ---- */

static cudaError_t launch(const struct device *device, cudaStream_t stream, const void *kernel,
                          void *args, uint64_t work)
{
	const uint64_t most = (uint64_t)device->processors * BLOCKS_PER_PROCESSOR;
	const uint64_t want = (work + THREADS - 1) / THREADS;
	const dim3 blocks((unsigned)(want < 1 ? 1 : want < most ? want : most));

	return cudaLaunchKernel(kernel, blocks, dim3(THREADS), &args, 0, stream);
}

/* Write the addresses of the inputs from FOLD_DIRECT on to the device's table. They travel as
 * arguments, so nothing has to outlive the call, and the stream orders the uses of the table. */
static cudaError_t set_table(struct device *device, cudaStream_t stream, const void *const *inputs,
                             int ninputs)
{
	for (int k = FOLD_DIRECT; k < ninputs; k += POINTERS) {
		struct pointers_args args = {.to = device->table + (k - FOLD_DIRECT),
		                             .n = ninputs - k < POINTERS ? ninputs - k : POINTERS,
		                             .pointers = {}};
		for (int i = 0; i < args.n; i++)
			args.pointers[i] = inputs[k + i];
		GPU_TRY(launch(device, stream, pointers_kernel(), &args, 1));
	}
	return cudaSuccess;
}

cudaError_t gpu_fold(struct device *device, cudaStream_t stream, const struct fold_row *row,
                     void *dst, const void *const *inputs, int ninputs, uint64_t offset, uint64_t n)
{
	struct fold_args args = {.dst = dst,
	                         .n = n * row->parts,
	                         .head = 0,
	                         .offset = offset,
	                         .ninputs = ninputs,
	                         .more = device->table,
	                         .inputs = {}};

	GPU_TRY(set_table(device, stream, inputs, ninputs));
	for (int k = 0; k < ninputs && k < FOLD_DIRECT; k++)
		args.inputs[k] = inputs[k];
	fold_align(&args, row->size);
	for (int k = FOLD_DIRECT; k < ninputs; k++)
		if (((uintptr_t)inputs[k] + offset) % VECTOR != (uintptr_t)dst % VECTOR)
			args.head = args.n;
	const uint64_t each = args.head < args.n ? 2 * (VECTOR / row->size) : 1;
	return launch(device, stream, row->kernel, &args, args.n / each + 1);
}

/* Send @word from @from's table to @to's, and from there to *arrived, which is another one before.
 * The last of it goes on in @stream. */
static cudaError_t send_word(struct device *to, struct device *from, bool by_kernel,
                             const uint64_t *word, uint64_t *arrived, cudaStream_t stream)
{
	const struct fold_row *row = fold_find(REDUCE_SUM, DTYPE_U64, DTYPE_U64);
	const cudaStream_t source = from->lanes[LANE_COMPUTE].stream;
	const void *src = from->table;
	void *dst = to->table + 1;

	GPU_TRY(cudaSetDevice(from->ordinal));
	GPU_TRY(cudaMemcpyAsync((void *)from->table, word, sizeof *word, cudaMemcpyHostToDevice,
	                        source));
	GPU_TRY(cudaStreamSynchronize(source));
	GPU_TRY(cudaSetDevice(to->ordinal));
	GPU_TRY(cudaMemcpyAsync(dst, arrived, sizeof *arrived, cudaMemcpyHostToDevice, stream));
	GPU_TRY(by_kernel ? gpu_fold(to, stream, row, dst, &src, 1, 0, 1)
	                  : copy_between(to, stream, dst, from, src, sizeof *word));
	return cudaMemcpyAsync(arrived, dst, sizeof *arrived, cudaMemcpyDeviceToHost, stream);
}

cudaError_t gpu_try_access(struct device *to, struct device *from, bool by_kernel, bool *lost)
{
	const cudaStream_t stream = to->lanes[LANE_COMPUTE].stream;
	const uint64_t word = (uint64_t)to->index << 32 | (unsigned)from->index << 1 | by_kernel;
	uint64_t arrived = ~word;
	const cudaError_t error = send_word(to, from, by_kernel, &word, &arrived, stream);
	/* Also after an error: a copy may still use the words. */
	const cudaError_t end = cudaStreamSynchronize(stream);
	*lost |= arrived != word;
	return error == cudaSuccess ? end : error;
}

cudaError_t gpu_load_kernels(void)
{
	struct cudaFuncAttributes loaded;
	const struct fold_row *row;

	GPU_TRY(cudaFuncGetAttributes(&loaded, pointers_kernel()));
	for (unsigned size = 1; size <= 8; size *= 2)
		GPU_TRY(cudaFuncGetAttributes(&loaded, fill_kernel(size)));
	for (size_t i = 0; (row = fold_row_at(i)) != NULL; i++)
		GPU_TRY(cudaFuncGetAttributes(&loaded, row->kernel));
	return cudaSuccess;
}

/* How a fold or identity is done. */
struct fold_plan {
	const struct fold_row *row;
	bool nccl, staged;
	int places[FOLD_DIRECT + TABLE], away;
};

/* Fold inputs, some of which are on devices that this one does not access: a range of elements at a
 * time, those inputs are copied to its stage. */
static cudaError_t fold_staged(struct device *device, cudaStream_t stream,
                               const struct fold_plan *p, const struct gpu_task *t)
{
	const struct fold_row *row = p->row;
	const unsigned size = row->size * row->parts;
	const uint64_t share = device->gpu->stage_bytes / (unsigned)p->away / 256 * 256;
	const uint64_t most = (share - VECTOR) / size;
	const void *inputs[FOLD_DIRECT + TABLE];

	GPU_TRY(gpu_make_stage(device));
	for (uint64_t pos = 0; pos < t->n; pos += most) {
		const uint64_t n = t->n - pos < most ? t->n - pos : most;
		char *dst = (char *)t->dst + pos * size;
		/* Aligned as the destination is. */
		char *stage = (char *)device->stage + (uintptr_t)dst % VECTOR;
		for (int k = 0; k < t->ninputs; k++) {
			const char *from = (const char *)t->inputs[k] + t->offset + pos * size;
			inputs[k] = from;
			if (p->places[k] == device->index)
				continue;
			GPU_TRY(fetch(device, stream, stage, &device->gpu->devices[p->places[k]],
			              from, n * size));
			inputs[k] = stage;
			stage += share;
		}
		GPU_TRY(gpu_fold(device, stream, row, dst, inputs, t->ninputs, 0, n));
	}
	return cudaSuccess;
}

/* ---- tasks ---- */

static cudaError_t copy(struct device *device, struct lane *lane, const struct gpu_task *t, int to,
                        int from)
{
	struct gpu *gpu = device->gpu;

	if (t->n == 0)
		return cudaSuccess;
	if (to >= 0 && from >= 0)
		return copy_between(&gpu->devices[to], lane->stream, t->dst, &gpu->devices[from],
		                    t->src, t->n);
	return cudaMemcpyAsync(t->dst, t->src, t->n,
	                       to >= 0 ? cudaMemcpyHostToDevice : cudaMemcpyDeviceToHost,
	                       lane->stream);
}

static cudaError_t identity(struct device *device, cudaStream_t stream, const struct gpu_task *t,
                            unsigned size)
{
	const uint64_t bits = element_identity((enum reduce_op)t->reduce, (enum dtype)t->dtype);
	const bool wide = size == 16;
	const unsigned word = wide ? 8 : size;
	struct fill_args args = {
	        .dst = t->dst, .n = wide ? 2 * t->n : t->n, .words = {bits, wide ? 0 : bits}};

	return launch(device, stream, fill_kernel(word), &args, args.n / (VECTOR / word) + 1);
}

/* The devices of a fold's inputs, and how many are not the fold's. */
static int find_inputs(const struct gpu *gpu, const struct gpu_task *t, struct fold_plan *p,
                       char *why, size_t cap)
{
	const uint64_t bytes = t->n * p->row->size * p->row->parts;

	p->away = 0;
	for (int k = 0; k < t->ninputs; k++) {
		p->places[k] = place_of(gpu, (const char *)t->inputs[k] + t->offset, bytes);
		if (p->places[k] < 0)
			return gpu_fail(why, cap, cudaSuccess,
			                "input %d of a reduction is not in device memory", k);
		p->away += p->places[k] != t->device;
	}
	return 0;
}

/* -1: it cannot be done; @why. */
static int plan_fold(struct gpu *gpu, const struct gpu_task *t, struct fold_plan *p, char *why,
                     size_t cap)
{
	/* Every type has a sum, and an identity needs only the type's size. */
	p->row = t->op == GPU_FOLD ? fold_find(t->reduce, t->acc, t->dtype)
	                           : fold_find(REDUCE_SUM, t->dtype, t->dtype);
	p->nccl = p->staged = false;
	if (!p->row)
		return gpu_fail(why, cap, cudaSuccess,
		                "no kernel for operation %d on type %d, accumulated in %d",
		                t->reduce, t->dtype, t->acc);
	if (t->op != GPU_FOLD)
		return 0;
	if (t->ninputs < 1 || t->ninputs > FOLD_DIRECT + TABLE)
		return gpu_fail(why, cap, cudaSuccess, "a reduction of %d inputs, not 1 to %d",
		                t->ninputs, FOLD_DIRECT + TABLE);
	const bool nccl = t->n > 0 && nccl_can(gpu, t);
	if (!nccl && (gpu->ndevices == 1 || gpu->peers))
		return 0;
	if (find_inputs(gpu, t, p, why, cap) < 0)
		return -1;
	p->nccl = nccl && nccl_spread(gpu, p->places, t->ninputs);
	p->staged = p->away && !gpu->peers;
	if (p->staged && t->device != 0)
		return gpu_fail(why, cap, cudaSuccess,
		                "a reduction on device %d of inputs on other devices", t->device);
	return 0;
}

/* The lane for a copy, and the devices of its ends (or PLACE_HOST). NULL: @why. */
static struct lane *copy_lane(struct gpu *gpu, const struct gpu_task *t, int *to, int *from,
                              char *why, size_t cap)
{
	struct device *device = &gpu->devices[t->device];

	*to = place_of(gpu, t->dst, t->n);
	*from = place_of(gpu, t->src, t->n);
	if (*to == PLACE_UNKNOWN || *from == PLACE_UNKNOWN || (*to < 0 && *from < 0)) {
		gpu_fail(why, cap, cudaSuccess,
		         "a copy on device %d of memory that is neither a device's nor pinned",
		         t->device);
		return NULL;
	}
	if (*to >= 0 && *from >= 0)
		return &gpu->devices[*to].lanes[LANE_BETWEEN];
	return lane_pick(device, *to >= 0 ? LANE_TO_DEVICE : LANE_TO_HOST);
}

/* Put the task's work into the lane's stream. */
static cudaError_t enqueue(struct device *device, cudaStream_t stream, const struct gpu_task *t,
                           const struct fold_plan *p)
{
	if (t->n == 0)
		return cudaSuccess;
	if (t->op == GPU_IDENTITY)
		return identity(device, stream, t, p->row->size * p->row->parts);
	if (p->staged)
		return fold_staged(device, stream, p, t);
	return gpu_fold(device, stream, p->row, t->dst, t->inputs, t->ninputs, t->offset, t->n);
}

/* A task of the lane that has begun. @others: it reads the memory of other devices. NULL: @why. */
static struct task *begin(struct lane *lane, const struct gpu_task *t, bool others, char *why,
                          size_t cap)
{
	const int ordinal = lane->device->ordinal;
	cudaError_t error = cudaSetDevice(ordinal);
	struct task *task = error == cudaSuccess ? lane_task(lane, &error) : NULL;

	if (!task) {
		gpu_fail(why, cap, error, "a task for GPU %d", ordinal);
		return NULL;
	}
	task->report = true;
	task->cookie = t->cookie;
	task->op = t->op;
	task->device = t->device;
	task->others = others;
	lane_begin(task);
	return task;
}

/* End a task that has no work, without a report. */
static void drop(struct task *task)
{
	task->report = false;
	lane_fail(task, "");
}

/* False: NCCL does not take it, because it has failed or there is no memory. */
static bool submit_to_nccl(struct gpu *gpu, const struct gpu_task *t, const struct fold_plan *p)
{
	char why[GPU_WHY];
	struct lane *lane = &gpu->devices[t->device].lanes[LANE_NCCL];
	struct task *task = begin(lane, t, gpu->ndevices > 1, why, sizeof why);

	if (!task)
		return false;
	if (nccl_submit(gpu, task, t, p->row, p->places) == 0)
		return true;
	drop(task);
	return false;
}

int gpu_submit(struct gpu *gpu, const struct gpu_task *t, char *why, size_t cap)
{
	int to = -1, from = -1;
	struct fold_plan plan;

	if (t->device < 0 || t->device >= gpu->ndevices)
		return gpu_fail(why, cap, cudaSuccess, "no device %d: %d are open", t->device,
		                gpu->ndevices);
	struct device *device = &gpu->devices[t->device];
	struct lane *lane = &device->lanes[LANE_COMPUTE];
	if (t->op == GPU_COPY)
		lane = copy_lane(gpu, t, &to, &from, why, cap);
	else if (plan_fold(gpu, t, &plan, why, cap) < 0)
		return -1;
	else if (plan.nccl && submit_to_nccl(gpu, t, &plan))
		return 0;
	const bool others = t->op == GPU_COPY ? to >= 0 && from >= 0 && to != from
	                                      : t->op == GPU_FOLD && gpu->ndevices > 1;
	struct task *task = lane ? begin(lane, t, others, why, cap) : NULL;
	if (!task)
		return -1;
	cudaError_t error = t->op == GPU_COPY ? copy(device, lane, t, to, from)
	                                      : enqueue(device, lane->stream, t, &plan);
	/* What began before an error still runs: drain waits for it. */
	task->report = error == cudaSuccess;
	const cudaError_t pushed = lane_push(task);
	if (pushed != cudaSuccess)
		drop(task);
	if (error == cudaSuccess)
		error = pushed;
	if (error == cudaSuccess)
		return 0;
	/* It may be that of another device, whose memory the task reads. */
	const int failed = gpu_failed(gpu, &error);
	return gpu_fail(why, cap, error, "%s on GPU %d cannot start", gpu_op_name(t->op),
	                failed < 0 ? device->ordinal : gpu->devices[failed].ordinal);
}
