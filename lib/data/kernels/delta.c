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

/* Ten rounds of the counter @c with the keys @a and @b, which differ in every round. */
static inline void philox(uint32_t c[4], uint32_t a, uint32_t b)
{
#pragma GCC unroll 10
	for (int i = 0; i < 10; i++) {
		const uint64_t x = UINT64_C(0xd2511f53) * c[0], y = UINT64_C(0xcd9e8d57) * c[2];
		c[0] = (uint32_t)(y >> 32) ^ c[1] ^ a;
		c[1] = (uint32_t)y;
		c[2] = (uint32_t)(x >> 32) ^ c[3] ^ b;
		c[3] = (uint32_t)x;
		a += 0x9e3779b9u;
		b += 0xbb67ae85u;
	}
}

void delta_random(uint64_t key, uint64_t block, uint32_t stream, uint32_t out[4])
{
	out[0] = (uint32_t)block;
	out[1] = (uint32_t)(block >> 32);
	out[2] = stream;
	out[3] = 0;
	philox(out, (uint32_t)key, (uint32_t)(key >> 32));
}

#define BLOCKS 64 /* of four random numbers */

/* The numbers of delta_random for block @block and those that follow it. */
KERNEL static void random_blocks(uint64_t key, uint64_t block, uint32_t stream,
                                 uint32_t out[4 * BLOCKS])
{
	const uint32_t a = (uint32_t)key, b = (uint32_t)(key >> 32);
	ELEMENTWISE for (size_t i = 0; i < BLOCKS; i++)
	{
		uint32_t c[4] = {(uint32_t)(block + i), (uint32_t)((block + i) >> 32), stream, 0};
		philox(c, a, b);
		out[4 * i] = c[0];
		out[4 * i + 1] = c[1];
		out[4 * i + 2] = c[2];
		out[4 * i + 3] = c[3];
	}
}

/* d[i] *= @by where the random number is at most @last, else 0. */
#define DROP(T)                                                                             \
	KERNEL static void drop_##T(T *d, const uint32_t *random, uint32_t last, double by, \
	                            size_t n)                                               \
	{                                                                                   \
		ELEMENTWISE for (size_t i = 0; i < n; i++)                                  \
		{                                                                           \
			const T scaled = (T)((double)d[i] * by);                            \
			d[i] = random[i] <= last ? scaled : 0;                              \
		}                                                                           \
	}

DROP(float)
DROP(double)

void delta_drop(enum dtype dtype, void *d, double part, uint64_t key, uint32_t of, uint64_t first,
                size_t n)
{
	const uint32_t last = (uint32_t)(ceil(part * 0x1p32) - 1); /* of 2^32 numbers */
	uint32_t random[4 * BLOCKS];
	for (size_t i = 0, len; i < n; i += len) {
		const uint64_t index = first + i;
		const size_t from = index % 4, left = 4 * BLOCKS - from;
		len = n - i < left ? n - i : left;
		random_blocks(key, index / 4, of, random);
		if (dtype == DTYPE_F64)
			drop_double((double *)d + i, random + from, last, 1 / part, len);
		else
			drop_float((float *)d + i, random + from, last, 1 / part, len);
	}
}
