/* Spherical interpolation: lengths, squares in any order, weights. */
#include <math.h>
#include <string.h>

#include "lib/data/kernels/slerp.h"
#include "tests/unit/unit.h"

#define N 5000

static float value(size_t i)
{
	return ldexpf((float)(i * 2654435761u % 4096) - 2048, (int)(i % 9) - 15);
}

/* In ranges of @step elements. */
static double length(const float *x, size_t n, size_t step)
{
	struct slerp_length l = {0};
	for (size_t i = 0, len; i < n; i += len) {
		len = n - i < step ? n - i : step;
		slerp_length_add(&l, DTYPE_F32, x + i, len);
	}
	return slerp_length(&l);
}

TEST(a_length_does_not_depend_on_ranges)
{
	static float x[N];
	double want = 0;
	for (size_t i = 0; i < N; i++) {
		x[i] = value(i);
		want += (double)x[i] * (double)x[i];
	}
	assert_true(fabs(length(x, N, N) / sqrt(want) - 1) < 1e-12);
	for (size_t step = 1; step < N; step = step * 3 + 1)
		assert_true(length(x, N, step) == length(x, N, N));
	assert_true(length(x, 0, 1) == 0);
	x[77] = INFINITY;
	assert_true(isinf(length(x, N, 100)));
	x[78] = NAN;
	assert_true(isnan(length(x, N, 100)));
}

TEST(squares_are_exact_in_any_order)
{
	static float x[N];
	static double wide[N];
	double forward = 0, backward = 0;
	for (size_t i = 0; i < N; i++) {
		x[i] = value(i) / 2048;
		wide[i] = (double)x[i] / 4;
	}
	const double all = slerp_squares(DTYPE_F32, x, 1, N);
	assert_true(all > 0.001 && all < 4);
	assert_true(slerp_squares(DTYPE_F64, wide, 4, N) == all);
	for (size_t i = 0; i < N; i++) {
		forward += slerp_squares(DTYPE_F32, x + i, 1, 1);
		backward += slerp_squares(DTYPE_F32, x + N - 1 - i, 1, 1);
	}
	assert_true(forward == all && backward == all);
	for (size_t cut = 1; cut < N; cut += 371)
		assert_true(slerp_squares(DTYPE_F32, x, 1, cut) +
		                    slerp_squares(DTYPE_F32, x + cut, 1, N - cut) ==
		            all);
}

TEST(weights_are_those_of_the_arc_or_of_the_line)
{
	double w[2];
	slerp_weights(0.25, 2, 2, w); /* a right angle */
	assert_true(fabs(w[0] - cos(M_PI / 8)) < 1e-15 && fabs(w[1] - sin(M_PI / 8)) < 1e-15);
	slerp_weights(0.25, 1, 1, w); /* one of zeros: the same */
	assert_true(fabs(w[0] - cos(M_PI / 8)) < 1e-15 && fabs(w[1] - sin(M_PI / 8)) < 1e-15);
	slerp_weights(0.5, 3, 2, w); /* 60 degrees */
	assert_true(fabs(w[0] - 1 / sqrt(3)) < 1e-15 && fabs(w[1] - w[0]) < 1e-15);
	for (int sign = -1; sign <= 1; sign += 2) {
		slerp_weights(0.25, 2 + sign * 2.0, 2, w);
		assert_true(w[0] == 0.75 && w[1] == 0.25);
		slerp_weights(0.25, 2 + sign * 2 * 0.99951, 2, w);
		assert_true(w[0] == 0.75 && w[1] == 0.25);
		slerp_weights(0.25, 2 + sign * 2 * 0.99949, 2, w);
		assert_true(w[0] != 0.75 && w[1] != 0.25);
	}
	slerp_weights(0.25, NAN, 2, w);
	assert_true(isnan(w[0]) && isnan(w[1]));
}

int main(void)
{
	return unit_run(NULL, NULL);
}
