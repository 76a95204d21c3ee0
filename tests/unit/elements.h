/* For the tests of kernels: elements of any type of at most 64 bits as numbers, made and read in
 * double arithmetic, and values that make trouble. */
#ifndef COLLCTL_TESTS_ELEMENTS_H
#define COLLCTL_TESTS_ELEMENTS_H

#include <float.h>
#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "lib/data/kernels/reduce.h"
#include "tests/unit/unit.h"

/* ---- random numbers: xorshift, the same in every run ---- */

static uint64_t seed;

static inline uint64_t next(void)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed;
}

static inline int reseed(void **state)
{
	(void)state;
	seed = 88172645463325252u;
	return 0;
}

/* ---- elements as numbers ---- */

static inline uint64_t get_bits(enum dtype t, const void *p)
{
	uint64_t u = 0;
	memcpy(&u, p, dtype_size(t));
	return u;
}

static inline void put_bits(enum dtype t, void *p, uint64_t u)
{
	memcpy(p, &u, dtype_size(t));
}

/* A small binary format, taken apart. @ieee: its largest exponent means infinity and NaN. */
static inline double small_float(uint64_t u, int exponent_bits, int mantissa_bits, bool ieee)
{
	int bias = (1 << (exponent_bits - 1)) - 1, top = (1 << exponent_bits) - 1;
	uint64_t mantissa = u & ((1u << mantissa_bits) - 1);
	int exponent = (int)(u >> mantissa_bits) & top;
	double sign = u >> (exponent_bits + mantissa_bits) & 1 ? -1.0 : 1.0;
	if (ieee && exponent == top)
		return mantissa ? (double)NAN : sign * (double)INFINITY;
	if (exponent == 0)
		return sign * ldexp((double)mantissa, 1 - bias - mantissa_bits);
	return sign *
	       ldexp((double)(mantissa | 1u << mantissa_bits), exponent - bias - mantissa_bits);
}

static inline double get_float(enum dtype t, const void *p)
{
	float f;
	double d;
	switch (t) {
	case DTYPE_F8E4M3:
		return (get_bits(t, p) & 0x7f) == 0x7f ? (double)NAN
		                                       : small_float(get_bits(t, p), 4, 3, false);
	case DTYPE_F8E5M2:
		return small_float(get_bits(t, p), 5, 2, true);
	case DTYPE_F16:
		return small_float(get_bits(t, p), 5, 10, true);
	case DTYPE_BF16:
		return small_float(get_bits(t, p), 8, 7, true);
	case DTYPE_F32:
		memcpy(&f, p, sizeof f);
		return (double)f;
	default:
		memcpy(&d, p, sizeof d);
		return d;
	}
}

/* The other way, rounded to nearest even, by scaling the last bit to one; @top: the bits that stand
 * for what is too large, @nan for NaN. */
static inline uint64_t make_small_float(double x, int exponent_bits, int mantissa_bits,
                                        uint64_t top, uint64_t nan)
{
	int bias = (1 << (exponent_bits - 1)) - 1, e;
	uint64_t sign = signbit(x) ? 1ull << (exponent_bits + mantissa_bits) : 0, u = top;
	if (isfinite(x)) {
		frexp(x, &e); /* x = m * 2^e, 0.5 <= m < 1 */
		e = e - 1 < 1 - bias || x == 0 ? 1 - bias : e - 1;
		uint64_t m = (uint64_t)rint(ldexp(fabs(x), mantissa_bits - e));
		/* A subnormal has no leading one, and a carry goes on into the exponent: both by
		 * addition. */
		u = ((uint64_t)(e + bias - 1) << mantissa_bits) + m;
	}
	u = u > top ? top : u;
	return isnan(x) || u == nan ? nan : sign | u;
}

static inline void put_float(enum dtype t, void *p, double x)
{
	uint64_t u = 0x7ff8000000000000u;
	float f = (float)x;
	switch (t) {
	case DTYPE_F8E4M3:
		put_bits(t, p, make_small_float(x, 4, 3, 0x7f, 0x7f));
		return;
	case DTYPE_F8E5M2:
		put_bits(t, p, make_small_float(x, 5, 2, 0x7c, 0x7e));
		return;
	case DTYPE_F16:
		put_bits(t, p, make_small_float(x, 5, 10, 0x7c00, 0x7e00));
		return;
	case DTYPE_BF16:
		put_bits(t, p, make_small_float(x, 8, 7, 0x7f80, 0x7fc0));
		return;
	case DTYPE_F32:
		u = 0x7fc00000;
		if (!isnan(f))
			memcpy(&u, &f, sizeof f);
		break;
	default:
		if (!isnan(x))
			memcpy(&u, &x, sizeof x);
	}
	put_bits(t, p, u);
}

static inline bool is_signed(enum dtype t)
{
	return t >= DTYPE_I8 && t <= DTYPE_I64;
}

static inline int64_t get_signed(enum dtype t, const void *p)
{
	unsigned shift = (unsigned)(64 - 8 * dtype_size(t));
	return (int64_t)(get_bits(t, p) << shift) >> shift;
}

/* ---- values ---- */

static const uint64_t f8_specials[] = {0,    0x80, 1,    0x81, 7,    0x87, 8,
                                       0x88, 0x38, 0xb8, 0x7b, 0xfb, 0x7c, 0xfc,
                                       0x7d, 0x7e, 0xfe, 0x7f, 0xff, 0x3c, 0xbc};
static const uint64_t f16_specials[] = {
        0,      0x8000, 1,      0x8001, 0x3ff,  0x83ff, 0x400,  0x8400, 0x3c00, 0xbc00, 0x7bff,
        0xfbff, 0x7c00, 0xfc00, 0x7c01, 0xfc01, 0x7e00, 0xfe00, 0x7fff, 0xffff, 0x3c01, 0x0200};
static const uint64_t bf16_specials[] = {
        0,      0x8000, 1,      0x8001, 0x7f,   0x807f, 0x80,   0x8080, 0x3f80, 0xbf80, 0x7f7f,
        0xff7f, 0x7f80, 0xff80, 0x7f81, 0xff81, 0x7fc0, 0xffc0, 0x7fff, 0xffff, 0x3f81, 0x0040};
static const uint64_t f32_specials[] = {
        0,          0x80000000, 1,          0x80000001, 0x7fffff,   0x807fffff, 0x800000,
        0x80800000, 0x3f800000, 0xbf800000, 0x7f7fffff, 0xff7fffff, 0x7f800000, 0xff800000,
        0x7f800001, 0xff800001, 0x7fc00000, 0xffc00000, 0x7fffffff, 0xffffffff, 0x7fc12345};
static const uint64_t f64_specials[] = {0,
                                        0x8000000000000000,
                                        1,
                                        0x8000000000000001,
                                        0x000fffffffffffff,
                                        0x0010000000000000,
                                        0x3ff0000000000000,
                                        0xbff0000000000000,
                                        0x7fefffffffffffff,
                                        0xffefffffffffffff,
                                        0x7ff0000000000000,
                                        0xfff0000000000000,
                                        0x7ff0000000000001,
                                        0xfff0000000000001,
                                        0x7ff8000000000000,
                                        0xfff8000000000000,
                                        0x7fffffffffffffff,
                                        0xffffffffffffffff,
                                        0x380fffffffffffff,
                                        0x36a0000000000001,
                                        0x47efffffffffffff};
static const uint64_t int_specials[] = {0,          1,
                                        2,          127,
                                        128,        255,
                                        32767,      32768,
                                        65535,      0x7fffffff,
                                        0x80000000, 0xffffffff,
                                        INT64_MAX,  0x8000000000000000,
                                        UINT64_MAX, UINT64_MAX - 1};

static inline uint64_t special(enum dtype t)
{
	switch (t) {
	case DTYPE_F8E4M3:
	case DTYPE_F8E5M2:
		return f8_specials[next() % LENGTH(f8_specials)];
	case DTYPE_F16:
		return f16_specials[next() % LENGTH(f16_specials)];
	case DTYPE_BF16:
		return bf16_specials[next() % LENGTH(bf16_specials)];
	case DTYPE_F32:
		return f32_specials[next() % LENGTH(f32_specials)];
	case DTYPE_F64:
		return f64_specials[next() % LENGTH(f64_specials)];
	default:
		return int_specials[next() % LENGTH(int_specials)];
	}
}

/* A third specials, a third any bits, a third of a size where sums round and cancel. */
static inline void fill(enum dtype t, void *p, size_t n)
{
	char *at = p;
	for (size_t i = 0; i < n; i++, at += dtype_size(t)) {
		uint64_t kind = next() % 3;
		if (kind == 0)
			put_bits(t, at, special(t));
		else if (kind == 1 || !dtype_is_float(t) || dtype_is_complex(t))
			put_bits(t, at, next());
		else
			put_float(t, at, ldexp((double)(int64_t)next(), -66 + (int)(next() % 8)));
	}
}

static inline void assert_same(enum dtype t, const void *found, const void *expected, size_t n,
                               const char *what, enum reduce_op op, enum dtype from)
{
	const char *f = found, *e = expected;
	for (size_t i = 0; i < n; i++) {
		uint64_t uf = get_bits(t, f + i * dtype_size(t));
		uint64_t ue = get_bits(t, e + i * dtype_size(t));
		if (uf != ue)
			fail_msg("%s %s %s<-%s: element %zu of %zu is %#llx, not %#llx", what,
			         reduce_op_name(op), dtype_name(t), dtype_name(from), i, n,
			         (unsigned long long)uf, (unsigned long long)ue);
	}
}

#endif
