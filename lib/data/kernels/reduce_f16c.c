/*
 * f16 with the conversion instructions of x86 (F16C; every processor with AVX2 has them) and of
 * aarch64 (every processor has them). Same bits as half.h but faster, because compilers do not
 * generate these instructions.
 */
#include "lib/data/kernels/reduce_f16c.h"

#include "lib/data/kernels/half.h"

#if defined(__x86_64__)

#include <cpuid.h>
#include <immintrin.h>

#define HALVES __attribute__((target("avx2,f16c")))
#define VECTOR 8

typedef __m256 vector;

HALVES static inline vector load(const uint16_t *p)
{
	return _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)p));
}

HALVES static inline void store(uint16_t *p, vector x)
{
	const __m256 nan = _mm256_castsi256_ps(_mm256_set1_epi32((int)F32_NAN));
	x = _mm256_blendv_ps(x, nan, _mm256_cmp_ps(x, x, _CMP_UNORD_Q));
	_mm_storeu_si128((__m128i *)(void *)p, _mm256_cvtps_ph(x, _MM_FROUND_TO_NEAREST_INT));
}

/* Testing avx2 also tests that the system saves the registers. clang 14 cannot test F16C. */
static bool supported(void)
{
	unsigned a, b, c, d;
	return __builtin_cpu_supports("avx2") && __get_cpuid(1, &a, &b, &c, &d) && (c & bit_F16C);
}

#elif defined(__aarch64__)

#include <arm_neon.h>

#define HALVES
#define VECTOR 4

typedef float32x4_t vector;

static inline vector load(const uint16_t *p)
{
	return vcvt_f32_f16(vreinterpret_f16_u16(vld1_u16(p)));
}

static inline void store(uint16_t *p, vector x)
{
	x = vbslq_f32(vceqq_f32(x, x), x, vreinterpretq_f32_u32(vdupq_n_u32(F32_NAN)));
	vst1_u16(p, vreinterpret_u16_f16(vcvt_f16_f32(x)));
}

static bool supported(void)
{
	return true;
}

#endif

#ifdef HALVES

#define BINARY(name, SIGN)                                                         \
	HALVES static void name(void *dst, const void *a, const void *b, size_t n) \
	{                                                                          \
		uint16_t *d = dst;                                                 \
		const uint16_t *x = a, *y = b;                                     \
		size_t i = 0;                                                      \
		for (; i + VECTOR <= n; i += VECTOR)                               \
			store(d + i, load(x + i) SIGN load(y + i));                \
		for (; i < n; i++)                                                 \
			d[i] = f32_to_f16(f16_to_f32(x[i]) SIGN f16_to_f32(y[i])); \
	}

BINARY(sum_f16, +)
BINARY(prod_f16, *)

reduce_fn *reduce_kernel_f16c(enum reduce_op op)
{
	if (!supported())
		return NULL;
	switch (op) {
	case REDUCE_SUM:
	case REDUCE_AVG:
		return sum_f16;
	case REDUCE_PROD:
		return prod_f16;
	default:
		return NULL;
	}
}

#else

reduce_fn *reduce_kernel_f16c(enum reduce_op op)
{
	(void)op;
	return NULL;
}

#endif
