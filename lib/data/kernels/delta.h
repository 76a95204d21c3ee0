/*
 * Differences of tensors to an origin, of which merges are made (--origin): task vectors, and what
 * ties and dare leave of them.
 *
 * Sources: Ilharco et al., Editing models with task arithmetic, 2023; Yadav et al., TIES-Merging,
 * 2023; Yu et al., Language models are super Mario (DARE), 2024; Salmon et al., Parallel random
 * numbers: as easy as 1, 2, 3 (Philox), 2011.
 *
 * Units: elements. A difference has type f32 or f64. Nothing here depends on the division into
 * ranges. Pure functions; any thread.
 */
#ifndef COLLCTL_DATA_KERNELS_DELTA_H
#define COLLCTL_DATA_KERNELS_DELTA_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "lib/data/dtype.h"

/* The type of the differences of @dtype: f64 of f64, f32 of narrower floats; DTYPE_NONE: @dtype is
 * no float, or complex. */
enum dtype delta_dtype(enum dtype dtype);

/* dst[i] = by * (x[i] - origin[i]), of type @to; x and origin have type @dtype. Computed in f64 and
 * rounded once. @by 0 gives 0 for every x, also NaN. */
void delta_take(enum dtype to, void *dst, enum dtype dtype, const void *x, const void *origin,
                double by, size_t n);
/* dst[i] = origin[i] + by * d[i], of type @to; origin has type @dtype, and d has type @of. Computed
 * in f64 and rounded once. @dst may be @d if the types have the same size. */
void delta_apply(enum dtype to, void *dst, enum dtype dtype, const void *origin, enum dtype of,
                 const void *d, double by, size_t n);

/* A step of gradient descent with Nesterov's momentum, at the gradient -by * d[i]: m[i], of type
 * @kept, becomes mu * m[i] - by * d[i], rounded once, and dst[i], of type @to, is
 * origin[i] + rate * (by * d[i] - mu * m[i]), rounded once. Types as in delta_apply. */
void delta_outer(enum dtype to, void *dst, enum dtype dtype, const void *origin, enum dtype of,
                 const void *d, double by, enum dtype kept, void *m, double rate, double mu,
                 size_t n);

/* ---- ties: only the largest differences count (kth.h) ---- */

/* The number of differences of @n that a density @part, from above 0 to 1, keeps: its ceiling. */
uint64_t delta_kept(double part, uint64_t n);
/* d[i] = 0 unless its magnitude is at least the one with @bits. */
void delta_keep(enum dtype dtype, void *d, uint64_t bits, size_t n);

/* ---- dare: a random part of the differences counts ---- */

/* Philox4x32-10 with the counter (@block, @stream, 0): four random numbers. */
void delta_random(uint64_t key, uint64_t block, uint32_t stream, uint32_t out[4]);
/* The key of a tensor's random numbers. */
uint64_t delta_key(uint64_t seed, const char *tensor);
/* For elements @first to @first + n - 1 of a tensor in contribution number @of: d[i] *= 1 / part
 * with probability @part, else 0. */
void delta_drop(enum dtype dtype, void *d, double part, uint64_t key, uint32_t of, uint64_t first,
                size_t n);

#endif
