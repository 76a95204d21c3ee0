/*
 * The kernels, as the rest of the plug-in sees them. A fold's kernel is found by its operation and
 * types in a table; the tables are in fold_*.cu. Compiled without nvcc, a kernel is a struct
 * host_kernel, which runs the same code on the CPU, for tests.
 */
#ifndef COLLCTL_CUDA_KERNELS_H
#define COLLCTL_CUDA_KERNELS_H

#include <stddef.h>
#include <stdint.h>

extern "C" {
#include "lib/data/kernels/reduce.h"
}

#define VECTOR      16  /* bytes of the widest load */
#define THREADS     256 /* of a block */
#define FOLD_DIRECT 16  /* inputs whose addresses are arguments */

/* Takes what a kernel reads and writes. */
struct host_touch {
	virtual void reads(const void *p, uint64_t bytes) = 0;
	virtual void writes(const void *p, uint64_t bytes) = 0;
	/* A pointer that it writes, and one that it reads: what the last kernel before it wrote. */
	virtual void stores(const void *const *at, const void *pointer) = 0;
	virtual const void *loads(const void *const *at) = 0;
};

/* The work of one of @threads threads, and what all of them touch. Arguments have a multiple of 8
 * bytes. */
struct host_kernel {
	void (*run)(const void *args, uint64_t thread, uint64_t threads);
	void (*touch)(const void *args, struct host_touch *);
	size_t bytes; /* of the arguments */
};

/* dst[i] = inputs[0][i] op .. op inputs[ninputs - 1][i]. */
struct fold_args {
	void *dst;
	uint64_t n;      /* elements */
	uint64_t head;   /* elements before VECTOR divides all addresses; n: they never agree */
	uint64_t offset; /* bytes from each input to its first element */
	int ninputs;
	const void *const *more; /* in device memory: the inputs from FOLD_DIRECT on */
	const void *inputs[FOLD_DIRECT];
};

struct fold_row {
	enum reduce_op op;
	enum dtype acc, dtype;
	unsigned parts;     /* what the kernel takes for one element of dtype */
	unsigned size;      /* bytes of such a part */
	const void *kernel; /* takes a struct fold_args */
};

extern const struct fold_row fold_integer_rows[], fold_narrow_rows[], fold_float_rows[];
extern const size_t fold_integer_count, fold_narrow_count, fold_float_count;

/* Row @i of all tables. NULL: there is none. */
static inline const struct fold_row *fold_row_at(size_t i)
{
	const struct fold_row *tables[] = {fold_integer_rows, fold_narrow_rows, fold_float_rows};
	const size_t counts[] = {fold_integer_count, fold_narrow_count, fold_float_count};

	for (int t = 0; t < 3; i -= counts[t++])
		if (i < counts[t])
			return &tables[t][i];
	return NULL;
}

/* NULL: lib/data/kernels/reduce.h has no such kernel. */
static inline const struct fold_row *fold_find(int op, int acc, int dtype)
{
	const struct fold_row *row;

	for (size_t i = 0; (row = fold_row_at(i)) != NULL; i++)
		if (row->op == op && row->acc == acc && row->dtype == dtype)
			return row;
	return NULL;
}

/* Fills head, once the other fields are there; @size is the row's. */
static inline void fold_align(struct fold_args *a, unsigned size)
{
	const uint64_t phase = (uintptr_t)a->dst % VECTOR;
	const uint64_t head = phase ? (VECTOR - phase) / size : 0;
	bool alike = (phase + head * size) % VECTOR == 0;

	for (int k = 0; k < a->ninputs && k < FOLD_DIRECT; k++)
		alike = alike && ((uintptr_t)a->inputs[k] + a->offset) % VECTOR == phase;
	a->head = alike && head < a->n ? head : a->n;
}

/* dst[i] = words[i % 2], for words of @size bytes (1, 2, 4, 8), and a kernel for @size. */
struct fill_args {
	void *dst;
	uint64_t n; /* words */
	uint64_t words[2];
};
const void *fill_kernel(unsigned size);

/* to[i] = pointers[i] */
#define POINTERS 256
struct pointers_args {
	const void **to;
	int n;
	const void *pointers[POINTERS];
};
const void *pointers_kernel(void);

#endif
