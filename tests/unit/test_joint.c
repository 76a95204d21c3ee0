/*
 * Joint operations of elements: every type, number of contributions and length has the bits of the
 * model, whatever the alignment; the order of the contributions does not matter.
 */
#include <math.h>
#include <string.h>

#include "lib/data/kernels/joint.h"
#include "tests/model/collective_model.h"
#include "tests/unit/frontier_oracle.h"
#include "tests/unit/unit.h"

#define N 700 /* elements: more than a row of a tile */
#define M 512 /* contributions, at most */

static uint8_t values[M][(N + 8) * 8], got[(N + 1) * 8];

static const enum dtype dtypes[] = {DTYPE_F8E4M3, DTYPE_F8E5M2, DTYPE_F16, DTYPE_BF16, DTYPE_F32,
                                    DTYPE_F64,    DTYPE_I8,     DTYPE_I16, DTYPE_I32,  DTYPE_I64,
                                    DTYPE_U8,     DTYPE_U16,    DTYPE_U32, DTYPE_U64};

/* Any bits, NaN of all payloads among them, small numbers that are often equal, or special ones. */
static void draw_value(enum dtype d, uint64_t *seed, uint8_t *out)
{
	static const double special[] = {0.0, -0.0, (double)INFINITY, -(double)INFINITY,
	                                 1,   -1,   0x1.fffffep+127,  448};
	const uint64_t bits = random_next(seed), kind = random_below(seed, 16);

	if (kind < 6 && dtype_is_float(d))
		model_encode(d, special[bits % LENGTH(special)], out);
	else if (kind < 12 || (dtype_is_float(d) && kind < 15))
		model_encode(d, (double)(bits % 17) - (dtype_is_float(d) ? 8 : 0), out);
	else
		memcpy(out, &bits, dtype_size(d));
}

static void draw_values(enum dtype d, int n, bool calm, uint64_t *seed)
{
	for (int k = 0; k < n; k++)
		for (size_t i = 0; i < N; i++) {
			uint8_t *to = values[k] + i * dtype_size(d);

			do
				draw_value(d, seed, to);
			while (calm && dtype_is_float(d) &&
			       !(cabs(model_number(d, to)) < (double)INFINITY));
		}
}

static void check_elements(const struct joint *j, double trim, size_t first, size_t count)
{
	const size_t size = dtype_size(j->dtype);
	const uint8_t *at[M];
	uint8_t want[8];

	for (size_t i = 0; i < count; i++) {
		for (int k = 0; k < j->n; k++)
			at[k] = values[k] + (first + i) * size;
		model_joint(j->dtype, j->op, trim, at, j->n, want);
		if (memcmp(got + i * size, want, size) != 0)
			fail_msg("%s %g of %d %s: element %d is %.17g, not %.17g",
			         reduce_op_name(j->op), trim, j->n, dtype_name(j->dtype), (int)i,
			         creal(model_number(j->dtype, got + i * size)),
			         creal(model_number(j->dtype, want)));
	}
	for (size_t i = count * size; i < (count + 1) * size; i++)
		assert_int_equal(got[i], 0xa5);
}

static void check_case(enum dtype d, enum reduce_op op, double trim, int n, size_t count,
                       uint64_t *seed)
{
	const struct joint j = {op, d, n, op == REDUCE_TRIMMED ? joint_cut(trim, n) : 0};
	const size_t first = random_below(seed, 8);
	uint8_t *inputs[M];
	void *scratch;

	draw_values(d, n, random_below(seed, 2), seed);
	scratch = aligned_alloc(64, joint_scratch(&j));
	assert_non_null(scratch);
	memset(got, 0xa5, sizeof(got));
	for (int k = 0; k < n; k++)
		inputs[k] = values[k];
	for (int k = n - 1; k > 0; k--) { /* in any order */
		const int other = (int)random_below(seed, (uint64_t)k + 1);
		uint8_t *swap = inputs[k];

		inputs[k] = inputs[other];
		inputs[other] = swap;
	}
	joint_compute(&j, got, inputs, first * dtype_size(d), count, scratch);
	check_elements(&j, trim, first, count);
	free(scratch);
}

TEST(test_every_type_and_number)
{
	static const double trims[] = {0, 0.1, 0.25, 0.29, 0.4999999999999999};
	uint64_t seed = 1;

	for (size_t t = 0; t < LENGTH(dtypes); t++)
		for (int n = 1; n <= 70; n++) {
			const size_t count = n % 8 ? random_below(&seed, 80) : N - 8;

			check_case(dtypes[t], REDUCE_MEDIAN, 0, n, count, &seed);
			check_case(dtypes[t], REDUCE_TRIMMED, trims[(size_t)n % 5], n,
			           random_below(&seed, 80), &seed);
		}
}

TEST(test_many_contributions)
{
	uint64_t seed = 2;

	for (size_t t = 0; t < LENGTH(dtypes); t++)
		for (int n = 100; n <= M; n += 103) {
			check_case(dtypes[t], REDUCE_MEDIAN, 0, n, 37, &seed);
			check_case(dtypes[t], REDUCE_MEDIAN, 0, n + 1 < M ? n + 1 : M, 17, &seed);
			check_case(dtypes[t], REDUCE_TRIMMED, 0.05, n, 37, &seed);
		}
}

/* The result may take the place of a contribution. */
TEST(test_in_place)
{
	const struct joint j = {REDUCE_MEDIAN, DTYPE_F32, 5, 0};
	uint8_t *inputs[5], *scratch = aligned_alloc(64, joint_scratch(&j));
	uint64_t seed = 3;

	assert_non_null(scratch);
	draw_values(DTYPE_F32, 5, true, &seed);
	for (int k = 0; k < 5; k++)
		inputs[k] = values[k];
	joint_compute(&j, got, inputs, 0, N, scratch);
	joint_compute(&j, inputs[2], inputs, 0, N, scratch);
	assert_memory_equal(got, inputs[2], N * sizeof(float));
	free(scratch);
}

TEST(test_cuts)
{
	assert_int_equal(joint_cut(0, 8), 0);
	assert_int_equal(joint_cut(0.25, 8), 2);
	assert_int_equal(joint_cut(0.29, 100), 29);
	assert_int_equal(joint_cut(0.3, 10), 3);
	assert_int_equal(joint_cut(0.1, 9), 0);
	assert_int_equal(joint_cut(0.1, 4096), 409);
	assert_int_equal(joint_cut(0.4999999999999999, 2), 0);
	assert_int_equal(joint_cut(0.4999999999999999, 4096), 2047);
	assert_int_equal(joint_cut(0.49, 1), 0);
}

TEST(test_which_exist)
{
	for (int d = 0; d < DTYPES; d++) {
		bool defined = false;

		for (size_t i = 0; i < LENGTH(dtypes); i++)
			defined |= dtypes[i] == (enum dtype)d;
		assert_int_equal(joint_defined((enum dtype)d), defined);
		assert_int_equal(reduce_op_defined(REDUCE_MEDIAN, (enum dtype)d), defined);
		assert_int_equal(reduce_op_defined(REDUCE_TRIMMED, (enum dtype)d), defined);
		assert_null(reduce_kernel(REDUCE_MEDIAN, (enum dtype)d, (enum dtype)d, false));
	}
}

int main(void)
{
	return unit_run(NULL, NULL);
}
