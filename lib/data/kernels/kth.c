#include "lib/data/kernels/kth.h"

#include <math.h>
#include <string.h>

#include "lib/data/kernels/simd.h"

#define BLOCK       16 /* elements, of which in a narrow range seldom one has a bucket */
#define SAMPLE_BITS 11 /* buckets that stay in the first-level cache */

#define COUNT(U)                                                                          \
	/* At most BLOCK elements. Those in the range are found without branches. */      \
	static inline void tally_##U(struct kth *r, const U *d, size_t n)                 \
	{                                                                                 \
		const U most = (U)-1 >> 1, low = (U)r->low;                               \
		const U width = (U)((U)1 << r->bits << r->shift);                         \
		U found[BLOCK];                                                           \
		size_t k = 0;                                                             \
		for (size_t i = 0; i < n; i++) {                                          \
			found[k] = (U)((d[i] & most) - low);                              \
			k += found[k] < width;                                            \
		}                                                                         \
		for (size_t i = 0; i < k; i++)                                            \
			r->count[found[i] >> r->shift]++;                                 \
	}                                                                                 \
	KERNEL static void count_##U(struct kth *r, const U *d, size_t n)                 \
	{                                                                                 \
		const U most = (U)-1 >> 1, low = (U)r->low;                               \
		const U width = (U)((U)1 << r->bits << r->shift), end = (U)(low + width); \
		size_t i = 0;                                                             \
		for (; i + BLOCK <= n; i += BLOCK) {                                      \
			U within = 0, above = 0;                                          \
			for (size_t j = i; j < i + BLOCK; j++) {                          \
				const U m = d[j] & most;                                  \
				within |= (U)(m - low) < width;                           \
				above += m >= end;                                        \
			}                                                                 \
			r->above += above;                                                \
			if (within)                                                       \
				tally_##U(r, d + i, BLOCK);                               \
		}                                                                         \
		tally_##U(r, d + i, n - i);                                               \
		for (; i < n; i++)                                                        \
			r->above += (d[i] & most) >= end;                                 \
	}

COUNT(uint32_t)
COUNT(uint64_t)

/* The number of bits of @x. */
static unsigned width_of(uint64_t x)
{
	return x ? 64 - (unsigned)__builtin_clzll(x) : 0;
}

/* Count magnitudes from @low to @low + @last, and perhaps some above. */
static void narrow(struct kth *r, uint64_t low, uint64_t last)
{
	const unsigned width = width_of(last);
	r->low = low;
	r->shift = width > r->bits ? width - r->bits : 0;
	r->above = 0;
	r->fresh = true;
}

static uint64_t largest(enum dtype dtype)
{
	return UINT64_MAX >> (65 - dtype_bits(dtype));
}

static void seek(struct kth *r, enum dtype dtype, uint64_t k, uint64_t total, unsigned bits,
                 uint64_t *count)
{
	*r = (struct kth){.dtype = dtype, .bits = bits, .k = k, .total = total, .count = count};
	narrow(r, 0, largest(dtype));
}

void kth_init(struct kth *r, enum dtype dtype, uint64_t k, uint64_t total, uint64_t *count)
{
	seek(r, dtype, k, total, KTH_BITS, count);
}

void kth_add(struct kth *r, const void *d, size_t n)
{
	if (r->fresh)
		memset(r->count, 0, sizeof *r->count << r->bits);
	r->fresh = false;
	if (r->dtype == DTYPE_F64)
		count_uint64_t(r, d, n);
	else
		count_uint32_t(r, d, n);
}

void kth_next(struct kth *r)
{
	const uint64_t size = UINT64_C(1) << r->shift, end = r->low + (size << r->bits);
	uint64_t n = r->above;
	size_t bucket = (size_t)1 << r->bits;
	if (n >= r->k) {
		narrow(r, end, largest(r->dtype) - end);
		return;
	}
	while (bucket && n < r->k)
		n += r->count[--bucket];
	if (n < r->k) {
		narrow(r, 0, r->low - 1);
		return;
	}
	r->found = !r->shift;
	r->value = r->low + bucket * size;
	if (!r->found)
		narrow(r, r->value, size - 1);
}

/* The @k-th largest magnitude of the @n elements @d. */
static uint64_t select_kth(enum dtype dtype, const void *d, size_t n, uint64_t k)
{
	uint64_t count[1 << SAMPLE_BITS];
	struct kth r;
	seek(&r, dtype, k, n, SAMPLE_BITS, count);
	while (!r.found) {
		kth_add(&r, d, n);
		kth_next(&r);
	}
	return r.value;
}

void kth_sample(struct kth *r, const void *d, size_t n)
{
	const double part = (double)r->k / (double)r->total, at = part * (double)n;
	const double error = 4 * sqrt(at * (1 - part)) + 1; /* four standard deviations */
	if (n == r->total) {
		r->found = true;
		r->value = select_kth(r->dtype, d, n, r->k);
		return;
	}
	const double first = floor(at - error), last = ceil(at + error);
	const uint64_t high =
	        first < 1 ? largest(r->dtype) : select_kth(r->dtype, d, n, (uint64_t)first);
	const uint64_t low = last > (double)n ? 0 : select_kth(r->dtype, d, n, (uint64_t)last);
	narrow(r, low, high - low);
	/* Put what lies between them into the middle of the range. */
	const uint64_t spare = ((UINT64_C(1) << r->bits << r->shift) - 1 - (high - low)) / 2;
	r->low -= spare < low ? spare : low;
}
