/* The reductions: names, rules for types, and identities. The kernels are in reduce_integer.c,
 * reduce_float.c and reduce_complex.c. */
#include "lib/data/kernels/reduce.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lib/data/kernels/delta.h"
#include "lib/data/kernels/joint.h"
#include "lib/data/kernels/kernels.h"

/* ---- names and rules ---- */

static const char *const op_names[REDUCE_OPS] = {
        [REDUCE_SUM] = "sum",         [REDUCE_PROD] = "prod", [REDUCE_MIN] = "min",
        [REDUCE_MAX] = "max",         [REDUCE_AVG] = "avg",   [REDUCE_BAND] = "band",
        [REDUCE_BOR] = "bor",         [REDUCE_BXOR] = "bxor", [REDUCE_LAND] = "land",
        [REDUCE_LOR] = "lor",         [REDUCE_LXOR] = "lxor", [REDUCE_MEDIAN] = "median",
        [REDUCE_TRIMMED] = "trimmed", [REDUCE_TIES] = "ties", [REDUCE_DARE] = "dare",
        [REDUCE_SLERP] = "slerp",
};

const char *reduce_op_name(enum reduce_op op)
{
	return op_names[op];
}

int reduce_op_by_name(const char *name, enum reduce_op *out)
{
	for (int op = 0; op < REDUCE_OPS; op++) {
		if (!strcmp(name, op_names[op])) {
			*out = (enum reduce_op)op;
			return 0;
		}
	}
	return -1;
}

bool reduce_has_part(enum reduce_op op)
{
	return op >= REDUCE_TRIMMED && op <= REDUCE_SLERP;
}

const char *reduce_op_text(enum reduce_op op, const struct reduce_param *param,
                           char text[REDUCE_OP_TEXT])
{
	char number[32], seed[24] = "";

	snprintf(number, sizeof(number), "%.15g", param->part);
	if (strtod(number, NULL) < param->part || strtod(number, NULL) > param->part)
		snprintf(number, sizeof(number), "%.17g", param->part);
	for (char *c = number; *c; c++) /* the program's locale may have another point */
		*c = strchr("0123456789e+-", *c) ? *c : '.';
	if (op == REDUCE_DARE)
		snprintf(seed, sizeof(seed), ",%" PRIu64, param->seed);
	snprintf(text, REDUCE_OP_TEXT, "%s%s%s%s", op_names[op], reduce_has_part(op) ? ":" : "",
	         reduce_has_part(op) ? number : "", seed);
	return text;
}

bool reduce_is_joint(enum reduce_op op)
{
	return op >= REDUCE_MEDIAN && op <= REDUCE_DARE;
}

bool reduce_op_defined(enum reduce_op op, enum dtype dtype)
{
	if (op >= REDUCE_TIES && op <= REDUCE_SLERP)
		return op == REDUCE_TIES && (dtype == DTYPE_F32 || dtype == DTYPE_F64);
	if (reduce_is_joint(op))
		return joint_defined(dtype);
	return reduce_kernel(op, dtype, dtype, false) != NULL;
}

bool reduce_order_matters(enum reduce_op op, enum dtype dtype)
{
	return dtype_is_float(dtype) && (op == REDUCE_SUM || op == REDUCE_PROD || op == REDUCE_AVG);
}

/* f8, f16 and bf16 are computed in f32. */
static bool is_narrow(enum dtype dtype)
{
	return dtype_is_float(dtype) && dtype_bits(dtype) <= 16;
}

enum dtype reduce_acc_dtype(enum reduce_op op, enum dtype dtype, bool ordered)
{
	if (!reduce_order_matters(op, dtype))
		return dtype;
	if (ordered)
		return dtype_is_complex(dtype) ? DTYPE_C128 : DTYPE_F64;
	return is_narrow(dtype) ? DTYPE_F32 : dtype;
}

enum dtype reduce_avg_dtype(enum dtype dtype, bool weighted, bool ordered)
{
	if (dtype_is_complex(dtype))
		return DTYPE_C128;
	if (is_narrow(dtype) && !ordered)
		return DTYPE_F32;
	if (dtype_is_integer(dtype) && dtype_bits(dtype) == 64 && !weighted)
		return DTYPE_I128;
	return DTYPE_F64;
}

reduce_fn *reduce_kernel(enum reduce_op op, enum dtype acc, enum dtype dtype, bool swapped)
{
	(void)swapped; /* every operation is commutative to the bit, because NaN is canonical */
	if (dtype_is_complex(dtype))
		return reduce_kernel_complex(op, acc, dtype);
	if (dtype_is_float(dtype))
		return reduce_kernel_float(op, acc, dtype);
	return acc == dtype ? reduce_kernel_integer(op, dtype) : NULL;
}

#define IDENTITY_PART 1024 /* elements */

void reduce_identity(enum reduce_op op, enum dtype dtype, void *dst, size_t n)
{
	const uint64_t bits[2] = {element_identity(op, dtype), 0};
	const size_t size = dtype_size(dtype);

	if (n == 0)
		return;
	memcpy(dst, bits, size);
	/* From the beginning, which stays in the cache, by ever larger parts. */
	for (size_t done = 1, part; done < n; done += part) {
		part = done < IDENTITY_PART ? done : IDENTITY_PART;
		part = part < n - done ? part : n - done;
		memcpy((char *)dst + done * size, dst, part * size);
	}
}
