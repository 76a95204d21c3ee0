/*
 * The fold of any number of inputs, for an operation on elements. An operation is a struct: the
 * types of elements and of their accumulator, and three functions of lib/data/kernels/element.h.
 *
 * Each thread folds two vectors of 16 bytes at a time, so that two loads or more are under way, and
 * stores them where input 0 may be: no thread reads what another one stores. tests/gpu/inspect.sh
 * looks for these loads and stores in the machine code.
 */
#ifndef COLLCTL_CUDA_FOLD_CUH
#define COLLCTL_CUDA_FOLD_CUH

#include "cuda/kernels.h"
extern "C" {
#include "lib/data/kernels/element.h"
}

#ifdef __CUDA_ARCH__
#define UNROLL _Pragma("unroll")
#define ROLLED _Pragma("unroll 1") /* unrolled loops over inputs spill registers */
#elif defined(__CUDACC__)
#define UNROLL
#define ROLLED
#else /* the stand-in: the compiler makes vector code of a loop over one vector's elements */
#define UNROLL
#define ROLLED
#endif

#ifdef __CUDACC__
#define FOLD_FN __host__ __device__ __forceinline__
#else
#define FOLD_FN inline
#endif

/* ---- operations ---- */

/* The operation element_NAME on elements of type T, which is also the accumulator's. */
#define FOLD_OP(name, T)                             \
	struct name {                                \
		typedef T type, sum;                 \
		static const bool wide = false;      \
		ELEMENT_FN sum first(type x)         \
		{                                    \
			return x;                    \
		}                                    \
		ELEMENT_FN sum add(sum x, type y)    \
		{                                    \
			return element_##name(x, y); \
		}                                    \
		ELEMENT_FN type last(sum x)          \
		{                                    \
			return x;                    \
		}                                    \
	};

/* The operation element_OP_ACC_t on elements of type T, accumulated in an A. */
#define FOLD_WIDE_OP(op, acc, A, t, T)                           \
	struct op##_##acc##_##t {                                \
		typedef T type;                                  \
		typedef A sum;                                   \
		static const bool wide = true;                   \
		ELEMENT_FN sum first(type x)                     \
		{                                                \
			return element_##acc##_of_##t(x);        \
		}                                                \
		ELEMENT_FN sum add(sum x, type y)                \
		{                                                \
			return element_##op##_##acc##_##t(x, y); \
		}                                                \
		ELEMENT_FN type last(sum x)                      \
		{                                                \
			return element_##t##_of_##acc(x);        \
		}                                                \
	};

/* ---- loops ---- */

struct alignas(VECTOR) vector_bits {
	uint32_t words[VECTOR / 4];
};

template <class T> union vector {
	vector_bits bits;
	T elements[VECTOR / sizeof(T)];
};

/* Loads and stores of 16 bytes. The compiler makes four stores of an assignment of the struct, but
 * one of __stcs. Nothing is read twice, so the caches need not keep it (.cs: cache streaming). */
FOLD_FN vector_bits load_vector(const void *p)
{
#ifdef __CUDA_ARCH__
	const uint4 x = __ldcs((const uint4 *)p);
	return {{x.x, x.y, x.z, x.w}};
#else
	return *(const vector_bits *)p;
#endif
}

FOLD_FN void store_vector(void *p, const vector_bits &x)
{
#ifdef __CUDA_ARCH__
	__stcs((uint4 *)p, make_uint4(x.words[0], x.words[1], x.words[2], x.words[3]));
#else
	*(vector_bits *)p = x;
#endif
}

/* The address of element @i of input @k. */
template <class T> ELEMENT_FN const T *fold_input(const fold_args &a, int k, uint64_t i)
{
	const void *p = k < FOLD_DIRECT ? a.inputs[k] : a.more[k - FOLD_DIRECT];
	return (const T *)((const char *)p + a.offset) + i;
}

/* The elements at @i, and if @two those at @i2, of input @k. */
template <class T>
ELEMENT_FN void fold_load(const fold_args &a, int k, uint64_t i, uint64_t i2, bool two,
                          vector<T> x[2])
{
	x[0].bits = load_vector(fold_input<T>(a, k, i));
	if (two)
		x[1].bits = load_vector(fold_input<T>(a, k, i2));
}

/* The sums of two vectors. If the accumulator is the elements' own type they stay packed, which
 * takes fewer registers. */
template <class Op, bool wide> struct fold_sums {
	typedef typename Op::type T;
	vector<T> sums[2];

	FOLD_FN void first(const vector<T> x[2])
	{
		sums[0] = x[0];
		sums[1] = x[1];
	}
	FOLD_FN void add(const vector<T> x[2])
	{
		const int count = VECTOR / sizeof(T);
		UNROLL for (int v = 0; v < 2; v++) UNROLL for (int e = 0; e < count; e++)
		{
			T &sum = sums[v].elements[e];
			sum = Op::add(sum, x[v].elements[e]);
		}
	}
	FOLD_FN void last(vector<T> x[2])
	{
		x[0] = sums[0];
		x[1] = sums[1];
	}
};

template <class Op> struct fold_sums<Op, true> {
	typedef typename Op::type T;
	typename Op::sum sums[2 * VECTOR / sizeof(T)];

	FOLD_FN void first(const vector<T> x[2])
	{
		const int count = VECTOR / sizeof(T);
		UNROLL for (int v = 0; v < 2; v++) UNROLL for (int e = 0; e < count; e++)
		{
			sums[v * count + e] = Op::first(x[v].elements[e]);
		}
	}
	FOLD_FN void add(const vector<T> x[2])
	{
		const int count = VECTOR / sizeof(T);
		UNROLL for (int v = 0; v < 2; v++) UNROLL for (int e = 0; e < count; e++)
		{
			sums[v * count + e] = Op::add(sums[v * count + e], x[v].elements[e]);
		}
	}
	FOLD_FN void last(vector<T> x[2])
	{
		const int count = VECTOR / sizeof(T);
		UNROLL for (int v = 0; v < 2; v++) UNROLL for (int e = 0; e < count; e++)
		{
			x[v].elements[e] = Op::last(sums[v * count + e]);
		}
	}
};

/* Folds the vectors at the elements @i and, if @two, @i2. */
template <class Op>
ELEMENT_FN void fold_vectors(const fold_args &a, uint64_t i, uint64_t i2, bool two)
{
	typedef typename Op::type T;
	fold_sums<Op, Op::wide> sums;
	vector<T> x[2] = {}, next[2] = {};

	fold_load<T>(a, 0, i, i2, two, x);
	if (a.ninputs > 1)
		fold_load<T>(a, 1, i, i2, two, next);
	sums.first(x);
	ROLLED for (int k = 1; k < a.ninputs; k++)
	{
		x[0] = next[0];
		x[1] = next[1];
		if (k + 1 < a.ninputs)
			fold_load<T>(a, k + 1, i, i2, two, next);
		sums.add(x);
	}
	sums.last(x);
	store_vector((T *)a.dst + i, x[0].bits);
	if (two)
		store_vector((T *)a.dst + i2, x[1].bits);
}

template <class Op> ELEMENT_FN void fold_element(const fold_args &a, uint64_t i)
{
	typedef typename Op::type T;
	typename Op::sum sum = Op::first(*fold_input<T>(a, 0, i));

	ROLLED for (int k = 1; k < a.ninputs; k++) sum = Op::add(sum, *fold_input<T>(a, k, i));
	((T *)a.dst)[i] = Op::last(sum);
}

template <class Op> struct fold_work {
	typedef fold_args args;

	ELEMENT_FN void share(const fold_args &a, uint64_t thread, uint64_t threads)
	{
		const uint64_t count = VECTOR / sizeof(typename Op::type);
		const uint64_t vectors = (a.n - a.head) / count, whole = vectors * count;

		for (uint64_t v = thread; v < vectors; v += 2 * threads)
			fold_vectors<Op>(a, a.head + v * count, a.head + (v + threads) * count,
			                 v + threads < vectors);
		for (uint64_t i = thread; i < a.n - whole; i += threads)
			fold_element<Op>(a, i < a.head ? i : i + whole);
	}

#ifndef __CUDACC__
	static void touch(const fold_args &a, struct host_touch *t)
	{
		const uint64_t bytes = a.n * sizeof(typename Op::type);

		for (int k = 0; k < a.ninputs; k++) {
			const void *p = k < FOLD_DIRECT ? a.inputs[k]
			                                : t->loads(a.more + (k - FOLD_DIRECT));
			t->reads((const char *)p + a.offset, bytes);
		}
		t->writes(a.dst, bytes);
	}
#endif
};

/* ---- kernels ---- */

/* Blocks that a processor is to hold at least. Without this number the assembler spills registers
 * to hold more of them. */
#define RESIDENT 1

/* KERNEL(Work): the kernel whose threads each do Work::share(args, thread, threads). */
#ifdef __CUDACC__
template <class Work>
__global__ void __launch_bounds__(THREADS, RESIDENT)
        kernel_of(const __grid_constant__ typename Work::args a)
{
	Work::share(a, (uint64_t)blockIdx.x * THREADS + threadIdx.x, (uint64_t)gridDim.x * THREADS);
}
#define KERNEL(Work) (const void *)kernel_of<Work>
#else
template <class Work> static void share_on_host(const void *a, uint64_t thread, uint64_t threads)
{
	Work::share(*(const typename Work::args *)a, thread, threads);
}
template <class Work> static void touch_on_host(const void *a, struct host_touch *t)
{
	Work::touch(*(const typename Work::args *)a, t);
}
template <class Work>
static const struct host_kernel kernel_of = {share_on_host<Work>, touch_on_host<Work>,
                                             sizeof(typename Work::args)};
#define KERNEL(Work) (const void *)&kernel_of<Work>
#endif

/* A row of a table: @NAME does @OP for @DTYPE, accumulated in @ACC. */
#define FOLD_PARTS(OP, ACC, DTYPE, PARTS, name)                                     \
	{                                                                           \
		REDUCE_##OP, DTYPE_##ACC, DTYPE_##DTYPE, PARTS, sizeof(name::type), \
		        KERNEL(fold_work<name>)                                     \
	}
#define FOLD(OP, ACC, DTYPE, name) FOLD_PARTS(OP, ACC, DTYPE, 1, name)

#define FOLD_TABLE(family, ...)                                       \
	const struct fold_row fold_##family##_rows[] = {__VA_ARGS__}; \
	const size_t fold_##family##_count =                          \
	        sizeof fold_##family##_rows / sizeof *fold_##family##_rows;

#endif
