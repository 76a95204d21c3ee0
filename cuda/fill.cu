/* Fills of memory. */
#include "cuda/fold.cuh"

namespace
{

/* Words of 16 bytes at a time, where @d is aligned to them from some word on. */
template <class T> struct fill_work {
	typedef fill_args args;

	ELEMENT_FN void share(const fill_args &a, uint64_t thread, uint64_t threads)
	{
		const uint64_t count = VECTOR / sizeof(T);
		const uint64_t phase = (uintptr_t)a.dst % VECTOR / sizeof(T);
		const uint64_t want = (count - phase) % count, head = want < a.n ? want : a.n;
		const uint64_t vectors = (a.n - head) / count, whole = vectors * count;
		T *d = (T *)a.dst;
		vector<T> x;

		UNROLL for (int e = 0; e < VECTOR / (int)sizeof(T); e++) x.elements[e] =
		        (T)a.words[(head + e) % 2];
		for (uint64_t v = thread; v < vectors; v += threads)
			store_vector(d + head + v * count, x.bits);
		for (uint64_t i = thread; i < a.n - whole; i += threads) {
			const uint64_t at = i < head ? i : i + whole;
			d[at] = (T)a.words[at % 2];
		}
	}

#ifndef __CUDACC__
	static void touch(const fill_args &a, struct host_touch *t)
	{
		t->writes(a.dst, a.n * sizeof(T));
	}
#endif
};

struct pointers_work {
	typedef pointers_args args;

	ELEMENT_FN void share(const pointers_args &a, uint64_t thread, uint64_t threads)
	{
		for (uint64_t i = thread; i < (uint64_t)a.n; i += threads)
			a.to[i] = a.pointers[i];
	}

#ifndef __CUDACC__
	static void touch(const pointers_args &a, struct host_touch *t)
	{
		for (int i = 0; i < a.n; i++)
			t->stores(a.to + i, a.pointers[i]);
	}
#endif
};

} // namespace

const void *fill_kernel(unsigned size)
{
	switch (size) {
	case 1:
		return KERNEL(fill_work<uint8_t>);
	case 2:
		return KERNEL(fill_work<uint16_t>);
	case 4:
		return KERNEL(fill_work<uint32_t>);
	default:
		return KERNEL(fill_work<uint64_t>);
	}
}

const void *pointers_kernel(void)
{
	return KERNEL(pointers_work);
}
