/*
 * The kernels against a scalar oracle that computes in double and rounds by rint: over random and
 * special values, all short lengths, odd alignments, in place, and cut anywhere.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lib/data/reduce.h"

#define COUNT(a) (sizeof(a) / sizeof *(a))

/* ---- random numbers: xorshift, the same in every run ---- */

static uint64_t seed;

static uint64_t next(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static int reseed(void **state)
{
	(void)state;
	seed = 88172645463325252u;
	return 0;
}

/* ---- elements as numbers ---- */

static uint64_t get_bits(enum dtype t, const void *p)
{
	uint64_t u = 0;
	memcpy(&u, p, dtype_size(t));
	return u;
}

static void put_bits(enum dtype t, void *p, uint64_t u)
{
	memcpy(p, &u, dtype_size(t));
}

/* A small binary format, taken apart. */
static double small_float(uint64_t u, int exponent_bits, int mantissa_bits)
{
	int bias = (1 << (exponent_bits - 1)) - 1, top = (1 << exponent_bits) - 1;
	uint64_t mantissa = u & ((1u << mantissa_bits) - 1);
	int exponent = (int)(u >> mantissa_bits) & top;
	double sign = u >> (exponent_bits + mantissa_bits) & 1 ? -1.0 : 1.0;
	if (exponent == top)
		return mantissa ? (double)NAN : sign * (double)INFINITY;
	if (exponent == 0)
		return sign * ldexp((double)mantissa, 1 - bias - mantissa_bits);
	return sign *
	       ldexp((double)(mantissa | 1u << mantissa_bits), exponent - bias - mantissa_bits);
}

static double get_float(enum dtype t, const void *p)
{
	float f;
	double d;
	switch (t) {
	case DTYPE_F16:
		return small_float(get_bits(t, p), 5, 10);
	case DTYPE_BF16:
		return small_float(get_bits(t, p), 8, 7);
	case DTYPE_F32:
		memcpy(&f, p, sizeof f);
		return (double)f;
	default:
		memcpy(&d, p, sizeof d);
		return d;
	}
}

/* The other way, rounded to nearest even, by scaling the last bit to one. */
static uint64_t make_small_float(double x, int exponent_bits, int mantissa_bits)
{
	int bias = (1 << (exponent_bits - 1)) - 1, e;
	uint64_t inf = (uint64_t)((1 << exponent_bits) - 1) << mantissa_bits;
	uint64_t sign = signbit(x) ? 1ull << (exponent_bits + mantissa_bits) : 0;
	if (isnan(x))
		return inf | 1ull << (mantissa_bits - 1);
	if (isinf(x))
		return sign | inf;
	frexp(x, &e); /* x = m * 2^e, 0.5 <= m < 1 */
	e = e - 1 < 1 - bias || x == 0 ? 1 - bias : e - 1;
	uint64_t m = (uint64_t)rint(ldexp(fabs(x), mantissa_bits - e));
	/* A subnormal has no leading one, and a carry goes on into the exponent: both by addition.
	 */
	uint64_t u = ((uint64_t)(e + bias - 1) << mantissa_bits) + m;
	return sign | (u > inf ? inf : u);
}

static void put_float(enum dtype t, void *p, double x)
{
	uint64_t u = 0x7ff8000000000000u;
	float f = (float)x;
	switch (t) {
	case DTYPE_F16:
		put_bits(t, p, make_small_float(x, 5, 10));
		return;
	case DTYPE_BF16:
		put_bits(t, p, make_small_float(x, 8, 7));
		return;
	case DTYPE_F32:
		u = 0x7fc00000;
		if (!isnan(f))
			memcpy(&u, &f, sizeof f);
		break;
	default:
		if (!isnan(x))
			memcpy(&u, &x, sizeof x);
	}
	put_bits(t, p, u);
}

static bool is_signed(enum dtype t)
{
	return t >= DTYPE_I8 && t <= DTYPE_I64;
}

static int64_t get_signed(enum dtype t, const void *p)
{
	unsigned shift = (unsigned)(64 - 8 * dtype_size(t));
	return (int64_t)(get_bits(t, p) << shift) >> shift;
}

/* ---- the oracle ---- */

static bool float_less(double x, double y)
{
	return x < y || (x == y && signbit(x) && !signbit(y));
}

static double float_oracle(enum reduce_op op, double x, double y)
{
	switch (op) {
	case REDUCE_PROD:
		return x * y;
	case REDUCE_MIN:
		return isnan(x) || isnan(y) ? (double)NAN : float_less(x, y) ? x : y;
	case REDUCE_MAX:
		return isnan(x) || isnan(y) ? (double)NAN : float_less(x, y) ? y : x;
	default:
		return x + y;
	}
}

static uint64_t integer_oracle(enum reduce_op op, enum dtype t, const void *a, const void *b)
{
	uint64_t x = get_bits(t, a), y = get_bits(t, b);
	bool less = is_signed(t) ? get_signed(t, a) < get_signed(t, b) : x < y;
	switch (op) {
	case REDUCE_SUM:
		return x + y;
	case REDUCE_PROD:
		return x * y;
	case REDUCE_MIN:
		return less ? x : y;
	case REDUCE_MAX:
		return less ? y : x;
	case REDUCE_BAND:
		return x & y;
	case REDUCE_BOR:
		return x | y;
	default:
		return x ^ y;
	}
}

static void oracle(enum reduce_op op, enum dtype acc, enum dtype t, void *dst, const void *a,
                   const void *b)
{
	if (dtype_is_float(t))
		put_float(acc, dst, float_oracle(op, get_float(acc, a), get_float(t, b)));
	else
		put_bits(t, dst, integer_oracle(op, t, a, b));
}

/* ---- values ---- */

static const uint64_t f16_specials[] = {
        0,      0x8000, 1,      0x8001, 0x3ff,  0x83ff, 0x400,  0x8400, 0x3c00, 0xbc00, 0x7bff,
        0xfbff, 0x7c00, 0xfc00, 0x7c01, 0xfc01, 0x7e00, 0xfe00, 0x7fff, 0xffff, 0x3c01, 0x0200};
static const uint64_t bf16_specials[] = {
        0,      0x8000, 1,      0x8001, 0x7f,   0x807f, 0x80,   0x8080, 0x3f80, 0xbf80, 0x7f7f,
        0xff7f, 0x7f80, 0xff80, 0x7f81, 0xff81, 0x7fc0, 0xffc0, 0x7fff, 0xffff, 0x3f81, 0x0040};
static const uint64_t f32_specials[] = {
        0,          0x80000000, 1,          0x80000001, 0x7fffff,   0x807fffff, 0x800000,
        0x80800000, 0x3f800000, 0xbf800000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000,
        0x7f800001, 0xff800001, 0x7fc00000, 0xffc00000, 0x7fffffff, 0xffffffff, 0x7fc12345};
static const uint64_t f64_specials[] = {0,
                                        0x8000000000000000,
                                        1,
                                        0x8000000000000001,
                                        0x000fffffffffffff,
                                        0x0010000000000000,
                                        0x3ff0000000000000,
                                        0xbff0000000000000,
                                        0x7fefffffffffffff,
                                        0xffefffffffffffff,
                                        0x7ff0000000000000,
                                        0xfff0000000000000,
                                        0x7ff0000000000001,
                                        0xfff0000000000001,
                                        0x7ff8000000000000,
                                        0xfff8000000000000,
                                        0x7fffffffffffffff,
                                        0xffffffffffffffff,
                                        0x380fffffffffffff,
                                        0x36a0000000000001,
                                        0x47efffffffffffff};
static const uint64_t int_specials[] = {0,          1,
                                        2,          127,
                                        128,        255,
                                        32767,      32768,
                                        65535,      0x7fffffff,
                                        0x80000000, 0xffffffff,
                                        INT64_MAX,  0x8000000000000000,
                                        UINT64_MAX, UINT64_MAX - 1};

static uint64_t special(enum dtype t)
{
	switch (t) {
	case DTYPE_F16:
		return f16_specials[next() % COUNT(f16_specials)];
	case DTYPE_BF16:
		return bf16_specials[next() % COUNT(bf16_specials)];
	case DTYPE_F32:
		return f32_specials[next() % COUNT(f32_specials)];
	case DTYPE_F64:
		return f64_specials[next() % COUNT(f64_specials)];
	default:
		return int_specials[next() % COUNT(int_specials)];
	}
}

/* A third specials, a third any bits, a third of a size where sums round and cancel. */
static void fill(enum dtype t, void *p, size_t n)
{
	char *at = p;
	for (size_t i = 0; i < n; i++, at += dtype_size(t)) {
		uint64_t kind = next() % 3;
		if (kind == 0)
			put_bits(t, at, special(t));
		else if (kind == 1 || !dtype_is_float(t))
			put_bits(t, at, next());
		else
			put_float(t, at, ldexp((double)(int64_t)next(), -66 + (int)(next() % 8)));
	}
}

static void assert_same(enum dtype t, const void *found, const void *expected, size_t n,
                        const char *what, enum reduce_op op, enum dtype from)
{
	const char *f = found, *e = expected;
	for (size_t i = 0; i < n; i++) {
		uint64_t uf = get_bits(t, f + i * dtype_size(t));
		uint64_t ue = get_bits(t, e + i * dtype_size(t));
		if (uf != ue)
			fail_msg("%s %s %s<-%s: element %zu of %zu is %#llx, not %#llx", what,
			         reduce_op_name(op), dtype_name(t), dtype_name(from), i, n,
			         (unsigned long long)uf, (unsigned long long)ue);
	}
}

/* ---- reductions ---- */

struct combination {
	enum reduce_op op;
	enum dtype acc, dtype;
	reduce_fn *fn;
};

static size_t combinations(struct combination *out)
{
	size_t n = 0;
	for (int op = 0; op < REDUCE_OPS; op++)
		for (int acc = 1; acc < DTYPES; acc++)
			for (int t = 1; t < DTYPES; t++) {
				reduce_fn *fn = reduce_kernel((enum reduce_op)op, (enum dtype)acc,
				                              (enum dtype)t, false);
				if (fn)
					out[n++] = (struct combination){(enum reduce_op)op,
					                                (enum dtype)acc,
					                                (enum dtype)t, fn};
			}
	return n;
}

#define MAX_COMBINATIONS (REDUCE_OPS * DTYPES * DTYPES)
static struct combination all[MAX_COMBINATIONS];

static void test_which_exist(void **state)
{
	(void)state;
	for (int o = 0; o < REDUCE_OPS; o++)
		for (int i = 1; i < DTYPES; i++) {
			enum reduce_op op = (enum reduce_op)o;
			enum dtype t = (enum dtype)i;
			bool bitwise = op >= REDUCE_BAND;
			bool defined = bitwise            ? !dtype_is_float(t)
			               : op == REDUCE_AVG ? dtype_is_float(t)
			                                  : true;
			assert_int_equal(reduce_op_defined(op, t), defined);
			for (int ordered = 0; defined && ordered < 2; ordered++) {
				enum dtype acc = reduce_acc_dtype(op, t, ordered);
				assert_non_null(reduce_kernel(op, acc, t, false));
				assert_non_null(reduce_kernel(op, acc, t, true));
				assert_non_null(reduce_kernel(op, acc, acc, false));
				assert_non_null(convert_kernel(acc, t));
				assert_non_null(convert_kernel(t, acc));
				if (op == REDUCE_AVG)
					assert_non_null(final_kernel(t, acc));
			}
		}
	/* 8 integers: 7 operations; 4 floats: 5; 5 wider accumulations: sum, prod, avg. */
	assert_int_equal(combinations(all), 8 * 7 + 4 * 5 + 5 * 3);
	assert_int_equal(reduce_acc_dtype(REDUCE_SUM, DTYPE_BF16, false), DTYPE_F32);
	assert_int_equal(reduce_acc_dtype(REDUCE_SUM, DTYPE_F32, true), DTYPE_F64);
	assert_int_equal(reduce_acc_dtype(REDUCE_MAX, DTYPE_F16, true), DTYPE_F16);
	assert_int_equal(reduce_acc_dtype(REDUCE_SUM, DTYPE_I8, true), DTYPE_I8);
}

static void test_names(void **state)
{
	(void)state;
	enum reduce_op op;
	for (int i = 0; i < REDUCE_OPS; i++) {
		assert_int_equal(reduce_op_by_name(reduce_op_name((enum reduce_op)i), &op), 0);
		assert_int_equal(op, i);
	}
	assert_int_equal(reduce_op_by_name("mean", &op), -1);
	for (int i = 1; i < DTYPES; i++)
		assert_int_equal(dtype_by_name(dtype_name((enum dtype)i)), i);
	assert_int_equal(dtype_by_name("float32"), DTYPE_F32);
	assert_int_equal(dtype_by_name("none"), DTYPE_NONE);
	assert_int_equal(dtype_by_name("f8"), DTYPE_NONE);
}

static void test_values(void **state)
{
	(void)state;
	enum { N = 20000 };
	static uint64_t a[N], b[N], found[N], expected[N];
	size_t n = combinations(all);
	for (size_t c = 0; c < n; c++) {
		struct combination *k = &all[c];
		size_t da = dtype_size(k->acc), db = dtype_size(k->dtype);
		fill(k->acc, a, N);
		fill(k->dtype, b, N);
		for (size_t i = 0; i < N; i++)
			oracle(k->op, k->acc, k->dtype, (char *)expected + i * da,
			       (char *)a + i * da, (char *)b + i * db);
		k->fn(found, a, b, N);
		assert_same(k->acc, found, expected, N, "reduce", k->op, k->dtype);
		reduce_kernel(k->op, k->acc, k->dtype, true)(found, a, b, N);
		assert_same(k->acc, found, expected, N, "swapped", k->op, k->dtype);
	}
}

/* Every pair of specials, both ways round: the result must not depend on which comes first. */
static void test_commutative(void **state)
{
	(void)state;
	enum { N = 4096 };
	static uint64_t a[N], b[N], ab[N], ba[N];
	size_t n = combinations(all);
	for (size_t c = 0; c < n; c++) {
		struct combination *k = &all[c];
		if (k->acc != k->dtype)
			continue;
		for (size_t i = 0; i < N; i++) {
			put_bits(k->acc, (char *)a + i * dtype_size(k->acc), special(k->acc));
			put_bits(k->acc, (char *)b + i * dtype_size(k->acc), special(k->acc));
		}
		k->fn(ab, a, b, N);
		k->fn(ba, b, a, N);
		assert_same(k->acc, ab, ba, N, "commuted", k->op, k->dtype);
	}
}

/* Every value that has its bits for itself comes out as it went in: not NaN, nor the zeros. */
static void test_identities(void **state)
{
	(void)state;
	enum { N = 4096 };
	static uint64_t a[N], id[N], out[N];
	size_t n = combinations(all);
	for (size_t c = 0; c < n; c++) {
		struct combination *k = &all[c];
		if (k->acc != k->dtype)
			continue;
		for (size_t i = 0; i < N; i++) {
			char *p = (char *)a + i * dtype_size(k->acc);
			put_bits(k->acc, p, special(k->acc));
			if (dtype_is_float(k->acc) && !(fabs(get_float(k->acc, p)) > 0))
				put_float(k->acc, p, 1.5);
		}
		memset(id, 0x5a, sizeof id);
		reduce_identity(k->op, k->dtype, id, N - 1);
		assert_int_equal(get_bits(DTYPE_U8, (char *)id + (N - 1) * dtype_size(k->acc)),
		                 0x5a);
		k->fn(out, id, a, N - 1);
		assert_same(k->acc, out, a, N - 1, "with the identity", k->op, k->dtype);
	}
}

enum form { APART, ONTO_A, ONTO_B, FORMS };

/* Length n, the three operands at their own offsets, what lies around dst untouched. */
static void check_placed(const struct combination *k, size_t n, enum form form)
{
	enum { ROOM = 160, GUARD = 8 };
	static uint64_t a_store[ROOM], b_store[ROOM], d_store[ROOM], expected[ROOM], before[ROOM];
	size_t da = dtype_size(k->acc), db = dtype_size(k->dtype);
	char *a = (char *)a_store + (GUARD + next() % 4) * da;
	char *b = (char *)b_store + (GUARD + next() % 4) * db;
	char *d = form == ONTO_A   ? a
	          : form == ONTO_B ? b
	                           : (char *)d_store + (GUARD + next() % 4) * da;
	char *around = form == ONTO_A   ? (char *)a_store
	               : form == ONTO_B ? (char *)b_store
	                                : (char *)d_store;
	fill(k->acc, a_store, ROOM);
	fill(k->dtype, b_store, ROOM);
	memset(d_store, 0x5a, sizeof d_store);
	for (size_t i = 0; i < n; i++)
		oracle(k->op, k->acc, k->dtype, (char *)expected + i * da, a + i * da, b + i * db);
	memcpy(before, around, sizeof before);
	k->fn(d, a, b, n);
	assert_same(k->acc, d, expected, n, "placed", k->op, k->dtype);
	size_t start = (size_t)(d - around), end = start + n * da;
	assert_memory_equal(around, before, start);
	assert_memory_equal(around + end, (char *)before + end, sizeof before - end);
}

static void test_lengths_and_alignments(void **state)
{
	(void)state;
	size_t n = combinations(all);
	for (size_t c = 0; c < n; c++)
		for (size_t len = 0; len <= 130; len++)
			for (int form = 0; form < FORMS; form++)
				if (form != ONTO_B || all[c].acc == all[c].dtype)
					check_placed(&all[c], len, (enum form)form);
}

static void test_cuts(void **state)
{
	(void)state;
	enum { N = 1000 };
	static uint64_t a[N], b[N], whole[N], cut[N];
	size_t n = combinations(all);
	for (size_t c = 0; c < n; c++) {
		struct combination *k = &all[c];
		size_t da = dtype_size(k->acc), db = dtype_size(k->dtype);
		fill(k->acc, a, N);
		fill(k->dtype, b, N);
		k->fn(whole, a, b, N);
		for (size_t i = 0, len; i < N; i += len) {
			len = 1 + next() % 70;
			len = len < N - i ? len : N - i;
			k->fn((char *)cut + i * da, (char *)a + i * da, (char *)b + i * db, len);
		}
		assert_memory_equal(whole, cut, N * da);
	}
}

/* ---- conversions ---- */

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

static void test_widen_all(void **state)
{
	(void)state;
	static uint16_t every[65536], back[65536];
	static uint64_t wide[65536];
	for (size_t i = 0; i < 65536; i++)
		every[i] = (uint16_t)i;
	for (int h = DTYPE_F16; h <= DTYPE_BF16; h++)
		for (int w = DTYPE_F32; w <= DTYPE_F64; w++) {
			enum dtype half = (enum dtype)h, wider = (enum dtype)w;
			check_convert(wider, half, every, 65536);
			/* There and back is the identity, but for NaN. */
			convert_kernel(wider, half)(wide, every, 65536);
			convert_kernel(half, wider)(back, wide, 65536);
			for (size_t i = 0; i < 65536; i++)
				if (!isnan(get_float(half, &every[i])))
					assert_int_equal(back[i], every[i]);
		}
}

/* Rounding changes only at the midpoints between neighbours: the values at, next to and half way
 * between all neighbouring 16-bit floats decide every case. */
static void check_midpoints(enum dtype half, enum dtype wider, uint16_t inf)
{
	enum { PER = 8 };
	size_t size = dtype_size(wider), n = 0;
	char *src = malloc((size_t)inf * 2 * PER * size);
	for (unsigned u = 0; u < inf; u++) {
		uint16_t here = (uint16_t)u, above = (uint16_t)(u + 1);
		double lo = get_float(half, &here);
		/* The infinity stands where the next number would. */
		double hi = above == inf ? ldexp(1, half == DTYPE_F16 ? 16 : 128)
		                         : get_float(half, &above);
		double mid = lo + (hi - lo) / 2;
		double at[PER / 2] = {lo, mid, 0, 0};
		if (wider == DTYPE_F64) {
			at[2] = nextafter(mid, 0);
			at[3] = nextafter(mid, (double)INFINITY);
		} else {
			at[2] = (double)nextafterf((float)mid, 0);
			at[3] = (double)nextafterf((float)mid, INFINITY);
		}
		for (size_t i = 0; i < PER / 2; i++) {
			put_float(wider, src + n++ * size, at[i]);
			put_float(wider, src + n++ * size, -at[i]);
		}
	}
	check_convert(half, wider, src, n);
	free(src);
}

static void test_narrow_midpoints(void **state)
{
	(void)state;
	check_midpoints(DTYPE_F16, DTYPE_F32, 0x7c00);
	check_midpoints(DTYPE_F16, DTYPE_F64, 0x7c00);
	check_midpoints(DTYPE_BF16, DTYPE_F32, 0x7f80);
	check_midpoints(DTYPE_BF16, DTYPE_F64, 0x7f80);
}

static void test_convert_values(void **state)
{
	(void)state;
	enum { N = 50000 };
	static uint64_t src[N];
	for (int to = DTYPE_F16; to <= DTYPE_F64; to++)
		for (int from = DTYPE_F16; from <= DTYPE_F64; from++)
			if (to != from && convert_kernel((enum dtype)to, (enum dtype)from)) {
				fill((enum dtype)from, src, N);
				check_convert((enum dtype)to, (enum dtype)from, src, N);
			}
}

static void test_identity_keeps_bits(void **state)
{
	(void)state;
	static uint64_t src[100], dst[100];
	for (int i = 1; i < DTYPES; i++) {
		enum dtype t = (enum dtype)i;
		fill(t, src, 100);
		convert_kernel(t, t)(dst, src, 100);
		assert_memory_equal(dst, src, 100 * dtype_size(t));
		convert_kernel(t, t)(src, src, 100);
		assert_memory_equal(dst, src, 100 * dtype_size(t));
	}
	assert_null(convert_kernel(DTYPE_I32, DTYPE_F32));
	assert_null(convert_kernel(DTYPE_F16, DTYPE_BF16));
}

/* ---- averages ---- */

static void test_final(void **state)
{
	(void)state;
	enum { N = 5000 };
	static const double divisors[] = {
	        1, 2, 3, 7, 1000, 0.1, 1.5, 16777217, 1e300, 4294967297.0, 65536, 0x1p-60};
	static uint64_t src[N], found[N], expected[N];
	size_t pairs = 0;
	for (int to = 1; to < DTYPES; to++)
		for (int from = 1; from < DTYPES; from++) {
			enum dtype t = (enum dtype)to, f = (enum dtype)from;
			final_fn *fn = final_kernel(t, f);
			pairs += fn != NULL;
			for (size_t k = 0; fn && k < COUNT(divisors); k++) {
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
	assert_int_equal(pairs, 9);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup(test_which_exist, reseed),
	        cmocka_unit_test_setup(test_names, reseed),
	        cmocka_unit_test_setup(test_values, reseed),
	        cmocka_unit_test_setup(test_identities, reseed),
	        cmocka_unit_test_setup(test_commutative, reseed),
	        cmocka_unit_test_setup(test_lengths_and_alignments, reseed),
	        cmocka_unit_test_setup(test_cuts, reseed),
	        cmocka_unit_test_setup(test_widen_all, reseed),
	        cmocka_unit_test_setup(test_narrow_midpoints, reseed),
	        cmocka_unit_test_setup(test_convert_values, reseed),
	        cmocka_unit_test_setup(test_identity_keeps_bits, reseed),
	        cmocka_unit_test_setup(test_final, reseed),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
