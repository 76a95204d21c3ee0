#include "lib/data/kernels/q8.h"

#include <float.h>
#include <math.h>
#include <string.h>

#include "lib/data/kernels/reduce.h"
#include "lib/data/kernels/simd.h"

/* Into each version of a kernel. */
#define INLINE inline __attribute__((always_inline))

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

/* ---- magnitudes as integers, which order them, and whose greatest a vector finds ---- */

#define INFINITE 0x7ff0000000000000 /* NaNs are greater */

static INLINE int64_t magnitude(double x)
{
	int64_t bits;
	memcpy(&bits, &x, sizeof bits);
	return bits & INT64_MAX;
}

static inline double value_of_bits(int64_t bits)
{
	double x;
	memcpy(&x, &bits, sizeof x);
	return x;
}

static INLINE int64_t greater(int64_t a, int64_t b)
{
	return a > b ? a : b;
}

static INLINE int64_t greatest(const double *x)
{
	int64_t most = 0;
	for (size_t i = 0; i < Q8_VALUES; i++)
		most = greater(most, magnitude(x[i]));
	return most;
}

/* ---- coding ---- */

/* Code the numbers @x, all finite and at most MOST * @scale > 0. Returns the greatest error. */
static INLINE double code_numbers(int8_t *restrict code, const double *restrict x, double scale)
{
	int64_t most = 0;
	for (size_t i = 0; i < Q8_VALUES; i++) {
		const double c = rint(x[i] / scale);
		code[i] = (int8_t)(int)c;
		most = greater(most, magnitude(x[i] - c * scale));
	}
	return value_of_bits(most);
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

static double greatest_number(const double *x)
{
	double most = 0;
	for (size_t i = 0; i < Q8_VALUES; i++)
		most = isfinite(x[i]) && fabs(x[i]) > most ? fabs(x[i]) : most;
	return most;
}

/* The same for any values. *scale: as for numbers, or FLT_MAX, the greatest there is. */
static double code_any(int8_t *code, const double *x, float *scale)
{
	double most = 0;
	*scale = q8_round_up(greatest_number(x) / MOST);
	if (isinf(*scale))
		*scale = FLT_MAX;
	for (size_t i = 0; i < Q8_VALUES; i++) {
		code[i] = code_of(x[i], (double)*scale);
		const double off = isfinite(x[i]) ? fabs(x[i] - code[i] * (double)*scale) : 0;
		most = off > most ? off : most;
	}
	return most;
}

static INLINE void encode(struct q8_block *b, const double *x, double error)
{
	const int64_t most = greatest(x);
	const float scale = most < INFINITE ? q8_round_up(value_of_bits(most) / MOST) : INFINITY;
	double off = 0;
	b->scale = scale;
	if (!isfinite(scale))
		off = code_any(b->code, x, &b->scale);
	else if (scale > 0)
		off = code_numbers(b->code, x, (double)scale);
	else
		memset(b->code, 0, sizeof b->code);
	b->error = q8_round_up((error + off) * SLACK(4));
}

static INLINE void encode_some(struct q8_block *b, const double *x, size_t n, double error)
{
	double all[Q8_VALUES] = {0};
	if (n == Q8_VALUES) {
		encode(b, x, error);
		return;
	}
	memcpy(all, x, n * sizeof *x);
	encode(b, all, error);
}

KERNEL_UNFUSED static void encode_kernel(struct q8_block *b, const double *x, size_t n,
                                         double error)
{
	encode_some(b, x, n, error);
}

/* ---- decoding ---- */

static double value_of(int8_t code, double scale)
{
	if (code >= -MOST && code <= MOST)
		return code * scale;
	return code == CODE_NAN ? (double)NAN : code > 0 ? (double)INFINITY : -(double)INFINITY;
}

static INLINE void decode(const struct q8_block *b, double *restrict x)
{
	const double scale = (double)b->scale;
	int least = 0, most = 0;
	for (size_t i = 0; i < Q8_VALUES; i++) {
		least = b->code[i] < least ? b->code[i] : least;
		most = b->code[i] > most ? b->code[i] : most;
	}
	if (least >= -MOST && most <= MOST)
		for (size_t i = 0; i < Q8_VALUES; i++)
			x[i] = b->code[i] * scale;
	else
		for (size_t i = 0; i < Q8_VALUES; i++)
			x[i] = value_of(b->code[i], scale);
}

KERNEL_UNFUSED static void decode_kernel(const struct q8_block *b, double *x)
{
	decode(b, x);
}

/* ---- sums and averages ---- */

/* What a block's values may be off; a hostile error counts as infinite. */
static double error_of(const struct q8_block *b)
{
	return b->error >= 0 ? (double)b->error : (double)INFINITY;
}

static INLINE void join(struct q8_block *dst, uint8_t *const *inputs, uint64_t offset, int n,
                        double divisor)
{
	double sum[Q8_VALUES] = {0}, x[Q8_VALUES], error = 0, size = 0;
	for (int k = 0; k < n; k++) {
		const struct q8_block *b = (const void *)(inputs[k] + offset);
		decode(b, x);
		for (size_t i = 0; i < Q8_VALUES; i++)
			sum[i] += x[i];
		error += error_of(b);
		size += MOST * fabs((double)b->scale);
	}
	for (size_t i = 0; i < Q8_VALUES; i++)
		sum[i] /= divisor;
	/* Each addition, and the division, rounds a number that is at most `size`. */
	error = (error + size * (n + 1) * 0x1p-52) / divisor * SLACK(n + 4);
	encode(dst, sum, error);
}

KERNEL_UNFUSED static void join_kernel(struct q8_block *dst, uint8_t *const *inputs,
                                       uint64_t offset, int n, size_t count, double divisor)
{
	for (size_t i = 0; i < count; i++)
		join(dst + i, inputs, offset + i * sizeof *dst, n, divisor);
}

/* ---- elements of files ---- */

KERNEL_UNFUSED static void take_kernel(struct q8_block *dst, enum dtype dtype, const void *src,
                                       double weight, uint64_t n)
{
	const uint8_t *from = src;
	double x[Q8_VALUES];
	for (size_t len; n; n -= len, dst++) {
		len = n < Q8_VALUES ? (size_t)n : Q8_VALUES;
		if (weight == 1)
			convert_kernel(DTYPE_F64, dtype)(x, from, len);
		else
			scale_kernel(DTYPE_F64, dtype)(x, from, weight, len);
		encode_some(dst, x, len, 0);
		if (weight != 1) /* which has rounded */
			dst->error = q8_round_up((double)dst->error +
			                         MOST * (double)dst->scale * 0x1p-52);
		from += len * dtype_size(dtype);
	}
}

/* By how much the rounded elements @y differ from @x: infinite where one has overflowed. */
static INLINE double rounded_by(enum dtype dtype, const double *x, const void *y, size_t n)
{
	double back[Q8_VALUES];
	int64_t most = 0;
	convert_kernel(DTYPE_F64, dtype)(back, y, n);
	for (size_t i = 0; i < n; i++) {
		const int64_t off = magnitude(x[i] - back[i]);
		most = greater(most, magnitude(x[i]) < INFINITE ? off : 0);
	}
	return most < INFINITE ? value_of_bits(most) : (double)INFINITY;
}

KERNEL_UNFUSED static double give_kernel(enum dtype dtype, void *dst, const struct q8_block *src,
                                         uint64_t n)
{
	uint8_t *to = dst;
	double x[Q8_VALUES], most = 0;
	for (size_t len; n; n -= len, src++) {
		len = n < Q8_VALUES ? (size_t)n : Q8_VALUES;
		decode(src, x);
		convert_kernel(dtype, DTYPE_F64)(to, x, len);
		const double off = (error_of(src) + rounded_by(dtype, x, to, len)) * SLACK(4);
		most = off > most ? off : most;
		to += len * dtype_size(dtype);
	}
	return most;
}

/* ---- the names of q8.h: those of target_clones would be visible in the library ---- */

void q8_encode(struct q8_block *b, const double *x, size_t n, double error)
{
	encode_kernel(b, x, n, error);
}

void q8_decode(const struct q8_block *b, double *x)
{
	decode_kernel(b, x);
}

void q8_join(struct q8_block *dst, uint8_t *const *inputs, uint64_t offset, int n, size_t count,
             double divisor)
{
	join_kernel(dst, inputs, offset, n, count, divisor);
}

void q8_take(struct q8_block *dst, enum dtype dtype, const void *src, double weight, uint64_t n)
{
	take_kernel(dst, dtype, src, weight, n);
}

double q8_give(enum dtype dtype, void *dst, const struct q8_block *src, uint64_t n)
{
	return give_kernel(dtype, dst, src, n);
}
