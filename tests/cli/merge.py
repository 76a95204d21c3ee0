#!/usr/bin/env python3
"""Merges of differences to an origin, by numpy.

  merge.py make N [DTYPE [large]]    origin.safetensors, x.0.safetensors ... x.N-1.safetensors: tensors of DTYPE (f4),
                                     large: one of more elements than a sample has, whose rows differ in size
  merge.py outer STEPS LR MU N       are out.safetensors and momentum.safetensors what so many outer steps make?
  merge.py arcs make                 x.0.safetensors, x.1.safetensors: tensors at many angles
  merge.py arcs check OUT T          is OUT the spherical interpolation of both at T?
  merge.py check OUT OP SCALE N [W,...]    is OUT what OP makes of x.0 ... x.N-1? avg with weights W

Differences are rounded to f32 (f64 of f64), and the output is rounded once more: it may differ in the last bit.
"""

import math
import sys

import numpy as np
from files import load_safetensors, save_safetensors

MASK = (1 << 32) - 1


def make(n, dtype="f4", large=None):
    rng = np.random.default_rng(5)
    shapes = {"a.weight": (40, 30), "a.bias": (30,), "b": (7, 3, 5), "empty": (0, 4), "one": ()}

    if large:
        shapes["large"] = (600, 501)

    def tensors(scale):
        return {k: np.asarray(rng.normal(size=s) * scale).astype(dtype) for k, s in shapes.items()}

    origin = tensors(1)
    save_safetensors("origin.safetensors", origin)
    for i in range(int(n)):
        task = tensors(0.1)
        if large:
            task["large"][:200] *= 50
            task["large"][np.abs(task["large"]) < 0.02] = 0
        save_safetensors(f"x.{i}.safetensors", {k: (v + task[k]).astype(dtype) for k, v in origin.items()})


# ---- Philox4x32-10 and XXH3 by the library that collctl links ----


def philox(key, blocks, stream):
    """[len(blocks), 4] random numbers."""
    c = [blocks & MASK, blocks >> np.uint64(32), np.full_like(blocks, stream), np.zeros_like(blocks)]
    k = [key & MASK, key >> 32]
    for _ in range(10):
        a, b = c[0] * np.uint64(0xD2511F53), c[2] * np.uint64(0xCD9E8D57)
        c = [(b >> np.uint64(32)) ^ c[1] ^ np.uint64(k[0]), b & np.uint64(MASK),
             (a >> np.uint64(32)) ^ c[3] ^ np.uint64(k[1]), a & np.uint64(MASK)]
        k = [(k[0] + 0x9E3779B9) & MASK, (k[1] + 0xBB67AE85) & MASK]
    return np.stack(c, axis=1)


def key_of(seed, name):
    import ctypes
    import ctypes.util
    library = ctypes.CDLL(ctypes.util.find_library("xxhash"))
    library.XXH3_64bits_withSeed.restype = ctypes.c_uint64
    library.XXH3_64bits_withSeed.argtypes = [ctypes.c_char_p, ctypes.c_size_t, ctypes.c_uint64]
    return library.XXH3_64bits_withSeed(name.encode(), len(name), seed)


# ---- operations on differences, [contribution, ...] in f64 ----


def ties(d, part):
    kept = d.copy()
    for one in kept:
        flat = np.abs(one).reshape(-1)
        if flat.size:
            k = math.ceil(round(part * flat.size, 6))
            one[np.abs(one) < np.sort(flat)[-k]] = 0
    sign = np.where(kept.sum(0) >= 0, 1.0, -1.0)
    agree = kept * sign > 0
    return np.where(agree.any(0), (kept * agree).sum(0) / np.maximum(agree.sum(0), 1), 0)


def dare(d, part, seed, name):
    out = np.zeros_like(d)
    for i, one in enumerate(d):
        n = one.size
        numbers = philox(key_of(seed, name), np.arange((n + 3) // 4, dtype=np.uint64), i).reshape(-1)[:n]
        keep = numbers.astype(np.float64) < part * 2.0**32
        out[i] = np.where(keep.reshape(one.shape), (one / part).astype(np.float32), 0)
    return out.mean(0)


def merged(d, op, name, weights):
    op, _, numbers = op.partition(":")
    part, _, seed = numbers.partition(",")
    if op == "sum":
        return d.sum(0)
    if op == "avg":
        w = np.array(weights or [1] * len(d), np.float64)
        return (d * w.reshape([-1] + [1] * (d.ndim - 1))).sum(0) / w.sum()
    if op == "median":
        return np.median(d, axis=0)
    if op == "trimmed":
        cut = math.floor(float(part) * len(d) + 1e-9)
        return np.sort(d, axis=0)[cut:len(d) - cut].mean(0)
    return ties(d, float(part)) if op == "ties" else dare(d, float(part), int(seed), name)


def check(out, op, scale, n, weights=""):
    origin, got = load_safetensors("origin.safetensors"), load_safetensors(out)
    inputs = [load_safetensors(f"x.{i}.safetensors") for i in range(int(n))]
    weights = [float(w) for w in weights.split(",") if w]
    assert sorted(got) == sorted(origin)
    for name, o in origin.items():
        wide = np.float64 if o.dtype == np.float64 else np.float32
        d = np.stack([(x[name].astype(np.float64) - o).astype(wide) for x in inputs]).astype(np.float64)
        want = o.astype(np.float64) + float(scale) * merged(d.reshape(len(d), -1), op, name, weights).reshape(o.shape)
        assert got[name].dtype == o.dtype, name
        bound = np.spacing(np.abs(want.astype(o.dtype)).astype(o.dtype)).astype(np.float64) + 1e-6 * np.abs(d).max(initial=0)
        off = np.abs(got[name].astype(np.float64) - want)
        assert (off <= bound).all(), (name, off.max())


def outer(steps, rate, mu, n):
    """@steps rounds of DiLoCo from origin.safetensors on: out.safetensors and momentum.safetensors"""
    origin = load_safetensors("origin.safetensors")
    inputs = [load_safetensors(f"x.{i}.safetensors") for i in range(int(n))]
    got, kept = load_safetensors("out.safetensors"), load_safetensors("momentum.safetensors")
    for name, o in origin.items():
        if o.dtype.kind != "f":
            assert (got[name] == inputs[0][name]).all() and name not in kept
            continue
        wide = np.float64 if o.dtype == np.float64 else np.float32
        m, now = np.zeros(o.shape, wide), o
        for _ in range(int(steps)):
            d = np.stack([(x[name].astype(np.float64) - now).astype(wide) for x in inputs]).astype(np.float64)
            mean = d.mean(0).astype(wide).astype(np.float64)
            m = (float(mu) * m - mean).astype(wide)
            now = (now + float(rate) * (mean - float(mu) * m.astype(np.float64))).astype(o.dtype)
        assert kept[name].dtype == wide and got[name].dtype == o.dtype, name
        np.testing.assert_allclose(kept[name], m, rtol=1e-5, atol=1e-6)
        np.testing.assert_allclose(got[name], now, rtol=1e-2 if o.dtype == np.float16 else 1e-5, atol=1e-5)


def arcs(what, out=None, t=None):
    if what == "make":
        rng = np.random.default_rng(3)
        for i in range(2):
            save_safetensors(f"x.{i}.safetensors", {
                "any": rng.normal(size=(300, 301)).astype("f4"), "wide": rng.normal(size=(100, 10)) + 3,
                "half": (rng.normal(size=(77, 3)) + 1).astype("f2"), "empty": np.zeros((0, 3), "f4"),
                "zero": np.zeros(3, "f4"), "zero and not": (rng.normal(size=5) * i).astype("f4"),
                "equal": np.arange(1, 9, dtype="f4"), "parallel": np.array([2 + i], "f4"),
                "opposite": (np.arange(1, 9) * (1 - 2 * i)).astype("f4"),
                "nearly": np.array([1, 0.0316 * i], "f4"), "less": np.array([1, 0.0317 * i], "f4"),
                "right angle": np.array([1 - i, 0, 3 * i], "f4"), "tiny": (rng.normal(size=6) * 1e-40).astype("f4")})
        return
    t, got = float(t), load_safetensors(out)
    x, y = (load_safetensors(f"x.{i}.safetensors") for i in range(2))
    assert sorted(got) == sorted(x)
    for name in x:
        a, b = x[name].astype("f8"), y[name].astype("f8")
        lengths = [float(np.linalg.norm(v.reshape(-1))) for v in (a, b)]
        cosine = float((a * b).sum()) / (lengths[0] * lengths[1]) if all(lengths) else 0.0
        weights = [1 - t, t]
        if abs(cosine) <= 0.9995:
            angle = math.acos(cosine)
            weights = [math.sin((1 - t) * angle) / math.sin(angle), math.sin(t * angle) / math.sin(angle)]
        want = weights[0] * a + weights[1] * b
        assert got[name].dtype == x[name].dtype, name
        bound = np.spacing(np.abs(want.astype(got[name].dtype))).astype("f8") + 1e-9 * np.abs(want)
        assert (np.abs(got[name].astype("f8") - want) <= bound).all(), name


def main():
    {"arcs": arcs, "make": make, "check": check, "outer": outer}[sys.argv[1]](*sys.argv[2:])


if __name__ == "__main__":
    main()
