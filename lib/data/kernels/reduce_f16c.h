/* For reduce.c: the kernel for f16 that uses the processor's conversions (F16C). NULL: the
 * processor lacks them, or @op needs no conversion. */
#ifndef COLLCTL_DATA_KERNELS_REDUCE_F16C_H
#define COLLCTL_DATA_KERNELS_REDUCE_F16C_H

#include "lib/data/kernels/reduce.h"

reduce_fn *reduce_kernel_f16c(enum reduce_op op);

#endif
