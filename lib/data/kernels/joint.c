/*
 * Joint operations, in tiles: the same some elements of all contributions, which fit the L1 cache.
 *
 * 1. A contribution's elements become keys: signed integers in the order of the elements. A key of
 *    a NaN is the greatest.
 * 2. A sorting network exchanges whole rows, of one key of each element: Batcher's merge exchange
 *    (Knuth, The Art of Computer Programming, 5.2.2 M), without the exchanges that a median does
 *    not need.
 * 3. The rows in the middle become the result.
 */
#include "lib/data/kernels/joint.h"

#include <math.h>
#include <string.h>

#include "lib/data/kernels/kernels.h"

#define LINE  64  /* bytes of a cache line */
#define LINES 256 /* of a tile, if there are few contributions: half of the L1 cache */
#define LEAST 4   /* lines of a row */
#define WIDTH 512 /* elements of a row, at most */

/* What ties needs of each element of a tile: the sums of all values, and by their signs. */
struct signs {
	double above[WIDTH], below[WIDTH];   /* sums */
	double nabove[WIDTH], nbelow[WIDTH]; /* numbers of values */
};

/* The kernels of a type. Keys are of its size. */
struct joint_type {
	void (*load)(void *key, const void *from, size_t n);
	/* low[i], high[i] <- the lesser and the greater of the two */
	void (*exchange)(void *low, void *high, size_t n);
	/* Results. @top: the row of the greatest keys, which has the NaNs */
	void (*one)(void *dst, const void *key, const void *top, size_t n);
	void (*mean)(void *dst, const void *low, const void *high, const void *top, size_t n);
	void (*begin)(void *sum, const void *key, size_t n);
	void (*add)(void *sum, const void *key, size_t n);
	void (*divide)(void *dst, const void *sum, const void *top, double by, size_t n);
	/* ties */
	void (*count)(struct signs *, const void *key, size_t n);
	void (*agree)(void *dst, const struct signs *, const void *top, size_t n);
};

/* ---- keys of all types ---- */

#define EXCHANGE(w)                                                      \
	KERNEL static void exchange_##w(void *low, void *high, size_t n) \
	{                                                                \
		int##w##_t *a = low, *b = high;                          \
		ELEMENTWISE for (size_t i = 0; i < n; i++)               \
		{                                                        \
			const int##w##_t x = a[i], y = b[i];             \
			a[i] = x < y ? x : y;                            \
			b[i] = x < y ? y : x;                            \
		}                                                        \
	}

EXCHANGE(8)
EXCHANGE(16)
EXCHANGE(32)
EXCHANGE(64)

/* dst[i] = VALUE, an expression in x (a key of type S). */
#define OF_KEY_LOOP(HOW, EACH, name, D, S, VALUE)                  \
	HOW static void name(void *dst, const void *key, size_t n) \
	{                                                          \
		D *d = dst;                                        \
		const S *k = key;                                  \
		EACH for (size_t i = 0; i < n; i++)                \
		{                                                  \
			const S x = k[i];                          \
			d[i] = VALUE;                              \
		}                                                  \
	}
#define OF_KEY(name, D, S, VALUE) OF_KEY_LOOP(KERNEL, ELEMENTWISE, name, D, S, VALUE)
#define OF_TWO(name, D, S, VALUE)                                                               \
	KERNEL static void name(void *dst, const void *low, const void *high, const void *tops, \
	                        size_t n)                                                       \
	{                                                                                       \
		D *d = dst;                                                                     \
		const S *a = low, *b = high, *t = tops;                                         \
		ELEMENTWISE for (size_t i = 0; i < n; i++)                                      \
		{                                                                               \
			const S x = a[i], y = b[i], top = t[i];                                 \
			(void)top;                                                              \
			d[i] = VALUE;                                                           \
		}                                                                               \
	}
#define OF_ONE(name, D, S, VALUE)                                                       \
	KERNEL static void name(void *dst, const void *key, const void *tops, size_t n) \
	{                                                                               \
		D *d = dst;                                                             \
		const S *k = key, *t = tops;                                            \
		ELEMENTWISE for (size_t i = 0; i < n; i++)                              \
		{                                                                       \
			const S x = k[i], top = t[i];                                   \
			(void)top;                                                      \
			d[i] = VALUE;                                                   \
		}                                                                       \
	}
#define ADD_KEY_LOOP(HOW, EACH, name, A, S, VALUE)                  \
	HOW static void name(void *sums, const void *key, size_t n) \
	{                                                           \
		A *sum = sums;                                      \
		const S *k = key;                                   \
		EACH for (size_t i = 0; i < n; i++)                 \
		{                                                   \
			const S x = k[i];                           \
			sum[i] += VALUE;                            \
		}                                                   \
	}
#define ADD_KEY(name, A, S, VALUE) ADD_KEY_LOOP(KERNEL, ELEMENTWISE, name, A, S, VALUE)
#define OF_SUM(HOW, EACH, name, D, A, S, VALUE)                                                  \
	HOW static void name(void *dst, const void *sums, const void *tops, double by, size_t n) \
	{                                                                                        \
		D *d = dst;                                                                      \
		const A *sum = sums;                                                             \
		const S *t = tops;                                                               \
		EACH for (size_t i = 0; i < n; i++)                                              \
		{                                                                                \
			const A x = sum[i];                                                      \
			const S top = t[i];                                                      \
			(void)top;                                                               \
			d[i] = VALUE;                                                            \
		}                                                                                \
	}

/* ---- floats ---- */

/* Rounded once: a sum of two that overflows is the only one whose halves are added. */
ELEMENT_FN double mean_of(double a, double b)
{
	const double sum = a + b, halves = a * 0.5 + b * 0.5;
	return fabs(sum) > 0x1.fffffffffffffp+1023 ? halves : sum * 0.5;
}

ELEMENT_FN double f8e4m3_number(uint8_t u)
{
	return (double)f8e4m3_to_f32(u);
}
ELEMENT_FN double f8e5m2_number(uint8_t u)
{
	return (double)f8e5m2_to_f32(u);
}
ELEMENT_FN double f16_number(uint16_t u)
{
	return (double)f16_to_f32(u);
}
ELEMENT_FN double bf16_number(uint16_t u)
{
	return (double)bf16_to_f32(u);
}
ELEMENT_FN double f32_number(uint32_t u)
{
	return (double)f32_from_bits(u);
}
ELEMENT_FN double f64_number(uint64_t u)
{
	return f64_from_bits(u);
}
ELEMENT_FN uint32_t f64_to_f32(double x)
{
	return f32_bits(f32_canonical((float)x));
}
ELEMENT_FN uint64_t f64_to_f64(double x)
{
	return f64_bits(f64_canonical(x));
}

/* A key is its own inverse: f32_key (element.h) keeps the sign. */
#define FLOAT_KERNELS(t, U, S, w, NAN_BITS, TOP)                                           \
	ELEMENT_FN S t##_load_one(U u)                                                     \
	{                                                                                  \
		const S most = (S)((U)-1 >> 1);                                            \
		return (S)(u & (U)most) > (S)(TOP) ? most : t##_key(u);                    \
	}                                                                                  \
	ELEMENT_FN double t##_key_number(S key)                                            \
	{                                                                                  \
		return t##_number((U)t##_key((U)key));                                     \
	}                                                                                  \
	ELEMENT_FN U t##_unless(S top, U value)                                            \
	{                                                                                  \
		return top > (S)(TOP) ? (U)(NAN_BITS) : value;                             \
	}                                                                                  \
	OF_KEY(load_##t, S, U, t##_load_one(x))                                            \
	OF_ONE(one_##t, U, S, t##_unless(top, (U)t##_key((U)x)))                           \
	OF_TWO(mean_##t, U, S,                                                             \
	       t##_unless(top, f64_to_##t(mean_of(t##_key_number(x), t##_key_number(y))))) \
	OF_KEY(begin_##t, double, S, t##_key_number(x))                                    \
	ADD_KEY(add_##t, double, S, t##_key_number(x))                                     \
	OF_SUM(KERNEL, ELEMENTWISE, divide_##t, U, double, S, t##_unless(top, f64_to_##t(x / by)))

/* Ascending: the values below 0 come first, so that their sum is complete before the others come.
 */
#define TIES_KERNELS(t, U, S)                                                                      \
	KERNEL static void count_##t(struct signs *s, const void *key, size_t n)                   \
	{                                                                                          \
		const S *k = key;                                                                  \
		ELEMENTWISE for (size_t i = 0; i < n; i++)                                         \
		{                                                                                  \
			const double x = t##_key_number(k[i]);                                     \
			s->above[i] += x > 0 ? x : 0;                                              \
			s->below[i] += x < 0 ? x : 0;                                              \
			s->nabove[i] += x > 0 ? 1 : 0;                                             \
			s->nbelow[i] += x < 0 ? 1 : 0;                                             \
		}                                                                                  \
	}                                                                                          \
	KERNEL static void agree_##t(void *dst, const struct signs *s, const void *tops, size_t n) \
	{                                                                                          \
		U *d = dst;                                                                        \
		const S *top = tops;                                                               \
		ELEMENTWISE for (size_t i = 0; i < n; i++)                                         \
		{                                                                                  \
			const double all = s->above[i] + s->below[i];                              \
			const bool up = all >= 0;                                                  \
			const double sum = up ? s->above[i] : s->below[i];                         \
			const double of = up ? s->nabove[i] : s->nbelow[i];                        \
			const double mean = of > 0 ? sum / of : 0;                                 \
			/* of infinities of both signs the sum is NaN */                           \
			d[i] = t##_unless(top[i], f64_to_##t(all == all ? mean : all));            \
		}                                                                                  \
	}

FLOAT_KERNELS(f8e4m3, uint8_t, int8_t, 8, F8E4M3_NAN, F8E4M3_MAX)
FLOAT_KERNELS(f8e5m2, uint8_t, int8_t, 8, F8E5M2_NAN, F8E5M2_INF)
FLOAT_KERNELS(f16, uint16_t, int16_t, 16, F16_NAN, F16_INF)
FLOAT_KERNELS(bf16, uint16_t, int16_t, 16, BF16_NAN, BF16_INF)
FLOAT_KERNELS(f32, uint32_t, int32_t, 32, F32_NAN, F32_INF)
FLOAT_KERNELS(f64, uint64_t, int64_t, 64, F64_NAN, F64_INF)

TIES_KERNELS(f32, uint32_t, int32_t)
TIES_KERNELS(f64, uint64_t, int64_t)

/* ---- integers ---- */

/* The key of an unsigned number is the number less half of its range, an even number: so the mean
 * of keys, rounded to even, is the key of the mean. */
#define INTEGER_KERNELS(t, D, S, U, FLIP)                      \
	ELEMENT_FN S t##_integer_key(U u)                      \
	{                                                      \
		return (S)(u ^ (U)(FLIP));                     \
	}                                                      \
	ELEMENT_FN S t##_key_mean(S x, S y)                    \
	{                                                      \
		const S below = (S)((x & y) + ((x ^ y) >> 1)); \
		return (S)(below + (below & (x ^ y) & 1));     \
	}                                                      \
	OF_KEY(load_##t, S, U, t##_integer_key(x))             \
	OF_ONE(one_##t, U, S, (U)t##_integer_key((U)x))        \
	OF_TWO(mean_##t, U, S, (U)t##_integer_key((U)t##_key_mean(x, y)))
#define SMALL_KERNELS(t, D, S, U, FLIP)                                  \
	INTEGER_KERNELS(t, D, S, U, FLIP)                                \
	OF_KEY(begin_##t, int64_t, S, (int64_t)(D)t##_integer_key((U)x)) \
	ADD_KEY(add_##t, int64_t, S, (int64_t)(D)t##_integer_key((U)x))  \
	OF_SUM(KERNEL, ELEMENTWISE, divide_##t, D, int64_t, S, (D)(int64_t)rint((double)x / by))
#define LONG_KERNELS(t, D, S, U, FLIP)                                          \
	INTEGER_KERNELS(t, D, S, U, FLIP)                                       \
	OF_KEY_LOOP(, , begin_##t, int128, S, (int128)(D)t##_integer_key((U)x)) \
	ADD_KEY_LOOP(, , add_##t, int128, S, (int128)(D)t##_integer_key((U)x))  \
	OF_SUM(, , divide_##t, D, int128, S, (D)divide_signed(x, (uint64_t)by))

SMALL_KERNELS(i8, int8_t, int8_t, uint8_t, 0)
SMALL_KERNELS(i16, int16_t, int16_t, uint16_t, 0)
SMALL_KERNELS(i32, int32_t, int32_t, uint32_t, 0)
LONG_KERNELS(i64, int64_t, int64_t, uint64_t, 0)
SMALL_KERNELS(u8, uint8_t, int8_t, uint8_t, 0x80)
SMALL_KERNELS(u16, uint16_t, int16_t, uint16_t, 0x8000)
SMALL_KERNELS(u32, uint32_t, int32_t, uint32_t, 0x80000000)
LONG_KERNELS(u64, uint64_t, int64_t, uint64_t, UINT64_C(1) << 63)

#define KERNELS_OF(t, w)                                                                         \
	{                                                                                        \
		load_##t, exchange_##w, one_##t, mean_##t, begin_##t, add_##t, divide_##t, NULL, \
		        NULL                                                                     \
	}
#define KERNELS_WITH_TIES(t, w)                                                            \
	{                                                                                  \
		load_##t, exchange_##w, one_##t, mean_##t, begin_##t, add_##t, divide_##t, \
		        count_##t, agree_##t                                               \
	}

static const struct joint_type types[DTYPES] = {
        [DTYPE_F8E4M3] = KERNELS_OF(f8e4m3, 8),   [DTYPE_F8E5M2] = KERNELS_OF(f8e5m2, 8),
        [DTYPE_F16] = KERNELS_OF(f16, 16),        [DTYPE_BF16] = KERNELS_OF(bf16, 16),
        [DTYPE_F32] = KERNELS_WITH_TIES(f32, 32), [DTYPE_F64] = KERNELS_WITH_TIES(f64, 64),
        [DTYPE_I8] = KERNELS_OF(i8, 8),           [DTYPE_I16] = KERNELS_OF(i16, 16),
        [DTYPE_I32] = KERNELS_OF(i32, 32),        [DTYPE_I64] = KERNELS_OF(i64, 64),
        [DTYPE_U8] = KERNELS_OF(u8, 8),           [DTYPE_U16] = KERNELS_OF(u16, 16),
        [DTYPE_U32] = KERNELS_OF(u32, 32),        [DTYPE_U64] = KERNELS_OF(u64, 64),
};

bool joint_defined(enum dtype dtype)
{
	return types[dtype].load != NULL;
}

int joint_cut(double trim, int n)
{
	/* A decimal number and its product with n are rounded: 0.29 * 100 is less than 29. */
	const int cut = (int)floor(trim * n * (1 + 0x1p-50)), most = (n - 1) / 2;
	return cut < most ? cut : most;
}

/* ---- tiles ---- */

struct tile {
	const struct joint *joint;
	const struct joint_type *type;
	uint8_t *rows; /* row k begins at k * stride */
	size_t stride; /* bytes, an odd number of cache lines: rows do not share their low bits */
	size_t width;  /* elements */
};

static size_t row_lines(const struct joint *j)
{
	const size_t most = WIDTH * dtype_size(j->dtype) / LINE;
	size_t lines = LINES / (size_t)j->n;

	lines = lines < most ? lines : most;
	lines = lines > LEAST ? lines : LEAST;
	return lines - 1 + lines % 2;
}

size_t joint_scratch(const struct joint *j)
{
	return row_lines(j) * LINE * (size_t)j->n;
}

static uint8_t *row(const struct tile *t, int k)
{
	return t->rows + (size_t)k * t->stride;
}

/* ---- the network ---- */

#define LENGTH(array) (int)(sizeof(array) / sizeof *(array))
#define LISTED        32 /* contributions: their network is listed, and has at most 191 exchanges */

struct network {
	int n;
	struct {
		uint8_t low, high;
	} list[192];
};

/* Call @visit for each exchange of the network of @n rows. */
static inline void each_exchange(int n, void (*visit)(void *ctx, int low, int high), void *ctx)
{
	int top = 1;

	while (2 * top < n)
		top *= 2;
	for (int p = top; p > 0; p /= 2)
		for (int q = top, r = 0, d = p;; d = q - p, q /= 2, r = p) {
			for (int i = 0; i + d < n; i++)
				if ((i & p) == r)
					visit(ctx, i, i + d);
			if (q == p)
				break;
		}
}

static void list(void *ctx, int low, int high)
{
	struct network *net = ctx;

	net->list[net->n].low = (uint8_t)low;
	net->list[net->n++].high = (uint8_t)high;
}

/* The exchanges on which a row of @needed, one bit each, depends. */
static void make_network(struct network *net, int n, uint32_t needed)
{
	int kept = LENGTH(net->list), from;

	net->n = 0;
	each_exchange(n, list, net);
	from = net->n;
	for (int i = from - 1; i >= 0; i--) {
		const uint32_t rows =
		        UINT32_C(1) << net->list[i].low | UINT32_C(1) << net->list[i].high;

		if (!(needed & rows))
			continue;
		needed |= rows;
		net->list[--kept] = net->list[i];
	}
	net->n = LENGTH(net->list) - kept;
	memmove(net->list, net->list + kept, (size_t)net->n * sizeof(*net->list));
}

static void exchange(void *ctx, int low, int high)
{
	const struct tile *t = ctx;

	t->type->exchange(row(t, low), row(t, high), t->width);
}

static void sort(struct tile *t, const struct network *net)
{
	if (t->joint->n > LISTED)
		each_exchange(t->joint->n, exchange, t);
	for (int i = 0; i < net->n; i++)
		exchange(t, net->list[i].low, net->list[i].high);
}

/* The rows that the result is made of, and the last, where NaNs are. */
static uint32_t rows_needed(const struct joint *j)
{
	const bool all = j->op != REDUCE_MEDIAN;

	return all ? UINT32_MAX
	           : UINT32_C(1) << j->n / 2 | UINT32_C(1) << (j->n - 1) / 2 |
	                       UINT32_C(1) << (j->n - 1);
}

/* ---- results ---- */

static void trimmed(const struct tile *t, void *dst)
{
	_Alignas(LINE) uint8_t sums[WIDTH * 16];
	const int from = t->joint->cut, to = t->joint->n - t->joint->cut;

	t->type->begin(sums, row(t, from), t->width);
	for (int k = from + 1; k < to; k++)
		t->type->add(sums, row(t, k), t->width);
	t->type->divide(dst, sums, row(t, t->joint->n - 1), to - from, t->width);
}

static void ties(const struct tile *t, void *dst)
{
	struct signs signs;
	memset(&signs, 0, sizeof signs);
	for (int k = 0; k < t->joint->n; k++)
		t->type->count(&signs, row(t, k), t->width);
	t->type->agree(dst, &signs, row(t, t->joint->n - 1), t->width);
}

static void finish(const struct tile *t, void *dst)
{
	const int n = t->joint->n;
	const uint8_t *middle = row(t, n / 2), *top = row(t, n - 1);

	if (t->joint->op == REDUCE_TRIMMED)
		trimmed(t, dst);
	else if (t->joint->op == REDUCE_TIES)
		ties(t, dst);
	else if (n % 2)
		t->type->one(dst, middle, top, t->width);
	else
		t->type->mean(dst, row(t, n / 2 - 1), middle, top, t->width);
}

void joint_compute(const struct joint *j, void *dst, uint8_t *const *inputs, uint64_t offset,
                   size_t count, void *scratch)
{
	const size_t size = dtype_size(j->dtype), stride = row_lines(j) * LINE;
	struct tile t = {j, &types[j->dtype], scratch, stride, 0};
	struct network net = {0};

	if (j->n <= LISTED)
		make_network(&net, j->n, rows_needed(j));
	for (size_t at = 0; at < count; at += t.width) {
		t.width = count - at < stride / size ? count - at : stride / size;
		for (int k = 0; k < j->n; k++)
			t.type->load(row(&t, k), inputs[k] + offset + at * size, t.width);
		sort(&t, &net);
		finish(&t, (uint8_t *)dst + at * size);
	}
}
