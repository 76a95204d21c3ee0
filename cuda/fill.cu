/* Fills of memory. */
#include "cuda/fold.cuh"

/* Words of 16 bytes at a time, where @d is aligned to them from some word on. */
template <class T>
__global__ void __launch_bounds__(THREADS) fill(const __grid_constant__ fill_args a)
{
	const uint64_t threads = (uint64_t)gridDim.x * THREADS;
	const uint64_t thread = (uint64_t)blockIdx.x * THREADS + threadIdx.x;
	const uint64_t count = VECTOR / sizeof(T), phase = (uintptr_t)a.dst % VECTOR / sizeof(T);
	const uint64_t want = (count - phase) % count, head = want < a.n ? want : a.n;
	const uint64_t vectors = (a.n - head) / count, whole = vectors * count;
	T *d = (T *)a.dst;
	vector<T> x;

	UNROLL for (int e = 0; e < VECTOR / (int)sizeof(T); e++) x.elements[e] =
	        (T)a.words[(head + e) % 2];
	for (uint64_t v = thread; v < vectors; v += threads)
		*(vector_bits *)(void *)(d + head + v * count) = x.bits;
	for (uint64_t i = thread; i < a.n - whole; i += threads) {
		const uint64_t at = i < head ? i : i + whole;
		d[at] = (T)a.words[at % 2];
	}
}

const void *fill_kernel(unsigned size)
{
	switch (size) {
	case 1:
		return (const void *)fill<uint8_t>;
	case 2:
		return (const void *)fill<uint16_t>;
	case 4:
		return (const void *)fill<uint32_t>;
	default:
		return (const void *)fill<uint64_t>;
	}
}

__global__ void __launch_bounds__(POINTERS) set_pointers(const __grid_constant__ pointers_args a)
{
	if ((int)threadIdx.x < a.n)
		a.to[threadIdx.x] = a.pointers[threadIdx.x];
}

const void *pointers_kernel(void)
{
	return (const void *)set_pointers;
}
