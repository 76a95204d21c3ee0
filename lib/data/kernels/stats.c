/*
 * Every type is converted to f64 in pieces that fit the cache, so one loop counts, compares and
 * sums all types. f64 is exact for all types except 64-bit integers. The loop works on lanes, which
 * are combined at the end of a piece.
 */
#include "lib/data/kernels/stats.h"

#include <math.h>
#include <string.h>

#include "lib/data/kernels/half.h"
#include "lib/data/kernels/reduce.h"
#include "lib/data/kernels/simd.h"

#define PIECE 1024 /* elements */
#define LANES 8

typedef int64_t bits_lanes __attribute__((vector_size(LANES * sizeof(int64_t))));
typedef double f64_lanes __attribute__((vector_size(LANES * sizeof(double))));

void stats_init(struct stats *s)
{
	*s = (struct stats){.min = (long double)INFINITY, .max = -(long double)INFINITY};
}

void stats_merge(struct stats *into, const struct stats *from)
{
	into->count += from->count;
	into->nans += from->nans;
	into->infs += from->infs;
	into->min = from->min < into->min ? from->min : into->min;
	into->max = from->max > into->max ? from->max : into->max;
	into->sum += from->sum;
}

/* @a where @mask is set, else @b. */
#define SELECT(mask, a, b) (((mask) & (a)) | (~(mask) & (b)))

/* @n is a multiple of LANES. */
KERNEL static void add_lanes(struct stats *s, const double *src, size_t n)
{
	const bits_lanes inf = (bits_lanes){0} + (int64_t)F64_INF,
	                 sign = (bits_lanes){0} + INT64_MIN;
	bits_lanes nans = {0}, infs = {0}, min = inf, max = inf | sign;
	f64_lanes sum = {0};

	for (size_t i = 0; i < n; i += LANES) {
		bits_lanes x;
		memcpy(&x, src + i, sizeof x);
		bits_lanes magnitude = x & ~sign, finite = magnitude < inf;
		nans -= magnitude > inf;
		infs -= magnitude == inf;
		sum += (f64_lanes)(x & finite);
		bits_lanes less = finite & ((f64_lanes)x < (f64_lanes)min);
		bits_lanes more = finite & ((f64_lanes)x > (f64_lanes)max);
		min = SELECT(less, x, min);
		max = SELECT(more, x, max);
	}
	for (int k = 0; k < LANES; k++) {
		struct stats lane = {.nans = (uint64_t)nans[k],
		                     .infs = (uint64_t)infs[k],
		                     .min = (long double)((f64_lanes)min)[k],
		                     .max = (long double)((f64_lanes)max)[k],
		                     .sum = sum[k]};
		stats_merge(s, &lane);
	}
}

/* Add @n (at most PIECE) real elements as f64. The buffer has space for LANES more. */
static void add_reals(struct stats *s, double *x, size_t n)
{
	size_t padding = (LANES - n % LANES) % LANES;
	for (size_t i = 0; i < padding; i++)
		x[n + i] = (double)INFINITY;
	add_lanes(s, x, n + padding);
	s->infs -= padding;
}

/* Add @n complex elements as c128. */
KERNEL static void add_complex(struct stats *s, const double *x, size_t n)
{
	const uint64_t magnitude = UINT64_MAX >> 1, inf = F64_INF;
	uint64_t nans = 0, odd = 0;
	for (size_t i = 0; i < n; i++) {
		uint64_t re = f64_bits(x[2 * i]) & magnitude,
		         im = f64_bits(x[2 * i + 1]) & magnitude;
		nans += (re > inf) | (im > inf);
		odd += (re >= inf) | (im >= inf);
	}
	s->nans += nans;
	s->infs += odd - nans;
}

#define EXTREMES(name, T)                                                   \
	KERNEL static void name(struct stats *s, const void *src, size_t n) \
	{                                                                   \
		const T *x = src;                                           \
		T min = x[0], max = x[0];                                   \
		for (size_t i = 1; i < n; i++) {                            \
			min = x[i] < min ? x[i] : min;                      \
			max = x[i] > max ? x[i] : max;                      \
		}                                                           \
		s->min = (long double)min;                                  \
		s->max = (long double)max;                                  \
	}

EXTREMES(extremes_i64, int64_t)
EXTREMES(extremes_u64, uint64_t)

void stats_add(struct stats *s, enum dtype dtype, const void *src, size_t n)
{
	const bool complex = dtype_is_complex(dtype);
	const char *p = src;
	double x[2 * PIECE + LANES];

	s->count += n;
	if (!dtype_has_arithmetic(dtype))
		return;
	convert_fn *widen = convert_kernel(complex ? DTYPE_C128 : DTYPE_F64, dtype);
	for (size_t len; n; n -= len, p += len * dtype_size(dtype)) {
		struct stats piece;
		stats_init(&piece);
		len = n < PIECE ? n : PIECE;
		widen(x, p, len);
		if (complex)
			add_complex(&piece, x, len);
		else
			add_reals(&piece, x, len);
		if (dtype == DTYPE_I64)
			extremes_i64(&piece, p, len);
		else if (dtype == DTYPE_U64)
			extremes_u64(&piece, p, len);
		stats_merge(s, &piece);
	}
}
