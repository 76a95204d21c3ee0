/*
 * Conversions between f16, bf16, f32 and f64, as integer arithmetic without branches so that loops
 * over them vectorise on any target. Every narrowing rounds once, to nearest even. Overflow gives
 * infinity, subnormals are kept, and a NaN becomes the canonical NaN (quiet, no payload, positive).
 * GPUs have instructions for f16 that give the same bits.
 */
#ifndef COLLCTL_DATA_KERNELS_HALF_H
#define COLLCTL_DATA_KERNELS_HALF_H

#include <stdint.h>
#include <string.h>

#define F16_NAN  0x7e00u
#define F16_INF  0x7c00u
#define BF16_NAN 0x7fc0u
#define BF16_INF 0x7f80u
#define F32_NAN  0x7fc00000u
#define F32_INF  0x7f800000u
#define F64_NAN  0x7ff8000000000000u
#define F64_INF  0x7ff0000000000000u

/* The exponent field of an f32 whose exponent is @e. */
#define F32_EXP(e) ((uint32_t)(127 + (e)) << 23)

/* A function of element values, which kernels of the CPU and of the GPU inline. */
#ifdef __CUDACC__
#define ELEMENT_FN static __host__ __device__ __forceinline__
#else
#define ELEMENT_FN static inline __attribute__((always_inline))
#endif

ELEMENT_FN uint32_t f32_bits(float x)
{
	uint32_t u;
	memcpy(&u, &x, sizeof u);
	return u;
}

ELEMENT_FN float f32_from_bits(uint32_t u)
{
	float x;
	memcpy(&x, &u, sizeof x);
	return x;
}

ELEMENT_FN uint64_t f64_bits(double x)
{
	uint64_t u;
	memcpy(&u, &x, sizeof u);
	return u;
}

ELEMENT_FN double f64_from_bits(uint64_t u)
{
	double x;
	memcpy(&x, &u, sizeof x);
	return x;
}

ELEMENT_FN float f32_canonical(float x)
{
	return x != x ? f32_from_bits(F32_NAN) : x;
}

ELEMENT_FN double f64_canonical(double x)
{
	return x != x ? f64_from_bits(F64_NAN) : x;
}

/* Exact, except that a NaN may change its payload; the caller makes it canonical.
 */
ELEMENT_FN float f16_to_f32(uint16_t h)
{
#ifdef __CUDA_ARCH__
	float x;
	asm("cvt.f32.f16 %0, %1;" : "=f"(x) : "h"(h));
	return x;
#else
	uint32_t m = (uint32_t)(h & 0x7fffu) << 13;
	uint32_t normal = m + F32_EXP(-15);
	/* A subnormal is m * 2^-24: append m to a leading one of 2^-14, then subtract 2^-14. */
	uint32_t tiny = f32_bits(f32_from_bits(m + F32_EXP(-14)) - f32_from_bits(F32_EXP(-14)));
	uint32_t u = m < 0x00800000u ? tiny : normal;
	u = m >= (F16_INF << 13) ? (m | F32_INF) : u;
	return f32_from_bits(u | (uint32_t)(h & 0x8000u) << 16);
#endif
}

ELEMENT_FN uint16_t f32_to_f16(float x)
{
#ifdef __CUDA_ARCH__
	uint16_t rounded;
	asm("cvt.rn.f16.f32 %0, %1;" : "=h"(rounded) : "f"(x));
	return x != x ? (uint16_t)F16_NAN : rounded;
#else
	uint32_t u = f32_bits(x), sign = (u >> 16) & 0x8000u;
	u &= 0x7fffffffu;
	uint32_t normal = (u - F32_EXP(-15) + 0xfffu + ((u >> 13) & 1)) >> 13;
	/* Adding 0.5 leaves 2^-24, the smallest f16, as the last bit: the addition rounds. */
	uint32_t tiny = f32_bits(f32_from_bits(u) + 0.5f) - F32_EXP(-1);
	uint32_t h = u < F32_EXP(-14) ? tiny : normal;
	h = u >= F32_EXP(16) ? F16_INF : h;
	h |= sign;
	h = u > F32_INF ? F16_NAN : h;
	return (uint16_t)h;
#endif
}

ELEMENT_FN float bf16_to_f32(uint16_t b)
{
	return f32_from_bits((uint32_t)b << 16);
}

ELEMENT_FN uint16_t f32_to_bf16(float x)
{
	uint32_t u = f32_bits(x);
	uint32_t b = (u + 0x7fffu + ((u >> 16) & 1)) >> 16;
	return (uint16_t)((u & 0x7fffffffu) > F32_INF ? BF16_NAN : b);
}

/*
 * f64 to f32 with 14 significant bits, rounded to odd: the last of them is set if any later bit
 * was. 14 bits are at least two more than f16 and bf16 have, so rounding the result to one of these
 * is as exact as a single rounding. They are few enough that the f32 is exact wherever it matters,
 * also if subnormal.
 */
ELEMENT_FN float f64_to_f32_odd(double x)
{
	const uint64_t low = (1ull << (52 - 13)) - 1;
	uint64_t u = f64_bits(x);
	u |= (u & low) + low; /* carries into the last bit kept unless all below are clear */
	return (float)f64_from_bits(u & ~low);
}

ELEMENT_FN uint16_t f64_to_f16(double x)
{
	return f32_to_f16(f64_to_f32_odd(x));
}

ELEMENT_FN uint16_t f64_to_bf16(double x)
{
	return f32_to_bf16(f64_to_f32_odd(x));
}

#endif
