/*
 * The kernels against a scalar oracle that computes in double and rounds by rint: over random and
 * special values, all short lengths, odd alignments, in place, and cut anywhere.
 */
#include "tests/unit/elements.h"

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
	bool truth = t == DTYPE_BOOL;
	if (truth) {
		x = x != 0;
		y = y != 0;
	}
	bool less = is_signed(t) ? get_signed(t, a) < get_signed(t, b) : x < y;
	switch (op) {
	case REDUCE_SUM:
		return truth ? x | y : x + y;
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
	case REDUCE_LAND:
		return x && y;
	case REDUCE_LOR:
		return x || y;
	case REDUCE_LXOR:
		return !x != !y;
	default:
		return x ^ y;
	}
}

/* Are its elements such as the oracle here has? The others are in test_dtypes.c. */
static bool is_scalar(enum dtype t)
{
	return dtype_has_arithmetic(t) && !dtype_is_complex(t);
}

static void oracle(enum reduce_op op, enum dtype acc, enum dtype t, void *dst, const void *a,
                   const void *b)
{
	if (dtype_is_float(t))
		put_float(acc, dst, float_oracle(op, get_float(acc, a), get_float(t, b)));
	else
		put_bits(t, dst, integer_oracle(op, t, a, b));
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
				if (fn && is_scalar((enum dtype)t))
					out[n++] = (struct combination){(enum reduce_op)op,
					                                (enum dtype)acc,
					                                (enum dtype)t, fn};
			}
	return n;
}

#define MAX_COMBINATIONS (REDUCE_OPS * DTYPES * DTYPES)
static struct combination all[MAX_COMBINATIONS];

/* Every type that a sum is kept in has its sum, and the conversions. */
TEST_WITH(test_averages_exist, reseed, NULL)
{
	for (int i = 1; i < DTYPES; i++)
		for (int k = 0; k < 4; k++) {
			enum dtype t = (enum dtype)i;
			bool weighted = k & 1, ordered = k & 2;
			if (!dtype_has_arithmetic(t))
				continue;
			enum dtype sum = reduce_avg_dtype(t, weighted, ordered);
			assert_non_null(reduce_kernel(REDUCE_SUM, sum, sum, false));
			assert_non_null(reduce_kernel(REDUCE_AVG, sum, sum, false));
			assert_non_null(convert_kernel(sum, t));
			assert_non_null(final_kernel(t, sum));
			assert_int_equal(scale_kernel(sum, t) != NULL, sum != DTYPE_I128);
			assert_int_equal(reduce_acc_dtype(REDUCE_AVG, sum, true),
			                 sum == DTYPE_F32 ? DTYPE_F64 : sum);
		}
	assert_int_equal(reduce_avg_dtype(DTYPE_BF16, true, false), DTYPE_F32);
	assert_int_equal(reduce_avg_dtype(DTYPE_BF16, true, true), DTYPE_F64);
	assert_int_equal(reduce_avg_dtype(DTYPE_F32, true, false), DTYPE_F64);
	assert_int_equal(reduce_avg_dtype(DTYPE_C64, true, false), DTYPE_C128);
	assert_int_equal(reduce_avg_dtype(DTYPE_I32, false, false), DTYPE_F64);
	assert_int_equal(reduce_avg_dtype(DTYPE_U64, false, true), DTYPE_I128);
	assert_int_equal(reduce_avg_dtype(DTYPE_U64, true, true), DTYPE_F64);
	assert_int_equal(reduce_avg_dtype(DTYPE_BOOL, false, false), DTYPE_F64);
}

TEST_WITH(test_which_exist, reseed, NULL)
{
	for (int o = 0; o < REDUCE_OPS; o++)
		for (int i = 1; i < DTYPES; i++) {
			enum reduce_op op = (enum reduce_op)o;
			enum dtype t = (enum dtype)i;
			bool rounds = dtype_is_float(t), whole = dtype_is_integer(t);
			if (reduce_is_joint(op) ||
			    op == REDUCE_SLERP) /* test_joint.c, test_slerp.c */
				continue;
			bool defined = op >= REDUCE_BAND  ? whole
			               : op == REDUCE_AVG ? rounds || t == DTYPE_I128
			               : op >= REDUCE_MIN
			                       ? whole || (rounds && !dtype_is_complex(t))
			               : op == REDUCE_PROD ? whole || rounds
			                                   : whole || rounds || t == DTYPE_I128;
			assert_int_equal(reduce_op_defined(op, t), defined);
			for (int ordered = 0; defined && ordered < 2; ordered++) {
				enum dtype acc = reduce_acc_dtype(op, t, ordered);
				assert_non_null(reduce_kernel(op, acc, t, false));
				assert_non_null(reduce_kernel(op, acc, t, true));
				assert_non_null(reduce_kernel(op, acc, acc, false));
				assert_non_null(convert_kernel(acc, t));
				assert_non_null(convert_kernel(t, acc));
				if (op == REDUCE_AVG && rounds)
					assert_non_null(final_kernel(t, acc));
			}
		}
	/* 9 integers: 10 operations; 6 floats: 5; 9 wider accumulations: sum, prod, avg. */
	assert_int_equal(combinations(all), 9 * 10 + 6 * 5 + 9 * 3);
	assert_int_equal(reduce_acc_dtype(REDUCE_SUM, DTYPE_BF16, false), DTYPE_F32);
	assert_int_equal(reduce_acc_dtype(REDUCE_SUM, DTYPE_F32, true), DTYPE_F64);
	assert_int_equal(reduce_acc_dtype(REDUCE_MAX, DTYPE_F16, true), DTYPE_F16);
	assert_int_equal(reduce_acc_dtype(REDUCE_SUM, DTYPE_I8, true), DTYPE_I8);
	assert_int_equal(reduce_acc_dtype(REDUCE_AVG, DTYPE_F8E4M3, false), DTYPE_F32);
	assert_int_equal(reduce_acc_dtype(REDUCE_PROD, DTYPE_F8E5M2, true), DTYPE_F64);
	assert_int_equal(reduce_acc_dtype(REDUCE_SUM, DTYPE_C64, false), DTYPE_C64);
	assert_int_equal(reduce_acc_dtype(REDUCE_SUM, DTYPE_C64, true), DTYPE_C128);
	assert_int_equal(reduce_acc_dtype(REDUCE_SUM, DTYPE_BOOL, true), DTYPE_BOOL);
}

TEST_WITH(test_names, reseed, NULL)
{
	enum reduce_op op;
	for (int i = 0; i < REDUCE_OPS; i++) {
		assert_int_equal(reduce_op_by_name(reduce_op_name((enum reduce_op)i), &op), 0);
		assert_int_equal(op, i);
	}
	assert_int_equal(reduce_op_by_name("mean", &op), -1);
	for (int i = 1; i < DTYPES; i++)
		assert_int_equal(dtype_by_name(dtype_name((enum dtype)i)),
		                 dtype_has_arithmetic((enum dtype)i) ? i : DTYPE_NONE);
	assert_int_equal(dtype_by_name("float32"), DTYPE_F32);
	assert_int_equal(dtype_by_name("none"), DTYPE_NONE);
	assert_int_equal(dtype_by_name("f8"), DTYPE_NONE);
}

TEST_WITH(test_values, reseed, NULL)
{
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
TEST_WITH(test_commutative, reseed, NULL)
{
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
TEST_WITH(test_identities, reseed, NULL)
{
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
			if (k->dtype == DTYPE_BOOL || k->op >= REDUCE_LAND)
				put_bits(k->acc, p, get_bits(k->acc, p) != 0);
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

TEST_WITH(test_lengths_and_alignments, reseed, NULL)
{
	size_t n = combinations(all);
	for (size_t c = 0; c < n; c++)
		for (size_t len = 0; len <= 130; len++)
			for (int form = 0; form < FORMS; form++)
				if (form != ONTO_B || all[c].acc == all[c].dtype)
					check_placed(&all[c], len, (enum form)form);
}

TEST_WITH(test_cuts, reseed, NULL)
{
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

int main(void)
{
	return unit_run(NULL, NULL);
}
