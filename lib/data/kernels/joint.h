/*
 * Joint operations: each element of the result is computed from that element of all contributions
 * at once, unlike in a reduction, which is a fold of pairs (reduce.h). Contributions are sorted in
 * a total order, so the result does not depend on the order in which they are given:
 *
 * - median: of an odd number the middle element; of an even number the mean of the middle two.
 * - trimmed: the mean without the `cut` least and the `cut` greatest elements, added in ascending
 *   order.
 *
 * - ties: the mean of those that have the sign of the sum of all; the sign of 0 is +; 0 counts for
 *   no sign; 0 if there are none; NaN if the sum is. Only f32 and f64.
 *
 * Floats: means are computed in f64 and rounded once. -0 is below +0. If a contribution is NaN, so
 * is the result (the canonical NaN of reduce.h). Integers: the exact mean, rounded to the nearest,
 * ties to even. bool and complex numbers have no joint operations.
 *
 * Pure functions; any thread. Vectorised as reduce.h describes: the bits do not depend on the
 * vector length, the alignment or the division into ranges.
 */
#ifndef COLLCTL_DATA_KERNELS_JOINT_H
#define COLLCTL_DATA_KERNELS_JOINT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/data/kernels/reduce.h"

#define JOINT_MOST 4096 /* contributions */

/* Are joint operations defined on @dtype? */
bool joint_defined(enum dtype dtype);

/* The number of contributions that a trimmed mean of @n leaves out at either end: floor(trim * n),
 * where @trim, below 0.5, is the double nearest to a decimal number. At least one is left. */
int joint_cut(double trim, int n);

struct joint {
	enum reduce_op op; /* REDUCE_MEDIAN, REDUCE_TRIMMED, REDUCE_TIES */
	enum dtype dtype;
	int n;   /* contributions, 1 to JOINT_MOST */
	int cut; /* trimmed; 2 * cut < n */
};

/* The bytes of scratch that joint_compute needs. */
size_t joint_scratch(const struct joint *);
/* dst[i] = the operation of element i of the contributions, for i < @count. Contribution k begins
 * at inputs[k] + offset bytes. @dst is disjoint from the contributions, or coincides with one of
 * them. @scratch: joint_scratch bytes, aligned to 64. */
void joint_compute(const struct joint *, void *dst, uint8_t *const *inputs, uint64_t offset,
                   size_t count, void *scratch);

#endif
