#include "lib/data/kernels/slerp.h"

#include <math.h>

#include "lib/data/kernels/reduce.h"
#include "lib/data/kernels/simd.h"

#define CHUNK    1024   /* elements in f64, which stay in the cache */
#define GRID     24.0   /* added and subtracted, it rounds 0 to 4 to a multiple of 2^-48 */
#define PARALLEL 0.9995 /* a cosine above which the arc is taken for a line */

KERNEL_UNFUSED static void add_squares(double lane[SLERP_LANES], const double *x, size_t n)
{
	for (size_t i = 0; i < n; i += SLERP_LANES)
		for (size_t j = 0; j < SLERP_LANES; j++)
			lane[j] += x[i + j] * x[i + j];
}

void slerp_length_add(struct slerp_length *l, enum dtype dtype, const void *x, size_t n)
{
	double wide[CHUNK];
	for (size_t i = 0, len; i < n; i += len) {
		/* The element with index k is added to lane k % SLERP_LANES. */
		const size_t from = l->n % SLERP_LANES, left = CHUNK - from;
		size_t end;
		len = n - i < left ? n - i : left;
		for (size_t j = 0; j < from; j++)
			wide[j] = 0;
		convert_kernel(DTYPE_F64, dtype)(wide + from,
		                                 (const uint8_t *)x + i * dtype_size(dtype), len);
		for (end = from + len; end % SLERP_LANES; end++)
			wide[end] = 0;
		add_squares(l->lane, wide, end);
		l->n += len;
	}
}

double slerp_length(const struct slerp_length *l)
{
	double sum = 0;
	for (size_t j = 0; j < SLERP_LANES; j++)
		sum += l->lane[j];
	return sqrt(sum);
}

KERNEL_UNFUSED static double sum_squares(const double *x, double by, size_t n)
{
	double lane[SLERP_LANES] = {0}, sum = 0;
	for (size_t i = 0; i < n; i += SLERP_LANES)
		for (size_t j = 0; j < SLERP_LANES; j++)
			lane[j] += (by * x[i + j] * (by * x[i + j]) + GRID) - GRID;
	for (size_t j = 0; j < SLERP_LANES; j++)
		sum += lane[j];
	return sum;
}

double slerp_squares(enum dtype dtype, const void *sum, double by, size_t n)
{
	double wide[CHUNK], squares = 0;
	for (size_t i = 0, len; i < n; i += len) {
		size_t end;
		len = n - i < CHUNK ? n - i : CHUNK;
		convert_kernel(DTYPE_F64, dtype)(wide, (const uint8_t *)sum + i * dtype_size(dtype),
		                                 len);
		for (end = len; end % SLERP_LANES; end++)
			wide[end] = 0;
		squares += sum_squares(wide, by, end);
	}
	return squares;
}

void slerp_weights(double t, double squares, int lengths, double weights[2])
{
	const double cosine = (squares - lengths) / 2;
	weights[0] = 1 - t;
	weights[1] = t;
	if (fabs(cosine) > PARALLEL)
		return;
	const double angle = acos(cosine);
	weights[0] = sin((1 - t) * angle) / sin(angle);
	weights[1] = sin(t * angle) / sin(angle);
}
