/* Blocks of 8-bit codes: no value of a million random blocks is off by more than the error that the
 * block says, and neither is a sum or an average of them. */
#include <float.h>
#include <math.h>
#include <string.h>

#include "lib/data/kernels/q8.h"
#include "lib/data/kernels/reduce.h"
#include "tests/unit/unit.h"

#define MOST 8 /* contributions */

#ifdef COLLCTL_SANITIZED
#define BLOCKS 50000
#else
#define BLOCKS 1000000
#endif

static uint64_t random_state = 1;

static uint64_t draw(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state;
}

/* Of a block's magnitude, or one of those that are special: zeros, denormals, NaN, Inf. */
static double value(double magnitude)
{
	static const double special[] = {0, -0.0, 1e-45, -1e-310, NAN, INFINITY, -INFINITY, 1e30};
	const uint64_t x = draw();
	if (x % 67 == 0)
		return special[(x >> 32) % LENGTH(special)];
	return ((double)(x >> 11) * 0x1p-52 - 1) * magnitude;
}

static void make_block(double *x)
{
	const double magnitude = ldexp(1, (int)(draw() % 180) - 100);
	for (size_t i = 0; i < Q8_VALUES; i++)
		x[i] = value(magnitude);
}

/* Is @got the class of @want, or off by at most @error? */
static void must_be_near(long double want, double got, double error)
{
	if (isnan(want) ? isnan(got) : isinf(want) ? (long double)got == want : 0)
		return;
	if (!(fabsl(want - (long double)got) <= (long double)error))
		fail_msg("%La became %a, error %a", want, got, error);
}

/* As many contributions at a time as are drawn: each is near, and so is their mean. */
static size_t one_mean(void)
{
	static struct q8_block in[MOST], out;
	uint8_t *inputs[MOST];
	double x[MOST][Q8_VALUES], back[Q8_VALUES];
	const size_t n = 1 + draw() % MOST;
	const double divisor = draw() % 2 ? (double)n : 1;
	for (size_t k = 0; k < n; k++) {
		make_block(x[k]);
		q8_encode(&in[k], x[k], Q8_VALUES, 0);
		q8_decode(&in[k], back);
		inputs[k] = (uint8_t *)&in[k];
		for (size_t i = 0; i < Q8_VALUES; i++)
			must_be_near(x[k][i], back[i], (double)in[k].error);
		assert_true((double)in[k].error <= 0.51 * (double)in[k].scale);
	}
	q8_join(&out, inputs, 0, (int)n, 1, divisor);
	q8_decode(&out, back);
	for (size_t i = 0; i < Q8_VALUES; i++) {
		long double sum = 0;
		for (size_t k = 0; k < n; k++)
			sum += (long double)x[k][i];
		must_be_near(sum / divisor, back[i], (double)out.error);
	}
	return n;
}

TEST(a_million_blocks_keep_their_bounds)
{
	for (size_t n = 0; n < BLOCKS;)
		n += one_mean();
}

TEST(what_cannot_be_a_number)
{
	const double x[] = {NAN, INFINITY, -INFINITY, 63, -126, -0.0, 0.3};
	double back[Q8_VALUES];
	struct q8_block b;
	q8_encode(&b, x, LENGTH(x), 0);
	q8_decode(&b, back);
	assert_true(b.scale == 1 && b.error >= 0.3F && b.error < 0.3001F);
	assert_true(isnan(back[0]) && back[1] == (double)INFINITY && back[2] == -(double)INFINITY);
	assert_true(back[3] == 63 && back[4] == -126);
	assert_true(back[5] == 0 && !signbit(back[5]) && back[6] == 0 && back[100] == 0);
	q8_encode(&b, (double[]){DBL_MAX, 1}, 2, 0);
	assert_true(b.scale == FLT_MAX && isinf(b.error));
	q8_encode(&b, (double[]){0x1p-149, 0}, 2, 0); /* the least f32 is its own scale */
	assert_true(b.error <= 0x1p-149F);
	q8_encode(&b, x, 0, 0);
	assert_true(b.scale == 0 && b.error == 0);
	assert_true(isinf(q8_round_up(NAN)) && isinf(q8_round_up(-1)) && q8_round_up(0) == 0);
	assert_true(q8_round_up(0.1) >= 0.1F && q8_round_up(1e39) == INFINITY);
}

/* Weights are applied before coding, those of 0 also to NaN; outputs are rounded. */
TEST(elements_of_files)
{
	float x[300], y[300];
	uint16_t narrow[300];
	struct q8_block b[3];
	for (size_t i = 0; i < 300; i++)
		x[i] = (float)i / 7 - 20;
	assert_int_equal(q8_blocks(300), 3);
	q8_take(b, DTYPE_F32, x, 0.3, 300);
	const double off = q8_give(DTYPE_F32, y, b, 300);
	assert_true(off > 0 && off < 0.3 * 23 / 250);
	for (size_t i = 0; i < 300; i++)
		must_be_near(0.3L * (long double)x[i], (double)y[i], off);
	const double rounded = q8_give(DTYPE_BF16, narrow, b, 300);
	assert_true(rounded > off);
	convert_kernel(DTYPE_F32, DTYPE_BF16)(y, narrow, 300);
	for (size_t i = 0; i < 300; i++)
		must_be_near(0.3L * (long double)x[i], (double)y[i], rounded);
	x[5] = NAN;
	q8_take(b, DTYPE_F32, x, 0, 300);
	assert_true(q8_give(DTYPE_F32, y, b, 300) == 0 && y[5] == 0);
	x[5] = 3e38F;
	q8_take(b, DTYPE_F32, x, 1, 300);
	assert_true(isinf(q8_give(DTYPE_F16, narrow, b, 300))); /* overflows */
}

/* Any bytes are a block, and a hostile error makes the bound infinite. */
TEST(blocks_of_any_bytes)
{
	struct q8_block in[2], out;
	uint8_t *inputs[] = {(uint8_t *)&in[0], (uint8_t *)&in[1]};
	float y[Q8_VALUES];
	for (int k = 0; k < 20000; k++) {
		for (size_t i = 0; i < sizeof in; i++)
			((uint8_t *)in)[i] = (uint8_t)draw();
		q8_join(&out, inputs, 0, 2, 1, 2);
		(void)q8_give(DTYPE_F32, y, &out, Q8_VALUES);
		assert_true(out.error >= 0 && out.scale >= 0 && out.scale <= FLT_MAX);
		if (!(in[0].error >= 0) || !(in[1].error >= 0))
			assert_true(isinf(out.error));
	}
}

int main(void)
{
	return unit_run(NULL, NULL);
}
