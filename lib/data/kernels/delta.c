#include "lib/data/kernels/delta.h"

#include <math.h>
#include <string.h>

#include <xxhash.h>

#include "lib/data/kernels/kernels.h"
#include "lib/data/kernels/reduce.h"

#define CHUNK 1024 /* elements in f64, which stay in the cache */

enum dtype delta_dtype(enum dtype dtype)
{
	if (!dtype_is_float(dtype) || dtype_is_complex(dtype) || !dtype_has_arithmetic(dtype))
		return DTYPE_NONE;
	return dtype == DTYPE_F64 ? DTYPE_F64 : DTYPE_F32;
}

KERNEL static void subtract(double *x, const double *origin, double by, size_t n)
{
	ELEMENTWISE for (size_t i = 0; i < n; i++)
	{
		x[i] = by * (x[i] - origin[i]);
	}
}

KERNEL_UNFUSED static void add(double *d, const double *origin, double by, size_t n)
{
	ELEMENTWISE for (size_t i = 0; i < n; i++)
	{
		d[i] = origin[i] + by * d[i];
	}
}

static const void *at(const void *p, enum dtype dtype, size_t i)
{
	return (const uint8_t *)p + i * dtype_size(dtype);
}

/* Of two f32 the difference is rounded to f32 as if it were first rounded to f64 (Figueroa, When is
 * double rounding innocuous?, 1995). */
KERNEL static void subtract_f32(float *x, const float *origin, size_t n)
{
	ELEMENTWISE for (size_t i = 0; i < n; i++)
	{
		x[i] = f32_canonical(x[i] - origin[i]);
	}
}

static void take_f32(float *dst, enum dtype dtype, const void *x, const void *origin, size_t n)
{
	convert_fn *widen = convert_kernel(DTYPE_F32, dtype);
	float b[CHUNK];
	for (size_t i = 0, len; i < n; i += len) {
		len = n - i < CHUNK ? n - i : CHUNK;
		widen(dst + i, at(x, dtype, i), len);
		widen(b, at(origin, dtype, i), len);
		subtract_f32(dst + i, b, len);
	}
}

void delta_take(enum dtype to, void *dst, enum dtype dtype, const void *x, const void *origin,
                double by, size_t n)
{
	convert_fn *widen = convert_kernel(DTYPE_F64, dtype);
	convert_fn *narrow = convert_kernel(to, DTYPE_F64);
	double a[CHUNK], b[CHUNK];
	if (by >= 0 && by <= 0) {
		memset(dst, 0, n * dtype_size(to));
		return;
	}
	if (to == DTYPE_F32 && dtype != DTYPE_F64 && by >= 1 && by <= 1) {
		take_f32(dst, dtype, x, origin, n);
		return;
	}
	for (size_t i = 0, len; i < n; i += len) {
		len = n - i < CHUNK ? n - i : CHUNK;
		widen(a, at(x, dtype, i), len);
		widen(b, at(origin, dtype, i), len);
		subtract(a, b, by, len);
		narrow((uint8_t *)dst + i * dtype_size(to), a, len);
	}
}

void delta_apply(enum dtype to, void *dst, enum dtype dtype, const void *origin, enum dtype of,
                 const void *d, double by, size_t n)
{
	convert_fn *widen = convert_kernel(DTYPE_F64, dtype);
	convert_fn *widen_step = convert_kernel(DTYPE_F64, of);
	convert_fn *narrow = convert_kernel(to, DTYPE_F64);
	double a[CHUNK], b[CHUNK];
	for (size_t i = 0, len; i < n; i += len) {
		len = n - i < CHUNK ? n - i : CHUNK;
		widen_step(a, at(d, of, i), len);
		widen(b, at(origin, dtype, i), len);
		add(a, b, by, len);
		narrow((uint8_t *)dst + i * dtype_size(to), a, len);
	}
}

KERNEL_UNFUSED static void momentum(double *m, const double *d, double by, double mu, size_t n)
{
	ELEMENTWISE for (size_t i = 0; i < n; i++)
	{
		m[i] = mu * m[i] - by * d[i];
	}
}

KERNEL_UNFUSED static void descend(double *d, const double *origin, const double *m, double by,
                                   double rate, double mu, size_t n)
{
	ELEMENTWISE for (size_t i = 0; i < n; i++)
	{
		d[i] = origin[i] + rate * (by * d[i] - mu * m[i]);
	}
}

void delta_outer(enum dtype to, void *dst, enum dtype dtype, const void *origin, enum dtype of,
                 const void *d, double by, enum dtype kept, void *m, double rate, double mu,
                 size_t n)
{
	double step[CHUNK], o[CHUNK], before[CHUNK];
	for (size_t i = 0, len; i < n; i += len) {
		void *own = (uint8_t *)m + i * dtype_size(kept);
		len = n - i < CHUNK ? n - i : CHUNK;
		convert_kernel(DTYPE_F64, of)(step, at(d, of, i), len);
		convert_kernel(DTYPE_F64, dtype)(o, at(origin, dtype, i), len);
		convert_kernel(DTYPE_F64, kept)(before, own, len);
		momentum(before, step, by, mu, len);
		convert_kernel(kept, DTYPE_F64)(own, before, len);
		convert_kernel(DTYPE_F64, kept)(before, own, len);
		descend(step, o, before, by, rate, mu, len);
		convert_kernel(to, DTYPE_F64)((uint8_t *)dst + i * dtype_size(to), step, len);
	}
}

/* ---- ties ---- */

void delta_rank_init(struct delta_rank *r, enum dtype dtype, uint64_t k, uint64_t *count)
{
	*r = (struct delta_rank){
	        .dtype = dtype, .shift = dtype_bits(dtype) - 16, .k = k, .count = count};
	memset(count, 0, DELTA_BUCKETS * sizeof *count);
}

#define BLOCK 16 /* elements, of which after the first pass seldom one has the prefix */

/* Count the magnitudes with the prefix by their next 16 bits. */
#define COUNT(U)                                                                          \
	KERNEL static unsigned among_##U(const U *d, U prefix, unsigned shift)            \
	{                                                                                 \
		const U most = (U)-1 >> 1;                                                \
		unsigned found = 0;                                                       \
		for (size_t i = 0; i < BLOCK; i++)                                        \
			found += (d[i] & most) >> shift >> 16 == prefix;                  \
		return found;                                                             \
	}                                                                                 \
	static void count_##U(struct delta_rank *r, const U *d, size_t n)                 \
	{                                                                                 \
		const U most = (U)-1 >> 1, prefix = (U)r->prefix;                         \
		const unsigned shift = r->shift;                                          \
		const bool all = shift + 16 == 8 * sizeof(U); /* the first pass */        \
		uint64_t *count = r->count;                                               \
		for (size_t i = 0, end; i < n; i = end) {                                 \
			end = n - i < BLOCK ? n : i + BLOCK;                              \
			if (!all && end - i == BLOCK && !among_##U(d + i, prefix, shift)) \
				continue;                                                 \
			for (; i < end; i++) {                                            \
				const U m = (U)(d[i] & most) >> shift;                    \
				if (m >> 16 == prefix)                                    \
					count[m & (DELTA_BUCKETS - 1)]++;                 \
			}                                                                 \
		}                                                                         \
	}

COUNT(uint32_t)
COUNT(uint64_t)

void delta_rank_add(struct delta_rank *r, const void *d, size_t n)
{
	if (r->dtype == DTYPE_F64)
		count_uint64_t(r, d, n);
	else
		count_uint32_t(r, d, n);
}

bool delta_rank_next(struct delta_rank *r)
{
	uint64_t bucket = DELTA_BUCKETS - 1;
	while (bucket && r->k > r->count[bucket])
		r->k -= r->count[bucket--];
	r->prefix = r->prefix << 16 | bucket;
	if (!r->shift)
		return false;
	r->shift -= 16;
	memset(r->count, 0, DELTA_BUCKETS * sizeof *r->count);
	return true;
}

uint64_t delta_rank_bits(const struct delta_rank *r)
{
	return r->prefix;
}

uint64_t delta_kept(double part, uint64_t n)
{
	/* @part is the double nearest to a decimal number: 0.2 of 10 is 2, and not 3. */
	const long double k = ceill((long double)part * (long double)n * (1 - 0x1p-52L));
	return k < 1 ? n > 0 : k > (long double)n ? n : (uint64_t)k;
}

#define KEEP(U)                                                  \
	KERNEL static void keep_##U(U *d, U bits, size_t n)      \
	{                                                        \
		const U most = (U)-1 >> 1;                       \
		ELEMENTWISE for (size_t i = 0; i < n; i++)       \
		{                                                \
			d[i] = (d[i] & most) >= bits ? d[i] : 0; \
		}                                                \
	}

KEEP(uint32_t)
KEEP(uint64_t)

void delta_keep(enum dtype dtype, void *d, uint64_t bits, size_t n)
{
	if (dtype == DTYPE_F64)
		keep_uint64_t(d, bits, n);
	else
		keep_uint32_t(d, (uint32_t)bits, n);
}

/* ---- dare ---- */

uint64_t delta_key(uint64_t seed, const char *tensor)
{
	return XXH3_64bits_withSeed(tensor, strlen(tensor), seed);
}

static void philox_round(uint32_t c[4], const uint32_t k[2])
{
	const uint64_t a = UINT64_C(0xd2511f53) * c[0], b = UINT64_C(0xcd9e8d57) * c[2];
	const uint32_t c1 = c[1], c3 = c[3];
	c[0] = (uint32_t)(b >> 32) ^ c1 ^ k[0];
	c[1] = (uint32_t)b;
	c[2] = (uint32_t)(a >> 32) ^ c3 ^ k[1];
	c[3] = (uint32_t)a;
}

void delta_random(uint64_t key, uint64_t block, uint32_t stream, uint32_t out[4])
{
	uint32_t k[2] = {(uint32_t)key, (uint32_t)(key >> 32)};
	out[0] = (uint32_t)block;
	out[1] = (uint32_t)(block >> 32);
	out[2] = stream;
	out[3] = 0;
	for (int i = 0; i < 10; i++) {
		philox_round(out, k);
		k[0] += 0x9e3779b9u;
		k[1] += 0xbb67ae85u;
	}
}

static void scale_one(enum dtype dtype, void *d, size_t i, double by)
{
	double wide;
	float narrow;
	void *p = (uint8_t *)d + i * dtype_size(dtype);
	if (dtype == DTYPE_F64) {
		memcpy(&wide, p, sizeof wide);
		wide *= by;
		memcpy(p, &wide, sizeof wide);
		return;
	}
	memcpy(&narrow, p, sizeof narrow);
	narrow = (float)((double)narrow * by);
	memcpy(p, &narrow, sizeof narrow);
}

void delta_drop(enum dtype dtype, void *d, double part, uint64_t key, uint32_t of, uint64_t first,
                size_t n)
{
	const double most = part * 0x1p32; /* of 2^32 numbers as many are below it */
	uint32_t random[4];
	for (size_t i = 0; i < n; i++) {
		const uint64_t index = first + i;
		if (i == 0 || index % 4 == 0)
			delta_random(key, index / 4, of, random);
		if ((double)random[index % 4] < most)
			scale_one(dtype, d, i, 1 / part);
		else
			memset((uint8_t *)d + i * dtype_size(dtype), 0, dtype_size(dtype));
	}
}
