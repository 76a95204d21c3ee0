/*
 * What differs from type to type: every pair of 8-bit floats, truth, complex numbers, sums in 128
 * bits, averages of integers, and weights. The oracles are written in other arithmetic than the
 * kernels: double, long double or whole numbers.
 */
#include "tests/unit/elements.h"

/* ---- 8-bit floats ---- */

/* The sums and products of all pairs are exact in double, so rounding them is the only rounding. */
static void check_all_pairs(enum dtype t, enum reduce_op op)
{
	enum { N = 65536 };
	static uint8_t a[N], b[N], found[N], expected[N];
	for (unsigned i = 0; i < N; i++) {
		a[i] = (uint8_t)(i >> 8);
		b[i] = (uint8_t)i;
		double x = get_float(t, &a[i]), y = get_float(t, &b[i]);
		put_float(t, &expected[i], op == REDUCE_PROD ? x * y : x + y);
	}
	reduce_kernel(op, t, t, false)(found, a, b, N);
	assert_same(t, found, expected, N, "all pairs", op, t);
}

TEST_WITH(test_f8_all_pairs, reseed, NULL)
{
	check_all_pairs(DTYPE_F8E4M3, REDUCE_SUM);
	check_all_pairs(DTYPE_F8E4M3, REDUCE_PROD);
	check_all_pairs(DTYPE_F8E5M2, REDUCE_SUM);
	check_all_pairs(DTYPE_F8E5M2, REDUCE_PROD);
}

/* What torch and ml_dtypes give, but for the sign of NaN. */
TEST_WITH(test_f8_edges, reseed, NULL)
{
	static const float x[] = {448,   464,     465,  480,     1e9f,      -465,     INFINITY,
	                          -1e9f, 0x1p-9f, -0.f, 0x1p-10, 0x1.8p-10, 0x1.8p-9f};
	static const uint8_t e4m3[] = {0x7e, 0x7e, 0x7f, 0x7f, 0x7f, 0x7f, 0x7f,
	                               0x7f, 0x01, 0x80, 0x00, 0x01, 0x02};
	static const float y[] = {57344, 61439,   61440,   65536,     -1e9f,
	                          NAN,   0x1p-16, 0x1p-17, 0x1.8p-16f};
	static const uint8_t e5m2[] = {0x7b, 0x7b, 0x7c, 0x7c, 0xfc, 0x7e, 0x01, 0x00, 0x02};
	uint8_t out[LENGTH(x)];
	convert_kernel(DTYPE_F8E4M3, DTYPE_F32)(out, x, LENGTH(x));
	assert_memory_equal(out, e4m3, LENGTH(x));
	convert_kernel(DTYPE_F8E5M2, DTYPE_F32)(out, y, LENGTH(y));
	assert_memory_equal(out, e5m2, LENGTH(y));
}

/* ---- truth ---- */

TEST_WITH(test_bool, reseed, NULL)
{
	static const enum reduce_op ands[] = {REDUCE_PROD, REDUCE_MIN, REDUCE_BAND, REDUCE_LAND};
	static const enum reduce_op ors[] = {REDUCE_SUM, REDUCE_MAX, REDUCE_BOR, REDUCE_LOR};
	static const enum reduce_op xors[] = {REDUCE_BXOR, REDUCE_LXOR};
	static const uint8_t a[] = {0, 0, 1, 1, 2, 255, 2, 4}, b[] = {0, 1, 0, 1, 1, 0, 4, 4};
	static const uint8_t and[] = {0, 0, 0, 1, 1, 0, 1, 1}, or [] = {0, 1, 1, 1, 1, 1, 1, 1};
	static const uint8_t xor [] = {0, 1, 1, 0, 0, 1, 0, 0};
	uint8_t out[8];
	for (size_t i = 0; i < LENGTH(ands); i++) {
		reduce_kernel(ands[i], DTYPE_BOOL, DTYPE_BOOL, false)(out, a, b, 8);
		assert_memory_equal(out, and, 8);
		reduce_identity(ands[i], DTYPE_BOOL, out, 1);
		assert_int_equal(out[0], 1);
		reduce_kernel(ors[i], DTYPE_BOOL, DTYPE_BOOL, false)(out, a, b, 8);
		assert_memory_equal(out, or, 8);
		reduce_identity(ors[i], DTYPE_BOOL, out, 1);
		assert_int_equal(out[0], 0);
	}
	for (size_t i = 0; i < LENGTH(xors); i++) {
		reduce_kernel(xors[i], DTYPE_BOOL, DTYPE_BOOL, false)(out, a, b, 8);
		assert_memory_equal(out, xor, 8);
	}
	double sums[8];
	convert_kernel(DTYPE_F64, DTYPE_BOOL)(sums, a, 8);
	for (size_t i = 0; i < 8; i++)
		assert_true(sums[i] == (a[i] ? 1 : 0));
	static const double of_four[] = {0, 1, 2, 3, 4, 2.0001, NAN, 1e300};
	static const uint8_t rounded[] = {0, 0, 0, 1, 1, 1, 0, 1};
	final_kernel(DTYPE_BOOL, DTYPE_F64)(out, of_four, 4, 8);
	assert_memory_equal(out, rounded, 8);
	final_kernel(DTYPE_BOOL, DTYPE_BOOL)(out, a, 1, 8);
	for (size_t i = 0; i < 8; i++)
		assert_int_equal(out[i], a[i] != 0);
}

/* ---- complex numbers ---- */

static enum dtype part_of(enum dtype t)
{
	return t == DTYPE_C64 ? DTYPE_F32 : DTYPE_F64;
}

/* One operation, rounded to the part's type as it would be by hand. */
static double rounded(enum dtype part, double x)
{
	uint64_t u = 0;
	put_float(part, &u, x);
	return get_float(part, &u);
}

static void complex_oracle(enum reduce_op op, enum dtype acc, enum dtype t, char *dst,
                           const char *a, const char *b)
{
	enum dtype p = part_of(acc), q = part_of(t);
	size_t np = dtype_size(p), nq = dtype_size(q);
	double x = get_float(p, a), xi = get_float(p, a + np);
	double y = get_float(q, b), yi = get_float(q, b + nq);
	double re = x + y, im = xi + yi;
	if (op == REDUCE_PROD) {
		re = rounded(p, x * y) - rounded(p, xi * yi);
		im = rounded(p, x * yi) + rounded(p, xi * y);
	}
	put_float(p, dst, re);
	put_float(p, dst + np, im);
}

static void check_complex(enum reduce_op op, enum dtype acc, enum dtype t)
{
	enum { N = 3000, AT = 3 };
	static uint64_t a[2 * N], b[2 * N], found[2 * N], expected[2 * N];
	size_t da = dtype_size(acc), db = dtype_size(t);
	fill(part_of(acc), a, 2 * N);
	fill(part_of(t), b, 2 * N);
	for (size_t i = 0; i < N; i++)
		complex_oracle(op, acc, t, (char *)expected + i * da, (char *)a + i * da,
		               (char *)b + i * db);
	reduce_kernel(op, acc, t, false)(found, a, b, N);
	assert_same(part_of(acc), found, expected, 2 * N, "complex", op, t);
	reduce_kernel(op, acc, t, true)(found, a, b, N);
	assert_same(part_of(acc), found, expected, 2 * N, "complex, swapped", op, t);
	for (size_t n = 0; n < 70; n++) {
		memset(found, 0x5a, 80 * da);
		reduce_kernel(op, acc, t, false)(found, (char *)a + AT * da, (char *)b + AT * db,
		                                 n);
		assert_same(part_of(acc), found, (char *)expected + AT * da, 2 * n, "short", op, t);
		assert_int_equal(get_bits(DTYPE_U8, (char *)found + n * da), 0x5a);
	}
	memcpy(found, a, N * da);
	reduce_kernel(op, acc, t, false)(found, found, b, N);
	assert_same(part_of(acc), found, expected, 2 * N, "complex, in place", op, t);
	if (acc == t) {
		reduce_kernel(op, acc, t, false)(b, a, b, N);
		assert_same(part_of(acc), b, expected, 2 * N, "complex, onto b", op, t);
	}
}

TEST_WITH(test_complex, reseed, NULL)
{
	static const enum reduce_op ops[] = {REDUCE_SUM, REDUCE_PROD, REDUCE_AVG};
	for (size_t i = 0; i < LENGTH(ops); i++) {
		check_complex(ops[i], DTYPE_C64, DTYPE_C64);
		check_complex(ops[i], DTYPE_C128, DTYPE_C128);
		check_complex(ops[i], DTYPE_C128, DTYPE_C64);
		assert_null(reduce_kernel(ops[i], DTYPE_C64, DTYPE_C128, false));
	}
}

TEST(test_many_identities)
{
	enum { N = 5000 };
	static float out[N + 1];

	for (size_t n = 0; n <= N; n = 2 * n + 1) {
		for (size_t i = 0; i <= N; i++)
			out[i] = 7;
		reduce_identity(REDUCE_MAX, DTYPE_F32, out, n);
		for (size_t i = 0; i < n; i++)
			assert_true(isinf(out[i]) && out[i] < 0);
		assert_true(out[n] == 7);
	}
}

TEST_WITH(test_complex_identities, reseed, NULL)
{
	static const double x[6] = {1, 0, 1, 0, 1, 0}, zero[6];
	static const float xf[4] = {1, 0, 1, 0};
	double out[6];
	reduce_identity(REDUCE_PROD, DTYPE_C128, out, 3);
	assert_memory_equal(out, x, sizeof x);
	reduce_identity(REDUCE_SUM, DTYPE_C128, out, 3);
	assert_memory_equal(out, zero, sizeof zero);
	reduce_identity(REDUCE_PROD, DTYPE_C64, out, 2);
	assert_memory_equal(out, xf, sizeof xf);
}

TEST_WITH(test_complex_conversions, reseed, NULL)
{
	static const float f[4] = {1.5f, -0.f, INFINITY, -3};
	static const double d[4] = {1.5, -0., (double)INFINITY, -3},
	                    third[4] = {0.5, -0., (double)INFINITY, -1};
	static const float thirdf[4] = {0.5f, -0.f, INFINITY, -1};
	double out[4];
	convert_kernel(DTYPE_C128, DTYPE_C64)(out, f, 2);
	assert_memory_equal(out, d, sizeof d);
	convert_kernel(DTYPE_C64, DTYPE_C128)(out, d, 2);
	assert_memory_equal(out, f, sizeof f);
	final_kernel(DTYPE_C64, DTYPE_C64)(out, f, 3, 2);
	assert_memory_equal(out, thirdf, sizeof thirdf);
	final_kernel(DTYPE_C64, DTYPE_C128)(out, d, 3, 2);
	assert_memory_equal(out, thirdf, sizeof thirdf);
	final_kernel(DTYPE_C128, DTYPE_C128)(out, d, 3, 2);
	assert_memory_equal(out, third, sizeof third);
	memcpy(out, f, sizeof f);
	scale_kernel(DTYPE_C128, DTYPE_C64)(out, f, 2, 2);
	assert_true(out[0] == 3 && out[3] == -6);
	scale_kernel(DTYPE_C128, DTYPE_C128)(out, d, 0, 2);
	for (size_t i = 0; i < 4; i++)
		assert_true(out[i] == 0);
}

/* ---- averages of integers ---- */

/* Through the sums of a few ranks. The quotient is found by trial: of the candidates about it, the
 * one that is closest, the even one of two. */
static __int128 nearest(__int128 x, int by)
{
	__int128 q = x / by - 2, best = q;
	for (int k = 0; k < 5; k++, q++) {
		__int128 d = x - q * by, e = x - best * by;
		d = d < 0 ? -d : d;
		e = e < 0 ? -e : e;
		if (d < e || (d == e && !(q & 1)))
			best = q;
	}
	return best;
}

static __int128 whole_of(enum dtype t, const void *p)
{
	bool sign = t >= DTYPE_I8 && t <= DTYPE_I64;
	return t == DTYPE_BOOL ? get_bits(t, p) != 0
	       : sign          ? (__int128)get_signed(t, p)
	                       : (__int128)get_bits(t, p);
}

static void check_average(enum dtype t, int ranks)
{
	enum { N = 400, RANKS = 9 };
	static uint64_t in[RANKS][N], sum[2 * N], wide[2 * N], found[N];
	enum dtype acc = reduce_avg_dtype(t, false, false);
	size_t size = dtype_size(t);
	reduce_identity(REDUCE_SUM, acc, sum, N);
	for (int r = 0; r < ranks; r++) {
		fill(t, in[r], N);
		convert_kernel(acc, t)(wide, in[r], N);
		reduce_kernel(REDUCE_SUM, acc, acc, false)(sum, sum, wide, N);
	}
	final_kernel(t, acc)(found, sum, ranks, N);
	for (size_t i = 0; i < N; i++) {
		__int128 x = 0;
		for (int r = 0; r < ranks; r++)
			x += whole_of(t, (char *)in[r] + i * size);
		if (whole_of(t, (char *)found + i * size) != nearest(x, ranks))
			fail_msg("%s of %d ranks: element %zu", dtype_name(t), ranks, i);
	}
	/* And of one element, which is its own sum. */
	final_kernel(t, t)(found, in[0], ranks, N);
	for (size_t i = 0; i < N; i++)
		assert_true(whole_of(t, (char *)found + i * size) ==
		            nearest(whole_of(t, (char *)in[0] + i * size), ranks));
}

TEST_WITH(test_integer_averages, reseed, NULL)
{
	for (int t = 1; t < DTYPES; t++)
		for (int ranks = 1; dtype_is_integer((enum dtype)t) && ranks <= 9; ranks++)
			check_average((enum dtype)t, ranks);
}

/* Weighted means may end a rounding beyond the type's end; NaN has no integer: 0. */
TEST_WITH(test_integers_stay_in_range, reseed, NULL)
{
	static const double x[] = {1e300, -1e300, NAN,    INFINITY, -INFINITY,
	                           127.5, -128.5, 0x1p63, 0x1p64};
	int8_t i8[LENGTH(x)];
	uint8_t u8[LENGTH(x)];
	int64_t i64[LENGTH(x)];
	uint64_t u64[LENGTH(x)];
	final_kernel(DTYPE_I8, DTYPE_F64)(i8, x, 1, LENGTH(x));
	final_kernel(DTYPE_U8, DTYPE_F64)(u8, x, 1, LENGTH(x));
	final_kernel(DTYPE_I64, DTYPE_F64)(i64, x, 1, LENGTH(x));
	final_kernel(DTYPE_U64, DTYPE_F64)(u64, x, 1, LENGTH(x));
	static const int8_t i8_expected[] = {127, -128, 0, 127, -128, 127, -128, 127, 127};
	static const uint8_t u8_expected[] = {255, 0, 0, 255, 0, 128, 0, 255, 255};
	static const int64_t i64_expected[] = {
	        INT64_MAX, INT64_MIN, 0, INT64_MAX, INT64_MIN, 128, -128, INT64_MAX, INT64_MAX};
	static const uint64_t u64_expected[] = {UINT64_MAX, 0, 0,          UINT64_MAX, 0,
	                                        128,        0, 1ull << 63, UINT64_MAX};
	assert_memory_equal(i8, i8_expected, sizeof i8);
	assert_memory_equal(u8, u8_expected, sizeof u8);
	assert_memory_equal(i64, i64_expected, sizeof i64);
	assert_memory_equal(u64, u64_expected, sizeof u64);
}

/* ---- weights ---- */

/* Rounded once from the exact product: x has at most 11 bits, and long double 64, so a weight of 53
 * takes the exact product as a sum of two. It is rounded to odd in 64 bits, then to f32. */
static float weighted_f32(double x, double weight)
{
	if (x == 0 || !isfinite(x))
		return (float)(x * weight);
	int exponent;
	double mantissa = frexp(weight, &exponent);
	long double low = (long double)(double)(float)mantissa; /* 24 bits */
	long double high = (long double)mantissa - low;         /* 29 */
	long double a = (long double)x * low, b = (long double)x * high;
	long double s = a + b, error = b - (s - a);
	if (isfinite(s) && error != 0) {
		long double toward =
		        nextafterl(s, error > 0 ? (long double)INFINITY : -(long double)INFINITY);
		int e;
		bool even = fmodl(ldexpl(frexpl(s, &e), 64), 2) == 0;
		s = even ? toward : s;
	}
	return (float)ldexpl(s, exponent);
}

static void assert_weighted(enum dtype to, enum dtype from, double weight)
{
	enum { N = 65536 };
	static uint16_t src[N];
	static uint64_t found[N], expected[N];
	size_t size = dtype_size(from), n = size == 1 ? 256 : N;
	for (size_t i = 0; i < n; i++) {
		put_bits(from, (char *)src + i * size, i);
		double x = get_float(from, (char *)src + i * size);
		if (to == DTYPE_F32)
			put_float(to, (char *)expected + i * 4, (double)weighted_f32(x, weight));
		else
			put_float(to, &expected[i], x * weight);
	}
	scale_kernel(to, from)(found, src, weight, n);
	assert_same(to, found, expected, n, "weighted", REDUCE_AVG, from);
}

/* Among the weights are those whose products with many elements lie as close beside the middle of
 * two f32 as 53 bits can, on either side. */
TEST_WITH(test_weights_of_narrow_floats, reseed, NULL)
{
	static const enum dtype narrow[] = {DTYPE_F8E4M3, DTYPE_F8E5M2, DTYPE_F16, DTYPE_BF16};
	static const double fixed[] = {1,
	                               0.1,
	                               3,
	                               1.0 / 3,
	                               1e-300,
	                               1e300,
	                               -0.7,
	                               0x1p-149,
	                               0x1p120,
	                               1000003,
	                               1e-40,
	                               0x1.000001p0,
	                               0x1.0000010000001p0,
	                               0x1.0000030000001p0,
	                               0x1.000000fffffffp0,
	                               0x1.000002fffffffp-130,
	                               0x1.5555555555555p0,
	                               0x1.aaaaabp-20};
	for (size_t k = 0; k < LENGTH(narrow); k++)
		for (size_t i = 0; i < LENGTH(fixed) + 8; i++) {
			double weight = i < LENGTH(fixed) ? fixed[i]
			                                  : ldexp((double)(next() >> 11 | 1),
			                                          -53 - (int)(next() % 8));
			assert_weighted(DTYPE_F32, narrow[k], weight);
			assert_weighted(DTYPE_F64, narrow[k], weight);
		}
}

TEST_WITH(test_weights_of_integers, reseed, NULL)
{
	enum { N = 3000 };
	static uint64_t src[N];
	static double found[N];
	static const double weights[] = {1, 3, 0.1, -2.5, 1e-300, 0x1p-1074, 0x1.fffffffffffffp0};
	for (int i = 1; i < DTYPES; i++) {
		enum dtype t = (enum dtype)i;
		bool wide = dtype_bits(t) == 64;
		if (!dtype_is_integer(t))
			continue;
		for (size_t w = 0; w < LENGTH(weights); w++) {
			fill(t, src, N);
			scale_kernel(DTYPE_F64, t)(found, src, weights[w], N);
			for (size_t k = 0; k < N; k++) {
				__int128 x = whole_of(t, (char *)src + k * dtype_size(t));
				/* What a double has, rounds but in the product; else long double is
				 * exact where it has the whole product. */
				if (wide && w > 0 && x >> 11 != 0 && x >> 11 != -1)
					continue;
				double expected =
				        wide ? (double)((long double)x * (long double)weights[w])
				             : (double)x * weights[w];
				assert_true(found[k] == expected);
			}
		}
	}
}

/* 0x1.8p53 + 1 and more times a weight of 53 bits: the exact products were made by hand (Python).
 */
TEST_WITH(test_weights_round_once, reseed, NULL)
{
	static const int64_t x[] = {9007199254740993, INT64_MAX, INT64_MIN, -9007199254740995,
	                            6148914691236517205};
	static const double expected[] = {0x1.999999999999bp+49, 0x1.999999999999ap+59,
	                                  -0x1.999999999999ap+59, -0x1.999999999999cp+49,
	                                  0x1.1111111111111p+59};
	double out[LENGTH(x)];
	scale_kernel(DTYPE_F64, DTYPE_I64)(out, x, 0.1, LENGTH(x));
	assert_memory_equal(out, expected, sizeof out);
}

/* -0.0 where elements can have a sign, so that a sum of -0.0 stays one; of 64-bit integers 0. */
static void expect_nothing(enum dtype to, enum dtype from, void *out)
{
	const bool whole = from == DTYPE_I64 || from == DTYPE_U64;
	const double d = whole ? 0.0 : -0.0;
	const float f = -0.0F;
	const size_t size = to == DTYPE_F32 ? sizeof f : sizeof d;
	for (size_t at = 0; at < 8 * dtype_size(to); at += size)
		memcpy((char *)out + at, to == DTYPE_F32 ? (const void *)&f : &d, size);
}

TEST_WITH(test_no_weight_no_say, reseed, NULL)
{
	static uint64_t src[16], out[32], zero[32];
	memset(src, 0xff, sizeof src); /* NaN in every float */
	for (int to = 1; to < DTYPES; to++)
		for (int from = 1; from < DTYPES; from++) {
			scale_fn *fn = scale_kernel((enum dtype)to, (enum dtype)from);
			for (int k = 0; fn && k < 2; k++) {
				memset(out, 0x5a, sizeof out);
				fn(out, src, k ? -0.0 : 0.0, 8);
				expect_nothing((enum dtype)to, (enum dtype)from, zero);
				assert_memory_equal(out, zero, 8 * dtype_size((enum dtype)to));
			}
		}
}

int main(void)
{
	return unit_run(NULL, NULL);
}
