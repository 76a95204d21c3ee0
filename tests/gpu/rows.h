/* The plug-in's kernels on the CPU. */
#ifndef COLLCTL_TESTS_ROWS_H
#define COLLCTL_TESTS_ROWS_H

#ifdef __cplusplus
extern "C" {
#endif

#include "tests/gpu/folds.h"

/* As a fold_run: all buffers have the same alignment. -1: there is no such kernel. */
int row_run(const struct fold_case *c, const uint8_t *const *inputs, uint8_t *dst);
int row_exists(enum reduce_op op, enum dtype acc, enum dtype dtype);

#ifdef __cplusplus
}
#endif

#endif
