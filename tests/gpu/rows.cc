/* The kernels' code (cuda/fold_*.cu), compiled for the CPU and run as if by many threads. */
#include "tests/gpu/rows.h"

#include "cuda/fold_float.cu"
#undef FLOAT
#undef COMPLEX
#include "cuda/fold_integer.cu"
#include "cuda/fold_narrow.cu"

#define CPU_THREADS 5

int row_run(const struct fold_case *c, const uint8_t *const *inputs, uint8_t *dst)
{
	const struct fold_row *row = fold_find(c->op, c->acc, c->dtype);
	struct fold_args a = {};

	if (!row)
		return -1;
	a.dst = dst + c->to;
	a.n = c->n * row->parts;
	a.offset = c->offset;
	a.ninputs = c->ninputs;
	a.more = (const void *const *)(inputs + FOLD_DIRECT);
	for (int k = 0; k < c->ninputs && k < FOLD_DIRECT; k++)
		a.inputs[k] = inputs[k];
	fold_align(&a, row->size);
	const struct host_kernel *kernel = (const struct host_kernel *)row->kernel;
	for (uint64_t thread = 0; thread < CPU_THREADS; thread++)
		kernel->run(&a, thread, CPU_THREADS);
	return 0;
}

int row_exists(enum reduce_op op, enum dtype acc, enum dtype dtype)
{
	return fold_find(op, acc, dtype) != NULL;
}
