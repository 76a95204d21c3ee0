"""Types of elements: their bytes as numbers that hold them exactly, and what reductions must give, by
numpy. A type has its name in .safetensors; C128 is in arrays alone."""

from fractions import Fraction

import numpy as np

import oracle

# In the order of the reference library's Dtype: files hold those of the last first.
BITS = {
    "BOOL": 8, "F4": 4, "F6_E2M3": 6, "F6_E3M2": 6, "U8": 8, "I8": 8, "F8_E5M2": 8, "F8_E4M3": 8,
    "F8_E8M0": 8, "F8_E4M3FNUZ": 8, "F8_E5M2FNUZ": 8, "I16": 16, "U16": 16, "F16": 16, "BF16": 16,
    "I32": 32, "U32": 32, "F32": 32, "C64": 64, "F64": 64, "I64": 64, "U64": 64,
}
ORDER = {name: i for i, name in enumerate(BITS)}
NO_ARITHMETIC = ("F4", "F6_E2M3", "F6_E3M2", "F8_E8M0", "F8_E4M3FNUZ", "F8_E5M2FNUZ")
INTEGERS = {
    "I8": "<i1", "U8": "<u1", "I16": "<i2", "U16": "<u2", "I32": "<i4", "U32": "<u4", "I64": "<i8",
    "U64": "<u8",
}
# The relative error of one rounding to the type, and its smallest number above zero.
ROUNDING = {
    "F8_E4M3": (2.0**-4, 2.0**-9), "F8_E5M2": (2.0**-3, 2.0**-16), "F16": (2.0**-11, 2.0**-24),
    "BF16": (2.0**-8, 2.0**-133), "F32": (2.0**-24, 2.0**-149), "F64": (2.0**-53, 2.0**-1074),
}
FLOATS = tuple(ROUNDING)
ARITHMETIC = [t for t in BITS if t not in NO_ARITHMETIC]
OPS = ("sum", "prod", "min", "max", "avg", "band", "bor", "bxor", "land", "lor", "lxor")


# ---- 8-bit floats, by a table ----


def f8_value(dtype, code):
    exponent_bits, mantissa_bits, bias = (4, 3, 7) if dtype == "F8_E4M3" else (5, 2, 15)
    sign = -1.0 if code & 0x80 else 1.0
    exponent = (code & 0x7F) >> mantissa_bits
    mantissa = code & ((1 << mantissa_bits) - 1)
    if dtype == "F8_E4M3" and code & 0x7F == 0x7F:
        return np.nan
    if dtype == "F8_E5M2" and exponent == (1 << exponent_bits) - 1:
        return np.nan if mantissa else sign * np.inf
    if exponent == 0:
        return sign * mantissa * 2.0 ** (1 - bias - mantissa_bits)
    return sign * (1 + mantissa * 2.0**-mantissa_bits) * 2.0 ** (exponent - bias)


F8_TABLES = {t: np.array([f8_value(t, c) for c in range(256)]) for t in ("F8_E4M3", "F8_E5M2")}
F8_NAN = {"F8_E4M3": 0x7F, "F8_E5M2": 0x7E}


def f8_encode(dtype, x):
    """To the nearest, ties to the even code; e4m3 has no infinity: NaN stands beyond its largest."""
    n = 0x7F if dtype == "F8_E4M3" else 0x7C  # codes of finite numbers, in ascending order
    values = F8_TABLES[dtype][:n]
    # What rounds to the number that would come after the largest one is beyond the range.
    values = np.append(values, 2 * values[-1] - values[-2])
    a = np.abs(x)
    hi = np.clip(np.searchsorted(values, np.where(np.isnan(a), 0, a)), 1, n)
    lo = hi - 1
    with np.errstate(invalid="ignore"):
        down, up = a - values[lo], values[hi] - a
    code = np.where((down < up) | ((down == up) & (lo % 2 == 0)), lo, hi)
    code = np.where(a >= values[-1], n, code)
    code = np.where(np.isnan(x), F8_NAN[dtype], code)
    return np.where(np.signbit(x) & (code != F8_NAN[dtype]), code | 0x80, code).astype(np.uint8)


# ---- bytes and numbers ----


def decode(dtype, data):
    """f64 for floats, complex128, bool, or the integers themselves; flat."""
    if dtype in INTEGERS:
        return np.frombuffer(data, INTEGERS[dtype])
    if dtype == "BOOL":
        return np.frombuffer(data, "u1") != 0
    if dtype in F8_TABLES:
        return F8_TABLES[dtype][np.frombuffer(data, "u1")]
    if dtype == "BF16":
        wide = np.frombuffer(data, "<u2").astype(np.uint32) << np.uint32(16)
        return wide.view(np.float32).astype(np.float64)
    plain = {"F16": "<f2", "F32": "<f4", "F64": "<f8", "C64": "<c8", "C128": "<c16"}[dtype]
    return np.frombuffer(data, plain).astype(np.complex128 if dtype[0] == "C" else np.float64)


def encode(dtype, x):
    """Rounded once, to nearest even; NaN is the quiet one, without a sign."""
    with np.errstate(all="ignore"):
        if dtype in INTEGERS:
            return np.asarray(x).astype(INTEGERS[dtype]).tobytes()
        if dtype == "BOOL":
            return np.asarray(x).astype("u1").tobytes()
        if dtype in ("C64", "C128"):
            parts = np.ascontiguousarray(x, np.complex128).view(np.float64)
            return encode("F32" if dtype == "C64" else "F64", parts)
        x = np.where(np.isnan(x), np.nan, np.asarray(x, np.float64))
        if dtype in F8_TABLES:
            return f8_encode(dtype, x).tobytes()
        if dtype == "BF16":
            return oracle.to_bf16(x).astype("<u2").tobytes()
        return x.astype({"F16": "<f2", "F32": "<f4", "F64": "<f8"}[dtype]).tobytes()


# ---- data ----

SPREAD = {"F8_E4M3": 4, "F8_E5M2": 8, "F16": 10, "BF16": 100, "F32": 100, "F64": 800}


def numbers(dtype, count, rng, data, rank):
    """exact: sums and products of a dozen of them are exact, of any type; random: of sizes that
    differ much; adversarial: of all sizes, and those of different ranks nearly cancel; integers near
    the ends of their range."""
    if dtype == "BOOL":
        return rng.integers(0, 2, count).astype(bool)
    if dtype in INTEGERS:
        info = np.iinfo(INTEGERS[dtype])
        if data == "adversarial":
            ends = [info.min, info.min + 1, 0, 1, info.max - 1, info.max]
            return np.array(ends, INTEGERS[dtype])[rng.integers(0, len(ends), count)]
        return rng.integers(info.min, info.max, count, INTEGERS[dtype], endpoint=True)
    if dtype[0] == "C":
        re, im = (numbers("F32" if dtype == "C64" else "F64", count, rng, data, rank) for _ in range(2))
        return re + 1j * im
    if data == "random":
        return rng.standard_normal(count) * 2.0 ** rng.integers(-12 if dtype == "F16" else -30, 5, count)
    if data == "adversarial":
        same = np.random.default_rng(len(dtype))  # on all ranks
        large = same.standard_normal(count) * 2.0 ** same.integers(-SPREAD[dtype], SPREAD[dtype], count)
        noise = rng.standard_normal(count) * 2.0 ** rng.integers(-30, 0, count)
        return large * (-1 if rank % 2 else 1) * (1 + noise)
    return rng.choice([-2.0, -1.0, -1.0, 1.0, 1.0, 2.0, 0.5, 1.0], count)


# ---- reductions ----


def multiply(a, b):
    if a.dtype.kind != "c":
        return a * b
    r = np.empty_like(a)
    r.real = a.real * b.real - a.imag * b.imag
    r.imag = a.real * b.imag + a.imag * b.real
    return r


PAIRS = {
    "sum": lambda a, b: a + b, "prod": multiply,
    "min": lambda a, b: oracle.minmax("min", a, b), "max": lambda a, b: oracle.minmax("max", a, b),
    "band": lambda a, b: a & b, "bor": lambda a, b: a | b, "bxor": lambda a, b: a ^ b,
    "land": lambda a, b: (a != 0) & (b != 0), "lor": lambda a, b: (a != 0) | (b != 0),
    "lxor": lambda a, b: (a != 0) ^ (b != 0),
}


def fold(op, xs):
    acc = xs[0]
    if op in ("land", "lor", "lxor"):
        acc = acc != 0
    for x in xs[1:]:
        acc = PAIRS[op](acc, x)
    return acc


def average_integers(per_rank, weights):
    """Exactly, to the nearest, ties to even."""
    total = sum(Fraction(w) * len(xs) for w, xs in zip(weights, per_rank))
    sums = [sum(Fraction(w) * int(x[i]) for w, xs in zip(weights, per_rank) for x in xs)
            for i in range(len(per_rank[0][0]))]
    return [round(s / total) for s in sums]


def reduce(op, dtype, per_rank, weights=None, integers="round"):
    """@per_rank: the numbers of each rank's inputs. Floats: in f64, first a rank's own, then in rank
    order, rounded once. Returns the bytes."""
    per_rank = [[x for x in xs] for xs in per_rank]
    weights = weights or [1.0] * len(per_rank)
    with np.errstate(all="ignore"):
        if op == "avg" and (dtype in INTEGERS or dtype == "BOOL"):
            if integers in ("first", "equal"):
                return encode(dtype, per_rank[0][0])
            return encode(dtype, np.array(average_integers(per_rank, weights), object).astype(
                "u1" if dtype == "BOOL" else INTEGERS[dtype]))
        if op == "avg":
            total = sum(w * len(xs) for w, xs in zip(weights, per_rank))
            if dtype[0] == "C":  # each part is one float
                per_rank = [[x.view(np.float64) for x in xs] for xs in per_rank]
            sums = [fold("sum", [w * x if w else np.zeros_like(x) for x in xs])
                    for w, xs in zip(weights, per_rank)]
            x = fold("sum", sums) / total
            return encode(dtype, x.view(np.complex128) if dtype[0] == "C" else x)
        if dtype == "BOOL" and op in ("sum", "prod", "min", "max"):
            op = {"sum": "lor", "prod": "land", "min": "land", "max": "lor"}[op]
        return encode(dtype, fold(op, [fold(op, xs) for xs in per_rank]))


def bound(dtype, per_rank, weights=None):
    """By how much the average of floats in any order may differ from the exact one, besides its last
    rounding: each of the n - 1 additions rounds to f32 (f64: of f64, and of f32 with weights), and
    with weights each product too."""
    n = sum(len(xs) for xs in per_rank)
    u = 2.0**-53 if dtype == "F64" or (weights and dtype == "F32") else 2.0**-24
    k = n if weights else n - 1
    weights = weights or [1.0] * len(per_rank)
    total = sum(w * len(xs) for w, xs in zip(weights, per_rank))
    magnitude = sum(np.abs(w * x) for w, xs in zip(weights, per_rank) for x in xs) / total
    return k * u / (1 - k * u) * magnitude


def exact_average(per_rank, weights):
    weights = [Fraction(w) for w in weights or [1.0] * len(per_rank)]
    total = sum(w * len(xs) for w, xs in zip(weights, per_rank))
    return np.array([float(sum(w * Fraction(float(x[i])) for w, xs in zip(weights, per_rank) for x in xs)
                           / total) for i in range(len(per_rank[0][0]))])
