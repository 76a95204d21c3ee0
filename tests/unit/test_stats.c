/* Statistics against a loop over the elements as numbers, whole and in pieces. */
#include "tests/unit/elements.h"

#include "lib/data/kernels/stats.h"

#define MAX_N 5000

static void add_slowly(struct stats *s, enum dtype t, const char *p, size_t n)
{
	for (size_t i = 0; i < n; i++, p += dtype_size(t)) {
		long double x = dtype_is_float(t) ? (long double)get_float(t, p)
		                : t == DTYPE_BOOL ? (long double)(get_bits(t, p) != 0)
		                : t >= DTYPE_I8 && t <= DTYPE_I64 ? (long double)get_signed(t, p)
		                                                  : (long double)get_bits(t, p);
		s->count++;
		s->nans += isnan(x) != 0;
		s->infs += isinf(x) != 0;
		if (!isfinite(x))
			continue;
		s->min = x < s->min ? x : s->min;
		s->max = x > s->max ? x : s->max;
		s->sum += (double)x;
	}
}

static void assert_stats(const struct stats *found, const struct stats *expected, double size)
{
	assert_int_equal(found->count, expected->count);
	assert_int_equal(found->nans, expected->nans);
	assert_int_equal(found->infs, expected->infs);
	assert_true(found->min == expected->min);
	assert_true(found->max == expected->max);
	/* Sums in f64 of another order; past its range either may be infinite or NaN. */
	if (size < 1e300)
		assert_true(fabs(found->sum - expected->sum) <= 1e-10 * size);
}

TEST_WITH(test_real, reseed, NULL)
{
	static const size_t lengths[] = {0, 1, 2, 7, 8, 9, 1023, 1024, 1025, MAX_N};
	static uint64_t src[MAX_N];
	for (int i = 1; i < DTYPES; i++)
		for (size_t k = 0; k < LENGTH(lengths); k++) {
			enum dtype t = (enum dtype)i;
			struct stats found, expected, half;
			size_t n = lengths[k];
			if (!dtype_has_arithmetic(t) || dtype_is_complex(t))
				continue;
			fill(t, src, n);
			stats_init(&expected);
			add_slowly(&expected, t, (char *)src, n);
			double most =
			        n && expected.min <= expected.max
			                ? (double)fmaxl(fabsl(expected.min), fabsl(expected.max))
			                : 0;
			double size = most * (double)n;
			stats_init(&found);
			stats_add(&found, t, src, n);
			assert_stats(&found, &expected, size);
			stats_init(&found);
			stats_init(&half);
			stats_add(&half, t, src, n / 3);
			stats_add(&found, t, (char *)src + n / 3 * dtype_size(t), n - n / 3);
			stats_merge(&found, &half);
			assert_stats(&found, &expected, size);
		}
}

TEST_WITH(test_64_bits_are_exact, reseed, NULL)
{
	static const int64_t i[] = {INT64_MAX - 1, INT64_MIN + 1, 5};
	static const uint64_t u[] = {UINT64_MAX - 1, 9007199254740993, UINT64_MAX - 2};
	struct stats s;
	stats_init(&s);
	stats_add(&s, DTYPE_I64, i, 3);
	assert_true(s.min == (long double)(INT64_MIN + 1) && s.max == (long double)(INT64_MAX - 1));
	stats_init(&s);
	stats_add(&s, DTYPE_U64, u, 3);
	assert_true(s.min == (long double)9007199254740993 &&
	            s.max == (long double)(UINT64_MAX - 1));
}

TEST_WITH(test_complex, reseed, NULL)
{
	static float x[2 * MAX_N];
	static double y[2 * MAX_N];
	struct stats s, t;
	uint64_t nans = 0, infs = 0;
	for (size_t i = 0; i < MAX_N; i++) {
		uint64_t which = next() % 16;
		x[2 * i] = which == 1 || which == 2 ? NAN : which == 3 ? INFINITY : 1;
		x[2 * i + 1] = which == 2 || which == 3 ? -INFINITY : which == 4 ? NAN : 2;
		nans += which == 1 || which == 2 || which == 4;
		infs += which == 3;
		y[2 * i] = (double)x[2 * i];
		y[2 * i + 1] = (double)x[2 * i + 1];
	}
	stats_init(&s);
	stats_init(&t);
	stats_add(&s, DTYPE_C64, x, MAX_N);
	stats_add(&t, DTYPE_C128, y, MAX_N);
	assert_int_equal(s.count, MAX_N);
	assert_int_equal(s.nans, nans);
	assert_int_equal(s.infs, infs);
	assert_true(s.min > s.max);
	assert_int_equal(t.count, MAX_N);
	assert_int_equal(t.nans, nans);
	assert_int_equal(t.infs, infs);
}

TEST_WITH(test_carried, reseed, NULL)
{
	struct stats s;
	stats_init(&s);
	stats_add(&s, DTYPE_F4, "ab", 4);
	stats_add(&s, DTYPE_F8_E8M0, "ab", 2);
	assert_int_equal(s.count, 6);
	assert_true(s.min > s.max && s.nans == 0 && s.infs == 0);
}

int main(void)
{
	return unit_run(NULL, NULL);
}
