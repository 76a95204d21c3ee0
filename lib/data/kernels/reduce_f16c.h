/* For reduce.c: the kernel of f16 that uses the processor's conversions. NULL: the processor has
 * none, or @op needs none. */
#ifndef COLLCTL_DATA_KERNELS_REDUCE_F16C_H
#define COLLCTL_DATA_KERNELS_REDUCE_F16C_H

#include "lib/data/kernels/reduce.h"

reduce_fn *reduce_kernel_f16c(enum reduce_op op);

#endif
