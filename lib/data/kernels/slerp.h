/*
 * Spherical interpolation of two tensors: on the arc between their directions, with the weights
 * sin((1-t) angle) / sin(angle) and sin(t angle) / sin(angle). The angle follows from the length of
 * the sum of both, each divided by its own length: cos(angle) = |u + v|^2 / 2 - 1.
 *
 * Source: Shoemake, Animating rotation with quaternion curves, 1985; the threshold and the meaning
 * of tensors of zeros are those of mergekit.
 *
 * Units: elements. Pure functions; any thread. Vectorised as reduce.h describes.
 */
#ifndef COLLCTL_DATA_KERNELS_SLERP_H
#define COLLCTL_DATA_KERNELS_SLERP_H

#include <stddef.h>
#include <stdint.h>

#include "lib/data/dtype.h"

/* The length of a tensor, added in f64 in an order that depends on the elements' indices alone. Of
 * f64, elements below 1e-150 may count as 0, and above 1e150 as infinite. */
#define SLERP_LANES 16
struct slerp_length {
	double lane[SLERP_LANES]; /* zeroed at the beginning */
	uint64_t n;
};
/* Add the next @n elements of a float type that delta_dtype (delta.h) knows. */
void slerp_length_add(struct slerp_length *, enum dtype dtype, const void *x, size_t n);
double slerp_length(const struct slerp_length *);

/* The sum of the squares of @n elements of u + v, each rounded to a multiple of 2^-48. As |u + v|^2
 * is at most 4, such sums are exact in any order. @sum: the elements divided by @by, a power of
 * two, of type f32 or f64. */
double slerp_squares(enum dtype dtype, const void *sum, double by, size_t n);

/* The weights of both tensors at @t, 0 to 1. @squares: |u + v|^2, where a tensor of zeros is 0.
 * @lengths: how many of the two tensors have a length above 0. The weights are 1 - t and t (lerp)
 * if |cos(angle)| is above 0.9995; the angle of a tensor of zeros is a right one. NaN if @squares
 * is: a tensor with NaN or infinity has no direction. */
void slerp_weights(double t, double squares, int lengths, double weights[2]);

#endif
