#include "lib/exec/memory_space.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include "lib/data/kernels/joint.h"
#include "lib/data/kernels/q8.h"

#define ELEMENT_MAX 16           /* bytes of the largest element, and its alignment */
#define PIECE       512          /* elements per piece if the types differ */
#define SUM         (16u << 10)  /* bytes of the sums of a fold's piece */
#define JOINT_FEW   (16u << 10)  /* bytes of scratch of a joint operation of up to 64 inputs */
#define STRIP       (256u << 10) /* bytes of a piece that is summed in place: it fits the cache */

/* ---- memory ---- */

static void *host_alloc(const struct memory_space *space, size_t bytes, struct err *err)
{
	void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	(void)space;
	if (p == MAP_FAILED) {
		err_nomem(err, "a window buffer", bytes);
		return NULL;
	}
	(void)madvise(p, bytes, MADV_HUGEPAGE);
	return p;
}

static void host_free(const struct memory_space *space, void *p, size_t bytes)
{
	(void)space;
	if (p)
		munmap(p, bytes);
}

/* ---- tasks ---- */

static void convert(const struct memory_task *t)
{
	if (t->final)
		final_kernel(t->to, t->of)(t->dst, t->a, t->divisor, t->n);
	else
		convert_kernel(t->to, t->of)(t->dst, t->a, t->n);
}

/* For differing types or a final result: computes in the wider type and rounds once, in pieces that
 * fit the cache. */
static void combine_wide(const struct memory_task *t)
{
	_Alignas(ELEMENT_MAX) uint8_t piece[PIECE * ELEMENT_MAX];
	convert_fn *widen = convert_kernel(t->acc, t->of);
	reduce_fn *reduce = reduce_kernel(t->reduce, t->acc, t->with, t->swapped);
	convert_fn *narrow = convert_kernel(t->to, t->acc);
	const uint8_t *a = t->a, *b = t->b;
	uint8_t *dst = t->dst;
	for (uint64_t i = 0; i < t->n; i += PIECE) {
		size_t len = t->n - i < PIECE ? (size_t)(t->n - i) : PIECE;
		uint8_t *to = dst + i * dtype_size(t->to);
		widen(piece, a + i * dtype_size(t->of), len);
		reduce(piece, piece, b + i * dtype_size(t->with), len);
		if (t->final)
			final_kernel(t->to, t->acc)(to, piece, t->divisor, len);
		else
			narrow(to, piece, len);
	}
}

static void combine(const struct memory_task *t)
{
	if (t->to == t->of && (t->with == t->to || t->to == t->acc) && !t->final)
		reduce_kernel(t->reduce, t->to, t->with, t->swapped)(t->dst, t->a, t->b, t->n);
	else
		combine_wide(t);
}

/* Computes in the wider type and rounds once, in pieces that fit the cache. */
static void fold(const struct memory_task *t)
{
	_Alignas(64) uint8_t sums[SUM];
	size_t esize = dtype_size(t->of), acc_esize = dtype_size(t->acc);
	bool wide = t->acc != t->of; /* else dst has the sum */
	size_t piece = (wide ? SUM : STRIP) / acc_esize;
	reduce_fn *reduce = reduce_kernel(t->reduce, t->acc, t->of, false);
	for (uint64_t pos = 0; pos < t->n; pos += piece) {
		size_t n = t->n - pos < piece ? (size_t)(t->n - pos) : piece;
		uint8_t *dst = (uint8_t *)t->dst + pos * esize, *sum = wide ? sums : dst;
		for (int k = 0; k < t->ninputs; k++) {
			const uint8_t *from = t->inputs[k] + t->offset + pos * esize;
			if (k == 0 && wide)
				convert_kernel(t->acc, t->of)(sum, from, n);
			else if (k == 0)
				memmove(sum, from, n * esize);
			else
				reduce(sum, sum, from, n);
		}
		if (wide)
			convert_kernel(t->of, t->acc)(dst, sum, n);
	}
}

static void identity(const struct memory_task *t)
{
	reduce_identity(t->reduce, t->to, t->dst, t->n);
}

/* Scratch that is larger than that of a few contributions is allocated. */
static int join(const struct memory_task *t, struct err *err)
{
	_Alignas(64) uint8_t few[JOINT_FEW];
	if (t->of == DTYPE_Q8) {
		q8_join(t->dst, t->inputs, t->offset, t->ninputs, (size_t)t->n,
		        t->reduce == REDUCE_AVG ? t->divisor : 1);
		return 1;
	}
	const struct joint j = {t->reduce, t->of, t->ninputs, t->cut};
	const size_t bytes = joint_scratch(&j);
	void *more = bytes > sizeof few ? aligned_alloc(64, bytes) : NULL;
	if (bytes > sizeof few && !more)
		return err_nomem(err, "a joint operation", bytes);
	joint_compute(&j, t->dst, t->inputs, t->offset, (size_t)t->n, more ? more : few);
	free(more);
	return 1;
}

static int host_start(const struct memory_space *space, const struct memory_task *t,
                      struct err *err)
{
	static void (*const run[MEMORY_OPS])(const struct memory_task *) = {
	        [MEMORY_CONVERT] = convert,
	        [MEMORY_COMBINE] = combine,
	        [MEMORY_FOLD] = fold,
	        [MEMORY_IDENTITY] = identity,
	};
	(void)space;
	if (t->op == MEMORY_JOINT)
		return join(t, err);
	run[t->op](t);
	return 1;
}

static void host_cancel(const struct memory_space *space, const void *owner)
{
	(void)space, (void)owner;
}

const struct memory_space memory_host = {
        .name = "host",
        .alloc = host_alloc,
        .free = host_free,
        .start = host_start,
        .cancel = host_cancel,
};
