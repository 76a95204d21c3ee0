#include "lib/data/kernels/q8.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "lib/data/kernels/reduce.h"

#define MOST     126 /* of a code that is a number */
#define CODE_INF 127
#define CODE_NAN (-128)
/* Relative errors of some operations in f64, each of at most 2^-53. */
#define SLACK(n) (1 + (n)*0x1p-52)

_Static_assert(sizeof(struct q8_block) == 8 + Q8_VALUES, "the bytes of DTYPE_Q8");

float q8_round_up(double x)
{
	if (!(x >= 0) || x > (double)FLT_MAX)
		return INFINITY;
	const float f = (float)x;
	return (double)f < x ? nextafterf(f, INFINITY) : f;
}

/* ---- coding ---- */

static double greatest(const double *x, size_t n)
{
	double most = 0;
	for (size_t i = 0; i < n; i++) {
		const double a = fabs(x[i]);
		most = a > most && a <= DBL_MAX ? a : most;
	}
	return most;
}

static int8_t code_of(double x, double scale)
{
	if (isnan(x))
		return CODE_NAN;
	if (isinf(x))
		return x > 0 ? CODE_INF : -CODE_INF;
	const double code = scale > 0 ? rint(x / scale) : 0;
	return (int8_t)(code > MOST ? MOST : code < -MOST ? -MOST : code);
}

void q8_encode(struct q8_block *b, const double *x, size_t n, double error)
{
	const float scale = q8_round_up(greatest(x, n) / MOST);
	double most = 0;
	b->scale = isinf(scale) ? FLT_MAX : scale;
	memset(b->code, 0, sizeof b->code);
	for (size_t i = 0; i < n; i++) {
		b->code[i] = code_of(x[i], (double)b->scale);
		const double off = isfinite(x[i]) ? fabs(x[i] - b->code[i] * (double)b->scale) : 0;
		most = off > most ? off : most;
	}
	b->error = q8_round_up((error + most) * SLACK(4));
}

/* ---- decoding ---- */

static double value_of(int8_t code, double scale)
{
	if (code >= -MOST && code <= MOST)
		return code * scale;
	return code == CODE_NAN ? (double)NAN : code > 0 ? (double)INFINITY : -(double)INFINITY;
}

void q8_decode(const struct q8_block *b, double *x)
{
	for (size_t i = 0; i < Q8_VALUES; i++)
		x[i] = value_of(b->code[i], (double)b->scale);
}

/* ---- sums and averages ---- */

/* What a block's values may be off; a hostile error counts as infinite. */
static double error_of(const struct q8_block *b)
{
	return b->error >= 0 ? (double)b->error : (double)INFINITY;
}

static void join(struct q8_block *dst, uint8_t *const *inputs, uint64_t offset, int n,
                 double divisor)
{
	double sum[Q8_VALUES] = {0}, x[Q8_VALUES], error = 0, size = 0;
	for (int k = 0; k < n; k++) {
		const struct q8_block *b = (const void *)(inputs[k] + offset);
		q8_decode(b, x);
		for (size_t i = 0; i < Q8_VALUES; i++)
			sum[i] += x[i];
		error += error_of(b);
		size += MOST * fabs((double)b->scale);
	}
	for (size_t i = 0; i < Q8_VALUES; i++)
		sum[i] /= divisor;
	/* Each addition, and the division, rounds a number that is at most `size`. */
	error = (error + size * (n + 1) * 0x1p-52) / divisor * SLACK(n + 4);
	q8_encode(dst, sum, Q8_VALUES, error);
}

void q8_join(struct q8_block *dst, uint8_t *const *inputs, uint64_t offset, int n, size_t count,
             double divisor)
{
	for (size_t i = 0; i < count; i++)
		join(dst + i, inputs, offset + i * sizeof *dst, n, divisor);
}

/* ---- elements of files ---- */

void q8_take(struct q8_block *dst, enum dtype dtype, const void *src, double weight, uint64_t n)
{
	const uint8_t *from = src;
	double x[Q8_VALUES];
	for (size_t len; n; n -= len, dst++) {
		len = n < Q8_VALUES ? (size_t)n : Q8_VALUES;
		if (weight == 1)
			convert_kernel(DTYPE_F64, dtype)(x, from, len);
		else
			scale_kernel(DTYPE_F64, dtype)(x, from, weight, len);
		q8_encode(dst, x, len, 0);
		if (weight != 1) /* which has rounded */
			dst->error = q8_round_up((double)dst->error +
			                         MOST * (double)dst->scale * 0x1p-52);
		from += len * dtype_size(dtype);
	}
}

/* By how much the rounded elements @y differ from @x: infinite where one has overflowed. */
static double rounded_by(enum dtype dtype, const double *x, const void *y, size_t n)
{
	double back[Q8_VALUES], most = 0;
	convert_kernel(DTYPE_F64, dtype)(back, y, n);
	for (size_t i = 0; i < n; i++) {
		const double off = isfinite(x[i]) ? fabs(x[i] - back[i]) : 0;
		most = off <= most ? most : isnan(off) ? (double)INFINITY : off;
	}
	return most;
}

double q8_give(enum dtype dtype, void *dst, const struct q8_block *src, uint64_t n)
{
	uint8_t *to = dst;
	double x[Q8_VALUES], most = 0;
	for (size_t len; n; n -= len, src++) {
		len = n < Q8_VALUES ? (size_t)n : Q8_VALUES;
		q8_decode(src, x);
		convert_kernel(dtype, DTYPE_F64)(to, x, len);
		const double off = (error_of(src) + rounded_by(dtype, x, to, len)) * SLACK(4);
		most = off > most ? off : most;
		to += len * dtype_size(dtype);
	}
	return most;
}
