/*
 * Conversions of the 8-bit floats, as in half.h. f8e5m2 is the upper byte of an f16. f8e4m3
 * (float8_e4m3fn) has no infinities: the code of 480 is a NaN, and values that round to 480 or more
 * become NaN.
 */
#ifndef COLLCTL_DATA_KERNELS_FLOAT8_H
#define COLLCTL_DATA_KERNELS_FLOAT8_H

#include "lib/data/kernels/half.h"

#define F8E4M3_NAN 0x7fu
#define F8E4M3_MAX 0x7eu
#define F8E5M2_NAN 0x7eu
#define F8E5M2_INF 0x7cu

/* Both are exact, except that a NaN may change its payload. */
ELEMENT_FN float f8e4m3_to_f32(uint8_t b)
{
	uint32_t m = (uint32_t)(b & 0x7fu) << 20;
	uint32_t normal = m + F32_EXP(-7);
	/* A subnormal is m * 2^-9: append m to a leading one of 2^-6, then subtract 2^-6. */
	uint32_t tiny = f32_bits(f32_from_bits(m + F32_EXP(-6)) - f32_from_bits(F32_EXP(-6)));
	uint32_t u = m < 0x00800000u ? tiny : normal;
	u = m == F8E4M3_NAN << 20 ? F32_NAN : u;
	return f32_from_bits(u | (uint32_t)(b & 0x80u) << 24);
}

ELEMENT_FN float f8e5m2_to_f32(uint8_t b)
{
	return f16_to_f32((uint16_t)(b << 8));
}

ELEMENT_FN uint8_t f32_to_f8e4m3(float x)
{
	uint32_t u = f32_bits(x), sign = (u >> 24) & 0x80u;
	u &= 0x7fffffffu;
	uint32_t normal = (u - F32_EXP(-7) + 0x7ffffu + ((u >> 20) & 1)) >> 20;
	/* Adding 2^14 leaves 2^-9, the smallest one, as the last bit: the addition rounds. */
	uint32_t tiny = f32_bits(f32_from_bits(u) + 16384.0f) - F32_EXP(14);
	uint32_t h = u < F32_EXP(-6) ? tiny : normal;
	h |= sign;
	h = u > 0x43e80000u ? F8E4M3_NAN
	                    : h; /* 464 is half way from 448 to 480; the tie rounds to even */
	return (uint8_t)h;
}

ELEMENT_FN uint8_t f32_to_f8e5m2(float x)
{
	uint32_t u = f32_bits(x), sign = (u >> 24) & 0x80u;
	u &= 0x7fffffffu;
	uint32_t normal = (u - F32_EXP(-15) + 0xfffffu + ((u >> 21) & 1)) >> 21;
	/* The same with 2^-16 and 2^7. */
	uint32_t tiny = f32_bits(f32_from_bits(u) + 128.0f) - F32_EXP(7);
	uint32_t h = u < F32_EXP(-14) ? tiny : normal;
	h = u >= F32_EXP(16) ? F8E5M2_INF : h;
	h |= sign;
	h = u > F32_INF ? F8E5M2_NAN : h;
	return (uint8_t)h;
}

ELEMENT_FN uint8_t f64_to_f8e4m3(double x)
{
	return f32_to_f8e4m3(f64_to_f32_odd(x));
}

ELEMENT_FN uint8_t f64_to_f8e5m2(double x)
{
	return f32_to_f8e5m2(f64_to_f32_odd(x));
}

#endif
