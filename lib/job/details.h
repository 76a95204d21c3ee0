/*
 * What ranks tell each other of their arrays where it may differ: the details of intents and plans
 * (lib/net/PROTOCOL.md). Whoever decodes checks bounds; what is malformed is ERR_INTEGRITY.
 *
 * Rows are elements of axis 0.
 */
#ifndef COLLCTL_JOB_DETAILS_H
#define COLLCTL_JOB_DETAILS_H

#include "lib/base/buf.h"
#include "lib/base/err.h"
#include "lib/data/array.h"

/* A rank's array, and how it is cut along axis 0 for the @size ranks: @counts, or NULL: as evenly
 * as can be. */
void details_put_array(struct buf *, const struct array_info *info, const uint64_t *counts,
                       int size);
/* @info without an offset. @counts has room for @size; *even: it was not filled. */
int details_get_array(struct view, int size, struct array_info *info, uint64_t *counts, bool *even,
                      struct err *err);

/* One number of rows for each rank. */
void details_put_rows(struct buf *, const uint64_t *rows, int size);
int details_get_rows(struct view, int size, uint64_t *rows, struct err *err);

/* The sum of @n numbers in *sum; -1: over 63 bits. */
int rows_sum(const uint64_t *rows, int n, uint64_t *sum);

#endif
