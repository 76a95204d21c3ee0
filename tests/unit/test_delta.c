/* Differences to an origin: rounding, the k-th largest magnitude, random numbers. */
#include <math.h>
#include <string.h>

#include "lib/data/kernels/delta.h"
#include "lib/data/kernels/kth.h"
#include "lib/data/kernels/reduce.h"
#include "tests/unit/unit.h"

#define N 5000

/* Values of all sizes, of both signs, with zeros and equal ones. */
static double value(size_t i)
{
	const uint64_t x = (i * 2654435761u) % 4096;
	return ldexp((double)(int64_t)(x % 64) - 32, (int)(x / 64) - 40);
}

static int by_magnitude(const void *a, const void *b)
{
	const double x = fabs(*(const double *)a), y = fabs(*(const double *)b);
	return (x < y) - (x > y);
}

static struct kth passes(enum dtype dtype, const void *d, size_t n, uint64_t k, size_t sample)
{
	static uint64_t count[KTH_BUCKETS];
	struct kth r;
	kth_init(&r, dtype, k, n, count);
	if (sample)
		kth_sample(&r, d, sample);
	while (!r.found) {
		for (size_t i = 0, len; i < n; i += len) { /* in ranges */
			len = n - i < 777 ? n - i : 777;
			kth_add(&r, (const uint8_t *)d + i * dtype_size(dtype), len);
		}
		kth_next(&r);
	}
	return r;
}

static uint64_t kth(enum dtype dtype, const void *d, size_t n, uint64_t k)
{
	const uint64_t value = passes(dtype, d, n, k, 0).value;
	/* Samples that are too small, that are of one part, and of all. */
	for (size_t sample = 1; sample <= n; sample = sample < n && sample * 9 > n ? n : sample * 9)
		assert_int_equal(passes(dtype, d, n, k, sample).value, value);
	return value;
}

TEST(the_kth_largest_magnitude_is_exact)
{
	static double wide[N], sorted[N], kept[N];
	static float narrow[N];
	for (size_t i = 0; i < N; i++) {
		narrow[i] = (float)value(i);
		sorted[i] = wide[i] = value(i);
	}
	qsort(sorted, N, sizeof *sorted, by_magnitude);
	for (uint64_t k = 1; k <= N; k += 131) {
		const double want = fabs(sorted[k - 1]);
		const float single = (float)want;
		uint64_t bits;
		uint32_t single_bits;
		memcpy(&bits, &want, sizeof bits);
		memcpy(&single_bits, &single, sizeof single_bits);
		assert_int_equal(kth(DTYPE_F64, wide, N, k), bits);
		assert_int_equal(kth(DTYPE_F32, narrow, N, k), single_bits);
		memcpy(kept, wide, sizeof kept);
		delta_keep(DTYPE_F64, kept, bits, N);
		for (size_t i = 0; i < N; i++)
			assert_true(kept[i] == (fabs(wide[i]) >= want ? wide[i] : 0));
	}
}

TEST(nan_is_the_largest_magnitude)
{
	const float d[] = {1, -INFINITY, (float)NAN, 2};
	float kept[4];
	memcpy(kept, d, sizeof kept);
	delta_keep(DTYPE_F32, kept, kth(DTYPE_F32, d, 4, 2), 4);
	assert_true(kept[0] == 0 && kept[1] == d[1] && isnan(kept[2]) && kept[3] == 0);
}

/* The part is a decimal number. */
TEST(how_many_a_density_keeps)
{
	assert_int_equal(delta_kept(0.2, 10), 2);
	assert_int_equal(delta_kept(0.2, 11), 3);
	assert_int_equal(delta_kept(0.7, 10), 7);
	assert_int_equal(delta_kept(0.29, 100), 29);
	assert_int_equal(delta_kept(1, 12345), 12345);
	assert_int_equal(delta_kept(1e-9, 5), 1);
	assert_int_equal(delta_kept(0.5, 0), 0);
	for (uint64_t n = 1; n < 3000; n++)
		for (uint64_t percent = 1; percent <= 100; percent++)
			assert_int_equal(delta_kept((double)percent / 100, n),
			                 (percent * n + 99) / 100);
}

TEST(differences_are_rounded_once)
{
	const float x[] = {1, 0x1p24F + 2, 3}, origin[] = {0x1p-24F, 1, 3};
	float d[3], out[3];
	double wide[3];
	delta_take(DTYPE_F64, wide, DTYPE_F32, x, origin, 0.5, 3);
	for (size_t i = 0; i < 3; i++)
		assert_true(wide[i] == 0.5 * ((double)x[i] - (double)origin[i]));
	delta_take(DTYPE_F32, d, DTYPE_F32, x, origin, 1, 3);
	for (size_t i = 0; i < 3; i++)
		assert_true(d[i] == (float)((double)x[i] - (double)origin[i]));
	delta_apply(DTYPE_F32, out, DTYPE_F32, origin, DTYPE_F64, wide, 2, 3);
	for (size_t i = 0; i < 3; i++)
		assert_true(out[i] == x[i]);
	delta_apply(DTYPE_F32, d, DTYPE_F32, origin, DTYPE_F32, d, 1, 3); /* in place */
	assert_true(d[0] == 1 && d[2] == 3);
}

/* The known answers of Random123. */
TEST(random_numbers_are_philox)
{
	static const uint32_t zero[4] = {0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8};
	uint32_t out[4];
	delta_random(0, 0, 0, out);
	assert_memory_equal(out, zero, sizeof zero);
}

TEST(a_random_part_does_not_depend_on_ranges)
{
	static float whole[N], parts[N];
	const uint64_t key = delta_key(7, "a.weight");
	size_t kept = 0;
	for (size_t i = 0; i < N; i++)
		whole[i] = parts[i] = (float)(i + 1);
	delta_drop(DTYPE_F32, whole, 0.25, key, 3, 0, N);
	for (size_t i = 0, len; i < N; i += len) {
		len = N - i < 13 ? N - i : 13;
		delta_drop(DTYPE_F32, parts + i, 0.25, key, 3, i, len);
	}
	assert_memory_equal(whole, parts, sizeof whole);
	for (size_t i = 0; i < N; i++) {
		assert_true(whole[i] == 0 || whole[i] == 4 * (float)(i + 1));
		kept += whole[i] != 0;
	}
	assert_in_range(kept, N / 4 - 150, N / 4 + 150); /* five standard deviations */
	/* Another tensor, seed or contribution keeps others. */
	const uint64_t keys[] = {delta_key(8, "a.weight"), delta_key(7, "b.weight"), key};
	for (size_t k = 0; k < 3; k++) {
		for (size_t i = 0; i < N; i++)
			parts[i] = (float)(i + 1);
		delta_drop(DTYPE_F32, parts, 0.25, keys[k], k == 2 ? 4 : 3, 0, N);
		assert_true(memcmp(whole, parts, sizeof whole) != 0);
	}
}

int main(void)
{
	return unit_run(NULL, NULL);
}
