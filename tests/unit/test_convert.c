/* Conversions and averages of floats against the oracle in double: all values of the narrow types,
 * all midpoints between them, random and special values. */
#include "tests/unit/elements.h"

/* ---- conversions ---- */

static bool is_real(enum dtype t)
{
	return dtype_is_float(t) && !dtype_is_complex(t);
}

/* Convert one at a time and in a vector; both must be the oracle's. */
static void check_convert(enum dtype to, enum dtype from, const void *src, size_t n)
{
	convert_fn *fn = convert_kernel(to, from);
	size_t dt = dtype_size(to), df = dtype_size(from);
	char *found = malloc(n * dt + 1), *one = malloc(n * dt + 1), *expected = malloc(n * dt + 1);
	fn(found, src, n);
	for (size_t i = 0; i < n; i++) {
		fn(one + i * dt, (const char *)src + i * df, 1);
		put_float(to, expected + i * dt, get_float(from, (const char *)src + i * df));
	}
	assert_same(to, found, expected, n, "convert", REDUCE_SUM, from);
	assert_same(to, one, expected, n, "convert", REDUCE_SUM, from);
	free(found);
	free(one);
	free(expected);
}

static const enum dtype narrow[] = {DTYPE_F8E4M3, DTYPE_F8E5M2, DTYPE_F16, DTYPE_BF16};

TEST_WITH(test_widen_all, reseed, NULL)
{
	static uint16_t every[65536], back[65536];
	static uint64_t wide[65536];
	for (size_t k = 0; k < LENGTH(narrow); k++)
		for (int w = DTYPE_F32; w <= DTYPE_F64; w++) {
			enum dtype t = narrow[k], wider = (enum dtype)w;
			size_t size = dtype_size(t), n = (size_t)1 << 8 * size;
			for (size_t i = 0; i < n; i++)
				put_bits(t, (char *)every + i * size, i);
			check_convert(wider, t, every, n);
			/* There and back is the identity, but for NaN. */
			convert_kernel(wider, t)(wide, every, n);
			convert_kernel(t, wider)(back, wide, n);
			for (size_t i = 0; i < n; i++)
				if (!isnan(get_float(t, (char *)every + i * size)))
					assert_int_equal(get_bits(t, (char *)back + i * size), i);
		}
}

/* Rounding changes only at the midpoints between neighbours: the values at, next to and half way
 * between all neighbouring numbers of at most 16 bits decide every case. @end: the bits of what
 * stands above the largest number, and @beyond where that would lie. */
static void check_midpoints(enum dtype t, enum dtype wider, unsigned end, double beyond)
{
	enum { PER = 12 };
	size_t size = dtype_size(wider), n = 0;
	char *src = malloc((size_t)end * PER * size);
	for (unsigned u = 0; u < end; u++) {
		uint16_t here = (uint16_t)u, above = (uint16_t)(u + 1);
		double lo = get_float(t, &here);
		double hi = above == end ? beyond : get_float(t, &above);
		double mid = lo + (hi - lo) / 2;
		double at[PER / 2] = {lo, mid};
		for (int k = 0; k < 2; k++)
			if (wider == DTYPE_F64) {
				at[2 + 2 * k] = nextafter(at[k], 0);
				at[3 + 2 * k] = nextafter(at[k], (double)INFINITY);
			} else {
				at[2 + 2 * k] = (double)nextafterf((float)at[k], 0);
				at[3 + 2 * k] = (double)nextafterf((float)at[k], INFINITY);
			}
		for (size_t i = 0; i < PER / 2; i++) {
			put_float(wider, src + n++ * size, at[i]);
			put_float(wider, src + n++ * size, -at[i]);
		}
	}
	check_convert(t, wider, src, n);
	free(src);
}

TEST_WITH(test_narrow_midpoints, reseed, NULL)
{
	for (int w = DTYPE_F32; w <= DTYPE_F64; w++) {
		check_midpoints(DTYPE_F8E4M3, (enum dtype)w, 0x7f, 480);
		check_midpoints(DTYPE_F8E5M2, (enum dtype)w, 0x7c, 65536);
		check_midpoints(DTYPE_F16, (enum dtype)w, 0x7c00, 65536);
		check_midpoints(DTYPE_BF16, (enum dtype)w, 0x7f80, 0x1p128);
	}
}

TEST_WITH(test_convert_values, reseed, NULL)
{
	enum { N = 50000 };
	static uint64_t src[N];
	for (int to = 1; to < DTYPES; to++)
		for (int from = 1; from < DTYPES; from++)
			if (to != from && convert_kernel((enum dtype)to, (enum dtype)from) &&
			    is_real((enum dtype)to) && is_real((enum dtype)from)) {
				fill((enum dtype)from, src, N);
				check_convert((enum dtype)to, (enum dtype)from, src, N);
			}
}

TEST_WITH(test_identity_keeps_bits, reseed, NULL)
{
	static uint64_t src[2000], dst[2000]; /* 100 of the largest type */
	for (int i = 1; i < DTYPES; i++) {
		enum dtype t = (enum dtype)i;
		if (!dtype_size(t)) {
			assert_null(convert_kernel(t, t));
			continue;
		}
		fill(DTYPE_U64, src, LENGTH(src));
		convert_kernel(t, t)(dst, src, 100);
		assert_memory_equal(dst, src, 100 * dtype_size(t));
		convert_kernel(t, t)(src, src, 100);
		assert_memory_equal(dst, src, 100 * dtype_size(t));
	}
	assert_null(convert_kernel(DTYPE_I32, DTYPE_F32));
	assert_null(convert_kernel(DTYPE_F16, DTYPE_BF16));
}

/* ---- averages ---- */

TEST_WITH(test_final, reseed, NULL)
{
	enum { N = 5000 };
	static const double divisors[] = {
	        1, 2, 3, 7, 1000, 0.1, 1.5, 16777217, 1e300, 4294967297.0, 65536, 0x1p-60};
	static uint64_t src[N], found[N], expected[N];
	size_t pairs = 0;
	for (int to = 1; to < DTYPES; to++)
		for (int from = 1; from < DTYPES; from++) {
			enum dtype t = (enum dtype)to, f = (enum dtype)from;
			final_fn *fn = is_real(t) ? final_kernel(t, f) : NULL;
			pairs += fn != NULL;
			for (size_t k = 0; fn && k < LENGTH(divisors); k++) {
				fill(f, src, N);
				for (size_t i = 0; i < N; i++)
					put_float(t, (char *)expected + i * dtype_size(t),
					          get_float(f, (char *)src + i * dtype_size(f)) /
					                  divisors[k]);
				fn(found, src, divisors[k], N);
				assert_same(t, found, expected, N, "final", REDUCE_AVG, f);
				if (t == f) {
					fn(src, src, divisors[k], N);
					assert_same(t, src, expected, N, "final", REDUCE_AVG, f);
				}
			}
		}
	assert_int_equal(pairs, 15);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
