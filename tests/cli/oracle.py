#!/usr/bin/env python3
"""Make shards and compute with numpy what a collective over them must give.

  oracle.py make FILE DTYPE SHAPE SEED [DATA]     one array; SHAPE as 3,4 or () or 0
  oracle.py shards DTYPE DATA SHAPE...            in.R.npy, seed R, of the R-th shape
  oracle.py matrix DIR P                          DIR/DTYPE.R.npy of every dtype, data "exact"
  oracle.py check OP OUT... --in IN...            each OUT against the reduction of all IN
  oracle.py check-matrix DIR P                    DIR/OP.DTYPE.R.npy, all that OP is defined on
  oracle.py coll KIND P [TAG...]                  what a collective has made of in.R.npy: out.TAG.R.npy
                                                  of every rank (without tags: out.R.npy), by
                                                  --root, --op, --counts and --in, --out. Several
                                                  kinds, KIND,KIND..., each have the tags KIND.X
                                                  or, without any, KIND
  oracle.py model                                 the answers of the model in C (tests/model/answers.c), from stdin
  oracle.py show FILE                             dtype, shape and the first values

Options of check: --data exact|random|special (default exact), --order rank, --dtype D --shape S
(of raw files; also bf16, f8e4m3 and f8e5m2 for .npy, which numpy has no names for). `exact` and `special` data demand
every bit; `random` floats may differ by what rounding after each of the N operations can add. All
outputs must have the same bits always.

Options of coll: --counts 3,4,0 for all ranks, or for each rank its own, with semicolons between; a rank
without a result must have no file. --data and --order as of check; random floats need --order rank.

OP may also be median or trimmed:F, the operations of all arrays at once.

bf16 arrays are |V2 in .npy, as ml_dtypes saves them, and f8e4m3 and f8e5m2 |V1.
"""

import argparse
import fractions
import json
import os
import sys

import numpy as np

BF16 = "bf16"
DTYPES = {
    "i8": "<i1", "i16": "<i2", "i32": "<i4", "i64": "<i8",
    "u8": "<u1", "u16": "<u2", "u32": "<u4", "u64": "<u8",
    "f16": "<f2", BF16: "<u2", "f32": "<f4", "f64": "<f8",
    "f8e4m3": "|u1", "f8e5m2": "|u1", "bool": "|b1", "c64": "<c8", "c128": "<c16",
}
FLOATS = {"f16": 2.0**-11, BF16: 2.0**-8, "f32": 2.0**-24, "f64": 2.0**-53,
          "f8e4m3": 2.0**-4, "f8e5m2": 2.0**-3}
COMPLEX = ("c64", "c128")
NAMELESS = {BF16: "V2", "f8e4m3": "V1", "f8e5m2": "V1"}  # by their bits here
OPS = ("sum", "prod", "min", "max", "avg", "band", "bor", "bxor", "land", "lor", "lxor")


def is_joint(op):
    return op == "median" or op.startswith("trimmed:")


def op_name(text):
    if text in OPS or is_joint(text):
        return text
    raise argparse.ArgumentTypeError(f"no operation: {text}")


def defined(op, dtype):
    if is_joint(op):
        return dtype not in COMPLEX and dtype != "bool"
    if op == "avg":
        return dtype in FLOATS or dtype in COMPLEX
    if dtype in COMPLEX:
        return op in ("sum", "prod")
    return op in ("sum", "prod", "min", "max") or dtype not in FLOATS


# ---- bf16: carried as its 16 bits ----


def from_bf16(bits):
    wide = np.atleast_1d(bits).astype(np.uint32) << np.uint32(16)
    return wide.view(np.float32).reshape(np.shape(bits))


def to_bf16(x):
    """Round float32 or float64 to nearest even, once: by way of float32 rounded to odd."""
    x = np.asarray(x)
    shape, x = x.shape, x.reshape(-1)
    f = x.astype(np.float32)
    if x.dtype == np.float64:
        away = np.abs(f.astype(np.float64)) > np.abs(x)
        f = np.where(away, np.nextafter(f, np.float32(0)), f)
        inexact = np.isfinite(x) & (f.astype(np.float64) != x)
        f = (f.view(np.uint32) | inexact.astype(np.uint32)).view(np.float32)
    u = f.view(np.uint32).astype(np.uint64)
    rounded = ((u + 0x7FFF + ((u >> 16) & 1)) >> 16).astype(np.uint16)
    return np.where(np.isnan(x), np.uint16(0x7FC0), rounded).reshape(shape)


# ---- 8-bit floats: carried as their bits, by tables of their values ----


def f8_values(dtype):
    """The numbers of the bits 0, 1, ... up to the last that is finite, and what would come next."""
    bits, bias, end = (3, 7, 0x7F) if dtype == "f8e4m3" else (2, 15, 0x7C)
    u = np.arange(end + 1)
    exponent, mantissa = u >> bits, u & ((1 << bits) - 1)
    return np.where(exponent == 0, mantissa * 2.0**(1 - bias - bits),
                    (mantissa + (1 << bits)) * 2.0**(exponent - bias - bits))


def from_f8(bits, dtype):
    values, magnitude = f8_values(dtype), bits & 0x7F
    end = len(values) - 1
    x = np.where(magnitude < end, values[np.minimum(magnitude, end)], np.nan)
    if dtype == "f8e5m2":
        x = np.where(magnitude == end, np.inf, x)
    return np.where(bits & 0x80, -x, x).astype(np.float32)


def to_f8(x, dtype):
    """The nearest value, the even one of two; from the last one's upper half on, what comes next."""
    values, x = f8_values(dtype), np.asarray(x, np.float64)
    middles = (values[1:] + values[:-1]) / 2
    magnitude = np.searchsorted(middles, np.abs(x))  # of a middle: the lower
    lower = np.minimum(magnitude, len(middles) - 1)
    magnitude += (np.abs(x) == middles[lower]) & (lower & 1 == 1)
    bits = magnitude | np.signbit(x) << 7
    nan = np.isnan(x) | ((dtype == "f8e4m3") & (magnitude == 0x7F))
    return np.where(nan, 0x7F if dtype == "f8e4m3" else 0x7E, bits).astype(np.uint8)


# ---- any type ----


def widen(a, dtype):
    if dtype == BF16:
        return from_bf16(a)
    return from_f8(a, dtype) if dtype in NAMELESS else a


def narrow(a, dtype):
    if dtype == BF16:
        return to_bf16(a)
    return to_f8(a, dtype) if dtype in NAMELESS else a.astype(DTYPES[dtype])


def accumulator(dtype, order):
    if order == "rank" and (dtype in FLOATS or dtype in COMPLEX):
        return np.complex128 if dtype in COMPLEX else np.float64
    return np.float32 if dtype == "f16" or dtype in NAMELESS else np.dtype(DTYPES[dtype])


def canonical(a, dtype):
    """NaN is the quiet one with an empty payload and a clear sign."""
    if dtype in FLOATS and dtype not in NAMELESS:
        a = np.where(np.isnan(a), np.array(np.nan, a.dtype), a)
    return a


# ---- files ----


def parse_shape(text):
    text = text.strip("() ")
    return tuple(int(n) for n in text.split(",") if n.strip())


def save(path, a, dtype):
    a = np.asarray(a, order="C")
    if path.endswith((".bin", ".raw")):
        a.tofile(path)
    else:
        np.save(path, a.view(NAMELESS[dtype]) if dtype in NAMELESS else a)


def load(path, dtype=None, shape=None):
    """The array and its dtype's name; bf16 as uint16, 8-bit floats (needing @dtype) as uint8."""
    if path.endswith((".bin", ".raw")):
        a = np.fromfile(path, DTYPES[dtype])
        return (a.reshape(shape) if shape is not None else a), dtype
    a = np.load(path)
    if a.dtype == np.dtype("V2"):
        return a.view("<u2"), BF16
    if a.dtype == np.dtype("V1"):
        return a.view("u1"), dtype
    return a, next(n for n, d in DTYPES.items() if n not in NAMELESS and np.dtype(d) == a.dtype)


# ---- data ----


def make(dtype, shape, seed, data="exact"):
    """exact: values whose sums and products, over a dozen files, are exact in every order;
    random: any values; special: zeros of both signs, infinities and NaN among small numbers."""
    rng = np.random.default_rng([seed, len(data)])
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype in COMPLEX:
        # No power of 2+1j has a part that is zero, whose sign would depend on the order.
        x = rng.choice([-2.0, -1.0, 1.0, 1.0, 2.0, 0.5], shape) * (2 + 1j)
        return np.asarray(x).astype(DTYPES[dtype])
    if dtype not in FLOATS:
        info = np.iinfo(DTYPES[dtype])
        return rng.integers(info.min, info.max, shape, DTYPES[dtype], endpoint=True)
    if data == "random":
        x = rng.standard_normal(shape) * 4
    elif data == "special":
        x = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1.0, -1.0, 2.0], shape)
    elif dtype.startswith("f8"):
        x = rng.choice([-1.0, 1.0, 1.0], shape)
    else:
        x = rng.choice([-2.0, -1.0, -1.0, 1.0, 1.0, 2.0, 0.5, 1.0], shape)
    return narrow(np.asarray(x, np.float64), dtype)


# ---- the reductions ----


def minmax(op, a, b):
    r = (np.minimum if op == "min" else np.maximum)(a, b)
    if a.dtype.kind == "f":  # -0 < +0, which numpy leaves open
        zeros = (a == 0) & (b == 0)
        negative = (np.signbit(a) | np.signbit(b)) if op == "min" else (np.signbit(a) & np.signbit(b))
        r = np.where(zeros, np.where(negative, a.dtype.type(-0.0), a.dtype.type(0.0)), r)
    return r


def middle(op, n):
    """Which of the n sorted values a median or a trimmed mean is the mean of."""
    cut = (n - 1) // 2 if op == "median" else int(fractions.Fraction(op.split(":")[1]) * n)
    return slice(cut, n - cut)


def joint(op, inputs, dtype):
    """The median or trimmed mean of all @inputs: floats in f64, rounded once; -0 is below +0."""
    part = middle(op, len(inputs))
    if dtype not in FLOATS:
        values = np.sort(np.stack(inputs).astype(object), axis=0)[part]
        means = [round(fractions.Fraction(int(sum(column)), len(values)))  # ties to even
                 for column in values.reshape(len(values), -1).T]
        return np.array(means, object).reshape(inputs[0].shape).astype(DTYPES[dtype])
    x = np.stack([widen(a, dtype).astype(np.float64) for a in inputs])
    bits = x.view(np.int64)
    order = np.argsort(np.where(bits < 0, bits ^ np.int64(2**63 - 1), bits), axis=0, kind="stable")
    values = np.take_along_axis(x, order, axis=0)[part]
    with np.errstate(all="ignore"):
        total = values[0]
        for v in values[1:]:
            total = total + v
        mean = np.where(np.isnan(x).any(axis=0), np.nan, total / len(values))
        return canonical(narrow(np.asarray(mean), dtype), dtype)


def reduce(op, inputs, dtype, wide):
    """The reduction of @inputs in list order, accumulated in @wide (a numpy dtype)."""
    if is_joint(op):
        return joint(op, inputs, dtype)
    with np.errstate(all="ignore"):
        xs = [widen(a, dtype) for a in inputs]
        if op in ("sum", "avg", "prod"):
            acc = xs[0].astype(wide)
            for x in xs[1:]:
                acc = acc * x.astype(wide) if op == "prod" else acc + x.astype(wide)
            if op == "avg" and dtype in COMPLEX:
                acc = np.array(acc)  # of no dimension, numpy gives a number that can't be changed
                acc.real, acc.imag = acc.real / len(xs), acc.imag / len(xs)
            elif op == "avg":
                acc = acc / acc.dtype.type(len(xs))
        elif op in ("min", "max"):
            acc = xs[0]
            for x in xs[1:]:
                acc = minmax(op, acc, x)
        else:
            f = {"band": np.bitwise_and, "bor": np.bitwise_or, "bxor": np.bitwise_xor,
                 "land": np.logical_and, "lor": np.logical_or, "lxor": np.logical_xor}[op]
            acc = xs[0]
            for x in xs[1:]:
                acc = f(acc, x)
        return canonical(narrow(np.asarray(acc), dtype), dtype)


def compare(op, outs, inputs, dtype, data, order):
    """The first thing that is wrong, in words, or None."""
    first, _ = outs[0]
    for a, path in outs:
        if a.shape != inputs[0].shape:
            return f"{path}: shape {a.shape} instead of {inputs[0].shape}"
        if a.tobytes() != first.tobytes():
            return f"{path}: other bits than {outs[0][1]}"
    by_rounding = dtype in FLOATS and op in ("sum", "avg", "prod") and data == "random"
    if not by_rounding or order == "rank":
        want = reduce(op, inputs, dtype, accumulator(dtype, order))
        if first.tobytes() == want.tobytes():
            return None
        at = next(i for i, (g, w) in enumerate(zip(first.ravel(), want.ravel()))
                  if g.tobytes() != w.tobytes())
        g, w = widen(first.ravel()[at:at + 1], dtype)[0], widen(want.ravel()[at:at + 1], dtype)[0]
        return f"{outs[0][1]}: element {at} is {g!r}, numpy has {w!r} ({op} {dtype}, {len(inputs)} files)"
    xs = np.stack([widen(a, dtype).astype(np.float64) for a in inputs])
    n, eps = len(inputs), FLOATS[dtype]
    if op == "prod":
        want = xs.prod(axis=0)
        bound = (n + 1) * eps * np.abs(want) + float(np.finfo(np.float32).tiny)
        if dtype == "f16":
            bound = bound + n * 2.0**-24 * np.maximum(1, np.abs(xs)).prod(axis=0)
    else:
        want = xs.sum(axis=0) / (n if op == "avg" else 1)
        bound = (n + 1) * eps * np.abs(xs).sum(axis=0) / (n if op == "avg" else 1) + 2.0**-24 * (
            1 if dtype == "f16" else 0)
    got = widen(first, dtype).astype(np.float64)
    with np.errstate(invalid="ignore"):
        off = np.abs(got - want) - bound
    # A result beyond the type's range is infinite.
    largest = 65504 if dtype == "f16" else float(
        np.finfo(np.float64 if dtype == "f64" else np.float32).max)
    off[np.isinf(got) & (np.sign(got) == np.sign(want)) & (np.abs(want) + bound >= largest)] = 0
    if np.all(off <= 0):
        return None
    at = int(np.argmax(off))
    return (f"{outs[0][1]}: element {at} is {widen(first, dtype).ravel()[at]!r}, "
            f"numpy has {want.ravel()[at]!r}, allowed difference {bound.ravel()[at]:.2g}")


# ---- whole collectives ----


def identity(op, like, dtype):
    if op in ("min", "max"):
        if dtype in FLOATS:
            largest = 448 if dtype == "f8e4m3" else np.inf
            value = largest if op == "min" else -largest
        else:
            value = getattr(np.iinfo(DTYPES[dtype]), "max" if op == "min" else "min")
    else:
        value = {"prod": 1, "band": -1, "land": 1}.get(op, 0)
    if dtype in FLOATS:
        return narrow(np.full(like.shape, value, np.float64), dtype)
    return np.full(like.shape, value, np.int64).astype(DTYPES[dtype]) if value < 2**63 else np.full(
        like.shape, value, DTYPES[dtype])


def cut(a, size, counts):
    """The parts of an array along axis 0."""
    if counts is None:
        return np.array_split(a, size)
    assert sum(counts) == len(a) and len(counts) == size
    return np.split(a, np.cumsum(counts)[:-1])


def expected(kind, size, inputs, dtype, root, op, counts, order, every=None):
    """The result of every rank; None: it has none. @inputs has None where a rank has no array. @every: of
    an operation of all arrays at once, these."""
    wide = accumulator(dtype, order)

    def total(n):
        if every:
            return joint(op, every, dtype)
        return reduce(op, inputs[:n], dtype, wide)

    only = [None] * size
    if kind == "allreduce":
        return [total(size)] * size
    if kind == "reduce":
        only[root] = total(size)
        return only
    if kind == "reduce-scatter":
        return cut(total(size), size, counts[0])
    if kind == "broadcast":
        return [inputs[root]] * size
    if kind == "scatter":
        return cut(inputs[root], size, counts[root])
    if kind == "gather":
        only[root] = np.concatenate(inputs)
        return only
    if kind == "allgather":
        return [np.concatenate(inputs)] * size
    if kind == "alltoall":
        parts = [cut(a, size, c) for a, c in zip(inputs, counts)]
        return [np.concatenate([p[r] for p in parts]) for r in range(size)]
    if kind == "scan":
        return [total(r + 1) for r in range(size)]
    if kind == "exscan":
        return [total(r) if r else identity(op, inputs[0], dtype) for r in range(size)]
    raise ValueError(kind)


# ---- commands ----


def cmd_make(a):
    save(a.file, make(a.dtype, parse_shape(a.shape), a.seed, a.data), a.dtype)


def matrix_files(directory, size, dtype):
    return [f"{directory}/{dtype}.{r}.npy" for r in range(size)]


def cmd_matrix(a):
    for d in DTYPES:
        for r, path in enumerate(matrix_files(a.dir, a.size, d)):
            save(path, make(d, (7, 13), 100 + r), d)


def cmd_check(a):
    shape = parse_shape(a.shape) if a.shape else None
    arrays = [load(p, a.dtype, shape) for p in a.inputs]
    dtype = arrays[0][1]
    loaded = []
    for p in a.outs:
        got, got_dtype = load(p, a.dtype, shape)
        if got_dtype != dtype:
            return f"{p}: dtype {got_dtype} instead of {dtype}"
        loaded.append((got, p))
    return compare(a.op, loaded, [x for x, _ in arrays], dtype, a.data, a.order)


def cmd_check_matrix(a):
    wrong = []
    for op in OPS:
        for d in DTYPES:
            if defined(op, d):
                outs = [(load(p, d)[0], p) for p in matrix_files(a.dir, a.size, f"{op}.{d}")]
                inputs = [load(p, d)[0] for p in matrix_files(a.dir, a.size, d)]
                wrong.append(compare(op, outs, inputs, d, "exact", "any"))
    return "\n".join(w for w in wrong if w) or None


def cmd_shards(a):
    for r, shape in enumerate(a.shapes):
        save(f"in.{r}.npy", make(a.dtype, parse_shape(shape), r, a.data), a.dtype)


def parse_counts(text, size):
    if text is None:
        return [None] * size
    each = [[int(n) for n in part.split(",")] if part else None for part in text.split(";")]
    return each * size if len(each) == 1 else each


def check_kind(a, kind, tags):
    shape = parse_shape(a.shape) if a.shape else None
    reads = [a.root] if kind in ("broadcast", "scatter") else range(a.size)
    inputs, dtype = [None] * a.size, None
    for r in reads:
        inputs[r], dtype = load(a.inp.format(rank=r), a.dtype, shape)
    want = expected(kind, a.size, inputs, dtype, a.root, a.op, parse_counts(a.counts, a.size),
                    a.order)
    for tag in tags:
        for r in range(a.size):
            path = a.out.format(rank=r, tag=tag) if tag is not None else a.out.replace(
                "{tag}.", "").format(rank=r)
            if want[r] is None:
                if os.path.exists(path):
                    return f"{path}: exists, but rank {r} has no result"
                continue
            got, got_dtype = load(path, a.dtype)
            if path.endswith((".bin", ".raw")):
                got = got.reshape(want[r].shape) if got.size == want[r].size else got
            if got_dtype != dtype:
                return f"{path}: dtype {got_dtype} instead of {dtype}"
            if got.shape != want[r].shape:
                return f"{path}: shape {got.shape} instead of {want[r].shape}"
            if got.tobytes() != want[r].tobytes():
                at = next(i for i, (g, w) in enumerate(zip(got.ravel(), want[r].ravel()))
                          if g.tobytes() != w.tobytes())
                return (f"{path}: element {at} is {widen(got, dtype).ravel()[at]!r}, "
                        f"numpy has {widen(want[r], dtype).ravel()[at]!r}")
    return None


def cmd_coll(a):
    kinds = a.kind.split(",")
    if len(kinds) == 1:
        return check_kind(a, a.kind, a.tags or [None])
    wrong = []
    for k in kinds:
        tags = [t for t in a.tags if t.split(".")[0] == k]
        wrong.append(check_kind(a, k, tags or [k]))
    return "\n".join(w for w in wrong if w) or None


def cmd_model(_):
    cases, wrong = 0, []
    for line in sys.stdin:
        case = json.loads(line)
        kind, dtype, op = case["kind"], case["dtype"], case["op"]

        def array(text):
            return np.frombuffer(bytes.fromhex(text), DTYPES[dtype])

        def own(arrays):  # only integers, and what is joint, come in several arrays
            if is_joint(op):
                return arrays[0]
            return reduce(op, arrays, dtype, accumulator(dtype, "rank")) if len(arrays) > 1 else arrays[0]

        inputs = [own([array(t) for t in texts]) if texts else None for texts in case["inputs"]]
        every = [array(t) for texts in case["inputs"] for t in texts] if is_joint(op) else None
        want = expected(kind, case["size"], inputs, dtype, case["root"], op, case["counts"] or [None] * case["size"],
                        "rank", every)
        got = [None if t is None else array(t) for t in case["outputs"]]
        for r, (g, w) in enumerate(zip(got, want)):
            if (g is None) != (w is None) or (g is not None and g.tobytes() != w.tobytes()):
                wrong.append(f"{kind} {op} {dtype}, rank {r} of {case['size']}: the model in C has {g}, numpy {w}")
        cases += 1
    print(cases, "cases")
    return "\n".join(wrong) or (None if cases else "no cases")


def cmd_show(a):
    x, dtype = load(a.file, a.dtype, parse_shape(a.shape) if a.shape else None)
    print(dtype, x.shape, widen(x, dtype).ravel()[:8])


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    s = p.add_subparsers(required=True)

    q = s.add_parser("make")
    q.add_argument("file")
    q.add_argument("dtype", choices=DTYPES)
    q.add_argument("shape")
    q.add_argument("seed", type=int)
    q.add_argument("data", nargs="?", default="exact", choices=("exact", "random", "special"))
    q.set_defaults(run=cmd_make)

    q = s.add_parser("matrix")
    q.add_argument("dir")
    q.add_argument("size", type=int)
    q.set_defaults(run=cmd_matrix)

    q = s.add_parser("check")
    q.add_argument("--data", default="exact", choices=("exact", "random", "special"))
    q.add_argument("--order", default="any", choices=("any", "rank"))
    q.add_argument("--dtype", choices=DTYPES)
    q.add_argument("--shape")
    q.add_argument("op", type=op_name)
    q.add_argument("outs", metavar="OUT", nargs="+")
    q.add_argument("--in", dest="inputs", metavar="IN", nargs="+", required=True)
    q.set_defaults(run=cmd_check)

    q = s.add_parser("check-matrix")
    q.add_argument("dir")
    q.add_argument("size", type=int)
    q.set_defaults(run=cmd_check_matrix)

    q = s.add_parser("shards")
    q.add_argument("dtype", choices=DTYPES)
    q.add_argument("data", choices=("exact", "random", "special"))
    q.add_argument("shapes", nargs="+")
    q.set_defaults(run=cmd_shards)

    q = s.add_parser("coll")
    q.add_argument("--root", type=int, default=0)
    q.add_argument("--op", default="sum", type=op_name)
    q.add_argument("--counts")
    q.add_argument("--order", default="any", choices=("any", "rank"))
    q.add_argument("--dtype", choices=DTYPES)
    q.add_argument("--shape")
    q.add_argument("--in", dest="inp", default="in.{rank}.npy")
    q.add_argument("--out", default="out.{tag}.{rank}.npy")
    q.add_argument("kind")
    q.add_argument("size", type=int)
    q.add_argument("tags", nargs="*")
    q.set_defaults(run=cmd_coll)

    q = s.add_parser("model")
    q.set_defaults(run=cmd_model)

    q = s.add_parser("show")
    q.add_argument("file")
    q.add_argument("--dtype", choices=DTYPES)
    q.add_argument("--shape")
    q.set_defaults(run=cmd_show)

    a = p.parse_args()
    wrong = a.run(a)
    if wrong:
        print(wrong, file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
