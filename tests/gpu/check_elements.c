/* The code of the plug-in's folds, compiled for the CPU, against the host's kernels, bit for bit.
 */
#include <stdio.h>

#include "tests/gpu/rows.h"

static int run(void *ctx, const struct fold_case *c, const uint8_t *const *inputs, uint8_t *dst)
{
	const uint8_t *in[FOLD_INPUTS];

	(void)ctx;
	for (int k = 0; k < c->ninputs; k++)
		in[k] = inputs[k];
	if (c->in_place)
		in[0] = dst;
	if (row_run(c, in, dst) == 0)
		return 0;
	printf("%s %s in %s: no kernel\n", reduce_op_name(c->op), dtype_name(c->dtype),
	       dtype_name(c->acc));
	return -1;
}

/* Kernels that the host does not have. */
static int extra(void)
{
	int bad = 0;

	for (int op = 0; op < REDUCE_OPS; op++)
		for (int t = 1; t < DTYPES; t++)
			for (int i = 0; i < FOLD_ACCS; i++) {
				const enum reduce_op o = (enum reduce_op)op;
				const enum dtype dtype = (enum dtype)t, acc = fold_acc(dtype, i);
				if (acc && row_exists(o, acc, dtype) &&
				    !reduce_kernel(o, acc, dtype, false)) {
					printf("%s %s in %s: a kernel that the host does not "
					       "have\n",
					       reduce_op_name(o), dtype_name(dtype),
					       dtype_name(acc));
					bad++;
				}
			}
	return bad;
}

int main(void)
{
	long cases;
	const int bad = folds_check(run, NULL, 1, &cases) + extra();

	printf("%ld folds compared with the host's, %d differ\n", cases, bad);
	return bad != 0;
}
