#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "tests/model/collective_model.h"

void model_split(uint64_t n, int size, uint64_t *off)
{
	const uint64_t each = n / (uint64_t)size, more = n % (uint64_t)size;

	off[0] = 0;
	for (int j = 0; j < size; j++)
		off[j + 1] = off[j] + each + ((uint64_t)j < more);
}

struct model model_of_blocks(enum coll_kind kind, int size, int root, const uint64_t *off)
{
	struct model m = {.kind = kind, .size = size, .root = root};

	for (int r = 0; r < size; r++) {
		m.cut[r] = off;
		m.ninputs[r] = 1;
		if (kind == COLL_GATHER || kind == COLL_ALLGATHER)
			m.rows[r] = off[r + 1] - off[r];
		else if (r == root || (kind != COLL_BROADCAST && kind != COLL_SCATTER))
			m.rows[r] = off[size];
	}
	return m;
}

/* ---- which elements ---- */

bool model_has_output(const struct model *m, int r)
{
	switch (m->kind) {
	case COLL_REDUCE:
	case COLL_GATHER:
		return r == m->root;
	default:
		return m->kind != COLL_EXCHANGE;
	}
}

/* Elements of rank @from's input that are for rank @to. */
static uint64_t part(const struct model *m, int from, int to)
{
	return m->cut[from][to + 1] - m->cut[from][to];
}

uint64_t model_rows(const struct model *m, int r)
{
	uint64_t n = 0;

	if (!model_has_output(m, r))
		return 0;
	switch (m->kind) {
	case COLL_BROADCAST:
		return m->rows[m->root];
	case COLL_SCATTER:
		return part(m, m->root, r);
	case COLL_REDUCE_SCATTER:
		return part(m, 0, r);
	case COLL_GATHER:
	case COLL_ALLGATHER:
		for (int i = 0; i < m->size; i++)
			n += m->rows[i];
		return n;
	case COLL_ALLTOALL:
		for (int i = 0; i < m->size; i++)
			n += part(m, i, r);
		return n;
	default:
		return m->rows[0];
	}
}

struct model_source model_source(const struct model *m, int r, uint64_t pos)
{
	int i = 0;

	switch (m->kind) {
	case COLL_SCAN:
		return (struct model_source){0, r + 1, pos};
	case COLL_EXSCAN:
		return (struct model_source){0, r, pos};
	case COLL_REDUCE_SCATTER:
		return (struct model_source){0, m->size, m->cut[0][r] + pos};
	case COLL_BROADCAST:
		return (struct model_source){m->root, m->root + 1, pos};
	case COLL_SCATTER:
		return (struct model_source){m->root, m->root + 1, m->cut[m->root][r] + pos};
	case COLL_GATHER:
	case COLL_ALLGATHER:
		while (pos >= m->rows[i])
			pos -= m->rows[i++];
		return (struct model_source){i, i + 1, pos};
	case COLL_ALLTOALL:
		while (pos >= part(m, i, r))
			pos -= part(m, i++, r);
		return (struct model_source){i, i + 1, m->cut[i][r] + pos};
	default:
		return (struct model_source){0, m->size, pos};
	}
}

static bool adds(const struct model *m)
{
	return coll_reduces(m->kind) || m->kind == COLL_BARRIER;
}

/* ---- integers ---- */

static bool is_signed(enum dtype d)
{
	return d == DTYPE_I8 || d == DTYPE_I16 || d == DTYPE_I32 || d == DTYPE_I64;
}

static uint64_t all_ones(enum dtype d)
{
	return UINT64_MAX >> (64 - 8 * dtype_size(d));
}

static uint64_t combine(enum reduce_op op, enum dtype d, uint64_t a, uint64_t b)
{
	const uint64_t flip = is_signed(d) ? 1ull << (8 * dtype_size(d) - 1) : 0;
	const bool less = (a ^ flip) < (b ^ flip);

	switch (op) {
	case REDUCE_SUM:
		return a + b;
	case REDUCE_PROD:
		return a * b;
	case REDUCE_MIN:
		return less ? a : b;
	case REDUCE_MAX:
		return less ? b : a;
	case REDUCE_BAND:
		return a & b;
	case REDUCE_BOR:
		return a | b;
	case REDUCE_BXOR:
		return a ^ b;
	case REDUCE_LAND:
		return a && b;
	case REDUCE_LOR:
		return a || b;
	default:
		return !a != !b;
	}
}

static uint64_t integer_identity(enum reduce_op op, enum dtype d)
{
	switch (op) {
	case REDUCE_PROD:
	case REDUCE_LAND:
		return 1;
	case REDUCE_MIN:
		return all_ones(d) >> is_signed(d);
	case REDUCE_MAX:
		return is_signed(d) ? (all_ones(d) >> 1) + 1 : 0;
	case REDUCE_BAND:
		return all_ones(d);
	default:
		return 0;
	}
}

static const uint8_t *input_at(const struct model *m, int r, int k, uint64_t at)
{
	return m->in[r][k] + at * dtype_size(m->dtype);
}

static void integer_element(const struct model *m, struct model_source s, void *out)
{
	const size_t size = dtype_size(m->dtype);
	uint64_t want = integer_identity(m->op, m->dtype);
	bool first = true;

	for (int q = s.lo; q < s.hi; q++)
		for (int k = 0; k < m->ninputs[q]; k++, first = false) {
			uint64_t x = 0;

			memcpy(&x, input_at(m, q, k, s.at), size);
			want = first ? x : combine(m->op, m->dtype, want, x) & all_ones(m->dtype);
		}
	memcpy(out, &want, size);
}

/* ---- numbers ---- */

enum dtype model_part(enum dtype d)
{
	return d == DTYPE_C64 ? DTYPE_F32 : d == DTYPE_C128 ? DTYPE_F64 : d;
}

/* CMPLX, which clang's headers lack. */
static double complex complex_of(double re, double im)
{
	const double parts[2] = {re, im};
	double complex z;

	memcpy(&z, parts, sizeof(z));
	return z;
}

static double real_number(enum dtype d, const void *p)
{
	float f;
	double x;
	uint64_t u = 0;

	if (d == DTYPE_F64) {
		memcpy(&x, p, sizeof(x));
		return x;
	}
	if (d == DTYPE_F32)
		memcpy(&f, p, sizeof(f));
	else if (dtype_is_float(d))
		convert_kernel(DTYPE_F32, d)(&f, p, 1);
	if (dtype_is_float(d))
		return (double)f;
	memcpy(&u, p, dtype_size(d));
	if (is_signed(d) && u > all_ones(d) >> 1)
		return -(double)(all_ones(d) - u) - 1;
	return (double)u;
}

double complex model_number(enum dtype d, const void *p)
{
	const enum dtype each = model_part(d);
	const uint8_t *imaginary = (const uint8_t *)p + dtype_size(each);

	return complex_of(real_number(each, p), each == d ? 0 : real_number(each, imaginary));
}

static void encode_real(enum dtype d, double x, uint8_t *out)
{
	const float f = (float)x;
	const int64_t i = dtype_is_float(d) ? 0 : (int64_t)x;

	if (d == DTYPE_F32)
		memcpy(out, &f, sizeof(f));
	else if (dtype_is_float(d))
		convert_kernel(d, DTYPE_F64)(out, &x, 1);
	else
		memcpy(out, &i, dtype_size(d));
}

void model_encode(enum dtype d, double complex x, void *out)
{
	const enum dtype each = model_part(d);

	encode_real(each, creal(x), out);
	if (each != d)
		encode_real(each, cimag(x), (uint8_t *)out + dtype_size(each));
}

/* ---- floats ---- */

static double identity(const struct model *m)
{
	const double largest = m->dtype == DTYPE_F8E4M3 ? 448 : (double)INFINITY;

	switch (m->op) {
	case REDUCE_PROD:
		return 1;
	case REDUCE_MIN:
		return largest;
	case REDUCE_MAX:
		return -largest;
	default:
		return 0;
	}
}

static double complex in_f64(enum reduce_op op, double complex a, double complex b)
{
	if (op == REDUCE_MIN || op == REDUCE_MAX)
		return (creal(a) < creal(b)) == (op == REDUCE_MIN) ? a : b;
	if (op != REDUCE_PROD)
		return a + b;
	return complex_of(creal(a) * creal(b) - cimag(a) * cimag(b),
	                  creal(a) * cimag(b) + cimag(a) * creal(b));
}

static void float_element(const struct model *m, struct model_source s, void *out)
{
	double complex sum = identity(m);

	for (int q = s.lo; q < s.hi; q++) {
		double complex own = model_number(m->dtype, input_at(m, q, 0, s.at));

		for (int k = 1; k < m->ninputs[q]; k++)
			own = in_f64(m->op, own, model_number(m->dtype, input_at(m, q, k, s.at)));
		sum = q == s.lo ? own : in_f64(m->op, sum, own);
	}
	if (m->op == REDUCE_AVG)
		sum = complex_of(creal(sum) / m->divisor, cimag(sum) / m->divisor);
	model_encode(m->dtype, sum, out);
}

/* ---- joint operations ---- */

static int joint_cut(double trim, int n)
{
	const int cut = (int)(trim * n + 1e-9);

	return 2 * cut < n ? cut : cut - 1;
}

/* -0 is below +0. */
static int by_value(const void *pa, const void *pb)
{
	const double a = *(const double *)pa, b = *(const double *)pb;

	if (a < b || a > b)
		return a < b ? -1 : 1;
	return !!signbit(b) - !!signbit(a);
}

/* @x is ascending. */
static double ties(const double *x, int n)
{
	double above = 0, below = 0;
	int nabove = 0, nbelow = 0;

	for (int i = 0; i < n; i++) {
		above += x[i] > 0 ? x[i] : 0;
		below += x[i] < 0 ? x[i] : 0;
		nabove += x[i] > 0;
		nbelow += x[i] < 0;
	}
	if (isnan(above + below))
		return (double)NAN;
	if (above + below >= 0)
		return nabove ? above / nabove : 0;
	return nbelow ? below / nbelow : 0;
}

static double joint_number(enum reduce_op op, double trim, double *x, int n)
{
	const int cut = op == REDUCE_TRIMMED ? joint_cut(trim, n) : (n - 1) / 2;
	double sum;

	for (int i = 0; i < n; i++)
		if (isnan(x[i]))
			return (double)NAN;
	qsort(x, (size_t)n, sizeof(*x), by_value);
	if (op == REDUCE_TIES)
		return ties(x, n);
	sum = x[cut];
	for (int i = cut + 1; i < n - cut; i++)
		sum += x[i];
	/* Only the mean of two does not overflow. */
	if (op == REDUCE_MEDIAN && isinf(sum) && !isinf(x[cut]) && !isinf(x[n - cut - 1]))
		return x[cut] / 2 + x[n - cut - 1] / 2;
	return isnan(sum) ? (double)NAN : sum / (n - 2 * cut);
}

static int by_integer(const void *pa, const void *pb)
{
	const __int128 a = *(const __int128 *)pa, b = *(const __int128 *)pb;

	return a < b ? -1 : a > b;
}

static __int128 joint_integer(enum reduce_op op, double trim, __int128 *x, int n)
{
	const int cut = op == REDUCE_TRIMMED ? joint_cut(trim, n) : (n - 1) / 2, m = n - 2 * cut;
	__int128 sum = 0, low;

	qsort(x, (size_t)n, sizeof(*x), by_integer);
	for (int i = cut; i < n - cut; i++)
		sum += x[i];
	low = sum / m - (sum % m < 0);
	if (2 * (sum - low * m) > m || (2 * (sum - low * m) == m && low % 2))
		low++;
	return low;
}

void model_joint(enum dtype d, enum reduce_op op, double trim, const uint8_t *const *values, int n,
                 void *out)
{
	double numbers[MODEL_JOINT];
	__int128 integers[MODEL_JOINT];

	for (int i = 0; i < n; i++) {
		uint64_t u = 0;

		if (dtype_is_float(d)) {
			numbers[i] = creal(model_number(d, values[i]));
			continue;
		}
		memcpy(&u, values[i], dtype_size(d));
		integers[i] = u;
		if (is_signed(d) && u > all_ones(d) >> 1)
			integers[i] -= (__int128)all_ones(d) + 1;
	}
	if (dtype_is_float(d)) {
		model_encode(d, joint_number(op, trim, numbers, n), out);
	} else {
		const __int128 result = joint_integer(op, trim, integers, n);

		memcpy(out, &result, dtype_size(d));
	}
}

static void joint_element(const struct model *m, struct model_source s, void *out)
{
	const uint8_t *values[MODEL_RANKS * MODEL_INPUTS];
	int n = 0;

	for (int q = s.lo; q < s.hi; q++)
		for (int k = 0; k < m->ninputs[q]; k++)
			values[n++] = input_at(m, q, k, s.at);
	model_joint(m->dtype, m->op, m->trim, values, n, out);
}

static double roundoff(enum dtype d)
{
	switch (model_part(d)) {
	case DTYPE_F8E5M2:
		return 0x1p-3;
	case DTYPE_F8E4M3:
		return 0x1p-4;
	case DTYPE_BF16:
		return 0x1p-8;
	case DTYPE_F16:
		return 0x1p-11;
	case DTYPE_F32:
		return 0x1p-24;
	default:
		return 0x1p-53;
	}
}

double complex model_near(const struct model *m, int r, uint64_t pos, double *slack)
{
	const struct model_source s = model_source(m, r, pos);
	const bool is_f8 = dtype_size(m->dtype) == 1;
	const double least = is_f8 ? 0x1p-10 : 0x1p-25; /* of subnormal numbers */
	long double complex want = identity(m);
	double sum_abs = 0;
	int terms = 0;

	for (int q = s.lo; q < s.hi; q++)
		for (int k = 0; k < m->ninputs[q]; k++, terms++) {
			const double complex x = model_number(m->dtype, input_at(m, q, k, s.at));

			want = m->op == REDUCE_PROD ? want * x : want + x;
			sum_abs += cabs(x);
		}
	/* Of a complex product each part is rounded three times. */
	const double each =
	        (terms + 2) * 1.05 * roundoff(m->dtype) * (dtype_is_complex(m->dtype) ? 3 : 1);
	if (m->op == REDUCE_PROD)
		*slack = cabs((double complex)want) * each + (is_f8 ? terms * least : 0);
	else
		*slack = sum_abs * each + terms * least;
	if (m->op == REDUCE_AVG) {
		want /= m->divisor;
		*slack = *slack / m->divisor + (is_f8 ? least : 0);
	}
	return (double complex)want;
}

/* ---- any type ---- */

bool model_rounds(const struct model *m)
{
	return adds(m) && dtype_is_float(m->dtype) &&
	       (m->op == REDUCE_SUM || m->op == REDUCE_AVG || m->op == REDUCE_PROD);
}

void model_element(const struct model *m, int r, uint64_t pos, void *out)
{
	const struct model_source s = model_source(m, r, pos);

	if (!adds(m))
		memcpy(out, input_at(m, s.lo, 0, s.at), dtype_size(m->dtype));
	else if (reduce_is_joint(m->op))
		joint_element(m, s, out);
	else if (dtype_is_float(m->dtype))
		float_element(m, s, out);
	else
		integer_element(m, s, out);
}
